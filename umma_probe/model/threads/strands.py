"""Strands and cohorts: which threads stand where.

A *strand* is a set of lanes of one warp at one program counter. A warp starts as one strand; a divergent branch
splits it, and a
*token* at the immediate post-dominator of the branch joins the parts again. Parts run independently, so a lane may
spin on what another lane of its warp will write. A *cohort* is a group of strands at the same program counter that
execute together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.code.program import CallTarget
    from umma_probe.model.numbers.values import Array

FULL_WARP = 0xFFFF_FFFF


@dataclass(eq=False, slots=True)
class Token:
    """Lanes that will meet at ``pc``; ``outer`` are the tokens that the joined strand still has."""

    pc: int
    pending: int
    outer: tuple[Token, ...]
    depth: int = 0
    """Calls that the lanes are in: the same place in another activation is another place."""
    arrived: int = 0


@dataclass(frozen=True, slots=True)
class CallRecord:
    """Where a call returns to, what was called, and its place on the stack."""

    return_pc: int
    target: CallTarget
    shift: int = 0
    """From the static place of the callee's variables to that of this activation."""
    top: int = 0
    """Bytes of the stack that are in use."""


@dataclass(eq=False, slots=True)
class Strand:
    """Lanes of one warp at one place."""

    warp: int
    """Warp number over all resident threads."""
    lanes: int
    """Bit mask of lanes."""
    pc: int
    stack: tuple[Token, ...] = ()
    calls: tuple[CallRecord, ...] = ()
    turn: int = 0
    timed_out: bool = False
    """A time-limited wait ended without its condition: the retried instruction answers false."""
    polls: Callable[[], str] | None = None
    """What it asked for last and did not get, if it polls (``mbarrier.test_wait``): for the report of a hang."""
    threads: Array = field(init=False)
    sel: slice | Array = field(init=False)

    def __post_init__(self) -> None:
        self.set_lanes(self.lanes)

    def set_lanes(self, lanes: int) -> None:
        """Change the lanes."""
        self.lanes = lanes
        base = self.warp * 32
        if lanes == FULL_WARP:
            self.threads = np.arange(base, base + 32)
        else:
            self.threads = base + np.array([i for i in range(32) if lanes >> i & 1], np.int64)
        self.sel = as_selection(self.threads)


def as_selection(threads: Array) -> slice | Array:
    """A slice if the ascending thread numbers are contiguous, else the numbers."""
    first, last = int(threads[0]), int(threads[-1])
    if last - first + 1 == len(threads):
        return slice(first, last + 1)
    return threads


def mask_of(lanes: Array) -> int:
    """The bit mask of lane numbers."""
    return int(np.bitwise_or.reduce(np.uint64(1) << lanes.astype(np.uint64))) if len(lanes) else 0


@dataclass(eq=False, slots=True)
class Cohort:
    """Strands at one program counter, in the order of their warps."""

    strands: list[Strand]
    pc: int
    sel: slice | Array = field(init=False)

    def __post_init__(self) -> None:
        if len(self.strands) == 1:
            self.sel = self.strands[0].sel
        else:
            self.strands.sort(key=_warp_order)
            self.sel = as_selection(np.concatenate([s.threads for s in self.strands]))

    @property
    def turn(self) -> int:
        """The earliest turn of its strands."""
        return min(s.turn for s in self.strands)


def _warp_order(strand: Strand) -> int:
    # threads of a cohort must ascend; two strands of one warp never share a cohort unless lanes interleave,
    # which the scheduler avoids by keeping them apart
    return strand.warp
