"""Post-dominators on hand-drawn graphs, and divergence and reconvergence of compiled kernels against Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import ptx, run_cu, run_ptx

from umma_probe.model.code.control_flow import immediate_post_dominators

POLICIES = ["eager", "random:1", "random:2"]


# ---------------------------------------------------------------------- post-dominators
@pytest.mark.parametrize(
    ("successors", "expected"),
    [
        ([[1, 2], [3], [3], []], [3, 3, 3, None]),  # if and else
        ([[1], [2, 1], []], [1, 2, None]),  # a loop leaves to 2
        ([[1, 3], [2], [3], []], [3, 2, 3, None]),  # if alone
        ([[1, 4], [2, 3], [4], [4], []], [4, 4, 4, 4, None]),  # nested
        ([[1, 2], [], []], [None, None, None]),  # two ways out
        ([[1], [0]], [None, None]),  # an endless loop
        ([[1, 2], [3, 4], [5], [5], [5], [6, 1], []], [5, 5, 5, 5, 5, 6, None]),
    ],
)
def test_drawn_graphs(successors, expected):
    assert immediate_post_dominators(successors) == expected


def test_a_path_that_aborts_does_not_count():
    # 1 traps: the branch at 0 still joins at 2
    assert immediate_post_dominators([[1, 2], [], [3], []], frozenset({1})) == [2, None, 3, None]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.integers(2, 9).flatmap(lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=2), min_size=n, max_size=n))
)
def test_random_graphs_against_the_definition(successors):
    """d post-dominates n if without d no way leads from n to the exit; the immediate one comes before all others."""
    count = len(successors)

    def reaches_exit(start: int, without: int) -> bool:
        seen, stack = set(), [start]
        while stack:
            node = stack.pop()
            if node == without or node in seen:
                continue
            seen.add(node)
            if not successors[node]:
                return True
            stack.extend(successors[node])
        return False

    result = immediate_post_dominators(successors)
    for node in range(count):
        if not reaches_exit(node, -1):
            assert result[node] is None
            continue
        dominators = [d for d in range(count) if d != node and not reaches_exit(node, d)]
        nearest = [d for d in dominators if all(e == d or not reaches_exit(d, e) for e in dominators)]
        assert result[node] == (nearest[0] if nearest else None)


# ---------------------------------------------------------------------- kernels
NESTED = """
extern "C" __global__ void k(unsigned* out, unsigned n) {
    unsigned i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    unsigned s = 1;
    for (unsigned j = 0; j < (i & 7); ++j) {
        if (j & 1) { s = s * 3 + i; if (s % 5 == 2) continue; s ^= j; }
        else { for (unsigned m = 0; m < j + (i & 3); ++m) { s += m * i; if (s > 100000) break; } }
        out[4096 + i] = s;
    }
    out[i] = s;
}"""


def nested(i: int) -> tuple[int, int]:
    s, last = 1, 0
    for j in range(i & 7):
        if j & 1:
            s = (s * 3 + i) % (1 << 32)
            if s % 5 == 2:
                continue
            s ^= j
        else:
            for m in range(j + (i & 3)):
                s = (s + m * i) % (1 << 32)
                if s > 100000:
                    break
        last = s
    return s, last


@pytest.mark.parametrize("policy", POLICIES)
def test_nested_loops_with_breaks_and_a_partial_warp(policy):
    n = 700
    out = run_cu(NESTED, np.zeros(8192, np.uint32), n, grid=4, block=200, policy=policy)
    results = [nested(i) for i in range(n)]
    assert out.words[:800].tolist() == [s for s, _ in results] + [0] * 100
    assert out.words[4096 : 4096 + n].tolist() == [last for _, last in results]


CALLS = """
extern "C" __device__ __noinline__ unsigned collatz(unsigned n, unsigned limit) {
    unsigned steps = 0;
    while (n != 1 && steps < limit) { n = n & 1 ? 3 * n + 1 : n / 2; ++steps; }
    return steps;
}
extern "C" __device__ __noinline__ unsigned twice(unsigned n) {
    if (n % 3 == 0) return collatz(n + 1, 50);
    return collatz(n + 1, 20) + collatz(n + 2, 30);
}
extern "C" __global__ void k(unsigned* out) {
    unsigned i = threadIdx.x;
    out[i] = i % 2 ? twice(i) : collatz(i + 5, 10) * 1000;
}"""


def collatz(n: int, limit: int) -> int:
    steps = 0
    while n != 1 and steps < limit:
        n = 3 * n + 1 if n & 1 else n // 2
        steps += 1
    return steps


@pytest.mark.parametrize("policy", POLICIES)
def test_divergence_inside_calls(policy):
    out = run_cu(CALLS, np.zeros(96, np.uint32), block=96, policy=policy)
    twice = [collatz(i + 1, 50) if i % 3 == 0 else collatz(i + 1, 20) + collatz(i + 2, 30) for i in range(96)]
    assert out.words.tolist() == [twice[i] if i % 2 else collatz(i + 5, 10) * 1000 for i in range(96)]


@pytest.mark.parametrize("policy", POLICIES)
def test_indexed_branches(policy):
    body = """ts: .branchtargets L0, L1, L2, L1;
        rem.u32 %r0, %tid, 4; brx.idx %r0, ts;
        L0: mov.u32 %r1, 10; bra DONE; L1: mov.u32 %r1, 20; bra DONE; L2: mov.u32 %r1, 30;
        DONE: st.global.u32 [%mine], %r1; activemask.b32 %r2; st.global.u32 [%mine+128], %r2;"""
    out = run_ptx(ptx(body), np.zeros(64, np.uint32), policy=policy)
    assert out.words[:32].tolist() == [10, 20, 30, 20] * 8
    assert set(out.words[32:].tolist()) == {0xFFFFFFFF}


# ---------------------------------------------------------------------- reconvergence
MASK = "activemask.b32 %r9; st.global.u32 [%mine], %r9;"


@pytest.mark.parametrize(
    "body",
    [
        "setp.lt.u32 %p0, %tid, 5; @%p0 bra A; add.u32 %r0, %tid, 1; A:",
        "setp.lt.u32 %p0, %tid, 5; @%p0 bra A; setp.lt.u32 %p1, %tid, 9; @%p1 bra B; add.u32 %r0, %tid, 1; B: A:",
        "mov.u32 %r0, 0; L: add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, %tid; @%p0 bra L;",
        "setp.eq.u32 %p0, %tid, 3; @%p0 bra TRAP; bra DONE; TRAP: setp.ne.u32 %p1, %tid, 3; @%p1 trap; DONE:",
        "setp.gt.u32 %p0, %tid, 99; @!%p0 bra OK; trap; OK:",
        "setp.lt.u32 %p0, %tid, 8; @%p0 bar.warp.sync 0xFF;",
        # two ways into one block, as unstructured code has them
        """setp.lt.u32 %p0, %tid, 8; @%p0 bra A; setp.lt.u32 %p1, %tid, 16; @%p1 bra B; add.u32 %r0, %tid, 1;
           A: add.u32 %r0, %tid, 2; B: add.u32 %r0, %tid, 3;""",
    ],
)
def test_the_whole_warp_is_together_again(body):
    out = run_ptx(ptx(body + MASK), np.zeros(32, np.uint32))
    assert set(out.words.tolist()) == {0xFFFFFFFF}


def test_within_a_branch_only_its_lanes_are_active():
    body = "mov.u32 %r9, 0; setp.lt.u32 %p0, %tid, 5; @!%p0 bra A; activemask.b32 %r9; A: st.global.u32 [%mine], %r9;"
    out = run_ptx(ptx(body), np.zeros(32, np.uint32))
    assert out.words.tolist() == [0x1F] * 5 + [0] * 27


@pytest.mark.parametrize(
    "leave",
    ["@%p0 exit;", "@%p0 ret;", "@%p0 bra OUT;", "@!%p0 bra STAY; setp.lt.u32 %p1, %tid, 2; @%p1 exit; exit; STAY:"],
)
def test_lanes_that_leave_early(leave):
    body = f"setp.lt.u32 %p0, %tid, 7; {leave} {MASK} OUT:"
    out = run_ptx(ptx(body), np.zeros(32, np.uint32))
    assert out.words.tolist() == [0] * 7 + [0xFFFFFF80] * 25


def test_lanes_that_leave_out_of_nested_branches():
    # lanes 0 to 3 end inside two branches; both joins must forget them
    body = f"""setp.lt.u32 %p0, %tid, 16; @!%p0 bra OUTER; setp.lt.u32 %p1, %tid, 8; @!%p1 bra INNER;
        setp.lt.u32 %p2, %tid, 4; @%p2 exit; INNER: add.u32 %r0, %tid, 1; OUTER: {MASK}"""
    out = run_ptx(ptx(body), np.zeros(32, np.uint32))
    assert out.words.tolist() == [0] * 4 + [0xFFFFFFF0] * 28


def test_a_barrier_right_behind_a_join_waits_for_the_join():
    body = """setp.ne.u32 %p0, %tid, 0; @%p0 bra A; st.global.u32 [%words], 5; A: bar.sync 0;
        ld.global.u32 %r0, [%words]; bar.sync 0; st.global.u32 [%mine], %r0;"""
    out = run_ptx(ptx(body), np.zeros(64, np.uint32), block=64)
    assert set(out.words.tolist()) == {5}
    assert not out.launch.reviews


def test_parts_that_returned_early_meet_the_rest_by_chance():
    # the branch at the top has no post-dominator but the exit: half of its paths return
    source = """
    extern "C" __global__ void k(unsigned* out) {
        unsigned i = threadIdx.x, s = 0;
        if (i & 1) { if (i > 20) return; s = out[64 + i]; } else { s = 2; }
        unsigned all = __reduce_add_sync(__activemask(), 1u);
        out[i] = s + all;
    }"""
    out = run_cu(source, np.full(128, 7, np.uint32))
    live = [i for i in range(32) if not (i & 1 and i > 20)]
    assert [int(out.words[i]) for i in live] == [(7 if i & 1 else 2) + len(live) for i in live]


EARLY_RETURN = """
extern "C" __global__ void k(unsigned* out) {
    unsigned i = threadIdx.x;
    if (i % 2) return;
    unsigned all = __syncthreads_count(1);
    if (i % 4) return;
    out[i] = all * 100 + __syncthreads_count(1);
}"""


@pytest.mark.parametrize("policy", POLICIES)
def test_a_barrier_does_not_wait_for_threads_that_returned(policy):
    # lanes that returned jump to the kernel's one ret, which is also where the branch would join
    out = run_cu(EARLY_RETURN, np.zeros(64, np.uint32), block=64, policy=policy)
    assert out.words.tolist() == [0 if i % 4 else 32 * 100 + 16 for i in range(64)]
