"""A letter for each cell of Tensor Memory, run-length coded: lanes that look the same share a row, ``R64 .448``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from umma_probe.errors import RecordError
from umma_probe.record.sets import format_set, parse_set

if TYPE_CHECKING:
    from collections.abc import Iterable

Letters = npt.NDArray[np.str_]
"""Shape (lanes, columns), dtype ``<U1``."""


@dataclass
class LaneRows:
    """Lanes whose cells all have the same letters, and these as runs: ``R64 .448``."""

    lanes: str
    runs: str


def pack(letters: Letters) -> list[LaneRows]:
    """The rows, in the order of their first lane."""
    groups: dict[bytes, list[int]] = {}
    for lane, row in enumerate(np.ascontiguousarray(letters, "<U1")):
        groups.setdefault(row.tobytes(), []).append(lane)
    return [LaneRows(format_set(members), _runs(letters[members[0]])) for members in groups.values()]


def _runs(row: Letters) -> str:
    edges = np.flatnonzero(row[1:] != row[:-1]) + 1
    starts, ends = [0, *edges.tolist()], [*edges.tolist(), len(row)]
    return " ".join(f"{row[start]}{end - start}" for start, end in zip(starts, ends, strict=True))


def unpack(rows: Iterable[LaneRows], lanes: int, columns: int, elsewhere: str) -> Letters:
    """The letters, (lanes, columns); ``elsewhere`` in lanes that no row has.

    :raises RecordError: the runs do not cover the columns.
    """
    letters = np.full((lanes, columns), elsewhere, dtype="<U1")
    for row in rows:
        line = "".join(run[0] * int(run[1:]) for run in row.runs.split())
        if len(line) != columns:
            raise RecordError(f"tmem: lanes {row.lanes} have {len(line)} cells, must be {columns}")
        letters[parse_set(row.lanes)] = list(line)
    return letters
