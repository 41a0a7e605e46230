"""Reads of Tensor Memory that a ``tcgen05.st`` in flight may still change.

A store lands when its warp's ``tcgen05.wait::st`` returns, not before: neither a later load, MMA or copy of anybody
nor an arrival on a barrier makes it (PTX ISA, "tcgen05 Memory Consistency Model"). So when a cell is read, no store to
it may be in flight, whichever came first; in a correct kernel none is, under any policy. CUTLASS's example 77
publishes row maxima and sums without the wait (its pull requests 2687 and 3653 propose to add it); its stream-K
scheduler stores a reduced accumulator and loads it again in the same warp, which is right only if a warp's stores and
loads keep their order: that is not documented, and the model does not assume it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array

REF = documented("tcgen05 Memory Consistency Model")
RULE = "store-in-flight"
STORES = frozenset({"st"})


class Cells(NamedTuple):
    """Where a store lands: lanes and columns, ends exclusive."""

    lanes: tuple[int, int]
    columns: tuple[tuple[int, int], ...]

    def among(self, lanes: Array, columns: Array) -> Array:
        """Which of some cells (indices that broadcast) are its."""
        in_columns = np.logical_or.reduce([(columns >= start) & (columns < stop) for start, stop in self.columns])
        hit: Array = in_columns & (lanes >= self.lanes[0]) & (lanes < self.lanes[1])
        return hit


def check_read(launch: Launch, thread: int, slot: int, lanes: slice | Array, columns: slice | Array, what: str) -> None:
    """Report a read of cells that a store in flight has.

    :param lanes, columns: two slices or a list of lanes and a slice, a box; or index arrays that broadcast, cells.
    """
    if not launch.engine.in_flight["st"]:
        return
    rows, places = np.arange(TMEM_LANES)[lanes], np.arange(TMEM_COLUMNS)[columns]
    if isinstance(columns, slice):
        rows = rows[:, None]
    for op in launch.engine.pending(STORES, cta=slot):
        cells = op.key
        assert isinstance(cells, Cells)
        hit = cells.among(rows, places)
        if hit.any():
            at = tuple(np.argwhere(hit)[0])
            lane, column = (int(np.broadcast_to(index, hit.shape)[at]) for index in (rows, places))
            place = launch.program.where(op.pc)
            launch.report(RULE, f"{what} reads lane {lane}, column {column} of {launch.cta_name(slot)} while "
                          f"tcgen05.st of {launch.thread_name(op.thread)} ({place}) to it is in flight: its warp has "
                          f"executed no tcgen05.wait::st since ({REF})", thread)  # fmt: skip
            return
