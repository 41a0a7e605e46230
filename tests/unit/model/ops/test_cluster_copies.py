"""Clusters: multicast and paired TMA copies, shared memory of other CTAs, remote barriers, cluster launch control."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from umma_probe.errors import DeviceError, IllegalProgram
from umma_probe.gpu.nvrtc import compile_source
from umma_probe.model.launch import Launch, LaunchConfig
from umma_probe.model.machine import Machine
from umma_probe.model.tma.tensor_map import encode_tiled

POLICIES = ("eager", "lazy", "random:9")

SOURCE = """
typedef unsigned char u8;
typedef unsigned long long u64;
struct __align__(64) TensorMap { u8 bytes[128]; };
extern __shared__ __align__(1024) u8 memory[];
__shared__ __align__(8) u64 bar;

static __device__ unsigned shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
static __device__ unsigned rank() { unsigned r; asm("mov.u32 %0, %cluster_ctarank;" : "=r"(r)); return r; }
static __device__ unsigned size() { unsigned r; asm("mov.u32 %0, %cluster_nctarank;" : "=r"(r)); return r; }
static __device__ unsigned at_rank(unsigned address, unsigned r) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(r));
  return there;
}
static __device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
static __device__ void init(unsigned count) {
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(&bar)), "r"(count) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
}
static __device__ void expect(unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(&bar)), "r"(bytes) : "memory");
}
static __device__ void wait() {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;"
               " @!p bra again; }" ::"r"(shared(&bar)) : "memory");
}
static __device__ void dump(u8* out, unsigned bytes) {
  unsigned cta = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) out[cta * bytes + i] = memory[i];
}
static __device__ void clear(unsigned bytes) {
  for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) memory[i] = 0xA5;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// rank `issuer` sends one box of 256 bytes to the CTAs of `mask`, at offset 256 + 128 * rank of the issuer
extern "C" __global__ void multicast(const __grid_constant__ TensorMap map, u8* out, int mask, int issuers) {
  clear(1024);
  init(1);
  cluster_sync();
  if (threadIdx.x == 0) {
    if (mask >> rank() & 1) expect(256 * __popc(issuers)); else expect(0);
    if (issuers >> rank() & 1)
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                   "[%0], [%1, {%2, %3}], [%4], %5;"
                   ::"r"(shared(memory) + 256 * rank()), "l"(&map), "r"(0), "r"((int)rank() * 4), "r"(shared(&bar)),
                   "h"((unsigned short)mask) : "memory");
    wait();
  }
  __syncthreads();
  dump(out, 1024);
  cluster_sync();
}

// each CTA loads its own box and signals the even CTA's barrier, as 2-CTA kernels do
extern "C" __global__ void pair(const __grid_constant__ TensorMap map, u8* out, int mask, int clear_bits) {
  clear(1024);
  init(1);
  cluster_sync();
  unsigned mbar = shared(&bar) & ~(unsigned)clear_bits;
  if (threadIdx.x == 0) {
    if (rank() % 2 == 0) expect(512);
    asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared(memory)), "l"(&map), "r"(0), "r"((int)rank() * 4), "r"(mbar) : "memory");
    if (rank() % 2 == 0) wait();
  }
  cluster_sync();
  dump(out, 1024);
}

extern "C" __global__ void pair_multicast(const __grid_constant__ TensorMap map, u8* out, int mask, int odd) {
  clear(1024);
  init(1);
  cluster_sync();
  if (threadIdx.x == 0) {
    bool signalled = rank() % 2 == odd;
    unsigned both = mask >> (rank() & ~1u) & 3;
    if (signalled) expect(256 * __popc(both));
    if (rank() == 0)
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2"
                   ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                   ::"r"(shared(memory)), "l"(&map), "r"(0), "r"(8), "r"(at_rank(shared(&bar), odd)),
                   "h"((unsigned short)mask) : "memory");
    if (signalled) wait();
  }
  cluster_sync();
  dump(out, 1024);
}

// every CTA writes its rank into all CTAs, with st and with st.async, and arrives on all barriers
extern "C" __global__ void everybody(const __grid_constant__ TensorMap map, u8* out, int mask, int unused) {
  clear(1024);
  init(size() + 1);
  cluster_sync();
  if (threadIdx.x == 0) expect(4 * size());
  __syncthreads();
  if (threadIdx.x < size()) {
    unsigned there = at_rank(shared(memory), threadIdx.x), mbar = at_rank(shared(&bar), threadIdx.x);
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there + 4 * rank()), "r"(100 + rank()) : "memory");
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                 ::"r"(there + 512 + 4 * rank()), "r"(200 + rank()), "r"(mbar) : "memory");
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mbar) : "memory");
  }
  if (threadIdx.x == 0) wait();
  cluster_sync();
  unsigned next = at_rank(shared(memory), (rank() + 1) % size()), value;
  if (threadIdx.x < size()) {
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(next + 512 + 4 * threadIdx.x) : "memory");
    ((unsigned*)memory)[64 + threadIdx.x] = value;
  }
  __syncthreads();
  dump(out, 1024);
  cluster_sync();
}

