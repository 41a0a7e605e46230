"""The verdict on synthetic dumps: each way of going wrong is told apart, in words and in sets of columns."""

from collections.abc import Callable

import numpy as np
import pytest

from umma_probe.harness.fills import sentinel_words
from umma_probe.harness.suite import Judgement, Outputs
from umma_probe.harness.suites.tmem_layout import prepare
from umma_probe.record.schema import CellState
from umma_probe.report.picture import states_of

DEFAULTS = {
    "m": 128, "n": 64, "kind": "f16", "a_type": None, "b_type": None, "d_type": None, "ws": False, "a_source": "smem",
    "a_major": "k", "b_major": "k", "swizzle": None, "k_tiles": 1, "taddr_column": 0, "taddr_lane": 0,
    "readback": "32x32b.x32,32x32b.x32",
}  # fmt: skip
BIAS = sum((1, 2, 3, 4, 6)[k % 5] for k in range(16))
"""Of one bf16 MMA: the weights of 16 k."""
Edit = Callable[[np.ndarray], None]


def good_words(m: int = 128, n: int = 64) -> np.ndarray:
    """Both passes of layout D (M = 128) or F (M = 64), written down here by their definition."""
    words = np.stack([sentinel_words(), sentinel_words()])
    for row in range(m):
        lane = row if m == 128 else 32 * (row // 16) + row % 16
        for column in range(n):
            words[0, lane, column] = np.float32(BIAS + row).view(np.uint32)
            words[1, lane, column] = np.float32(BIAS + column).view(np.uint32)
    return words


def dumps(words: np.ndarray, second: np.ndarray | None = None) -> list[Outputs]:
    """As 32x32b.x32 would have left them: [instruction][warp][thread][register]."""

    def registers(one: np.ndarray) -> np.ndarray:
        return one.reshape(4, 32, 16, 32).transpose(2, 0, 1, 3).copy()

    other = words if second is None else second
    return [{"dump_0": registers(words[i]), "dump_1": registers(other[i])} for i in range(2)]


def judged(edit: Edit = lambda _: None, edit_second: Edit | None = None, **params: object) -> Judgement:
    values = {**DEFAULTS, **params}
    words = good_words(int(values["m"]), int(values["n"]))
    edit(words)
    second = None
    if edit_second is not None:
        second = words.copy()
        edit_second(second)
    return prepare(values, "sm_100a").judge(dumps(words, second))


def failed(judgement: Judgement) -> set[str]:
    return {check.name for check in judgement.checks if check.verdict == "fail"}


def test_the_documented_layout_passes() -> None:
    result = judged()
    assert failed(result) == set()
    assert result.diagnosis is None
    assert result.tmem is not None
    assert (result.tmem.layout_expected, result.tmem.layout_recovered) == ("D", "D")
    occupancy = result.occupancy
    assert occupancy is not None
    assert (occupancy.expected_columns, occupancy.written_columns) == ("0-63", "0-63")
    assert (occupancy.missing_columns, occupancy.zero_columns, occupancy.unexpected_columns) == ("", "", "")
    assert (occupancy.expected_lanes, occupancy.written_lanes, occupancy.misplaced_cells) == ("0-127", "0-127", 0)


def test_layout_f_uses_half_of_the_lanes() -> None:
    result = judged(m=64)
    assert failed(result) == set()
    assert result.tmem is not None and result.occupancy is not None  # noqa: PT018
    assert result.tmem.layout_recovered == "F"
    assert result.occupancy.written_lanes == "0-15,32-47,64-79,96-111"


def test_sentinel_left_is_missing_not_zero() -> None:
    def hole(words: np.ndarray) -> None:
        for column in (*range(32, 36), *range(48, 52)):
            words[:, :, column] = sentinel_words()[:, column]

    result = judged(hole)
    assert result.occupancy is not None and result.diagnosis is not None  # noqa: PT018
    assert result.occupancy.missing_columns == "32-35,48-51"
    assert result.occupancy.zero_columns == ""
    assert result.occupancy.written_columns == "0-31,36-47,52-63"
    assert failed(result) == {"missing", "layout"}
    assert result.diagnosis.cause == "cells of D were not written: columns 32-35,48-51 of D in all of its lanes"
    assert result.diagnosis.confidence == "observed"
    assert "1024 of 8192 expected cells" in result.diagnosis.evidence[0]


def test_zero_is_written_not_missing() -> None:
    def zero(words: np.ndarray) -> None:
        words[:, :, 32:36] = 0

    result = judged(zero)
    assert result.occupancy is not None and result.diagnosis is not None  # noqa: PT018
    assert result.occupancy.zero_columns == "32-35"
    assert result.occupancy.missing_columns == ""
    assert result.occupancy.written_columns == "0-63"
    assert failed(result) == {"zero", "layout"}
    assert "zero" in result.diagnosis.cause


def test_swapped_columns_are_misplaced() -> None:
    def swap(words: np.ndarray) -> None:
        words[:, :, [3, 40]] = words[:, :, [40, 3]]

    result = judged(swap)
    assert result.occupancy is not None and result.tmem is not None and result.diagnosis is not None  # noqa: PT018
    assert result.occupancy.misplaced_cells == 256
    first = result.tmem.cells.misplaced[0]
    assert (first.lane, first.column, first.expected, first.actual) == (0, 3, [0, 3], [0, 40])
    assert "permuted" in result.diagnosis.cause


def test_another_documented_layout_is_named() -> None:
    def upper(words: np.ndarray) -> None:
        moved = good_words(64)
        words[:] = np.stack([sentinel_words()] * 2)
        for lane in range(128):
            if lane % 32 < 16:
                words[:, lane + 16, :64] = moved[:, lane, :64]

    result = judged(upper, m=64)
    assert result.tmem is not None and result.diagnosis is not None  # noqa: PT018
    assert result.tmem.layout_recovered == "F+16"
    assert "layout F+16, not F" in result.diagnosis.cause


def test_garbage_in_one_pass_points_at_the_operand() -> None:
    def garbage(words: np.ndarray) -> None:
        words[1, :, 8] = np.float32(3.25).view(np.uint32)

    result = judged(garbage)
    assert result.occupancy is not None and result.diagnosis is not None  # noqa: PT018
    assert result.occupancy.wrong_cells == 128
    assert any("look at B" in line for line in result.diagnosis.evidence)


def test_one_cell_outside_is_unexpected() -> None:
    def stray(words: np.ndarray) -> None:
        words[:, 77, 300] = 0

    result = judged(stray)
    assert result.occupancy is not None  # narrow for mypy and readers alike
    assert result.occupancy.unexpected_columns == "300"
    assert failed(result) == {"unexpected"}


def test_readbacks_that_differ_say_nothing_about_the_mma() -> None:
    def shifted(words: np.ndarray) -> None:
        words[:, :, 64:128] = np.roll(words[:, :, 64:128], 1, axis=2)

    result = judged(edit_second=shifted)
    assert failed(result) == {"readback"}
    assert result.diagnosis is not None
    assert "readbacks differ" in result.diagnosis.cause
    assert any("the sentinel of lane 0, column 127" in line for line in result.diagnosis.evidence)


def test_states_survive_the_record() -> None:
    def hole(words: np.ndarray) -> None:
        words[:, 5, 7] = 0

    result = judged(hole)
    assert result.tmem is not None
    states = states_of(result.tmem)
    assert states[5, 7] == CellState.ZERO.value
    assert (states == CellState.RIGHT.value).sum() == 128 * 64 - 1
    assert (states == CellState.UNTOUCHED.value).sum() == 128 * (512 - 64)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"m": 96}, "m"),
        ({"n": 12}, "n"),
        ({"taddr_column": 480}, "taddr_column"),
        ({"taddr_lane": 16}, "taddr_lane"),
        ({"kind": "f8f6f4", "a_type": "e2m1", "a_major": "mn"}, "a_major"),
        ({"kind": "tf32", "a_major": "mn", "swizzle": "128B"}, "swizzle"),
        ({"a_source": "tmem", "a_major": "mn"}, "a_major"),
        ({"kind": "i8", "n": 40}, "n"),
        ({"ws": True, "n": 48}, "n"),
    ],
)
def test_illegal_parameters_are_problems_with_a_source(params: dict[str, object], field: str) -> None:
    problems = prepare({**DEFAULTS, **params}, "sm_100a").problems
    assert field in [problem.field for problem in problems]
    assert all(str(problem.ref) for problem in problems)


