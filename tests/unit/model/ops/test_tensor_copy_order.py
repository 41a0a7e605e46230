"""What orders TMA copies: proxy fences, bulk groups and the mbarrier. Each correct kernel has a twin that is not."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from umma_probe.errors import DeviceError
from umma_probe.gpu.nvrtc import compile_source
from umma_probe.model.launch import Launch, LaunchConfig
from umma_probe.model.machine import Machine
from umma_probe.model.tma.tensor_map import encode_tiled

POLICIES = ("eager", "lazy", "random:4")

SOURCE = """
struct __align__(64) TensorMap { unsigned char bytes[128]; };
extern __shared__ __align__(1024) unsigned memory[];
static __device__ unsigned shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// wait: 0 none, 1 wait_group.read, 2 wait_group; then shared memory is overwritten and the tensor is read back
extern "C" __global__ void store(const __grid_constant__ TensorMap map, volatile unsigned* tensor, unsigned* out,
                                 int fence, int wait) {
  memory[threadIdx.x] = 1000 + threadIdx.x;
  if (fence) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(&map), "r"(0), "r"(0), "r"(shared(memory)) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (wait == 1) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    if (wait == 2) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  __syncthreads();
  out[threadIdx.x] = tensor[threadIdx.x];
  memory[threadIdx.x] = 9;
}

extern "C" __global__ void load(const __grid_constant__ TensorMap map, unsigned* tensor, unsigned* out, int unused,
                                int wait) {
  __shared__ __align__(8) unsigned long long bar;
  memory[threadIdx.x] = 9;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(&bar)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(shared(&bar)) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared(memory)), "l"(&map), "r"(0), "r"(0), "r"(shared(&bar)) : "memory");
  }
  if (wait)
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(shared(&bar)) : "memory");
  out[threadIdx.x] = ((volatile unsigned*)memory)[threadIdx.x];
}
"""


@cache
def _module() -> tuple[Machine, Any]:
    machine = Machine()
    return machine, machine.load(compile_source(SOURCE, "order.cu", arch="sm_100a", kind="ptx").ptx, "order.ptx")


def _run(entry: str, fence: int, wait: int, policy: str) -> tuple[Any, Any, Launch]:
    """(tensor, out, launch); the tensor holds 0, 1, 2, ... at first."""
    machine, module = _module()
    tensor, out = machine.memory.allocate(256), machine.memory.allocate(256)
    machine.memory.write(tensor.address, np.arange(64, dtype=np.uint32).view(np.uint8))
    machine.memory.write(out.address, np.zeros(256, np.uint8))
    fields: dict[str, Any] = {"dtype": "u32", "global_dim": [32, 2], "global_strides": [128], "box_dim": [32, 2]}
    arguments = [
        encode_tiled(tensor.address, **fields).data,
        *(place.address.to_bytes(8, "little") for place in (tensor, out)),
        *(value.to_bytes(4, "little") for value in (fence, wait)),
    ]
    launch = machine.launch(module, entry, LaunchConfig((1, 1, 1), (64, 1, 1), dynamic_smem=1024), arguments, policy)
    read = (machine.memory.read(place.address, 256).view(np.uint32) for place in (tensor, out))
    return *read, launch


STORED = 1000 + np.arange(64)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_waited_store_is_complete(policy: str) -> None:
    tensor, out, launch = _run("store", 1, 2, policy)
    np.testing.assert_array_equal(tensor, STORED)
    np.testing.assert_array_equal(out, STORED)
    assert not launch.findings


@pytest.mark.parametrize("policy", POLICIES)
def test_a_missing_proxy_fence_is_reported(policy: str) -> None:
    findings = _run("store", 0, 2, policy)[2].findings
    assert [rule for rule, _ in findings] == ["missing-proxy-fence"]


@pytest.mark.parametrize("policy", POLICIES)
def test_after_wait_group_read_the_source_may_be_overwritten(policy: str) -> None:
    np.testing.assert_array_equal(_run("store", 1, 1, policy)[0], STORED)


def test_wait_group_read_does_not_promise_the_destination() -> None:
    np.testing.assert_array_equal(_run("store", 1, 1, "lazy")[1], np.arange(64))


def test_without_a_wait_the_source_is_overwritten_too_early() -> None:
    assert (_run("store", 1, 0, "lazy")[0] == 9).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_waited_load_is_complete(policy: str) -> None:
    _, out, launch = _run("load", 0, 1, policy)
    np.testing.assert_array_equal(out, np.arange(64))
    assert not launch.findings


def test_a_load_that_outlives_its_cta_is_a_fault() -> None:
    with pytest.raises(DeviceError, match="CTA 0, which has exited"):
        _run("load", 0, 0, "lazy")
