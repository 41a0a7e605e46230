"""Warp collectives: shuffles against a lane-by-lane reading of the ISA's rules, votes, matches, reductions."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.errors import Deadlock, NotModelled, PtxSyntaxError, UndefinedBehavior

LANES = np.arange(32, dtype=np.uint32)
REGISTERS = ".reg .pred %p; .reg .b32 %x;"


def shuffle_rule(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The pseudo-code of PTX ISA, "shfl.sync", for one lane."""
    bval, cval, segmask = b & 0x1F, c & 0x1F, c >> 8 & 0x1F
    max_lane = (lane & segmask) | (cval & ~segmask)
    min_lane = lane & segmask
    if mode == "up":
        j = lane - bval
        pval = j >= max_lane
    elif mode == "down":
        j = lane + bval
        pval = j <= max_lane
    elif mode == "bfly":
        j = lane ^ bval
        pval = j <= max_lane
    else:
        j = min_lane | (bval & ~segmask)
        pval = j <= max_lane
    return (j if pval else lane), pval


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    mode=st.sampled_from(["up", "down", "bfly", "idx"]),
    b=st.integers(0, 40),
    clamp=st.integers(0, 31),
    segment=st.sampled_from([0, 16, 24, 28, 30, 31]),
)
def test_shuffles(mode, b, clamp, segment):
    c = segment << 8 | clamp
    values = LANES * 3 + 7
    out = run(f"shfl.sync.{mode}.b32 %d|%ok, %v, {b}, {c}, -1;", {"v": values}, {"d": "b32", "ok": "pred"})
    rules = [shuffle_rule(mode, lane, b, c) for lane in range(32)]
    assert out["ok"].tolist() == [ok for _, ok in rules]
    assert out["d"].tolist() == [int(values[j]) for j, _ in rules]


def test_each_lane_may_ask_for_another():
    source = np.random.default_rng(1).integers(0, 32, 32).astype(np.uint32)
    out = run("shfl.sync.idx.b32 %d, %v, %s, 31, -1;", {"v": LANES * 11, "s": source}, {"d": "b32"})
    assert np.array_equal(out["d"], source * 11)


def test_votes_and_ballots():
    flags = np.random.default_rng(2).random(64) < 0.4
    body = """vote.sync.any.pred %any, %f, -1; vote.sync.all.pred %all, !%f, -1;
        vote.sync.uni.pred %uni, %f, -1; vote.sync.ballot.b32 %ballot, %f, -1;"""
    flags[32:] = True
    out = run(body, {"f": flags}, {"any": "pred", "all": "pred", "uni": "pred", "ballot": "b32"})
    first = int(np.packbits(flags[:32], bitorder="little").view(np.uint32)[0])
    assert out["ballot"].tolist() == [first] * 32 + [0xFFFFFFFF] * 32
    assert out["any"].all()
    assert not out["all"].any()
    assert out["uni"].tolist() == [False] * 32 + [True] * 32


def test_masks_that_differ_in_one_instruction():
    masks = np.where(LANES < 16, 0xFFFF, 0xFFFF0000).astype(np.uint32)
    out = run("redux.sync.add.u32 %d, %v, %m;", {"v": LANES, "m": masks}, {"d": "u32"})
    assert out["d"].tolist() == [sum(range(16))] * 16 + [sum(range(16, 32))] * 16


def test_lanes_meet_from_two_sides_of_a_branch():
    body = """setp.lt.u32 %p, %lane, 12; @%p bra LOW; shfl.sync.idx.b32 %d, %v, 3, 31, -1; bra DONE;
        LOW: shfl.sync.idx.b32 %d, %v, 20, 31, -1; DONE:"""
    out = run(body, {"v": LANES + 100}, {"d": "b32"}, declarations=REGISTERS)
    assert out["d"].tolist() == [120] * 12 + [103] * 20


def test_exited_lanes_are_not_waited_for():
    body = """setp.ge.u32 %p, %lane, 20; @%p exit; vote.sync.ballot.b32 %d, 1, -1;"""
    out = run(body, {}, {"d": "b32"}, declarations=REGISTERS, block=32)
    assert out["d"].tolist() == [0xFFFFF] * 20 + [0] * 12


def test_a_partial_warp():
    out = run("redux.sync.add.u32 %d, 1, -1;", {}, {"d": "u32"}, block=40)
    assert out["d"].tolist() == [32] * 32 + [8] * 8


def test_a_value_from_an_absent_lane_is_poison_and_noted():
    body = "setp.lt.u32 %p, %lane, 4; @!%p bra DONE; shfl.sync.idx.b32 %d, %v, 9, 31, 0xF; DONE:"
    out = run(body, {"v": LANES}, {"d": "b32"}, declarations=REGISTERS)
    assert out["d"][:4].tolist() == [0xCDCDCDCD] * 4
    assert [finding.rule for finding in out.launch.reviews.values()] == ["shfl-absent-lane"]


