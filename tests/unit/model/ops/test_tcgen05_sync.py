"""What waits, commits and fences order: correct kernels under every policy, and each missing one made visible."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_kernels import COMMIT, FENCE, INIT, ONES, WAIT, mma, run

from umma_probe.errors import Deadlock, DeviceError, UndefinedBehavior

POLICIES = ["eager", "lazy", "random:1", "random:2", "random:3"]
RANDOM = [f"random:{seed}" for seed in range(12)]
LD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0, %r1}, [%base];\n"
ST = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%base], {%r2, %r3};\n"
TWICE = "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;\n" + COMMIT + COMMIT
WAIT_LD = "tcgen05.wait::ld.sync.aligned;\n"
WAIT_ST = "tcgen05.wait::st.sync.aligned;\n"
VALUES = "mov.u32 %r2, %tid; add.u32 %r3, %tid, 1000;\n"
GEMM = INIT + ONES + FENCE + mma() + COMMIT
OUT = "OUT(0, %r0) OUT(1, %r1)\n"
# of eight warps, two reach the same lanes: the first four run FIRST .. SECOND, the others SECOND .. DONE
FIRST = "setp.lt.u32 %q2, %warp, 4;\n@!%q2 bra OVER;\n"
SECOND = "OVER:\nbar.sync 0;\n@%q2 bra DONE;\n"
DONE = "DONE:\n" + WAIT_ST
SIXTEEN = np.float32(16).view(np.uint32)


def kernel(wait: str, body: str) -> str:
    return GEMM + wait + body


@pytest.mark.parametrize("policy", POLICIES)
def test_correct_orders_give_one_result(policy: str):
    ran = run(VALUES + ST + WAIT_ST + LD + WAIT_LD + OUT, policy=policy)
    assert (ran.results[0, 0] == np.arange(128)).all()
    assert (ran.results[0, 1] == np.arange(128) + 1000).all()
    assert not ran.rules
    assert not ran.reviews
    ran = run(kernel(WAIT.format(parity=0), "tcgen05.fence::after_thread_sync;\n" + LD + WAIT_LD + OUT), policy=policy)
    assert (ran.results[0, :2] == SIXTEEN).all()
    assert not ran.rules


# ---------------------------------------------------------------------- missing waits
def test_a_load_comes_after_the_stores_of_its_own_warp_and_is_reviewed():
    for policy in (*POLICIES, *RANDOM):
        ran = run(VALUES + ST + LD + WAIT_LD + OUT + WAIT_ST, policy=policy)
        assert (ran.results[0, :2] == np.add.outer([0, 1000], np.arange(128))).all()
        assert not ran.rules
        if not policy.startswith("random"):
            assert ran.reviews == (set() if policy == "eager" else {"ld-store-dependence"})
    review = next(iter(run(VALUES + ST + LD + WAIT_LD + WAIT_ST, policy="lazy").launch.reviews.values()))
    assert "same warp's tcgen05.st (kernel.ptx:" in review.message
    assert "tmem_fixup" in review.message


def test_a_load_waits_for_no_more_than_its_own_cells():
    """The other four warps, which reach the same lanes, see which stores it made land."""
    one = "add.u32 %z, %base, {0};\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%z], {{%r2}};\n".format
    look = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%z];\n" + WAIT_LD
    own = FIRST + VALUES + one(1) + one(0) + one(2) + look.replace("%z", "%base") + SECOND
    for column in (0, 1, 2):
        body = own + f"add.u32 %z, %base, {column};\n" + look + DONE
        rules = run(body, block=256, policy="lazy").rules
        assert rules == ({"uninitialised-tmem", "store-in-flight"} if column == 2 else set()), column


def test_a_load_of_other_cells_is_not_behind_a_store():
    away = "add.u32 %z, %base, 2;\n" + ST.replace("%base", "%z")
    ran = run(VALUES + ST + WAIT_ST + away + LD + WAIT_LD + OUT + WAIT_ST, policy="lazy")
    assert not ran.rules | ran.reviews


def test_a_load_is_not_behind_the_stores_of_another_warp():
    body = FIRST + VALUES + ST + "{}" + SECOND + LD + WAIT_LD + DONE
    assert not run(body.replace("{}", ""), block=256).rules
    assert not run(body.replace("{}", WAIT_ST), block=256, policy="lazy").rules
    found = run(body.replace("{}", ""), block=256, policy="lazy")
    assert found.rules == {"uninitialised-tmem", "store-in-flight"}
    assert not found.reviews & {"ld-store-dependence"}


def test_missing_wait_st_before_an_mma_that_accumulates():
    """The store must be there when the MMA reads D; only the wait sees to that."""
    zero = "mov.u32 %r2, 0;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%base], {%r2};\n"
    body = INIT + ONES + FENCE + zero + "{}bar.sync 0;\n" + mma(8, enable="1") + COMMIT + WAIT.format(parity=0)
    assert run(body.replace("{}", WAIT_ST), policy="lazy").rules == {"uninitialised-tmem"}  # columns 1 to 7
    wide = body.replace(
        "32x32b.x1.b32 [%base], {%r2}", "32x32b.x8.b32 [%base], {%r2, %r2, %r2, %r2, %r2, %r2, %r2, %r2}"
    )
    assert not run(wide.replace("{}", WAIT_ST), policy="lazy").rules
    assert {"uninitialised-tmem", "store-in-flight"} <= run(wide.replace("{}", ""), policy="lazy").rules


def test_missing_wait_st_names_the_store_and_the_first_cell():
    """Columns 0 and 1 were written before; a store to column 1 is in flight, a load of column 0 alone is right."""
    again = FIRST + VALUES + ST + WAIT_ST + "add.u32 %z, %base, 1;\n"
    again += "tcgen05.st.sync.aligned.32x32b.x1.b32 [%z], {%r2};\n"
    narrow = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%base];\n"
    end = SECOND + "{}" + WAIT_LD + DONE
    assert not run(again + WAIT_ST + end.replace("{}", LD), block=256, policy="lazy").rules
    assert not run(again + end.replace("{}", narrow), block=256, policy="lazy").rules
    ran = run(again + end.replace("{}", LD), block=256, policy="lazy")
    (finding,) = ran.launch.findings.values()
    assert finding.rule == "store-in-flight"
    assert "tcgen05.ld reads lane 0, column 1 of CTA 0 while tcgen05.st of CTA 0, warp 0" in finding.message
    assert "tcgen05.wait::st" in finding.message


def test_missing_wait_ld():
    """The load is overtaken by a store to the columns that it reads."""
    body = VALUES + ST + WAIT_ST + LD + "{}add.u32 %r2, %r2, 7;\n" + ST + WAIT_ST + OUT
    right = np.arange(128)
    for policy in POLICIES:
        assert (run(body.replace("{}", WAIT_LD), policy=policy).results[0, 0] == right).all()
    assert (run(body.replace("{}", "")).results[0, 0] == right).all()
    assert (run(body.replace("{}", ""), policy="lazy").results[0, 0] == right + 7).all()
    seen = {int(run(body.replace("{}", ""), policy=policy).results[0, 0, 0]) for policy in RANDOM}
    assert seen == {0, 7}


def test_missing_wait_for_the_commit():
    for policy, rules in (("eager", set()), ("lazy", {"uninitialised-tmem"})):
        ran = run(kernel("", LD + WAIT_LD + OUT + WAIT.format(parity=0)), policy=policy)
        assert ran.rules == rules
        assert (ran.results[0, 0] == SIXTEEN).all() == (policy == "eager")


def test_missing_commit_is_a_deadlock():
    for policy in ("eager", "lazy", "random:4"):
        with pytest.raises(Deadlock, match=r"1 of 1 arrivals missing") as caught:
            run(kernel(WAIT.format(parity=0), LD).replace(COMMIT, ""), policy=policy)
        text = str(caught.value)
        assert "phase 0" in text
        assert "try_wait" in text
        assert "CTA 0 warp 0" in text


def test_a_commit_completes_after_all_earlier_operations_of_its_thread():
    body = (
        INIT + ONES + FENCE + mma() + mma(enable="1") + mma(enable="1") + COMMIT + WAIT.format(parity=0) + LD + WAIT_LD
    )
    for policy in POLICIES:
        ran = run(body + OUT, policy=policy)
        assert (ran.results[0, :2].view(np.float32) == 48).all()


def test_two_accumulators_are_not_ordered_but_each_is_right():
    other = mma(8, d="%z")
    body = INIT + ONES + FENCE + "add.u32 %z, %base, 32;\n" + mma(8) + other + mma(8, enable="1") + COMMIT
    body += WAIT.format(parity=0) + "tcgen05.ld.sync.aligned.32x32b.x1.b32 %r0, [%base];\n"
    body += "tcgen05.ld.sync.aligned.32x32b.x1.b32 %r1, [%base+32];\n" + WAIT_LD + OUT
    for policy in POLICIES:
        values = run(body, policy=policy).results[0, :2].view(np.float32)
        assert (values == np.array([[32], [16]])).all()


def test_stores_of_a_warp_land_in_their_order():
    later = "add.u32 %r2, %r2, 7; add.u32 %r3, %r3, 7;\n"
    for policy in (*POLICIES, *RANDOM):
        ran = run(VALUES + ST + later + ST + later + ST + WAIT_ST + LD + WAIT_LD + OUT, policy=policy)
        assert (ran.results[0, 0] == np.arange(128) + 14).all()


# ---------------------------------------------------------------------- registers
def test_a_register_dependence_is_honoured_and_reviewed():
    for policy in POLICIES:
        ran = run(VALUES + ST + WAIT_ST + LD + "add.u32 %r4, %r0, %r1;\nOUT(0, %r4)\n", policy=policy)
        assert (ran.results[0, 0] == 2 * np.arange(128) + 1000).all()
        assert not ran.rules
        if not policy.startswith("random"):
            assert ran.reviews == (set() if policy == "eager" else {"ld-register-dependence"})


def test_a_register_that_is_written_again_keeps_the_later_value():
    ran = run(VALUES + ST + WAIT_ST + LD + "mov.u32 %r0, 5;\nOUT(0, %r0)\n" + WAIT_LD + "OUT(1, %r0)\n", policy="lazy")
    assert (ran.results[0, :2] == 5).all()


# ---------------------------------------------------------------------- fences
def test_missing_proxy_fence():
    ran = run((GEMM + WAIT.format(parity=0)).replace("fence.proxy.async.shared::cta;", ""))
    assert ran.rules == {"missing-proxy-fence"}
    finding = next(iter(ran.launch.findings.values()))
    assert "no fence.proxy.async since" in finding.message
    assert "kernel.ptx:" in finding.where
    assert "CTA 0, warp 0, lane 0" in finding.actor


def test_fences_alone_complete_nothing():
    body = FIRST + VALUES + ST + "tcgen05.fence::before_thread_sync;\n" + SECOND + "tcgen05.fence::after_thread_sync;\n"
    assert "uninitialised-tmem" in run(body + LD + WAIT_LD + DONE, block=256, policy="lazy").rules


# ---------------------------------------------------------------------- commit
def test_commit_forms():
    for line in (
        "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%w];\n",
        "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], %h0;\n",
    ):
        body = "mov.u64 %w, bar; cvta.shared.u64 %w, %w; mov.u16 %h0, 1;\n" + kernel(
            WAIT.format(parity=0), LD + WAIT_LD + OUT
        )
        ran = run(body.replace(COMMIT, line), policy="lazy")
        assert (ran.results[0, :2] == SIXTEEN).all()


def test_commit_without_a_space_takes_a_shared_address():
    """ThunderKittens' one-CTA kernels do this."""
    commit = "mov.u32 %z, bar; cvt.u64.u32 %w, %z;\n@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%w];\n"
    ran = run(INIT + ONES + FENCE + mma() + commit + WAIT.format(parity=0) + LD + WAIT_LD + OUT)
    assert (ran.results[0, 0] == np.float32(16).view(np.uint32)).all()
    assert "shared-address-as-generic" in ran.reviews
    with pytest.raises(DeviceError, match=r"generic address 0x\w+ is not in shared memory"):
        run(INIT + ONES + FENCE + mma() + commit.replace("cvt.u64.u32 %w, %z", "mov.b64 %w, {%z, 1}"))


