"""Named barriers and the cluster barrier: counting in warps, reductions, misuse, and what a hang says."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from umma_probe.errors import Deadlock, IllegalProgram, NotModelled, PtxSyntaxError, UndefinedBehavior
from umma_probe.model.threads.barriers import NamedBarriers

REGISTERS = ".reg .pred %p, %q; .reg .b32 %tid, %x, %y; .shared .align 4 .b32 cell; "
START = "mov.u32 %tid, %tid.x;"


@pytest.mark.parametrize("policy", ["eager", "random:1", "random:2"])
def test_a_barrier_orders_shared_memory(policy):
    body = f"""{START} setp.ne.u32 %p, %tid, 95; @%p bra WAIT; st.shared.u32 [cell], 5;
        WAIT: bar.sync 0; ld.shared.u32 %d, [cell];"""
    out = run(body, {}, {"d": "u32"}, declarations=REGISTERS, block=128, policy=policy)
    assert set(out["d"].tolist()) == {5}
    assert not out.launch.findings


def test_named_barriers_pair_up_warps():
    # warp 0 writes and arrives on barrier 3; warp 2 waits there; the other warps do neither
    body = f"""{START} shr.u32 %x, %tid, 5; setp.eq.u32 %p, %x, 0; setp.eq.u32 %q, %x, 2; mov.u32 %d, 0; mov.u32 %y, 3;
        @!%p bra CONSUMER; st.shared.u32 [cell], 9; bar.arrive %y, 64; bra DONE;
        CONSUMER: @!%q bra DONE; barrier.cta.sync.aligned %y, 64; ld.shared.u32 %d, [cell];
        DONE:"""
    out = run(body, {}, {"d": "u32"}, declarations=REGISTERS, block=128)
    assert out["d"].reshape(4, 32)[:, 0].tolist() == [0, 0, 9, 0]


@pytest.mark.parametrize(
    ("barrier", "one_by_one"),
    [
        ("bar.sync 0;", 0),
        ("bar.sync 5, 128;", 0),
        # a guard: who skips it comes to the other one
        ("setp.lt.u32 %p, %tid, 32; @%p bar.sync 0; @!%p bar.sync 0;", 4),
    ],
)
def test_warps_in_step_pass_at_once(monkeypatch, barrier, one_by_one):
    calls = []
    right = NamedBarriers.arrive
    monkeypatch.setattr(NamedBarriers, "arrive", lambda self, *a, **k: calls.append(1) or right(self, *a, **k))
    body = f"""{START} mov.u32 %y, board; mad.lo.u32 %x, %tid, 4, %y; st.shared.u32 [%x], %tid;
        {barrier}
        xor.b32 %x, %tid, 96; mad.lo.u32 %x, %x, 4, %y; ld.shared.u32 %d, [%x];"""
    out = run(body, {}, {"d": "u32"}, declarations=REGISTERS + ".shared .align 4 .b32 board[128]; ", block=128)
    assert out["d"].tolist() == [i ^ 96 for i in range(128)]
    assert not out.launch.findings
    assert len(calls) == one_by_one


def test_a_barrier_is_used_again_and_again():
    body = f"""{START} mov.u32 %d, 0; mov.u32 %x, 0; setp.eq.u32 %q, %tid, 0; @%q st.shared.u32 [cell], 0;
        LOOP: bar.sync 1, 96; ld.shared.u32 %y, [cell]; add.u32 %d, %d, %y; bar.sync 1, 96;
        @%q st.shared.u32 [cell], %x; add.u32 %x, %x, 1; setp.lt.u32 %p, %x, 6; @%p bra LOOP;"""
    out = run(body, {}, {"d": "u32"}, declarations=REGISTERS, block=96)
    assert set(out["d"].tolist()) == {0 + 0 + 1 + 2 + 3 + 4}


def test_reductions_over_the_cta():
    flags = np.random.default_rng(4).random(200) < 0.3
    body = "bar.red.popc.u32 %n, 0, %f; barrier.red.or.pred %some, 2, %f; bar.cta.red.and.pred %every, 1, !%f;"
    out = run(body, {"f": flags}, {"n": "u32", "some": "pred", "every": "pred"}, block=200)
    assert set(out["n"].tolist()) == {int(flags.sum())}
    assert out["some"].all()
    assert not out["every"].any()


def test_exited_warps_and_lanes_are_not_waited_for():
    body = f"{START} setp.ge.u32 %p, %tid, 40; @%p exit; bar.sync 0; mov.u32 %d, 1;"
    out = run(body, {}, {"d": "u32"}, declarations=REGISTERS, block=128)
    assert out["d"].tolist() == [1] * 40 + [0] * 88
    # and those that leave while others wait
    body = f"""{START} setp.ge.u32 %p, %tid, 40; @!%p bra WAIT; mov.u32 %x, 0;
        SPIN: add.u32 %x, %x, 1; setp.lt.u32 %q, %x, 9; @%q bra SPIN; exit;
        WAIT: bar.sync 0; mov.u32 %d, 1;"""
    out = run(body, {}, {"d": "u32"}, declarations=REGISTERS, block=128)
    assert out["d"].tolist() == [1] * 40 + [0] * 88


def test_a_warp_that_comes_in_parts_arrives_once_and_is_noted():
    body = f"""{START} and.b32 %x, %tid, 1; setp.eq.u32 %p, %x, 0; @%p bra EVEN; bar.sync 0; bra DONE;
        EVEN: st.shared.u32 [cell], 3; bar.sync 0; DONE: ld.shared.u32 %d, [cell];"""
    out = run(body, {}, {"d": "u32"}, declarations=REGISTERS, block=64)
    assert set(out["d"].tolist()) == {3}
    assert {review.rule for review in out.launch.reviews.values()} == {"partial-warp-barrier"}


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("bar.sync 16;", IllegalProgram, "barrier number is 16, must be 0 to 15"),
        ("bar.sync 1, 48;", IllegalProgram, "thread count is 48, must be a multiple of 32"),
        ("bar.sync 1, 0;", IllegalProgram, "thread count is 0"),
        ("bar.sync 1, 160;", IllegalProgram, "to the CTA's 128"),
        ("mov.u32 %x, %lane; bar.sync %x;", UndefinedBehavior, "differs between the threads of a warp"),
        ("setp.lt.u32 %p, %tid, 64; @%p bra A; bar.sync 1, 128; A: bar.sync 1, 96;", UndefinedBehavior, "named 128"),
        ("bar.sync 1, 128, 2;", PtxSyntaxError, "has 3 operands, must have 1 to 2"),
    ],
)
def test_misuse(body, error, message):
    with pytest.raises(error, match=message):
        run(START + body, {}, {}, declarations=REGISTERS, block=128)


def test_a_hang_counts_who_is_missing():
    body = (
        f"{START} setp.lt.u32 %p, %tid, 96; @%p bra WAIT; mbarrier.init.shared.b64 [gate], 1; "
        "LOOP: mbarrier.try_wait.parity.shared.b64 %q, [gate], 0; @!%q bra LOOP; WAIT: bar.sync 5;"
    )
    with pytest.raises(Deadlock) as caught:
        run(body, {}, {}, declarations=REGISTERS + ".shared .align 8 .b64 gate;", block=128)
    text = caught.value.message
    assert "barrier 5 of CTA 0: 96 of 128 threads have arrived" in text
    assert "CTA 0 warp 0, CTA 0 warp 1, CTA 0 warp 2 at" in text
    assert "mbarrier 'gate' (shared offset" in text
    assert "1 of 1 arrivals missing" in text


# ---------------------------------------------------------------------- cluster
CLUSTER = ".reg .pred %p; .reg .b32 %x, %rank, %peer; .shared .align 4 .b32 cell;"


@pytest.mark.parametrize("policy", ["eager", "random:3"])
@pytest.mark.parametrize("order", [("", ""), (".release", ".acquire"), (".relaxed.aligned", ".acquire.aligned")])
def test_cluster_barrier_orders_distributed_shared_memory(order, policy):
    body = f"""mov.u32 %rank, %cluster_ctarank; xor.b32 %peer, %rank, 3;
        add.u32 %x, %rank, 10; st.shared.u32 [cell], %x;
        barrier.cluster.arrive{order[0]}; barrier.cluster.wait{order[1]};
        mov.u32 %x, cell; mapa.shared::cluster.u32 %x, %x, %peer; ld.shared::cluster.u32 %d, [%x];
        barrier.cluster.arrive; barrier.cluster.wait;"""
    out = run(
        body, {"v": np.zeros(256, np.uint32)}, {"d": "u32"}, declarations=CLUSTER, block=64, cluster=4, policy=policy
    )
    assert out["d"].reshape(4, 64).tolist() == [[value] * 64 for value in (13, 12, 11, 10)]
    assert not out.launch.findings


def test_cluster_barrier_does_not_wait_for_exited_threads():
    body = "setp.ge.u32 %p, %lane, 16; @%p exit; barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %d, 1;"
    out = run(body, {"v": np.zeros(64, np.uint32)}, {"d": "u32"}, declarations=CLUSTER, block=32, cluster=2)
    assert out["d"].tolist() == ([1] * 16 + [0] * 16) * 2


def test_cluster_barrier_misuse():
    with pytest.raises(UndefinedBehavior, match="the thread has not arrived"):
        run("barrier.cluster.wait;", {}, {}, block=32)
    with pytest.raises(UndefinedBehavior, match="has arrived already"):
        run("barrier.cluster.arrive; barrier.cluster.arrive;", {}, {}, block=32)


def test_cluster_hang_names_the_warps():
    with pytest.raises(Deadlock, match=r"cluster barrier: 1 warps have not arrived \(CTA 1 warp 1\)"):
        run(
            """mov.u32 %rank, %cluster_ctarank; mov.u32 %x, %tid.x; mad.lo.u32 %x, %rank, 64, %x;
            setp.ge.u32 %p, %x, 96; @%p bra STUCK; barrier.cluster.arrive; barrier.cluster.wait; bra DONE;
            STUCK: bar.sync 1, 64; DONE:""",
            {"v": np.zeros(128, np.uint32)},
            {},
            declarations=CLUSTER,
            block=64,
            cluster=2,
        )


def test_fences_are_accepted_and_unknown_ones_refused():
    body = """fence.acq_rel.cluster; fence.sc.gpu; fence.acquire.sync_restrict::shared::cluster.cluster; membar.gl;
        fence.proxy.alias; fence.proxy.async; fence.proxy.async.global; fence.proxy.async.shared::cta;
        fence.mbarrier_init.release.cluster; fence.proxy.tensormap::generic.release.gpu;
        fence.proxy.tensormap::generic.acquire.gpu [%row], 128; mov.u32 %d, 1;"""
    assert run(body, {}, {"d": "u32"}, block=32)["d"][0] == 1
    with pytest.raises(NotModelled):
        run("fence.proxy.texture;", {}, {}, block=32)
