"""What the dump of Tensor Memory looks like: the states of all cells, a downsampled picture, and sentences.

Reads the record only. A block of the picture shows its worst state, so that one bad cell among thousands is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from umma_probe.record.lane_rows import Letters, unpack
from umma_probe.record.schema import CellState, TmemRecord
from umma_probe.record.sets import named_set

if TYPE_CHECKING:
    from collections.abc import Callable

LANES_PER_ROW = 8
_MARGIN = 8
"""Untouched columns that are shown beside the ones that matter."""

WORST_FIRST = (
    CellState.WRONG,
    CellState.MISPLACED,
    CellState.ZERO,
    CellState.MISSING,
    CellState.UNEXPECTED,
    CellState.RIGHT,
    CellState.OPERAND,
    CellState.UNTOUCHED,
)
_BADNESS = {state.value: len(WORST_FIRST) - rank for rank, state in enumerate(WORST_FIRST)}

MEANINGS = {
    CellState.RIGHT: "written right",
    CellState.MISSING: "missing: the sentinel is still there",
    CellState.ZERO: "zero",
    CellState.MISPLACED: "holds another element",
    CellState.WRONG: "holds no element",
    CellState.UNEXPECTED: "changed, though nothing belongs there",
    CellState.OPERAND: "operand of the probe, unchanged",
    CellState.UNTOUCHED: "untouched",
}
WORDS = {
    CellState.RIGHT: "written",
    CellState.MISSING: "missing (sentinel)",
    CellState.ZERO: "zero (written)",
    CellState.MISPLACED: "misplaced",
    CellState.WRONG: "wrong",
    CellState.UNEXPECTED: "unexpected",
    CellState.OPERAND: "operand",
    CellState.UNTOUCHED: "untouched",
}

AFTER_ANOTHER_FILL = {
    CellState.MISSING: "missing (as before)",
    CellState.ZERO: "zero",
}

States = Letters
Columns = npt.NDArray[np.bool_]


def states_of(tmem: TmemRecord) -> States:
    """The letter of every cell, shape (lanes, columns).

    :raises RecordError: the runs do not cover the dump.
    """
    return unpack(tmem.cells.rows, tmem.lanes, tmem.columns, CellState.UNTOUCHED.value)


@dataclass(frozen=True)
class Picture:
    """Blocks of cells, a letter for each: ``rows[i][j]``."""

    rows: list[str]
    lanes_per_row: int
    first_column: int
    columns_per_char: int

    @property
    def last_column(self) -> int:
        """Inclusive."""
        return self.first_column + len(self.rows[0]) * self.columns_per_char - 1

    def lane_label(self, row: int) -> str:
        """``8-15``."""
        return f"{row * self.lanes_per_row}-{(row + 1) * self.lanes_per_row - 1}"

    def ruler(self, every: int = 16) -> str:
        """Column numbers above their characters."""
        line = ""
        for position in range(0, len(self.rows[0]), every):
            line = line.ljust(position) + str(self.first_column + position * self.columns_per_char)
        return line


def picture(states: States, width: int) -> Picture:
    """The columns that matter, at most ``width`` characters wide; a block shows its worst state."""
    badness = np.vectorize(_BADNESS.__getitem__, otypes=[np.uint8])(states)
    busy = (states != CellState.UNTOUCHED.value).any(axis=0)

    def worst(lanes: slice, columns: slice) -> str:
        return WORST_FIRST[len(WORST_FIRST) - int(badness[lanes, columns].max())].value

    return downsample(busy, states.shape[0], width, worst)


def downsample(busy: Columns, lanes: int, width: int, choose: Callable[[slice, slice], str]) -> Picture:
    """Blocks of cells around the columns that matter, at most ``width`` of them side by side.

    :param busy: which columns matter, (columns,) booleans.
    :param choose: the letter of a block, from its lanes and columns.
    """
    total = len(busy)
    matter = np.flatnonzero(busy)
    first = max(0, int(matter[0]) - _MARGIN) // 8 * 8 if len(matter) else 0
    end = min(total, -(-(int(matter[-1]) + 1 + _MARGIN) // 8) * 8) if len(matter) else total
    per_char = 1
    while (end - first) / per_char > width:
        per_char *= 2
    first = first // per_char * per_char
    rows = [
        "".join(
            choose(slice(lane, lane + LANES_PER_ROW), slice(column, column + per_char))
            for column in range(first, end, per_char)
        )
        for lane in range(0, lanes, LANES_PER_ROW)
    ]
    return Picture(rows, LANES_PER_ROW, first, per_char)


def sentences(states: States, limit: int = 12, fill: str = "sentinel") -> list[str]:
    """Runs of columns that look the same: ``columns 0-63: written in lanes 0-127``.

    :param fill: what the cells held before; after zeros, zero does not mean written.
    """
    edges = np.flatnonzero((states[:, 1:] != states[:, :-1]).any(axis=0)) + 1
    starts, ends = [0, *edges.tolist()], [*edges.tolist(), states.shape[1]]
    lines = [
        f"{named_set('column', range(start, end))}: {_profile(states[:, start], fill)}"
        for start, end in zip(starts, ends, strict=True)
    ]
    if len(lines) > limit:
        lines = [*lines[: limit - 1], f"... and {len(lines) - limit + 1} more runs of columns"]
    return lines


def _profile(column: States, fill: str) -> str:
    words = WORDS if fill == "sentinel" else WORDS | AFTER_ANOTHER_FILL
    present = [state for state in WORST_FIRST if (column == state.value).any()]
    if len(present) == 1:
        everywhere = "" if present[0] is CellState.UNTOUCHED else " in all lanes"
        return words[present[0]] + everywhere
    return ", ".join(
        f"{words[state]} in {named_set('lane', np.flatnonzero(column == state.value))}"
        for state in present
        if state is not CellState.UNTOUCHED
    )


def present_states(states: States) -> list[CellState]:
    """Those that occur, in the order of ``CellState``."""
    return [state for state in CellState if (states == state.value).any()]