def test_commit_faults():
    with pytest.raises(UndefinedBehavior, match="not initialised"):
        run(COMMIT)
    line = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], %h0;\n"
    with pytest.raises(DeviceError, match="cluster rank 2; the cluster has 1 CTAs"):
        run(INIT + "mov.u16 %h0, 5;\n@%p0 " + line)
    with pytest.raises(DeviceError, match="more than the phase expects"):
        run(INIT + TWICE)


@pytest.mark.parametrize("policy", POLICIES)
def test_waits_are_those_of_the_own_warp(policy: str):
    """Warp 1 waits for its own store only; the barrier makes the others' visible after each has waited."""
    body = VALUES + ST + WAIT_ST + "bar.sync 0;\n" + LD + WAIT_LD + OUT
    ran = run(body, policy=policy)
    assert (ran.results[0, 0] == np.arange(128)).all()


def test_freeing_columns_with_operations_in_flight():
    ran = run(VALUES + ST, policy="lazy")
    assert ran.rules == {"dealloc-in-flight"}
    assert "tcgen05.st of CTA 0, warp 0" in next(iter(ran.launch.findings.values())).message
    ran = run(VALUES + ST + WAIT_ST + LD, policy="lazy")
    assert not ran.rules
    assert ran.reviews == {"dealloc-in-flight"}


