"""Mbarriers: phases, states, transactions, remote arrivals, waiting, and misuse."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from umma_probe.errors import Deadlock, DeviceError, IllegalProgram, PtxSyntaxError, UndefinedBehavior

REGISTERS = """.reg .pred %p, %q, %first; .reg .b32 %tid, %x, %y, %mine; .reg .b64 %state, %wide;
    .shared .align 8 .b64 gate; .shared .align 16 .b8 tile[1024];"""
START = "mov.u32 %tid, %tid.x; setp.eq.u32 %first, %tid, 0; mov.u32 %mine, tile; mad.lo.u32 %mine, %tid, 4, %mine;"


def start(count: int) -> str:
    return START + f"@%first mbarrier.init.shared::cta.b64 [gate], {count}; bar.sync 0;"


@pytest.mark.parametrize("policy", ["eager", "lazy", "random:1", "random:2", "random:3"])
@pytest.mark.parametrize("wait", ["try_wait", "test_wait", "try_wait.parity", "test_wait.parity.acquire.cta"])
def test_producers_and_consumers(wait, policy):
    # the second warp consumes what the first produces, three rounds through one full and one empty barrier
    body = f"""{START} @%first mbarrier.init.shared.b64 [gate], 32; @%first mbarrier.init.shared.b64 [empty], 32;
        bar.sync 0; mov.u32 %x, 0; mov.u32 %d, 0; setp.ge.u32 %p, %tid, 32; @%p bra CONSUMER;
        PRODUCER: setp.eq.u32 %q, %x, 0; @%q bra FILL; sub.u32 %y, %x, 1; and.b32 %y, %y, 1;
        ROOM: mbarrier.try_wait.parity.shared.b64 %q, [empty], %y; @!%q bra ROOM;
        FILL: mad.lo.u32 %y, %tid, 10, %x; st.shared.u32 [%mine], %y; mbarrier.arrive.shared.b64 %state, [gate];
        add.u32 %x, %x, 1; setp.lt.u32 %q, %x, 3; @%q bra PRODUCER; bra DONE;
        CONSUMER: and.b32 %y, %x, 1; cvt.u64.u32 %state, %x; shl.b64 %state, %state, 20; add.u64 %state, %state, 32;
        FULL: mbarrier.{wait}.shared.b64 %q, [gate], {"%y" if "parity" in wait else "%state"}; @!%q bra FULL;
        sub.u32 %y, %mine, 128; ld.shared.u32 %y, [%y]; mad.lo.u32 %d, %d, 1000, %y;
        mbarrier.arrive.shared.b64 %state, [empty];
        add.u32 %x, %x, 1; setp.lt.u32 %q, %x, 3; @%q bra CONSUMER;
        DONE:"""
    out = run(body, {}, {"d": "u32"}, declarations=REGISTERS + ".shared .align 8 .b64 empty;", block=64, policy=policy)
    expected = [((i * 10) * 1000 + i * 10 + 1) * 1000 + i * 10 + 2 for i in range(32)]
    assert out["d"][32:].tolist() == [value % (1 << 32) for value in expected]
    assert not out.launch.findings


def test_states_count_down_and_tell_phases_apart():
    body = f"""{start(4)} mbarrier.arrive.shared::cta.b64 %state, [gate]; mbarrier.pending_count.b64 %n, %state;
        mbarrier.test_wait.shared::cta.b64 %done, [gate], %state;"""
    out = run(body, {}, {"n": "u32", "done": "pred"}, declarations=REGISTERS, block=6)
    assert out["n"].tolist() == [4, 3, 2, 1, 4, 3]
    # four of six threads arrived in the phase that is complete
    assert out["done"].tolist() == [True] * 4 + [False] * 2


def test_arrivals_with_a_count_and_without_completion():
    body = f"""{start(5)} @!%first bra DONE; mbarrier.arrive.noComplete.release.cta.shared.b64 %state, [gate], 3;
        mbarrier.test_wait.parity.shared.b64 %p, [gate], 0; selp.u32 %d, 1, 0, %p;
        mbarrier.arrive.shared.b64 %state, [gate], 2; mbarrier.test_wait.parity.shared.b64 %p, [gate], 0;
        selp.u32 %e, 1, 0, %p; DONE:"""
    out = run(body, {}, {"d": "u32", "e": "u32"}, declarations=REGISTERS, block=32)
    assert (out["d"][0], out["e"][0]) == (0, 1)


def test_dropped_arrivals_are_missing_from_the_next_phase():
    body = f"""{start(3)} @!%first bra DONE;
        mbarrier.arrive_drop.shared.b64 _, [gate]; mbarrier.arrive.shared.b64 _, [gate], 2;
        mbarrier.arrive.shared.b64 %state, [gate]; mbarrier.pending_count.b64 %d, %state;
        mbarrier.arrive.shared.b64 %state, [gate]; mbarrier.test_wait.shared.b64 %p, [gate], %state;
        selp.u32 %e, 1, 0, %p; DONE:"""
    out = run(body, {}, {"d": "u32", "e": "u32"}, declarations=REGISTERS, block=32)
    assert (out["d"][0], out["e"][0]) == (2, 1)


def test_a_phase_needs_its_bytes_too():
    body = f"""{start(1)} @!%first bra DONE; mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], 48;
        mbarrier.test_wait.parity.shared.b64 %p, [gate], 0; selp.u32 %d, 1, 0, %p;
        mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [gate], 16; mbarrier.complete_tx.shared::cta.b64 [gate], 48;
        mbarrier.test_wait.parity.shared.b64 %p, [gate], 0; selp.u32 %x, 2, 0, %p; add.u32 %d, %d, %x;
        mbarrier.complete_tx.shared::cta.b64 [gate], 16;
        mbarrier.test_wait.parity.shared.b64 %p, [gate], 0; selp.u32 %x, 4, 0, %p; add.u32 %d, %d, %x; DONE:"""
    assert run(body, {}, {"d": "u32"}, declarations=REGISTERS, block=32)["d"][0] == 4


def test_bytes_may_complete_before_they_are_expected():
    body = f"""{start(1)} @!%first bra DONE; mbarrier.complete_tx.shared::cta.b64 [gate], 32;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], 32; mbarrier.test_wait.parity.shared.b64 %p, [gate], 0;
        selp.u32 %d, 1, 0, %p; DONE:"""
    assert run(body, {}, {"d": "u32"}, declarations=REGISTERS, block=32)["d"][0] == 1


def test_arrivals_on_another_cta():
    # every thread of both CTAs arrives on the barrier of CTA 0
    body = f"""{start(64)} barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %x, gate;
        mapa.shared::cluster.u32 %x, %x, 0; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%x];
        mov.u32 %y, %cluster_ctarank; setp.ne.u32 %p, %y, 0; @%p bra DONE;
        WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [gate], 0, 1000; @!%q bra WAIT;
        mov.u32 %d, 1;
        DONE: barrier.cluster.arrive; barrier.cluster.wait;"""
    out = run(body, {"v": np.zeros(64, np.uint32)}, {"d": "u32"}, declarations=REGISTERS, block=32, cluster=2)
    assert out["d"].tolist() == [1] * 32 + [0] * 32


def test_generic_addresses_of_barriers():
    body = f"""{START} mov.u32 %x, gate; cvt.u64.u32 %wide, %x; cvta.shared.u64 %wide, %wide;
        @%first mbarrier.init.b64 [%wide], 32; bar.sync 0; mbarrier.arrive.b64 %state, [%wide];
        mbarrier.test_wait.b64 %done, [%wide], %state;"""
    out = run(body, {}, {"done": "pred"}, declarations=REGISTERS, block=32)
    assert out["done"].all()


def test_lanes_that_are_done_go_on_while_others_wait():
    # the even lanes wait for a phase that only the odd lanes complete, once their own wait has succeeded
    body = f"""{START} @%first mbarrier.init.shared.b64 [gate], 16; @%first mbarrier.init.shared.b64 [open], 1;
        @%first mbarrier.arrive.shared.b64 _, [open]; bar.sync 0; and.b32 %x, %tid, 1; setp.eq.u32 %p, %x, 1;
        mov.u32 %x, gate; mov.u32 %y, open; selp.b32 %x, %y, %x, %p;
        LOOP: mbarrier.try_wait.parity.shared.b64 %q, [%x], 0; and.pred %p, %p, %q;
        @%p mbarrier.arrive.shared.b64 _, [gate]; @!%q bra LOOP; mov.u32 %d, 1;"""
    out = run(body, {}, {"d": "u32"}, declarations=REGISTERS + ".shared .align 8 .b64 open;", block=32)
    assert set(out["d"].tolist()) == {1}


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (START + "mbarrier.arrive.shared.b64 _, [gate];", UndefinedBehavior, "no mbarrier 'gate'.*not initialised"),
        (START + "mbarrier.init.shared.b64 [gate+4], 1;", DeviceError, "multiple of 8"),
        (START + "mbarrier.init.shared.b64 [gate], 0;", IllegalProgram, "count is 0, must be 1 to 1048575"),
        (start(8) + "mbarrier.arrive.shared.b64 _, [gate], 9;", DeviceError, "more than the phase expects"),
        (start(8) + "mbarrier.arrive.shared.b64 _, [gate], 0;", IllegalProgram, "arrival count is 0"),
        (start(8) + "mbarrier.arrive.noComplete.shared.b64 _, [gate], 8;", UndefinedBehavior, "noComplete"),
        (start(8) + "mbarrier.expect_tx.shared.b64 [gate], 1048576;", DeviceError, "tx-count is 1048576"),
        (start(8) + "mbarrier.arrive.shared::cluster.b64 %state, [gate];", PtxSyntaxError, "destination must be _"),
        (start(8) + "mov.b64 %state, 0x500000; mbarrier.test_wait.shared.b64 %p, [gate], %state;", UndefinedBehavior,
         "phase 5, must be of phase 0"),
        (start(8) + "mbarrier.arrive.b64 _, [%row];", DeviceError, "is not in shared memory"),
        (start(8) + "mbarrier.inval.shared.b64 [gate]; bar.sync 0; mbarrier.arrive.shared.b64 _, [gate];",
         UndefinedBehavior, "not initialised"),
    ],
)  # fmt: skip
def test_misuse(body, error, message):
    with pytest.raises(error, match=message):
        run(body, {}, {}, declarations=REGISTERS, block=1)


def test_another_ctas_barrier_needs_the_cluster_space():
    body = f"{start(1)} mov.u32 %x, gate; xor.b32 %x, %x, 0x1000000; mbarrier.arrive.shared::cta.b64 _, [%x];"
    with pytest.raises(DeviceError, match="illegal address"):
        run(body, {"v": np.zeros(64, np.uint32)}, {}, declarations=REGISTERS, block=32, cluster=2)


def test_initialising_twice_is_a_finding():
    out = run(start(1) + "@%first mbarrier.init.shared.b64 [gate], 1;", {}, {}, declarations=REGISTERS, block=32)
    assert [finding.rule for finding in out.launch.findings.values()] == ["mbarrier-reinit"]


@pytest.mark.parametrize(
    ("events", "parity", "missing"),
    [
        ("mbarrier.arrive.shared.b64 _, [gate];", 0,
         ["phase 0 (parity 0)", "1 of 2 arrivals missing", "CTA 0, warp 0, lane 0"]),
        ("mbarrier.arrive.expect_tx.shared.b64 _, [gate], 64; mbarrier.arrive.shared.b64 _, [gate];", 0,
         ["0 of 2 arrivals missing", "64 transaction bytes missing"]),
        ("mbarrier.arrive.shared.b64 _, [gate], 2;", 1, ["phase 1 (parity 1)", "2 of 2 arrivals missing"]),
        ("mbarrier.complete_tx.shared.b64 [gate], 32; mbarrier.arrive.shared.b64 _, [gate], 2;", 0,
         ["32 transaction bytes too many"]),
    ],
)  # fmt: skip
def test_a_hang_tells_the_state_of_the_barrier(events, parity, missing):
    body = f"""{start(2)} @!%first bra WAIT; {events}
        WAIT: mbarrier.try_wait.parity.shared.b64 %q, [gate], {parity}; @!%q bra WAIT;"""
    with pytest.raises(Deadlock) as caught:
        run(body, {}, {}, declarations=REGISTERS, block=32)
    for part in ["mbarrier 'gate' (shared offset 0x", *missing]:
        assert part in caught.value.message


def test_a_bounded_wait_gives_up():
    # what CUTLASS and Triton emit around a try_wait with a limit of their own
    body = f"""{start(2)} mov.u32 %d, 0;
        LOOP: mbarrier.try_wait.parity.shared.b64 %q, [gate], 0; @%q bra DONE; add.u32 %d, %d, 1;
        setp.lt.u32 %p, %d, 3; @%p bra LOOP; DONE:"""
    out = run(body, {}, {"d": "u32"}, declarations=REGISTERS, block=32)
    assert set(out["d"].tolist()) == {3}


def test_a_spinning_hang_names_what_is_polled(monkeypatch):
    monkeypatch.setattr("umma_probe.model.threads.scheduler.IDLE_TURNS_BEFORE_HANG", 500)
    body = f"{start(2)} LOOP: mbarrier.test_wait.parity.shared.b64 %q, [gate], 0; @!%q bra LOOP;"
    with pytest.raises(Deadlock, match=r"spins on mbarrier 'gate'.*2 of 2 arrivals missing; nobody has arrived"):
        run(body, {}, {}, declarations=REGISTERS, block=32)
