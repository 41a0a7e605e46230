"""Allocation of Tensor Memory: sizes, permits, blocking, pairs; every rule broken once."""

from __future__ import annotations

import pytest
from tensor_kernels import ALLOC, ALLOC_PAIR, DEALLOC, DEALLOC_PAIR, run

from umma_probe.errors import Deadlock, DeviceError, IllegalProgram, NotModelled, UmmaProbeError, UndefinedBehavior

ALLOC_32 = "@%pw tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;\n"


def test_first_fit_from_column_0():
    ran = run(
        """
        mov.u32 %r1, 32;
        @%pw tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], %r1;
        bar.sync 0; ld.shared.u32 %r2, [slot]; bar.sync 0;
        @%pw tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
        bar.sync 0; ld.shared.u32 %r3, [slot]; bar.sync 0;
        OUT(0, %base) OUT(1, %r2) OUT(2, %r3)
        @%pw tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;
        @%pw tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
        bar.sync 0; ld.shared.u32 %r4, [slot]; bar.sync 0; OUT(3, %r4)
        @%pw tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;
        @%pw tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
        """,
        columns=128,
    )
    assert ran.results[0, :4, 0].tolist() == [0, 128, 160, 128]
    assert not ran.rules


def test_a_generic_address_works():
    ran = run("""
        cvta.shared.u64 %w, slot;
        @%pw tcgen05.alloc.cta_group::1.sync.aligned.b32 [%w], 32;
        bar.sync 0; ld.shared.u32 %base, [slot]; OUT(0, %base)
        @%pw tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 32;
    """.replace("cvta.shared.u64 %w, slot", "mov.u64 %w, slot; cvta.shared.u64 %w, %w"), alloc=False)  # fmt: skip
    assert ran.results[0, 0, 0] == 0


@pytest.mark.parametrize(("body", "error", "text"), [
    (ALLOC.format(columns=48), IllegalProgram, "48 columns, must be a power of two from 32 to 512"),
    (ALLOC.format(columns=16), IllegalProgram, "16 columns"),
    (ALLOC.format(columns=1024), IllegalProgram, "1024 columns"),
    (ALLOC.format(columns=32) + ALLOC.format(columns=64), IllegalProgram, "64 columns after an allocation of 32"),
    ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" + ALLOC.format(columns=32), IllegalProgram,
     "after tcgen05.relinquish_alloc_permit"),
    (ALLOC.format(columns=64) + DEALLOC.format(columns=32), IllegalProgram, r"allocated is 64 columns at 0x0"),
    (ALLOC.format(columns=64) + "add.u32 %base, %base, 32;\n" + DEALLOC.format(columns=64), IllegalProgram, "at 0x20"),
    (DEALLOC.format(columns=64), IllegalProgram, "allocated is nothing"),
    ("@%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;", UndefinedBehavior,
     "1 of 32 lanes execute it"),
    ("@%pw tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], %tid;", UndefinedBehavior, "be uniform"),
    ("@%p0 exit;\n" + ALLOC_32, UndefinedBehavior, r"31 of 32 lanes execute it; all must \(1 have exited\)"),
    (ALLOC_PAIR.format(columns=32), IllegalProgram, "this CTA has no peer"),
])  # fmt: skip
def test_broken_rules(body: str, error: type[UmmaProbeError], text: str):
    with pytest.raises(error, match=text) as caught:
        run(body, alloc=False)
    assert caught.value.where is not None
    assert caught.value.where.line > 10
    assert "CTA 0, warp 0" in caught.value.where.actor


def test_columns_that_are_not_freed_are_a_finding():
    ran = run(ALLOC.format(columns=128), alloc=False)
    ((rule, _), finding) = next(iter(ran.launch.findings.items()))
    assert rule == "tmem-leak"
    assert "128 columns at 0" in finding.message


def test_blocks_until_there_is_room():
    body = """
        @%pw tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
        bar.sync 0; ld.shared.u32 %base, [slot];
        setp.eq.u32 %q1, %warp, 1;
        @%q1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 256;
        @%pw tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 512;
        bar.sync 0; ld.shared.u32 %base, [slot]; OUT(0, %base)
        @%q1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 256;
    """
    for policy in ("eager", "lazy", "random:3"):
        ran = run(body, alloc=False, policy=policy)
        assert (ran.results[0, 0] == 0).all()
        assert not ran.rules
    with pytest.raises(Deadlock, match=r"tcgen05.alloc of 256 columns: 512 of 512 are allocated in CTA 0") as caught:
        run(body.replace("@%pw tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 512;", ""), alloc=False)
    assert "warp 1" in str(caught.value.where)
    assert caught.value.hint.startswith("who should free columns?")


