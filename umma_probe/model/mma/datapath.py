"""The machine's data path, place to element: which row and which column segment feed each Tensor Memory lane.

This is the second derivation of what ``layouts/`` states element to place; neither imports the other, so a slip in
one shows as a disagreement between the model and the documents in every probe.

The picture is that of the hardware. Tensor Memory is 128 data paths (lanes) in four partitions of 32. An
instruction that brings R rows to a CTA drives the lanes in one of three ways:

- *full*: R = 128, lane i is row i;
- *banked*: R < 128 and the instruction cuts N into 128/R segments (``.ws``, and the dense CTA pair with M = 128):
  lanes come in banks of R, bank b computes segment b, and each bank reads its own copy of an A operand in Tensor
  Memory;
- *spread*: R = 64 otherwise: 16 rows in each partition, in its lower or upper half as the lane of the address says.

Loads and stores are described the same way: for a cell (lane, column) of the accessed box, the thread and register
that carry it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from umma_probe.errors import IllegalProgram
from umma_probe.spec.machine import TMEM_LANES
from umma_probe.spec.sources import documented, header

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array

REFS = (
    documented("Data Path Layout Organization", "layouts A to G by M, cta_group, .ws and sparsity"),
    header("mma_traits_sm100_frag.hpp, tmem_frg", "lanes and columns of every accumulator"),
)

_LANES = np.arange(TMEM_LANES)


@dataclass(frozen=True)
class LaneFeed:
    """What each of the 128 lanes of a CTA holds.

    ``lanes``: the driven lanes, ascending; ``rows``: the CTA-local row of each (ascending within a segment);
    ``segment``: the column segment of each; ``segments``: into how many N is cut.
    """

    lanes: Array
    rows: Array
    segment: Array
    segments: int

    @cached_property
    def banks(self) -> tuple[slice | Array, ...]:
        """For each segment its lanes, in the order of their rows: a slice where they are contiguous."""
        return tuple(_selection(self.lanes[self.segment == s]) for s in range(self.segments))


def _selection(lanes: Array) -> slice | Array:
    first, last = int(lanes[0]), int(lanes[-1])
    return slice(first, last + 1) if last - first + 1 == len(lanes) else lanes


@lru_cache(maxsize=64)
def lane_feed(rows: int, banked: bool, base_lane: int) -> LaneFeed:
    """The feed of an instruction that brings ``rows`` rows to this CTA.

    :param banked: whether N is cut into segments (see the module).
    :param base_lane: the lane field of the accumulator address.
    :raises IllegalProgram: the lane field does not suit the layout.
    """
    if rows == TMEM_LANES or banked:
        if base_lane:
            raise IllegalProgram(
                f"accumulator address has lane {base_lane}, must be 0 for {rows} rows"
                + (" in banks" if banked else ""),
                ref=str(REFS[0]),
            )
        return LaneFeed(_LANES, _LANES % rows, _LANES // rows, TMEM_LANES // rows)
    if base_lane not in (0, 16):
        raise IllegalProgram(
            f"accumulator address has lane {base_lane}, must be 0 or 16 for {rows} rows", ref=str(REFS[0])
        )
    within = _LANES % 32 - base_lane
    driven = (within >= 0) & (within < 16)
    lanes = _LANES[driven]
    return LaneFeed(lanes, lanes // 32 * 16 + within[driven], np.zeros(len(lanes), np.int64), 1)


# ---------------------------------------------------------------------- loads and stores
class Area(NamedTuple):
    """Lanes and columns relative to an address; ends exclusive."""

    first_lane: int
    end_lane: int
    first_column: int
    end_column: int

    def at(self, lane: int, column: int) -> Area:
        """The same area, seen from elsewhere."""
        return Area(self.first_lane + lane, self.end_lane + lane, self.first_column + column, self.end_column + column)


@dataclass(frozen=True)
class AccessBox:
    """The cells that a warp's ``tcgen05.ld`` or ``.st`` touches, and who carries each.

    ``lane`` and ``column`` have the shape (registers, 32 threads), relative to the address. A packed register carries
    the low halves of ``column`` and ``column + 1``. ``areas`` are the ranges of lanes and columns touched, each
    ``lanes`` high: 16x32bx2 has two.
    """

    lane: Array
    column: Array
    registers: int
    lanes: int
    areas: tuple[Area, ...]
    whole: bool = False
    """Thread t holds lane t, register r column r."""


def _carrier(shape: str, lane: Array, column: Array) -> tuple[Array, Array]:
    """(thread, register) of a cell, from the fragment figures of "tcgen05.ld: access patterns".

    The 16-lane shapes are stacks of 8 x 128-bit (or 64, 256) matrices: thread 4i + j holds row i; two rows of
    matrices make 16 lanes.
    """
    upper = lane // 8
    quad = 4 * (lane % 8)
    match shape:
        case "32x32b":
            return lane, column
        case "16x64b":
            return quad + upper + 2 * (column % 2), column // 2
        case "16x128b":
            return quad + column % 4, 2 * (column // 4) + upper
        case "16x256b":
            return quad + column % 8 // 2, 4 * (column // 8) + 2 * upper + column % 2
    raise AssertionError(shape)


_COLUMNS_PER_REPEAT = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8}


@lru_cache(maxsize=256)
def access_box(shape: str, repeat: int, split: int = 0, packed: bool = False) -> AccessBox:
    """The box of ``.shape.xN``.

    :param split: the immediate of 16x32bx2: how far behind the address that of the upper 16 threads is, as the
        difference of two addresses: lanes << 16, plus columns.
    :param packed: a register holds two 16-bit halves, so a cell of the figures is two columns.
    """
    step = 1 + packed
    if shape == "16x32bx2":
        threads = np.arange(32)
        further, behind = divmod(split + (1 << 15), 1 << 16)  # columns may be fewer: a small negative number
        behind -= 1 << 15
        lane = np.broadcast_to(threads % 16 + further * (threads // 16), (repeat, 32))
        column = step * np.arange(repeat)[:, None] + behind * (threads // 16)
        halves = (Area(0, 16, 0, step * repeat), Area(further, further + 16, behind, behind + step * repeat))
        return AccessBox(lane, column, repeat, 16, halves)
    columns = _COLUMNS_PER_REPEAT[shape] * repeat
    lanes = 32 if shape == "32x32b" else 16
    cell_lane, cell_column = (a.ravel() for a in np.meshgrid(np.arange(lanes), np.arange(columns), indexing="ij"))
    thread, register = _carrier(shape, cell_lane, cell_column)
    registers = lanes * columns // 32
    lane = np.empty((registers, 32), np.int64)
    column = np.empty((registers, 32), np.int64)
    lane[register, thread] = cell_lane
    column[register, thread] = step * cell_column
    area = Area(0, lanes, 0, step * columns)
    return AccessBox(lane, column, registers, lanes, (area,), shape == "32x32b" and not packed)
