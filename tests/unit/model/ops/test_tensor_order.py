"""Hand-overs of Tensor Memory by the PTX ISA's canonical synchronization patterns, whole and with a fence missing."""

from __future__ import annotations

import pytest
from tensor_kernels import COMMIT, FENCE, INIT, ONES, WAIT, mma, run

POLICIES = ("eager", "lazy", "random:1")
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;\n", "tcgen05.fence::after_thread_sync;\n"
NO_BEFORE, NO_AFTER = "missing-fence-before-thread-sync", "missing-fence-after-thread-sync"
LD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0, %r1}, [%base];\ntcgen05.wait::ld.sync.aligned;\n"
ST = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%base], {%x, %x};\ntcgen05.wait::st.sync.aligned;\n"
ST8 = ST.replace("x2", "x8").replace("{%x, %x}", "{" + ", ".join(["%x"] * 8) + "}")
BAR = "bar.sync 0;\n"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [bar];\n"
OPERANDS = INIT + ONES + FENCE


def reviews(body: str, policy: str = "eager", prologue: str = OPERANDS) -> set[str]:
    ran = run(prologue + body, policy=policy)
    assert not ran.rules
    return ran.reviews


# ---------------------------------------------------------------------- MMA -> commit -> wait -> ld
@pytest.mark.parametrize("policy", POLICIES)
def test_a_load_behind_a_commit(policy: str):
    issue = mma() + COMMIT + WAIT.format(parity=0)
    assert reviews(issue + AFTER + LD + BEFORE, policy) == set()
    assert reviews(issue + LD + BEFORE, policy) == {NO_AFTER}
    assert reviews(AFTER + issue + LD + BEFORE, policy) == {NO_AFTER}  # a fence before the wait orders nothing


def test_a_load_behind_a_barrier_behind_the_wait():
    """One warp waits for the commit; the others learn of it by bar.sync and need the fence all the same."""
    lone = "@!%pw bra OTHERS;\n" + WAIT.format(parity=0) + "OTHERS:\n" + BAR
    assert reviews(mma() + COMMIT + lone + AFTER + LD + BEFORE) == set()
    assert reviews(mma() + COMMIT + lone + LD + BEFORE) == {NO_AFTER}


# ---------------------------------------------------------------------- ld or st -> sync -> MMA
@pytest.mark.parametrize("access", [LD, ST8], ids=["ld", "st"])
def test_an_mma_behind_loads_or_stores(access: str):
    first = ST8 + BEFORE + BAR + AFTER if access == LD else ""

    def body(before: str, after: str) -> str:
        return first + access + before + BAR + after + mma(8) + COMMIT + WAIT.format(parity=0) + BEFORE

    assert reviews(body(BEFORE, AFTER)) == set()
    assert reviews(body("", AFTER)) == {NO_BEFORE}
    assert reviews(body(BEFORE, "")) == {NO_AFTER}


def test_an_mbarrier_hands_on_as_well():
    prologue = INIT.replace("[bar], 1", "[bar], 128") + ONES + FENCE

    def body(before: str, after: str) -> str:
        return ST8 + before + ARRIVE + WAIT.format(parity=0) + after + mma(8) + BEFORE

    assert reviews(body(BEFORE, AFTER), prologue=prologue) == set()
    assert reviews(body("", AFTER), prologue=prologue) == {NO_BEFORE}
    assert reviews(body(BEFORE, ""), prologue=prologue) == {NO_AFTER}


def test_own_loads_and_stores_need_no_fence():
    """``wait::ld`` and ``wait::st`` are synchronous; only the deallocation by another warp asks for one."""
    assert reviews(ST + LD + ST + LD + BEFORE) == set()


# ---------------------------------------------------------------------- MMAs of one thread
def test_pipelined_mmas_need_no_fence():
    twice = mma(8) + mma(8, enable="1") + COMMIT + WAIT.format(parity=0)
    assert reviews(twice + AFTER + LD + BEFORE) == set()


def test_mmas_of_another_shape_wait_and_fence():
    first, second = mma(64) + COMMIT + WAIT.format(parity=0), mma(8) + COMMIT + WAIT.format(parity=1) + AFTER + LD
    assert reviews(first + AFTER + second + BEFORE) == set()
    assert reviews(first + second + BEFORE) == {NO_AFTER}


# ---------------------------------------------------------------------- what is said, and what is not
def test_no_synchronisation_is_not_this_rule():
    """A race shows as a wrong result; no fence is named where nothing synchronises."""
    assert reviews(mma() + COMMIT + LD + WAIT.format(parity=0) + AFTER + BEFORE) <= {"ld-register-dependence"}


def test_a_kernel_without_fences_is_told_once():
    body = mma() + COMMIT + WAIT.format(parity=0) + LD + mma(8) + COMMIT + WAIT.format(parity=1) + LD
    ran = run(OPERANDS + body)
    (review,) = ran.launch.reviews.values()
    assert (review.rule, review.count) == ("no-tcgen05-fence", 1)
    assert "tcgen05.ld follows tcgen05.mma of CTA 0, warp 0, lane 0" in review.message


def test_one_missing_fence_is_one_remark():
    ran = run(OPERANDS + mma(64) + COMMIT + WAIT.format(parity=0) + LD + LD + LD + BEFORE + AFTER)
    (review,) = ran.launch.reviews.values()
    assert review.count == 4  # a warp each
    assert "columns 0-1" in review.message


def test_deallocation_by_another_warp():
    assert reviews(AFTER + ST + LD + BEFORE) == set()
    assert reviews(AFTER + ST + LD) == {NO_BEFORE}


def test_a_kernel_that_polls_is_given_the_benefit_of_the_doubt():
    """A flag in memory may have ordered what no barrier did: the fence counts for everything before it."""
    flag = "ld.volatile.shared.u32 %r5, [slot];\n"
    issue = mma(8) + COMMIT + WAIT.format(parity=0) + BEFORE
    assert reviews(ST8 + BEFORE + AFTER + BAR + issue) == {NO_AFTER}
    assert reviews(ST8 + BEFORE + AFTER + flag + BAR + issue) == set()