# ---------------------------------------------------------------------- pairs
def test_a_pair_gets_the_same_columns():
    for policy in ("eager", "random:1", "random:2"):
        body = ALLOC_PAIR.format(columns=64) + "mov.u32 %r1, %base; OUT(0, %r1)\nbar.sync 0;\n"
        body += ALLOC_PAIR.format(columns=32) + "OUT(1, %base)\nbar.sync 0;\n" + DEALLOC_PAIR.format(columns=32)
        body += "mov.u32 %base, %r1;\n" + DEALLOC_PAIR.format(columns=64)
        body += "@%pw tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n"
        ran = run(body, alloc=False, cluster=2, ctas=4, policy=policy)
        assert (ran.results[:, 0] == 0).all()
        assert (ran.results[:, 1] == 64).all()
        assert not ran.rules


def test_a_pair_blocks_until_there_is_room():
    body = ALLOC_PAIR.format(columns=512) + """
        setp.eq.u32 %q1, %warp, 1;
        @%q1 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 64;
        @%pw tcgen05.dealloc.cta_group::2.sync.aligned.b32 %base, 512;
        bar.sync 0; ld.shared.u32 %base, [slot]; OUT(0, %base)
        @%q1 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %base, 64;
    """  # fmt: skip
    for policy in ("eager", "random:5"):
        ran = run(body, alloc=False, cluster=2, policy=policy)
        assert (ran.results[:, 0] == 0).all()


ODD = "setp.eq.u32 %q1, %cta, 1;\n"


@pytest.mark.parametrize(("body", "error", "text"), [
    (ODD + "@%q1 bra END;\n" + ALLOC_PAIR.format(columns=64) + "END:\n"
     "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n", Deadlock,
     "tcgen05.alloc with cta_group::2: no warp of the peer CTA 1 has come"),
    ("mov.u32 %r1, 64;\n" + ODD + "@%q1 mov.u32 %r1, 32;\n" + ALLOC_PAIR.format(columns="%r1"), UndefinedBehavior,
     r"operands are \(.*,\) here and \(.*,\) in the peer CTA"),
    ("setp.lt.u32 %pw, %warp, 2;\n" + ODD + "@%q1 bra END;\n" + ALLOC_PAIR.format(columns=64) + "END:\n"
     "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n", UndefinedBehavior, "a second warp of CTA 0"),
    # table "example of non-deterministic hang" of the PTX ISA: one side frees before, the other behind the barrier
    (ALLOC_PAIR.format(columns=64) + ODD +
     "@%q1 bra FREE;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nFREE:\n"
     "@%pw tcgen05.dealloc.cta_group::2.sync.aligned.b32 %base, 64;\n@!%q1 bra END;\n"
     "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nEND:\n", Deadlock,
     "tcgen05.dealloc with cta_group::2: no warp of the peer CTA 0 has come"),
])  # fmt: skip
def test_broken_rules_of_pairs(body: str, error: type[UmmaProbeError], text: str):
    with pytest.raises(error, match=text):
        run(body, alloc=False, cluster=2)


def test_the_peer_must_not_have_exited():
    body = (
        ODD + "@%q1 exit;\n" + "nanosleep.u32 100;\n" * 4 + "SPIN:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %q2, %r1, 50;\n"
    )
    body = "mov.u32 %r1, 0;\n" + body + "@%q2 bra SPIN;\n" + ALLOC_PAIR.format(columns=64)
    with pytest.raises(DeviceError, match="the peer CTA 1 has exited"):
        run(body, alloc=False, cluster=2)


def test_one_kernel_has_one_cta_group():
    with pytest.raises(UmmaProbeError, match=r"has .cta_group::2, must have .cta_group::1") as caught:
        run("@%p0 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar];", cluster=2)
    assert not isinstance(caught.value, NotModelled)
    assert caught.value.where is not None
    assert "commit" in caught.value.where.source_line


def test_a_target_without_tensor_memory():
    with pytest.raises(IllegalProgram, match=r"sm_90a \(H100, H200\) has no Tensor Memory") as caught:
        run(ALLOC.format(columns=32), alloc=False, arch="sm_90a")
    assert caught.value.where is not None
    assert "tcgen05.alloc" in caught.value.where.source_line