# ---------------------------------------------------------------------- pairs
def pair_kernel(issuer: int = 0, extra: str = "") -> str:
    commit = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], %h0;\n"
    return (
        INIT + ONES + FENCE + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" + extra
        + f"setp.eq.and.u32 %q2, %cta, {issuer}, %p0;\nmov.u16 %h0, 3;\n"
        + mma(64, m=256, group=2, guard="@%q2 ") + "@%q2 " + commit + WAIT.format(parity=0) + LD + WAIT_LD + OUT
    )  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("issuer", [0, 1])
def test_either_cta_issues_for_the_pair(policy: str, issuer: int):
    ran = run(pair_kernel(issuer), pair=True, cluster=2, policy=policy)
    assert (ran.results[:, :2] == SIXTEEN).all()
    assert not ran.rules


def test_the_peer_must_be_alive():
    body = pair_kernel(0, extra="")
    gone = "setp.eq.u32 %q3, %cta, 1;\n@%q3 exit;\nmov.u32 %r9, 0;\nAGAIN:\nadd.u32 %r9, %r9, 1;\n"
    gone += "setp.lt.u32 %q4, %r9, 40;\n@%q4 bra AGAIN;\n"
    with pytest.raises(DeviceError, match="mma with cta_group::2: the peer CTA 1 has exited"):
        run(body.replace("setp.eq.and.u32 %q2", gone + "setp.eq.and.u32 %q2"), pair=True, cluster=2)