def test_matches():
    values = np.array([5, 6, 5, 7] * 8, np.uint32)
    body = """match.any.sync.b32 %d, %v, -1; match.all.sync.b32 %e|%ok, %v, -1;
        mov.b64 %same, 1; match.all.sync.b64 %g, %same, -1;"""
    out = run(body, {"v": values}, {"d": "b32", "e": "b32", "ok": "pred", "g": "b32"}, declarations=".reg .b64 %same;")
    masks = {v: sum(1 << i for i in range(32) if values[i] == v) for v in (5, 6, 7)}
    assert out["d"].tolist() == [masks[int(v)] for v in values]
    assert not out["ok"].any()
    assert set(out["e"].tolist()) == {0}
    assert set(out["g"].tolist()) == {0xFFFFFFFF}


@pytest.mark.parametrize(
    ("op", "kind", "function"),
    [
        ("add", "u32", lambda v: v.sum(dtype=np.uint32)),
        ("min", "s32", lambda v: v.view(np.int32).min().view(np.uint32)),
        ("max", "s32", lambda v: v.view(np.int32).max().view(np.uint32)),
        ("min", "u32", np.min),
        ("max", "u32", np.max),
        ("and", "b32", np.bitwise_and.reduce),
        ("or", "b32", np.bitwise_or.reduce),
        ("xor", "b32", np.bitwise_xor.reduce),
    ],
)
def test_reductions(op, kind, function):
    values = np.random.default_rng(3).integers(0, 1 << 32, 32, np.uint32)
    out = run(f"redux.sync.{op}.{kind} %d, %v, -1;", {"v": values}, {"d": "b32"})
    assert set(out["d"].tolist()) == {int(function(values))}


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        ("min", [3.0, -2.0, np.nan, 1.0], -2.0),
        ("max", [3.0, -9.0, np.nan, 1.0], 3.0),
        ("max.abs", [3.0, -9.0, np.nan, 1.0], 9.0),
        ("max.NaN", [3.0, -9.0, np.nan, 1.0], np.nan),
        ("min.abs.NaN", [3.0, -9.0, 0.5, 1.0], 0.5),
        ("min", [0.0, -0.0, 0.0, 0.0], -0.0),
        ("max", [-0.0, 0.0, -0.0, -0.0], 0.0),
        ("min", [np.nan] * 4, np.nan),
        ("max", [-np.inf, -1.0, -2.0, -3.0], -1.0),
    ],
)
def test_floating_reductions(form, values, expected):
    column = np.array(values * 8, np.float32)
    out = run(f"redux.sync.{form}.f32 %d, %v, -1;", {"v": column}, {"d": "f32"})
    word = 0x7FFFFFFF if np.isnan(expected) else int(np.float32(expected).view(np.uint32))
    assert set(out["d"].view(np.uint32).tolist()) == {word}


def test_the_lowest_member_is_elected():
    body = "elect.sync %d|%ok, -1;"
    out = run(body, {}, {"d": "u32", "ok": "pred"}, block=64)
    assert out["ok"].tolist() == ([True] + [False] * 31) * 2
    body = "setp.ge.u32 %p, %lane, 8; @!%p bra DONE; elect.sync _|%ok, 0xFFFFFF00; DONE:"
    out = run(body, {}, {"ok": "pred"}, declarations=REGISTERS, block=32)
    assert np.flatnonzero(out["ok"]).tolist() == [8]


def test_active_lanes():
    body = "setp.lt.u32 %p, %lane, 5; activemask.b32 %d; @%p activemask.b32 %d;"
    out = run(body, {}, {"d": "b32"}, declarations=REGISTERS, block=32)
    assert out["d"].tolist() == [0x1F] * 5 + [0xFFFFFFFF] * 27


def test_warp_barrier_orders_shared_memory_between_diverged_lanes():
    body = """mov.u32 %x, tile; setp.ne.u32 %p, %lane, 0; @%p bra READ;
        st.shared.b32 [%x], 77; bar.warp.sync -1; bra DONE;
        READ: bar.warp.sync -1; DONE: ld.shared.b32 %d, [%x];"""
    out = run(body, {}, {"d": "b32"}, declarations=REGISTERS + ".shared .b32 tile;", block=32)
    assert set(out["d"].tolist()) == {77}
    assert not out.launch.findings


def test_lanes_that_never_come_are_named():
    body = "setp.lt.u32 %p, %lane, 8; @!%p bra DONE; bar.warp.sync -1; DONE: mov.u32 %d, 1;"
    with pytest.raises(Deadlock, match=r"bar.warp.sync with member mask 0xffffffff: lanes 0xffffff00 have not come"):
        run(body, {}, {"d": "b32"}, declarations=REGISTERS, block=32)


def test_lanes_that_have_left_are_not_waited_for():
    run("setp.lt.u32 %p, %lane, 8; @!%p bra DONE; bar.warp.sync -1; DONE:", {}, {}, declarations=REGISTERS, block=32)


def test_a_thread_outside_its_mask():
    with pytest.raises(UndefinedBehavior, match="does not name the executing lane") as caught:
        run("bar.warp.sync 0xFFFE;", {}, {}, block=32)
    assert "lane 0" in caught.value.where.actor


def test_forms_without_sync_are_refused():
    with pytest.raises(NotModelled):
        run("shfl.idx.b32 %d, %v, 0, 31;", {"v": LANES}, {"d": "b32"})
    with pytest.raises(PtxSyntaxError, match="and, or, xor"):
        run("redux.sync.add.b32 %d, %v, -1;", {"v": LANES}, {"d": "b32"})
