"""The scheduler: progress of diverged lanes, warps and clusters; waves of CTAs; hangs and faults with their place."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import ptx, run_cu, run_ptx

from umma_probe.errors import ConfigError, Deadlock, DeviceError, NotModelled, PtxSyntaxError, UndefinedBehavior
from umma_probe.model import launch as launch_module
from umma_probe.model.threads import scheduler as scheduler_module

POLICIES = ["eager", "lazy", "random:1", "random:2", "random:3"]


# ---------------------------------------------------------------------- progress
@pytest.mark.parametrize("policy", POLICIES)
def test_a_lane_spins_on_what_another_lane_of_its_warp_writes(policy):
    source = """
    extern "C" __global__ void k(unsigned* out) {
        __shared__ volatile unsigned flag;
        if (threadIdx.x == 0) flag = 0;
        __syncwarp();
        if (threadIdx.x == 3) { while (flag != 7) {} out[3] = 33; }
        else if (threadIdx.x == 9) { for (int i = 0; i < 20; ++i) out[9] = i; flag = 7; }
        out[32 + threadIdx.x] = flag;
    }"""
    out = run_cu(source, np.zeros(64, np.uint32), policy=policy)
    assert (out.words[3], out.words[9]) == (33, 19)
    assert set(out.words[32:].tolist()) == {7}


@pytest.mark.parametrize("policy", ["eager", "random:1"])
def test_a_lock_taken_by_every_thread_in_turn(policy):
    source = """
    extern "C" __global__ void k(unsigned* out) {
        unsigned* lock = out; volatile unsigned* value = out + 1;
        bool done = false;
        while (!done) {
            if (atomicCAS(lock, 0, 1) == 0) {
                *value = *value * 3 + 1;
                __threadfence();
                atomicExch(lock, 0);
                done = true;
            }
        }
    }"""
    out = run_cu(source, np.zeros(2, np.uint32), block=(5, 2, 1), policy=policy)
    expected = 0
    for _ in range(10):
        expected = (expected * 3 + 1) % (1 << 32)
    assert out.words.tolist() == [0, expected]


@pytest.mark.parametrize("policy", POLICIES)
def test_ctas_wait_for_later_ctas_through_global_memory(policy):
    source = """
    extern "C" __global__ void k(unsigned* out) {
        volatile unsigned* flags = out;
        unsigned b = blockIdx.x;
        if (threadIdx.x == 0) {
            if (b + 1 < gridDim.x) while (flags[b + 1] == 0) {}
            out[64 + b] = b + 1 < gridDim.x ? out[64 + b + 1] + b : b;
            __threadfence();
            flags[b] = 1;
        }
    }"""
    out = run_cu(source, np.zeros(128, np.uint32), grid=12, policy=policy)
    assert out.words[64] == sum(range(12))


PIPELINE = """
__device__ unsigned addr(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(void* b, unsigned n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(addr(b)), "r"(n));
}
__device__ void arrive(void* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(addr(b)) : "memory");
}
__device__ void wait(void* b, unsigned parity) {
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra W; }"
                 :: "r"(addr(b)), "r"(parity) : "memory");
}
extern "C" __global__ void k(unsigned* out, unsigned rounds) {
    __shared__ unsigned long long full[3], empty[3];
    __shared__ unsigned stage[3][64];
    if (threadIdx.x == 0)
        for (int s = 0; s < 3; ++s) { init(&full[s], 64); init(&empty[s], 32); }
    __syncthreads();
    if (threadIdx.x < 64) {
        for (unsigned r = 0; r < rounds; ++r) {
            unsigned s = r % 3, phase = r / 3 & 1;
            wait(&empty[s], phase ^ 1);
            stage[s][threadIdx.x] = r * 100 + threadIdx.x;
            arrive(&full[s]);
        }
    } else {
        unsigned t = threadIdx.x - 64, total = 0;
        for (unsigned r = 0; r < rounds; ++r) {
            unsigned s = r % 3, phase = r / 3 & 1;
            wait(&full[s], phase);
            total += stage[s][t] ^ stage[s][t + 32];
            arrive(&empty[s]);
        }
        out[t] = total;
    }
}"""


@pytest.mark.parametrize("policy", POLICIES)
def test_producer_and_consumer_warps_over_a_ring_of_stages(policy):
    out = run_cu(PIPELINE, np.zeros(32, np.uint32), 11, block=96, policy=policy)
    t = np.arange(32)
    expected = sum((r * 100 + t) ^ (r * 100 + t + 32) for r in range(11))
    assert out.words.tolist() == expected.tolist()
    assert not out.launch.findings


def test_a_wrong_parity_is_explained():
    wrong = PIPELINE.replace("wait(&empty[s], phase ^ 1)", "wait(&empty[s], phase)")
    with pytest.raises(Deadlock) as caught:
        run_cu(wrong, np.zeros(32, np.uint32), 11, block=96)
    text = caught.value.message
    assert "no warp can go on" in text
    # the producers sit at the first empty barrier, the consumers at the first full one
    assert text.count("mbarrier") >= 4
    assert "phase 0 (parity 0), 32 of 32 arrivals missing; nobody has arrived on it" in text
    assert "phase 0 (parity 0), 64 of 64 arrivals missing" in text
    assert "CTA 0 warp 0, CTA 0 warp 1 at" in text
    assert caught.value.where.actor.startswith("CTA 0 warp")
    assert "test.cu:" in caught.value.where.actor


def test_too_few_arrivals_are_counted():
    wrong = PIPELINE.replace("init(&full[s], 64)", "init(&full[s], 65)")
    with pytest.raises(Deadlock, match="1 of 65 arrivals missing; last events: CTA 0, warp 1, lane 28 arrived"):
        run_cu(wrong, np.zeros(32, np.uint32), 11, block=96)


def test_lanes_that_wait_for_each_other_are_named():
    body = "setp.lt.u32 %p0, %tid, 4; @!%p0 bra A; bar.warp.sync -1; A: add.u32 %r0, %tid, 1;"
    with pytest.raises(Deadlock) as caught:
        run_ptx(ptx(body), np.zeros(32, np.uint32))
    assert "CTA 0 warp 0 lanes 0xfffffff0 at test.ptx" in caught.value.message
    assert "waits for lanes 0x0000000f to join" in caught.value.message


def test_an_endless_spin_is_a_hang():
    body = "L: ld.volatile.global.u32 %r0, [%words]; setp.eq.u32 %p0, %r0, 0; @%p0 bra L;"
    with pytest.raises(Deadlock, match="no strand makes progress") as caught:
        run_ptx(ptx(body), np.zeros(32, np.uint32))
    assert "CTA 0 warp 0 at test.ptx" in caught.value.message
    assert "spins" in caught.value.message
    assert "store" in caught.value.hint
    assert "barrier" not in caught.value.hint


def test_a_spin_that_watches_the_clock_is_a_hang_in_the_end(monkeypatch):
    monkeypatch.setattr(scheduler_module, "IDLE_TURNS_BEFORE_HANG", 2000)
    body = """mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; ld.volatile.global.u32 %r0, [%words];
        setp.eq.u32 %p0, %r0, 0; @%p0 bra L;"""
    with pytest.raises(Deadlock, match="no strand makes progress"):
        run_ptx(ptx(body), np.zeros(32, np.uint32))


def test_a_long_computation_is_not_a_spin():
    # no store for 500 rounds; the lanes leave the loop one after the other and meet again
    body = """mad.lo.u32 %r2, %tid, 8, 252; mov.u32 %r1, 0; mov.u32 %r0, 0;
        L: mad.lo.u32 %r0, %r0, 3, %r1; add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, %r2; @%p0 bra L;
        activemask.b32 %r3; st.global.u32 [%mine], %r0; st.global.u32 [%mine+128], %r3;"""
    out = run_ptx(ptx(body), np.zeros(64, np.uint32))
    expected = []
    for lane in range(32):
        value = 0
        for i in range(lane * 8 + 252):
            value = (value * 3 + i) % (1 << 32)
        expected.append(value)
    assert out.words[:32].tolist() == expected
    assert set(out.words[32:].tolist()) == {0xFFFFFFFF}
    assert not out.launch.reviews


def test_the_hang_is_reported_and_not_what_lanes_did_that_were_let_go():
    # lane 0 waits for ever; the others would run into an instruction that needs the whole warp
    body = """mov.u32 %r0, gate; setp.ne.u32 %p0, %tid, 0; @%p0 bra REST; mbarrier.init.shared.b64 [%r0], 1;
        L: mbarrier.try_wait.parity.shared.b64 %p1, [%r0], 0; @!%p1 bra L;
        REST: movmatrix.sync.aligned.m8n8.trans.b16 %r1, %tid;"""
    with pytest.raises(Deadlock, match="1 of 1 arrivals missing"):
        run_ptx(ptx(body, ".shared .align 8 .b64 gate;"), np.zeros(32, np.uint32))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_lane_waits_for_what_its_warp_does_after_the_loop(policy):
    body = """mov.u32 %r0, gate; setp.ne.u32 %p0, %tid, 0; @!%p0 mbarrier.init.shared.b64 [%r0], 31; bar.warp.sync -1;
        @%p0 bra REST;
        L: mbarrier.try_wait.parity.shared.b64 %p1, [%r0], 0; @!%p1 bra L;
        REST: @%p0 mbarrier.arrive.shared.b64 _, [%r0]; st.global.u32 [%mine], 1;"""
    out = run_ptx(ptx(body, ".shared .align 8 .b64 gate;"), np.zeros(32, np.uint32), policy=policy)
    assert set(out.words.tolist()) == {1}
    assert {review.rule for review in out.launch.reviews.values()} == {"split-join"}


# ---------------------------------------------------------------------- grids
COORDINATES = """
extern "C" __global__ void k(unsigned* out) {
    unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned size = blockDim.x * blockDim.y * blockDim.z;
    out[b * size + t] = blockIdx.x | blockIdx.y << 4 | blockIdx.z << 8
                      | threadIdx.x << 12 | threadIdx.y << 16 | threadIdx.z << 20;
}"""


@pytest.mark.parametrize("seed", range(12))
def test_threads_may_exit_with_copies_in_flight(seed):
    source = """
    extern "C" __global__ void k(unsigned* out) {
        __shared__ unsigned tile[32];
        unsigned to = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x]);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(out + threadIdx.x) : "memory");
        out[32 + threadIdx.x] = 5;
    }"""
    out = run_cu(source, np.zeros(64, np.uint32), policy=f"random:{seed}")
    assert set(out.words[32:].tolist()) == {5}


def test_grids_and_blocks_of_three_dimensions():
    out = run_cu(COORDINATES, np.zeros(3 * 2 * 2 * 40, np.uint32), grid=(3, 2, 2), block=(5, 4, 2))
    z, y, x, tz, ty, tx = np.meshgrid(*(np.arange(n) for n in (2, 2, 3, 2, 4, 5)), indexing="ij")
    expected = x | y << 4 | z << 8 | tx << 12 | ty << 16 | tz << 20
    assert np.array_equal(out.words, expected.ravel())


@pytest.mark.parametrize("policy", ["eager", "random:1"])
def test_grids_larger_than_the_machine_run_in_waves(policy, monkeypatch):
    monkeypatch.setattr(launch_module, "MAX_RESIDENT_THREADS", 256)
    source = """
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k(unsigned* out) {
        __shared__ unsigned last;
        unsigned rank; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        if (threadIdx.x == 40) last = blockIdx.x * 1000 + rank;
        asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
        out[blockIdx.x * 50 + threadIdx.x] = last + threadIdx.x;
    }"""
    out = run_cu(source, np.zeros(20 * 50, np.uint32), grid=20, block=50, cluster=2, policy=policy)
    expected = [b * 1000 + b % 2 + t for b in range(20) for t in range(50)]
    assert out.launch.slot_count < 20
    assert out.words.tolist() == expected
    assert not out.launch.findings


def test_every_wave_starts_with_memory_that_nobody_has_written(monkeypatch):
    monkeypatch.setattr(launch_module, "MAX_RESIDENT_THREADS", 32)
    body = """mov.u32 %r0, %ctaid.x; setp.ne.u32 %p0, %r0, 0; @%p0 bra READ; st.shared.u32 [cell], 5;
        READ: ld.shared.u32 %r1, [cell]; st.global.u32 [%mine], %r1;"""
    out = run_ptx(ptx(body, ".shared .u32 cell;"), np.zeros(32, np.uint32), grid=2)
    assert [finding.actor for finding in out.launch.findings.values()] == ["CTA 1, warp 0, lane 0"]
    assert out.words[0] == 0xCDCDCDCD


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": 1025}, "block has 1025 threads"),
        ({"grid": 3, "cluster": 2}, "must be a multiple of cluster.x = 2"),
        ({"grid": 32, "cluster": 32}, "cluster has 32 CTAs"),
        ({"grid": 0}, "at least 1"),
    ],
)
def test_launches_that_no_device_takes(options, message):
    with pytest.raises(ConfigError, match=message):
        run_ptx(ptx(""), np.zeros(32, np.uint32), **options)


# ---------------------------------------------------------------------- faults and refusals
def test_a_trap_names_its_thread_and_line():
    body = "setp.ne.u32 %p0, %tid, 77; @%p0 bra OK;\n trap;\n OK:"
    with pytest.raises(DeviceError, match="trap") as caught:
        run_ptx(ptx(body), np.zeros(32, np.uint32), block=96)
    assert caught.value.where.actor == "CTA 0, warp 2, lane 13"
    assert caught.value.where.source_line.strip() == "trap;"


def test_everything_that_is_not_modelled_is_listed_before_the_run():
    body = "sured.b.add.u32 %r0, %r1;\n frobnicate.u32 %r0, %r1;\n mov.u32 %r0, %pm3;"
    with pytest.raises(NotModelled) as caught:
        run_ptx(ptx("st.global.u32 [%words], 1;\n" + body), np.zeros(1, np.uint32))
    text = caught.value.render()
    assert all(word in text for word in ("sured", "frobnicate", "%pm3"))


def test_an_index_outside_the_branch_targets():
    body = "ts: .branchtargets A, B; add.u32 %r0, %tid, 1; brx.idx %r0, ts; A: B:"
    with pytest.raises(UndefinedBehavior, match="list of 2 targets"):
        run_ptx(ptx(body), np.zeros(32, np.uint32))


# ---------------------------------------------------------------------- what the driver supplies
def test_printf():
    source = r"""
    extern "C" __device__ int printf(const char*, ...);
    extern "C" __global__ void k(unsigned* out) {
        if (threadIdx.x % 16 == 3)
            out[threadIdx.x] = printf(
                "%d|%5u|%-6x|%s|%c|%llu|%.3f|%+e|%*d|%hhx|%p%%\n", -(int)threadIdx.x, 42u, 255u, "text", 'z',
                123456789012345ull, 1.5f, -2.0, 4, 7, 0xAB, (void*)16);
    }"""
    out = run_cu(source, np.zeros(32, np.uint32))
    line = "{}|   42|ff    |text|z|123456789012345|1.500|-2.000000e+00|   7|ab|0x10%\n"
    assert out.launch.printed == [line.format(-3), line.format(-19)]
    assert out.words[3] == out.words[19] == 12


def test_a_failed_assertion():
    source = """
    extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
    extern "C" __global__ void k(unsigned* out) {
        if (out[threadIdx.x] == 0) __assertfail("out[i] != 0", "kernel.cu", 17, "k", 1);
        out[threadIdx.x] = 5;
    }"""
    words = np.ones(32, np.uint32)
    assert set(run_cu(source, words).words.tolist()) == {5}
    words[21] = 0
    with pytest.raises(DeviceError, match=r"kernel.cu:17: k: assertion 'out\[i\] != 0' failed") as caught:
        run_cu(source, words)
    assert caught.value.where.actor.startswith("CTA 0, warp 0, lane 21")


def test_the_device_heap():
    """Pieces do not overlap, are aligned to 16, keep what is stored, and another thread may free them."""
    source = """extern "C" __global__ void k(unsigned* out) {
        __shared__ unsigned* pieces[32];
        unsigned t = threadIdx.x, n = 3 + t % 5;
        unsigned* p = pieces[t] = (unsigned*)malloc(4 * n);
        for (unsigned i = 0; i < n; i++) p[i] = 100 * t + i;
        __syncthreads();
        unsigned sum = (unsigned)((unsigned long long)p % 16);
        for (unsigned i = 0; i < n; i++) sum += p[i];
        out[t] = sum;
        free(pieces[31 - t]); free(0); }"""
    counts = [3 + t % 5 for t in range(32)]
    out = run_cu(source, np.zeros(32, np.uint32))
    assert out.words.tolist() == [100 * t * n + n * (n - 1) // 2 for t, n in enumerate(counts)]
    assert not out.launch.findings


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        ("int* p = (int*)malloc(64); free(p); free(p);", DeviceError, "which malloc did not give or which was freed"),
        ("int* p = (int*)malloc(64); free(p + 4);", DeviceError, "which malloc did not give"),
        ("free(out);", DeviceError, "which malloc did not give"),
        ("int* p = (int*)malloc(64); p[16] = 1;", DeviceError, "device heap"),
        ("int* p = (int*)malloc(64); free(p); ((volatile int*)p)[0] = 1;", DeviceError, "illegal address"),
    ],
)
def test_misuse_of_the_device_heap(body, error, says):
    source = 'extern "C" __global__ void k(unsigned* out) { if (threadIdx.x == 5) { ' + body + " out[0] = 1; } }"
    with pytest.raises(error, match=says) as caught:
        run_cu(source, np.zeros(32, np.uint32))
    assert "lane 5" in caught.value.where.actor


def test_the_driver_functions_have_fixed_parameters():
    with pytest.raises(PtxSyntaxError, match="call of malloc: 0 results and 0 parameters, must be 1 and 1"):
        run_ptx(ptx("call malloc, ();", functions=".extern .func malloc ();"), np.zeros(32, np.uint32))


def test_a_full_heap_gives_null():
    source = """extern "C" __global__ void k(unsigned* out) {
        unsigned got = 0;
        for (int i = 0; i < 9; i++) got += malloc(1 << 20) != 0;
        out[threadIdx.x] = got; }"""
    assert run_cu(source, np.zeros(1, np.uint32), block=1).words.tolist() == [8]


def test_instructions_with_nothing_to_do():
    body = """nanosleep.u32 100; pmevent 3; setmaxnreg.inc.sync.aligned.u32 232; griddepcontrol.wait;
        griddepcontrol.launch_dependents; st.global.u32 [%mine], 1;"""
    assert set(run_ptx(ptx(body), np.zeros(32, np.uint32)).words.tolist()) == {1}
