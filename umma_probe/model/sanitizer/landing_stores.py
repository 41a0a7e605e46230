"""Reads of Tensor Memory that a ``tcgen05.st`` in flight may still change.

A store lands when its warp's ``tcgen05.wait::st`` returns, not before: neither a later load, MMA or copy of anybody
nor an arrival on a barrier makes it (PTX ISA, "tcgen05 Memory Consistency Model"). So when a cell is read, no store to
it may be in flight, whichever came first; in a correct kernel none is, under any policy. CUTLASS's example 77
publishes row maxima and sums without the wait (its pull requests 2687 and 3653 propose to add it).

One order goes beyond what is documented: a warp's load comes after the stores that the same warp issued before to the
same cells (:func:`own_stores`), as kernels known to work rely on it. That it had to is noted for review. Nothing is
assumed of a store behind a load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES
from umma_probe.spec.sources import Evidence, Ref, documented

if TYPE_CHECKING:
    from umma_probe.model.asynchrony.async_engine import AsyncOp
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array

REF = documented("tcgen05 Memory Consistency Model")
OWN_REF = Ref(
    "cutlass",
    "include/cutlass/gemm/kernel/sm100_tile_scheduler_stream_k.hpp, tmem_fixup",
    Evidence.KERNEL,
    "the warps of the epilogue store the reduced accumulator and load it again, with no tcgen05.wait::st between",
)
RULE = "store-in-flight"
OWN_RULE = "ld-store-dependence"
STORES = frozenset({"st"})


class Cells(NamedTuple):
    """Where a store lands or a load reads."""

    areas: tuple[tuple[int, int, int, int], ...]
    """First and end lane, first and end column; ends are exclusive."""

    def among(self, lanes: Array, columns: Array) -> Array:
        """Which of some cells (indices that broadcast) are its."""
        hit: Array = np.logical_or.reduce(
            [(lanes >= l0) & (lanes < l1) & (columns >= c0) & (columns < c1) for l0, l1, c0, c1 in self.areas]
        )
        return hit

    def overlap(self, other: Cells) -> bool:
        """Whether the two have a cell in common."""
        return any(_meet(a[:2], b[:2]) and _meet(a[2:], b[2:]) for a in self.areas for b in other.areas)


def own_stores(launch: Launch, thread: int, slot: int, cells: Cells) -> tuple[AsyncOp, ...]:
    """The stores in flight that a load must let land first: those to its cells that its own warp has issued."""
    if not launch.engine.in_flight["st"]:
        return ()
    stores = tuple(
        op
        for op in launch.engine.pending(STORES, cta=slot)
        if op.warp == thread >> 5 and isinstance(op.key, Cells) and op.key.overlap(cells)
    )
    if stores:
        place = launch.program.where(stores[0].pc)
        launch.review(OWN_RULE, f"tcgen05.ld reads cells of the same warp's tcgen05.st ({place}) with no "
                      f"tcgen05.wait::st between; it is taken to come after it ({OWN_REF})", thread)  # fmt: skip
    return stores


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


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]