extern "C" __global__ void gone(const __grid_constant__ TensorMap map, u8* out, int spin, int stay) {
  if (rank() == 1) {
    if (stay) cluster_sync();
    return;
  }
  volatile unsigned* flag = (volatile unsigned*)out;
  for (int i = 0; i < spin; ++i) *flag = i;
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(at_rank(shared(memory), 1)), "r"(1) : "memory");
  if (stay) cluster_sync();
}

extern "C" __global__ void try_cancel(const __grid_constant__ TensorMap map, u8* out, int read, int unused) {
  clear(1024);
  init(1);
  cluster_sync();
  if (threadIdx.x == 0) {
    expect(16);
    if (rank() == 0)
      asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
                   ".multicast::cluster::all.b128 [%0], [%1];" ::"r"(shared(memory)), "r"(shared(&bar)) : "memory");
    wait();
    unsigned canceled, x = 7;
    asm volatile("{ .reg .b128 answer; .reg .pred p; ld.shared.b128 answer, [%2];"
                 " clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer; selp.u32 %0, 1, 0, p;"
                 " @p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, answer; }"
                 : "=r"(canceled), "+r"(x) : "r"(shared(memory)) : "memory");
    if (read)
      asm volatile("{ .reg .b128 answer; .reg .b32 y, z; ld.shared.b128 answer, [%1];"
                   " clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, y, z, _}, answer; }"
                   : "=r"(x) : "r"(shared(memory)) : "memory");
    ((unsigned*)memory)[8] = canceled;
    ((unsigned*)memory)[9] = x;
  }
  __syncthreads();
  dump(out, 1024);
  cluster_sync();
}
"""
ROWS = np.arange(64 * 64, dtype=np.uint8).reshape(64, 64)
FIELDS: dict[str, Any] = {"dtype": "u8", "global_dim": [64, 64], "global_strides": [64], "box_dim": [64, 4]}


@cache
def _module() -> tuple[Machine, Any]:
    machine = Machine()
    return machine, machine.load(compile_source(SOURCE, "clusters.cu", arch="sm_100a", kind="ptx").ptx, "clusters.ptx")


def _run(
    entry: str, cluster: tuple[int, int, int], mask: int = 0, extra: int = 0, *, policy: str = "lazy",
    clusters: int = 1, loaded: tuple[Machine, Any] | None = None,
) -> tuple[Any, Launch]:  # fmt: skip
    """(dump of 1 KiB a CTA, launch)."""
    machine, module = loaded or _module()
    tensor = machine.memory.allocate(ROWS.size)
    machine.memory.write(tensor.address, ROWS.reshape(-1))
    grid = (cluster[0] * clusters, cluster[1], cluster[2])
    count = int(np.prod(grid))
    out = machine.memory.allocate(1024 * count)
    machine.memory.write(out.address, np.zeros(1024 * count, np.uint8))
    arguments = [
        encode_tiled(tensor.address, **FIELDS).data,
        out.address.to_bytes(8, "little"),
        *(value.to_bytes(4, "little") for value in (mask, extra)),
    ]
    launch = machine.launch(module, entry, LaunchConfig(grid, (32, 1, 1), cluster, 1024), arguments, policy)
    return machine.memory.read(out.address, 1024 * count).reshape(count, 1024), launch


def _box(row: int) -> Any:
    return ROWS[row : row + 4].reshape(-1)


# ---------------------------------------------------------------------- multicast
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("cluster", "mask"), [((2, 1, 1), 0b11), ((2, 2, 1), 0b1010), ((1, 2, 2), 0b0111)])
def test_multicast_writes_the_same_offset_in_every_cta_of_the_mask(
    cluster: tuple[int, int, int], mask: int, policy: str
) -> None:
    dumps, launch = _run("multicast", cluster, mask, 0b01, policy=policy, clusters=2)
    size = int(np.prod(cluster))
    assert not launch.findings
    for index in range(2 * size):
        x, rest = index % (2 * cluster[0]), index // (2 * cluster[0])
        rank = x % cluster[0] + cluster[0] * rest
        expected = np.full(1024, 0xA5, np.uint8)
        if mask >> rank & 1:
            expected[:256] = _box(0)
        np.testing.assert_array_equal(dumps[index], expected)


@pytest.mark.parametrize("policy", POLICIES)
def test_two_ctas_multicast_to_each_other(policy: str) -> None:
    dumps, _ = _run("multicast", (2, 1, 1), 0b11, 0b11, policy=policy)
    for dump in dumps:
        np.testing.assert_array_equal(dump[:512], np.concatenate([_box(0), _box(4)]))


def test_a_mask_beyond_the_cluster_is_a_fault() -> None:
    with pytest.raises(DeviceError, match=r"rank 2; the cluster has 2 CTAs"):
        _run("multicast", (2, 1, 1), 0b111, 0b01)


# ---------------------------------------------------------------------- pairs
@pytest.mark.parametrize("policy", POLICIES)
def test_a_paired_copy_signals_the_even_cta(policy: str) -> None:
    dumps, launch = _run("pair", (4, 1, 1), 0, 1 << 24, policy=policy)
    assert not launch.findings
    for rank, dump in enumerate(dumps):
        np.testing.assert_array_equal(dump[:256], _box(4 * rank))


def test_a_paired_copy_cannot_signal_another_pair() -> None:
    with pytest.raises(IllegalProgram, match=r"cluster rank 2 and the mbarrier in 0.*cta_group::2"):
        _run("pair", (4, 1, 1), 0, 3 << 24, policy="eager")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("mask", "odd"), [(0b1111, 0), (0b1111, 1), (0b0110, 0), (0b0101, 1)])
def test_a_paired_multicast_signals_by_parity(mask: int, odd: int, policy: str) -> None:
    dumps, launch = _run("pair_multicast", (4, 1, 1), mask, odd, policy=policy)
    assert not launch.findings
    for rank, dump in enumerate(dumps):
        wanted = _box(8) if mask >> rank & 1 else np.full(256, 0xA5, np.uint8)
        np.testing.assert_array_equal(dump[:256], wanted)


# ---------------------------------------------------------------------- shared memory of other CTAs
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cluster", [(1, 1, 1), (2, 1, 1), (2, 2, 1), (1, 1, 8), (4, 4, 1)])
def test_distributed_shared_memory(cluster: tuple[int, int, int], policy: str) -> None:
    dumps, _ = _run("everybody", cluster, policy=policy)
    size = int(np.prod(cluster))
    for dump in dumps:
        words = dump.view(np.uint32)
        np.testing.assert_array_equal(words[:size], 100 + np.arange(size))
        np.testing.assert_array_equal(words[128 : 128 + size], 200 + np.arange(size))
        np.testing.assert_array_equal(words[64 : 64 + size], 200 + np.arange(size))


def test_reading_a_neighbour_before_its_barrier_completed_shows_under_a_late_policy() -> None:
    early = SOURCE.replace(
        "wait();\n  cluster_sync();\n  unsigned next", "wait();\n  __syncthreads();\n  unsigned next"
    )
    assert early != SOURCE
    machine = Machine()
    module = machine.load(compile_source(early, "early.cu", arch="sm_100a", kind="ptx").ptx, "early.ptx")
    dumps, _ = _run("everybody", (4, 1, 1), policy="lazy", loaded=(machine, module))
    assert any((dump.view(np.uint32)[64:68] != 200 + np.arange(4)).any() for dump in dumps)


def test_shared_memory_of_an_exited_cta_is_a_fault() -> None:
    with pytest.raises(DeviceError, match="after that CTA has exited"):
        _run("gone", (2, 1, 1), 50)


def test_shared_memory_of_a_waiting_cta_is_not() -> None:
    _run("gone", (2, 1, 1), 50, 1)


# ---------------------------------------------------------------------- cluster launch control
@pytest.mark.parametrize("policy", POLICIES)
def test_try_cancel_answers_not_cancelled_in_every_cta(policy: str) -> None:
    dumps, launch = _run("try_cancel", (2, 2, 1), policy=policy, clusters=2)
    assert not launch.findings
    assert not launch.reviews
    for dump in dumps:
        assert (dump[:16] != 0xA5).all()
        assert dump.view(np.uint32)[8:10].tolist() == [0, 7]


def test_coordinates_of_a_refused_request_are_noted_and_poison() -> None:
    dumps, launch = _run("try_cancel", (1, 1, 1), 1)
    assert [rule for rule, _ in launch.reviews] == ["query-cancel-of-refused"]
    assert dumps[0].view(np.uint32)[9] == 0xCDCDCDCD
