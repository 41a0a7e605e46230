"""Where the lanes of a warp meet for a ``.sync`` instruction.

An instruction with a member mask makes each executing thread wait until all non-exited threads of the mask have
executed it with the same qualifiers and the same mask (PTX ISA, "shfl.sync", "bar.warp.sync"). Lanes that stand in
other strands of the warp may come later, even at another program counter, so what each lane brings is collected here
and the result handed out when the last has come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import UndefinedBehavior
from umma_probe.model.asynchrony.waits import Resume, Wait
from umma_probe.model.threads.frame import WARP, Frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.strands import Strand

Rows = tuple["Array", ...]


@dataclass(frozen=True, slots=True)
class Collective:
    """One ``.sync`` instruction: what a lane brings, what the members compute, and where results go."""

    text: str
    """Opcode with qualifiers: lanes meet if it is the same."""
    mask: int
    """Slot of the member mask (u32)."""
    gather: Callable[[Frame], Rows]
    compute: Callable[[Frame, Array, Rows], Rows]
    """(a frame of the warp; lane numbers, ascending; one row a source) -> one row a destination."""
    scatter: Callable[[Frame, Rows], None]


@dataclass(eq=False, slots=True)
class _Part:
    """A strand's lanes in a meeting."""

    strand: Strand
    wait: Wait
    threads: Array
    rows: Rows
    scatter: Callable[[Frame, Rows], None]
    open_meetings: list[int]
    """One counter shared by all parts of the strand: how many meetings it still waits for."""


@dataclass(eq=False, slots=True)
class _Meeting:
    text: str
    warp: int
    mask: int
    compute: Callable[[Frame, Array, Rows], Rows]
    arrived: int = 0
    parts: list[_Part] = field(default_factory=list)


def _frame_of(launch: Launch, warp: int) -> Frame:
    return Frame(launch, launch.regs, slice(warp * WARP, (warp + 1) * WARP))


class WarpSync:
    """All meetings of a launch that are not complete."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._meetings: dict[tuple[int, str, int], _Meeting] = {}

    def execute(self, f: Frame, strand: Strand, op: Collective) -> Wait | None:
        """Run ``op`` for a strand, or let it wait for the other lanes of the mask."""
        masks = f.regs[op.mask][f.sel]
        mask = int(masks[0])
        uniform = bool((masks == mask).all())
        live = int(self._launch.live_lanes[strand.warp])
        if uniform and mask & live == strand.lanes:
            op.scatter(f, op.compute(f, f.threads & 31, op.gather(f)))
            return None
        self._check_membership(f, masks, op)
        return self._meet(f, strand, op, masks)

    def _check_membership(self, f: Frame, masks: Array, op: Collective) -> None:
        outside = (masks >> (f.threads & 31).astype(np.uint32) & 1) == 0
        if outside.any():
            at = int(np.flatnonzero(outside)[0])
            f.fault(
                UndefinedBehavior,
                f"{op.text}: the member mask {int(masks[at]):#010x} does not name the executing lane",
                int(f.threads[at]),
            )

    def _meet(self, f: Frame, strand: Strand, op: Collective, masks: Array) -> Wait | None:
        rows = op.gather(f)
        groups = np.unique(masks)
        counter = [len(groups)]
        keys = [(strand.warp, op.text, int(mask)) for mask in groups]
        wait = Wait(Resume.NEXT, lambda: "; ".join(self._describe(key) for key in keys))
        for mask, key in zip(groups, keys, strict=True):
            mine = masks == mask
            threads = f.threads[mine]
            meeting = self._meetings.setdefault(key, _Meeting(op.text, strand.warp, int(mask), op.compute))
            part = _Part(strand, wait, threads, tuple(row[mine] for row in rows), op.scatter, counter)
            meeting.parts.append(part)
            meeting.arrived |= sum(1 << int(lane) for lane in threads & 31)
        # the executing strand is not parked yet, so it cannot be woken by its own arrival
        for key in keys:
            self._complete(key, f, strand)
        return wait if counter[0] else None

    def _complete(self, key: tuple[int, str, int], f: Frame, running: Strand | None) -> None:
        meeting = self._meetings.get(key)
        if meeting is None:
            return
        needed = meeting.mask & int(self._launch.live_lanes[meeting.warp])
        if needed & ~meeting.arrived:
            return
        del self._meetings[key]
        threads = np.concatenate([part.threads for part in meeting.parts])
        order = np.argsort(threads)
        sources = (np.concatenate(columns)[order] for columns in zip(*(p.rows for p in meeting.parts), strict=True))
        results = meeting.compute(f, threads[order] & 31, tuple(sources))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        sel, start = f.sel, 0
        for part in meeting.parts:
            stop = start + len(part.threads)
            f.select(part.threads)
            part.scatter(f, tuple(row[place[start:stop]] for row in results))
            start = stop
            part.open_meetings[0] -= 1
            if not part.open_meetings[0] and part.strand is not running:
                self._launch.scheduler.wake(part.strand, part.wait)
        f.select(sel)

    def lanes_exited(self, warp: int) -> None:
        """Exited lanes are not waited for."""
        for key in [key for key in self._meetings if key[0] == warp]:
            self._complete(key, _frame_of(self._launch, warp), None)

    def _describe(self, key: tuple[int, str, int]) -> str:
        meeting = self._meetings.get(key)
        if meeting is None:
            return f"{key[1]}: complete"
        missing = meeting.mask & int(self._launch.live_lanes[meeting.warp]) & ~meeting.arrived
        return f"{meeting.text} with member mask {meeting.mask:#010x}: lanes {missing:#010x} have not come"
