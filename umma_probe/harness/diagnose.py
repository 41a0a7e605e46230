"""Why a layout probe failed: the simplest cause that the observation itself proves, never a guess.

The causes are told apart by what the cells hold: the readbacks against each other first (if they differ, nothing is
known about the MMA), then sentinel, zero, another element, or no element at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.harness.diagnosis.not_written import OBSERVED, where
from umma_probe.harness.fills import sentinel_origin
from umma_probe.harness.occupancy import Observation, place
from umma_probe.harness.wording import counted
from umma_probe.record.schema import CellState, Diagnosis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.harness.occupancy import BoolArray, Words
    from umma_probe.harness.readback import Readback


def diagnose_layout(
    observed: Observation, readbacks: Sequence[tuple[Readback, Words]], recovered: str, expected: str
) -> Diagnosis | None:
    """The cause, or None where the observation is as expected.

    :param readbacks: with the words (passes, lanes, columns) that each shows.
    :param recovered, expected: names of layouts.
    """
    if mismatch := _readback_mismatch(readbacks):
        return mismatch
    if another := _another_layout(observed, recovered, expected) or _displaced(observed):
        return another
    causes = (_not_written, _written_zero, _misplaced, _wrong_values, _unexpected)
    found = [diagnosis for cause in causes if (diagnosis := cause(observed))]
    if not found:
        return None
    first, *others = found
    first.evidence += [f"also: {other.evidence[0]}" for other in others]
    return first


def _readback_mismatch(readbacks: Sequence[tuple[Readback, Words]]) -> Diagnosis | None:
    (first, words), *others = readbacks
    for other, read in others:
        shown = words & other.mask
        differs = (shown != read).any(axis=0)
        if differs.any():
            evidence = [f"{first} and {other} differ in {_cells(differs)}: {place(differs)}"]
            lane, column = (int(index) for index in np.argwhere(differs)[0])
            evidence += [f"lane {lane}, column {column}: {label} read {_word(found[0, lane, column])}"
                         for label, found in ((first, shown), (other, read))]  # fmt: skip
            return Diagnosis("the readbacks differ: a tcgen05.ld shape reads other cells than documented", "certain",
                             evidence)  # fmt: skip
    return None


def _word(word: np.uint32) -> str:
    origin = sentinel_origin(int(word))
    return f"{word:#010x}" + (f", the sentinel of lane {origin[0]}, column {origin[1]}" if origin else "")


def _another_layout(observed: Observation, recovered: str, expected: str) -> Diagnosis | None:
    if recovered in ("none", expected):
        return None
    evidence = [
        f"all {observed.found_m.max() + 1} x {observed.found_n.max() + 1} elements lie as in layout {recovered}"
    ]
    return Diagnosis(f"the accumulator lies in layout {recovered}, not {expected}", "certain", evidence)


def _displaced(observed: Observation) -> Diagnosis | None:
    """All of D is there, each element by the same number of lanes and columns beside its documented cell."""
    named = (observed.found_m >= 0) & (observed.found_n >= 0)
    wanted, found = np.argwhere(observed.expected), np.argwhere(named)
    if len(found) != len(wanted) or not len(found):
        return None
    # both lists go lane by lane, so a common shift keeps their order
    shift = found - wanted
    elements = [(observed.expected_m, observed.found_m), (observed.expected_n, observed.found_n)]
    same = all((expected[tuple(wanted.T)] == actual[tuple(found.T)]).all() for expected, actual in elements)
    if not same or (shift != shift[0]).any() or not shift.any():
        return None
    parts = [
        f"{counted(abs(int(by)), name)} {'behind' if by > 0 else 'before'}"
        for name, by in zip(("lane", "column"), shift[0], strict=True)
        if by
    ]
    where = f"{' and '.join(parts)} its documented place"
    evidence = [
        f"each of the {len(found)} elements lies {where}, and nowhere else",
        "compare the D address of the MMA with the one that the reader uses",
    ]
    return Diagnosis(f"D as a whole lies {where}", "certain", evidence)


def _not_written(observed: Observation) -> Diagnosis | None:
    missing = observed.at(CellState.MISSING)
    if not missing.any():
        return None
    all_of_it = bool((missing == observed.expected).all())
    evidence = [f"{int(missing.sum())} of {int(observed.expected.sum())} expected cells still hold the sentinel: "
                f"{place(missing)}"]  # fmt: skip
    if all_of_it:
        return Diagnosis("the MMA wrote nothing where D was expected", "certain", evidence)
    evidence.append("each names its own lane and column, in every readback: nothing wrote it; why is not known")
    return Diagnosis(f"cells of D were not written: {where(missing, observed.expected)}", OBSERVED, evidence)


def _written_zero(observed: Observation) -> Diagnosis | None:
    zero = observed.at(CellState.ZERO)
    if not zero.any():
        return None
    evidence = [
        f"{_cells(zero)} were written, with zero: {place(zero)}",
        "no operand is zero in this probe, so what was fetched for these elements is not what was staged",
    ]
    return Diagnosis("cells were written as zero: an operand has holes, the layout has none", "likely", evidence)


def _misplaced(observed: Observation) -> Diagnosis | None:
    misplaced = observed.at(CellState.MISPLACED)
    if not misplaced.any() or observed.at(CellState.WRONG).any():
        return None
    evidence = [f"{_cells(misplaced)} hold another element of D: {place(misplaced)}"]
    evidence += [
        f"lane {cell.lane}, column {cell.column}: expected {_pair(cell.expected)}, found {_pair(cell.actual)}"
        for cell in observed.cells().misplaced[:3]
    ]
    return Diagnosis("elements of D are permuted", "certain", evidence)


def _wrong_values(observed: Observation) -> Diagnosis | None:
    wrong = observed.at(CellState.WRONG)
    if not wrong.any():
        return None
    axes = []
    if (observed.found_m[wrong] == observed.expected_m[wrong]).all():
        axes.append("the row pass is right, so A was fetched as staged: look at B")
    if (observed.found_n[wrong] == observed.expected_n[wrong]).all():
        axes.append("the column pass is right, so B was fetched as staged: look at A")
    evidence = [f"{_cells(wrong)} name no element of D: {place(wrong)}", *axes]
    return Diagnosis("an operand was not fetched as it was staged (descriptor, swizzle, major-ness or type)", "likely",
                     evidence)  # fmt: skip


def _unexpected(observed: Observation) -> Diagnosis | None:
    unexpected = observed.at(CellState.UNEXPECTED)
    if not unexpected.any():
        return None
    evidence = [f"{_cells(unexpected)} outside D changed: {place(unexpected)}"]
    return Diagnosis("something wrote outside the accumulator", "certain", evidence)


def _cells(mask: BoolArray) -> str:
    count = int(mask.sum())
    return "1 cell" if count == 1 else f"{count} cells"


def _pair(element: list[int] | None) -> str:
    return "no element" if element is None else f"({element[0]}, {element[1]})"
