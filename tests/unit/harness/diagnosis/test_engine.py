"""The diagnosis on dumps made by hand: what it must not guess, and what it may say all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from umma_probe.harness.diagnosis.engine import diagnose
from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.passes import gemm_passes
from umma_probe.harness.gemm.predict import SharedImage, expected_image
from umma_probe.harness.gemm.trial import Seen, Trial
from umma_probe.record.schema import Diagnosis, SanitizerFinding

BASE = 1024
Edit = Callable[[np.ndarray], None]


def nothing(_: np.ndarray) -> None:
    """Leave it."""


def registers(words: np.ndarray) -> np.ndarray:
    """As 32x32b.x32 loads them: [instruction][warp][thread][register]."""
    return words.reshape(4, 32, 16, 32).transpose(2, 0, 1, 3).copy()


def trial(edit: Edit = nothing, second: Edit = nothing, shared: Edit = nothing) -> Trial:
    """M = 64: row m at lane 32 * (m / 16) + m % 16, by float64 (the random pass: by integers of the coded ones)."""
    case = GemmCase.of(m=64, n=16, k=32, readback="32x32b.x32,32x32b.x32")
    clean = case.recipe()
    row, column, _ = gemm_passes(64, 16, 16, 2, ("bf16", "bf16", "f32"))
    third = replace(row, name="random", b=column.b, coded=None)
    seen = []
    for codes in (row, column, third):
        words = (np.uint32(0xFF80FC00) | np.arange(128, dtype=np.uint32)[:, None] << np.uint32(16)
                 | np.arange(1, 513, dtype=np.uint32)[None])  # fmt: skip
        for m in range(64):
            words[32 * (m // 16) + m % 16, :16] = (codes.a @ codes.b.T)[m].astype(np.float32).view(np.uint32)
        edit(words)
        other = words.copy()
        second(other)
        image = expected_image(clean, codes, BASE)
        data = image.data.copy()
        shared(data)
        seen.append(Seen(codes, "sentinel", (registers(words), registers(other)), SharedImage(BASE, data)))
    return Trial(clean, None, "sm_100a", seen)


def cause(answer: Diagnosis | None) -> tuple[str, str]:
    assert answer is not None
    return answer.cause.split(":")[0], answer.confidence


def test_what_is_as_documented_has_no_cause() -> None:
    assert diagnose(trial()) is None


LANES_OF_D = [lane for lane in range(128) if lane % 32 < 16]


def put_back(words: np.ndarray, lanes: list[int], columns: list[int]) -> None:
    """As if nothing had written these cells: 0xff80fc00 | lane << 16 | column + 1."""
    for lane in lanes:
        for column in columns:
            words[lane, column] = 0xFF80FC00 | lane << 16 | column + 1


def test_a_skipped_column_is_not_a_hole_but_not_written() -> None:
    """No documented behaviour leaves columns 4-7 out: what is seen is told, no mechanism is made up."""
    answer = diagnose(trial(lambda words: put_back(words, LANES_OF_D, [4, 5, 6, 7])))
    assert cause(answer) == ("not-written", "observed")
    assert answer is not None
    assert "columns 4-7 of D in all of its lanes hold what they held before" in answer.cause
    assert any("columns 4-7, lanes 0-15,32-47,64-79,96-111" in line and "256 cells" in line for line in answer.evidence)
    assert any("agree in every register" in line for line in answer.evidence)
    assert "every other cell is as documented" in answer.evidence


def test_cells_left_out_are_named_exactly() -> None:
    def skip(words: np.ndarray) -> None:
        put_back(words, [0, 1, 35], [2, 9])
        put_back(words, [64], [3])

    answer = diagnose(trial(skip))
    assert answer is not None
    assert "columns 2,9 of D in lanes 0-1,35; column 3 of D in lane 64 hold" in answer.cause


def test_cells_left_out_among_wrong_ones_are_not_all() -> None:
    def skip(words: np.ndarray) -> None:
        put_back(words, LANES_OF_D, [4])
        words[0, 0] ^= 1

    answer = diagnose(trial(skip))
    assert cause(answer) == ("not-written", "observed")
    assert answer is not None
    assert "this is not all: columns 0, lanes 0 hold other values than expected" in answer.evidence


def test_cells_left_out_are_not_called_so_where_d_may_lie_elsewhere() -> None:
    """Something outside of D has changed, or the readbacks differ: then it is not known what was written."""

    def elsewhere(words: np.ndarray) -> None:
        put_back(words, LANES_OF_D, [4])
        words[0, 300] = 0x3F800000

    assert cause(diagnose(trial(elsewhere))) == ("unexplained", "possible")
    one = trial(second=lambda words: put_back(words, LANES_OF_D, [4]))
    assert cause(diagnose(one)) == ("unexplained", "possible")


def test_zeros_without_a_hole_are_not_called_a_hole() -> None:
    def zero(words: np.ndarray) -> None:
        words[:16, 4:8] = 0

    answer = diagnose(trial(zero))
    assert cause(answer) == ("unexplained", "possible")
    assert answer is not None
    assert "shared memory holds what should have been staged" in answer.evidence
    assert any("zero in all launches: columns 4-7, lanes 0-15" in line for line in answer.evidence)


def test_one_flipped_bit_is_explained_by_nothing() -> None:
    def flip(words: np.ndarray) -> None:
        words[3, 3] ^= 1

    assert cause(diagnose(trial(flip))) == ("unexplained", "possible")


def test_staging_in_no_known_way_is_said_without_a_guess_how() -> None:
    """Element (n = 0, k = 0) of B is overwritten in shared memory, and D is what that gives."""
    made = trial()
    at = made.clean.b.smem
    seen = []
    for one in made.seen:
        data = one.image.data.copy()
        data[at : at + 2] = np.array([0x4080], "<u2").view(np.uint8)  # 4.0
        b = one.codes.b.copy()
        b[0, 0] = 4.0
        words = made.words(one).copy()
        for m in range(64):
            value = np.float32(one.codes.a[m] @ b[0])
            words[32 * (m // 16) + m % 16, 0] = value.view(np.uint32)
        seen.append(Seen(one.codes, one.fill, (registers(words), registers(words)), SharedImage(BASE, data)))
    answer = diagnose(replace(made, seen=seen))
    assert cause(answer) == ("wrong-staging", "certain")
    assert answer is not None
    assert any("elements of B" in line and "rows 0, k 0" in line for line in answer.evidence)


def test_a_readback_shifted_by_columns_gives_itself_away() -> None:
    def shift(words: np.ndarray) -> None:
        whole = words.copy()
        for first in range(0, 512, 32):
            start = min(first + 3, 512 - 32)
            words[:, first : first + 32] = whole[:, start : start + 32]

    answer = diagnose(trial(second=shift))
    assert cause(answer) == ("readback-column", "certain")
    assert answer is not None
    assert "3 columns further right" in answer.cause


def test_runs_that_differ_are_a_race_whatever_they_look_like() -> None:
    def zero(words: np.ndarray) -> None:
        words[:, :16] = 0

    finding = SanitizerFinding("missing-wait", "read before the MMA has completed", "k.cu:1", "warp 0")
    answer = diagnose(trial(), [("lazy", trial(zero)), ("random:1", trial())], [finding])
    assert cause(answer) == ("race", "certain")
    assert answer is not None
    assert answer.evidence[0].startswith("lazy: ")
    assert any("missing-wait" in line for line in answer.evidence)
