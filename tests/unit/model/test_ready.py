"""Which strands go next, and how lanes of a warp join: the fixed order, the random one, lanes that leave."""

from __future__ import annotations

import random

from umma_probe.model.threads.ready import ReadyStrands
from umma_probe.model.threads.strands import FULL_WARP, Strand, Token


def chosen(ready: ReadyStrands) -> tuple[int, list[int]]:
    cohort = ready.choose()
    return cohort.pc, [strand.warp for strand in cohort.strands]


def test_fewest_turns_then_the_lowest_place_then_all_warps_there() -> None:
    ready = ReadyStrands(None)
    for warp, pc, turn in ((0, 9, 1), (1, 3, 2), (2, 9, 1), (3, 5, 1), (4, 3, 2)):
        ready.place(Strand(warp, FULL_WARP, pc, turn=turn))
    assert [chosen(ready) for _ in range(3)] == [(5, [3]), (9, [0, 2]), (3, [1, 4])]
    assert not ready


def test_the_random_order_draws_places_and_splits_cohorts_and_loses_nobody() -> None:
    places, sizes = set(), set()
    for seed in range(40):
        ready = ReadyStrands(random.Random(seed))
        for warp in range(8):
            ready.place(Strand(warp, FULL_WARP, 10 * (warp % 2)))
        seen = []
        while ready:
            pc, warps = chosen(ready)
            assert {10 * (warp % 2) for warp in warps} == {pc}
            places.add((len(seen), pc))
            sizes.add(len(warps))
            seen += warps
        assert sorted(seen) == list(range(8))
    assert {(0, 0), (0, 10)} <= places
    assert {1, 2, 3, 4} == sizes


def test_lanes_join_when_the_last_that_lives_has_come() -> None:
    token = Token(7, FULL_WARP, ())
    ready = ReadyStrands(None)
    ready.place(Strand(0, 0x0000_FFFF, 7, (token,)))
    ready.place(Strand(0, 0x00FF_0000, 7, (token,)))
    assert not ready
    ready.without(Strand(0, 0xFF00_0000, 3, (token,)))
    (strand,) = ready.choose().strands
    assert (strand.lanes, strand.pc, strand.stack) == (0x00FF_FFFF, 7, ())
    assert not ready.joining


def test_lanes_that_are_let_go_leave_the_others_to_join_alone() -> None:
    token = Token(7, FULL_WARP, ())
    ready = ReadyStrands(None)
    ready.place(Strand(0, 0xFFFF_FFF0, 7, (token,)))
    released, others = ready.part_join()
    assert (released.lanes, others) == (0xFFFF_FFF0, 0xF)
    ready.place(Strand(0, 0xF, 7, (token,)))
    assert [strand.lanes for strand in ready.choose().strands] == [0xF]
