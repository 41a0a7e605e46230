"""What the dump of Tensor Memory looks like: the states of all cells, a downsampled picture, and sentences.

Reads the record only. A block of the picture shows its worst state, so that one bad cell among thousands is seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umma_probe.errors import RecordError
from umma_probe.record.schema import CellState, TmemRecord
from umma_probe.record.sets import named_set, parse_set

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

States = npt.NDArray[np.str_]


def states_of(tmem: TmemRecord) -> States:
    """The letter of every cell, shape (lanes, columns).

    :raises RecordError: the runs do not cover the dump.
    """
    states = np.full((tmem.lanes, tmem.columns), CellState.UNTOUCHED.value, dtype="<U1")
    for row in tmem.cells.rows:
        letters = "".join(run[0] * int(run[1:]) for run in row.runs.split())
        if len(letters) != tmem.columns:
            raise RecordError(f"tmem: lanes {row.lanes} have {len(letters)} cells, must be {tmem.columns}")
        states[parse_set(row.lanes)] = list(letters)
    return states


@dataclass(frozen=True)
class Picture:
    """Blocks of cells, each with its worst state; ``rows[i][j]`` is a letter."""

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
    """The columns that matter, at most ``width`` characters wide."""
    total = states.shape[1]
    busy = np.flatnonzero((states != CellState.UNTOUCHED.value).any(axis=0))
    first = max(0, int(busy[0]) - _MARGIN) // 8 * 8 if len(busy) else 0
    end = min(total, -(-(int(busy[-1]) + 1 + _MARGIN) // 8) * 8) if len(busy) else total
    per_char = 1
    while (end - first) / per_char > width:
        per_char *= 2
    first = first // per_char * per_char
    badness = np.vectorize(_BADNESS.__getitem__, otypes=[np.uint8])(states)
    rows = []
    for lane in range(0, states.shape[0], LANES_PER_ROW):
        block = badness[lane : lane + LANES_PER_ROW]
        worst = [int(block[:, column : column + per_char].max()) for column in range(first, end, per_char)]
        rows.append("".join(WORST_FIRST[len(WORST_FIRST) - rank].value for rank in worst))
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