def test_default_types_follow_the_kind() -> None:
    for kind, type_, d_type in (("f16", "bf16", "f32"), ("tf32", "tf32", "f32"), ("i8", "s8", "s32")):
        params = prepare({**DEFAULTS, "kind": kind}, "sm_100a").params
        assert (params["a_type"], params["b_type"], params["d_type"]) == (type_, type_, d_type)


def test_a_16_bit_d_is_read_a_third_time_packed() -> None:
    """16x128b.x8.pack::16b, by its fragment: lane t / 4 + 8 (r % 2), columns 2c and 2c + 1, c = t % 4 + 4 (r / 2)."""
    words = np.stack([sentinel_words()] * 2)
    half = np.float16(BIAS) + np.arange(128, dtype=np.float16)
    words[0, :, :64], words[1, :, :64] = half.view(np.uint16)[:, None], half[:64].view(np.uint16)[None]

    def packed(one: np.ndarray) -> np.ndarray:
        dump = np.zeros((16, 4, 32, 16), np.uint32)
        for i, warp, t, r in np.ndindex(*dump.shape):
            lane, column = 32 * warp + 16 * (i % 2) + t // 4 + 8 * (r % 2), 64 * (i // 2) + 2 * (t % 4 + 4 * (r // 2))
            dump[i, warp, t, r] = one[lane, column] & 0xFFFF | (one[lane, column + 1] & 0xFFFF) << 16
        return dump

    experiment = prepare({**DEFAULTS, "a_type": "f16", "d_type": "f16"}, "sm_100a")
    good = [{**output, "dump_2": packed(words[i])} for i, output in enumerate(dumps(words))]
    assert failed(experiment.judge(good)) == set()
    good[1]["dump_2"][0, 0, 0, 0] ^= 1 << 16
    result = experiment.judge(good)
    assert failed(result) == {"readback"}
    assert result.diagnosis is not None
    assert "16x128b.x8.pack::16b differ in 1 cell: column 1, lane 0" in result.diagnosis.evidence[0]
