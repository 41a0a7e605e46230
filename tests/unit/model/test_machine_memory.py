"""The machine's memories: windows, shared addresses in a cluster, allocations, shadow state, faults."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import ptx, run_cu, run_ptx

from umma_probe.errors import ConfigError, DeviceError
from umma_probe.model.state.bytes import Bytes
from umma_probe.model.state.global_memory import GlobalMemory

CLUSTER_BARRIER = "barrier.cluster.arrive; barrier.cluster.wait;"


# ---------------------------------------------------------------------- host side
def test_words_are_little_endian_views_of_the_same_bytes():
    memory = Bytes(64)
    memory.scatter(np.array([8]), 4, np.array([[0x11223344, 0x55667788]], np.uint32))
    assert memory.gather(np.array([8]), 1, 8)[0].tolist() == [0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55]
    assert memory.gather(np.array([10]), 2, 1)[0, 0] == 0x1122
    assert memory.gather(np.array([8]), 8, 1)[0, 0] == 0x5566778811223344
    assert memory.all_written(np.array([8, 9, 12, 16]), 4).tolist() == [True, True, True, False]


def test_growing_keeps_contents_and_what_was_written():
    memory = Bytes(64)
    memory.scatter(np.array([0]), 4, np.array([[7]], np.uint32))
    memory.grow(1000)
    assert memory.gather(np.array([0]), 4, 1)[0, 0] == 7
    assert memory.all_written(np.array([0, 4]), 4).tolist() == [True, False]


def test_allocations_have_gaps_and_die():
    memory = GlobalMemory()
    first, second = memory.allocate(100, "first"), memory.allocate(10, "second")
    assert first.address % 512 == second.address % 512 == 0
    assert second.address >= first.address + 100 + 256
    assert memory.find(first.address + 99) is first
    assert memory.find(first.address + 100) is None
    memory.write(second.address, np.arange(10, dtype=np.uint8))
    assert memory.read(second.address + 2, 3).tolist() == [2, 3, 4]
    with pytest.raises(ConfigError, match="not in one allocation"):
        memory.read(first.address + 98, 4)
    memory.free(first)
    assert memory.find(first.address) is None
    assert memory.inside(np.array([first.address, second.address, second.address + 9]), 2).tolist() == [
        False,
        True,
        False,
    ]


# ---------------------------------------------------------------------- addresses
def test_shared_addresses_carry_the_rank_at_bit_24():
    body = f"""mov.u32 %r0, cell; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 4, 0;
        cvt.u64.u32 %at, %r3; add.u64 %at, %at, %words; st.global.u32 [%at], %r0;
        st.shared.u32 [cell], %r2; {CLUSTER_BARRIER}
        xor.b32 %r4, %r0, 0x1000000; ld.shared::cluster.u32 %r5, [%r4]; st.global.u32 [%at+64], %r5;
        mapa.shared::cluster.u32 %r6, %r0, 3; st.global.u32 [%at+128], %r6;
        ld.shared::cluster.u32 %r7, [%r0]; st.global.u32 [%at+192], %r7; {CLUSTER_BARRIER}"""
    out = run_ptx(ptx(body, ".shared .u32 cell;"), np.zeros(64, np.uint32), grid=8, block=1, cluster=4)
    addresses, peers, mapped, own = out.words.reshape(4, 16)[:, :8].tolist()
    base = addresses[0]
    assert base < 1 << 24
    assert addresses == [base + (rank << 24) for rank in (0, 1, 2, 3)] * 2
    assert peers == [1, 0, 3, 2, 5, 4, 7, 6]
    assert mapped == [base + (3 << 24)] * 8
    assert own == list(range(8))


def test_even_cta_of_a_pair_by_clearing_bit_24():
    body = f"""mov.u32 %r0, cell; mov.u32 %r1, %cluster_ctarank; and.b32 %r2, %r0, 0xFEFFFFFF;
        add.u32 %r3, %r1, 40; st.shared.u32 [cell], %r3; {CLUSTER_BARRIER}
        ld.shared::cluster.u32 %r4, [%r2]; mul.wide.u32 %at, %r1, 4; add.u64 %at, %at, %words; st.global.u32 [%at], %r4;
        {CLUSTER_BARRIER}"""
    out = run_ptx(ptx(body, ".shared .u32 cell;"), np.zeros(4, np.uint32), grid=4, block=1, cluster=4)
    assert out.words.tolist() == [40, 40, 42, 42]


def test_a_generic_address_in_a_shared_instruction():
    """ThunderKittens hands 64-bit pointers of __shared__ variables to .shared::cta instructions."""
    body = f"""mov.u64 %at, cell; cvta.shared.u64 %at, %at; mov.u32 %r1, %cluster_ctarank; add.u32 %r3, %r1, 40;
        st.shared::cta.u32 [%at], %r3; {CLUSTER_BARRIER} ld.shared.u32 %r4, [cell];
        mul.wide.u32 %at, %r1, 4; add.u64 %at, %at, %words; st.global.u32 [%at], %r4;"""
    out = run_ptx(ptx(body, ".shared .u32 cell;"), np.zeros(2, np.uint32), grid=2, block=1, cluster=2)
    assert out.words.tolist() == [40, 41]
    assert {rule for rule, _ in out.launch.reviews} == {"generic-shared-address"}


def test_generic_addresses_of_each_kind_of_memory():
    source = """
    __constant__ unsigned table[4] = {10, 20, 30, 40};
    __device__ unsigned counter = 5;
    extern "C" __device__ __noinline__ unsigned read(const unsigned* p) { return *(volatile const unsigned*)p; }
    extern "C" __global__ void k(unsigned* out) {
        __shared__ unsigned cell[32];
        unsigned frame[4];
        for (int i = 0; i < 4; ++i) ((volatile unsigned*)frame)[i] = threadIdx.x * 4 + i;
        cell[threadIdx.x] = threadIdx.x + 1000;
        __syncwarp();
        const unsigned* where[4] = {
            &cell[31 - threadIdx.x], &frame[threadIdx.x & 3], &table[threadIdx.x & 3], &counter};
        out[threadIdx.x] = read(where[threadIdx.x % 4]);
    }"""
    t = np.arange(32)
    expected = np.choose(t % 4, [1000 + 31 - t, t * 4 + (t & 3), 10 * ((t & 3) + 1), np.full(32, 5)])
    out = run_cu(source, np.zeros(32, np.uint32))
    assert np.array_equal(out.words, expected)
    assert not out.launch.findings


def test_local_memory_is_private_and_survives_divergence():
    source = """
    extern "C" __global__ void k(unsigned* out, unsigned n) {
        volatile unsigned stack[16];
        for (unsigned i = 0; i < 16; ++i) stack[i] = i * threadIdx.x;
        unsigned s = 0;
        for (unsigned i = 0; i < threadIdx.x % n; ++i) s += stack[(i * 7) & 15];
        out[threadIdx.x] = s;
    }"""
    out = run_cu(source, np.zeros(64, np.uint32), 13, block=64)
    assert out.words.tolist() == [sum(((i * 7) & 15) * t for i in range(t % 13)) for t in range(64)]


# ---------------------------------------------------------------------- faults
@pytest.mark.parametrize(
    ("access", "message"),
    [
        ("ld.global.u32 %r0, [%words+128];", "it lies 0 bytes behind the end of words (128 bytes)"),
        ("st.global.u32 [%words+200], %r0;", "it lies 72 bytes behind the end of words (128 bytes)"),
        ("st.global.u32 [%words+268435456], %r0;", "it lies in no allocation; the nearest below it ends"),
        ("ld.global.u32 %r0, [%words+2];", "must be a multiple of 4 bytes"),
        ("mov.u32 %r1, 0x1000404; ld.shared::cluster.u32 %r0, [%r1];", "a cluster 1 CTAs"),
        ("mov.u32 %r1, 0x1000404; ld.shared.u32 %r0, [%r1];", "illegal address 0x1000404 in .shared"),
        (
            "mov.u32 %r1, 2048; st.shared.u32 [%r1], 1;",
            "illegal address 0x800 in .shared (4 bytes): a CTA's window has",
        ),
        ("mov.u64 %at, 0; st.u32 [%at], 1;", "it lies in no allocation"),
    ],
)
def test_faults(access, message):
    body = f"setp.ne.u32 %p0, %tid, 41; @%p0 bra OK;\n{access}\nOK:"
    with pytest.raises(DeviceError) as caught:
        run_ptx(ptx(body, ".shared .u32 cell;"), np.zeros(32, np.uint32), block=64)
    assert message in caught.value.message
    assert caught.value.where.actor == "CTA 0, warp 1, lane 9"
    assert caught.value.where.source_line == access


def test_the_cuda_line_is_named_too():
    source = """
    extern "C" __global__ void k(unsigned* out) {
        unsigned i = threadIdx.x;
        out[i] = 1;
        if (i == 5)
            out[i + 100] = 2;
    }"""
    with pytest.raises(DeviceError) as caught:
        run_cu(source, np.zeros(32, np.uint32))
    assert caught.value.where.actor == "CTA 0, warp 0, lane 5, from test.cu:6"


def test_shared_memory_of_an_exited_cta():
    body = """mov.u32 %r0, cell; mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p0, %r1, 1; @%p0 exit;
        mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 50; @%p1 bra L;
        mapa.shared::cluster.u32 %r3, %r0, 1; ld.shared::cluster.u32 %r4, [%r3];"""
    with pytest.raises(DeviceError, match="cluster rank 1 is accessed after that CTA has exited"):
        run_ptx(ptx(body, ".shared .u32 cell;"), np.zeros(4, np.uint32), grid=2, block=1, cluster=2)


def test_uninitialised_reads_are_counted_by_place():
    body = "mov.u32 %r3, 0; L: ld.shared.u32 %r0, [cell]; add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 3; @%p0 bra L;"
    out = run_ptx(ptx(body, ".shared .u32 cell;"), np.zeros(4, np.uint32), block=64)
    (finding,) = out.launch.findings.values()
    assert (finding.rule, finding.count, finding.actor) == ("uninitialised-read", 3, "CTA 0, warp 0, lane 0")
    assert "(64 threads)" in finding.message
    assert finding.where.startswith("test.ptx:")


def test_partly_written_words_are_uninitialised():
    body = "st.shared.u16 [cell], 1; ld.shared.u32 %r0, [cell]; ld.shared.u16 %r1, [cell];"
    out = run_ptx(ptx(body, ".shared .u32 cell;"), np.zeros(4, np.uint32), block=1)
    assert [finding.count for finding in out.launch.findings.values()] == [1]
