"""The comparison: what every cell of Tensor Memory turned out to be, against the documented layout.

*Missing* (the sentinel is still there) and *zero* (written, with zero) are different facts. A cell is judged over all
passes together: it is right if its words name its own element, missing if all are its sentinel, zero if all are zero.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from umma_probe.harness.fills import sentinel_words
from umma_probe.record.lane_rows import pack
from umma_probe.record.schema import Cells, CellState, MisplacedCell, Occupancy
from umma_probe.record.sets import format_set, named_set

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint32]

NOWHERE = -1
LISTED = 32
"""So many misplaced cells are listed one by one."""

_STATES = tuple(CellState)
_LETTERS = np.array([state.value for state in _STATES])


@dataclass(frozen=True)
class Observation:
    """What a probe found and what it expected; every array has the shape (lanes, columns) unless said otherwise.

    ``words`` is (passes, lanes, columns). ``found_*`` is the element that a cell names, ``expected_*`` the element that
    belongs there; -1 for none. ``zero`` says that a word is zero as an element of D, in all passes.
    ``operand`` marks cells that hold an operand of the probe, unchanged.
    """

    words: Words
    zero: BoolArray
    found_m: IntArray
    found_n: IntArray
    expected_m: IntArray
    expected_n: IntArray
    operand: BoolArray
    fill: Words | None = None
    """What the cells held before; None for the sentinel."""

    @cached_property
    def untouched(self) -> BoolArray:
        """Cells that hold in all passes what they held before: usually their own sentinel."""
        fill = sentinel_words() if self.fill is None else self.fill
        return np.asarray((self.words == fill).all(axis=0), np.bool_)

    @staticmethod
    def code(state: CellState) -> int:
        """What ``states`` holds for a state."""
        return _STATES.index(state)

    @cached_property
    def expected(self) -> BoolArray:
        """Cells to which an element belongs."""
        return np.asarray(self.expected_m != NOWHERE, np.bool_)

    @cached_property
    def states(self) -> npt.NDArray[np.uint8]:
        """Index into ``CellState`` of each cell."""
        named = (self.found_m != NOWHERE) & (self.found_n != NOWHERE)
        right = named & (self.found_m == self.expected_m) & (self.found_n == self.expected_n)
        conditions = [
            (self.operand & ~self.expected, CellState.OPERAND),
            (self.expected & right, CellState.RIGHT),
            (self.expected & self.zero, CellState.ZERO),  # first: after a fill of zeros it is all that can be said
            (self.expected & self.untouched, CellState.MISSING),
            (self.expected & named, CellState.MISPLACED),
            (self.expected, CellState.WRONG),
            (self.untouched, CellState.UNTOUCHED),
        ]
        masks = [mask for mask, _ in conditions]
        codes = [np.uint8(_STATES.index(state)) for _, state in conditions]
        return np.select(masks, codes, np.uint8(_STATES.index(CellState.UNEXPECTED))).astype(np.uint8)

    def at(self, *states: CellState) -> BoolArray:
        """Where a cell is in one of these states."""
        return np.isin(self.states, [_STATES.index(state) for state in states])

    def count(self, *states: CellState) -> int:
        """How many cells are."""
        return int(self.at(*states).sum())

    def occupancy(self) -> Occupancy:
        """The sets of columns and lanes."""
        written = ~self.untouched & ~self.at(CellState.OPERAND)
        return Occupancy(
            expected_columns=columns(self.expected),
            written_columns=columns(written),
            missing_columns=columns(self.at(CellState.MISSING)),
            unexpected_columns=columns(self.at(CellState.UNEXPECTED)),
            zero_columns=columns(self.at(CellState.ZERO)),
            expected_lanes=lanes(self.expected),
            written_lanes=lanes(written),
            misplaced_cells=self.count(CellState.MISPLACED),
            wrong_cells=self.count(CellState.WRONG),
        )

    def cells(self) -> Cells:
        """Every cell's state, run-length coded, and the first misplaced ones."""
        counts = {state.name.lower(): self.count(state) for state in _STATES}
        odd = np.argwhere(self.at(CellState.MISPLACED, CellState.WRONG))[:LISTED]
        return Cells(
            counts, pack(_LETTERS[self.states]), [self._misplaced(int(lane), int(column)) for lane, column in odd]
        )

    def digests(self) -> list[str]:
        """SHA-256 of each pass."""
        return [hashlib.sha256(np.ascontiguousarray(words, "<u4").tobytes()).hexdigest() for words in self.words]

    def _misplaced(self, lane: int, column: int) -> MisplacedCell:
        def element(m: IntArray, n: IntArray) -> list[int] | None:
            pair = [int(m[lane, column]), int(n[lane, column])]
            return None if NOWHERE in pair else pair

        words = [f"{int(word):#010x}" for word in self.words[:, lane, column]]
        expected, actual = element(self.expected_m, self.expected_n), element(self.found_m, self.found_n)
        return MisplacedCell(lane, column, expected, actual, words)


def place(cells: BoolArray) -> str:
    """Where such cells are, in words: ``columns 32-35, lanes 0-127``."""
    in_column, in_lane = np.flatnonzero(cells.any(axis=0)), np.flatnonzero(cells.any(axis=1))
    return f"{named_set('column', in_column)}, {named_set('lane', in_lane)}"


def columns(cells: BoolArray) -> str:
    """The columns that have any such cell."""
    return format_set(np.flatnonzero(cells.any(axis=0)))


def lanes(cells: BoolArray) -> str:
    """The lanes that have any such cell."""
    return format_set(np.flatnonzero(cells.any(axis=1)))
