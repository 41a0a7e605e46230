"""Tensor Memory handed on from one actor to another: did ``tcgen05.fence`` stand on both sides?

The rule (PTX ISA, "tcgen05 Memory Consistency Model: canonical synchronization patterns"). An access to Tensor Memory
is ordered behind one of another thread only through: ``fence::before_thread_sync`` of that thread, a synchronisation
(mbarrier, ``bar.sync``, cluster barrier), ``fence::after_thread_sync`` of this thread. A commit implies the first
fence. An MMA is ordered before a later access of its own thread through commit, wait and ``fence::after_thread_sync``
alike, unless the two are pipelined. ``wait::ld`` and ``wait::st`` are synchronous: in their own thread nothing else is
needed.

A missing fence is for *review*. The model's waits act at the points that fences mark, today's GPUs do the same, and
kernels known to work have no fence at all; such a kernel gets one remark, at its first hand-over.

How. Every access has a serial number, and each cell knows the last that read and the last that wrote it. Two *agents*
stand for a warp: its loads and stores, and the tensor core that it drives (mma, cp, shift). For each agent of its
cluster a warp knows the last access that some synchronisation told it of (``SYNCED``), and the last that had been
fenced, or committed, when it was passed on (``PUBLISHED``); arrivals carry that knowledge to a barrier and waits take
it from there (:class:`Baton`). ``fence::after_thread_sync`` notes what was published by then. So an access that a warp
knows of, but has not fenced, lacks a fence; one that it does not know of may be a race, which is not this module's
business. Nothing is claimed where this cannot tell: lanes of a warp count as one thread, knowledge passed on counts
as fenced by whoever passes it on with a fence, and in a kernel that polls memory (a way to synchronise that is not
followed) a ``fence::after_thread_sync`` covers everything before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES
from umma_probe.spec.sources import Evidence, Ref, documented

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umma_probe.model.code.program import Program
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array

REFS = (
    documented("tcgen05 Memory Consistency Model: canonical synchronization patterns"),
    documented("tcgen05.fence"),
    Ref("triton", "generated kernels use no tcgen05.fence: an acquire wait on the commit's mbarrier is enough",
        Evidence.KERNEL),
)  # fmt: skip
SYNCED, PUBLISHED = 0, 1
LANE_GROUP = 16
"""Lanes that are accessed together: an accumulator may lie in half of each partition."""
ALWAYS = np.iinfo(np.int32).max
POLLING_LOADS = frozenset({"acquire", "relaxed", "volatile", "mmio"})
IN_ORDER_WITH_MMA = frozenset({"cp", "shift"})


class Touch(NamedTuple):
    """A box of cells that an access reads, writes, or both."""

    slot: int
    groups: slice | Array
    """Groups of 16 lanes."""
    columns: slice
    reads: bool
    writes: bool


class Access(NamedTuple):
    """Who touched cells: the step, the issuing thread, and for an MMA what it is pipelined with."""

    pc: int
    thread: int
    kind: str
    """``mma``, ``cp``, ``shift``, ``ld`` or ``st``."""
    key: object = None

    def in_order_with(self, other: Access) -> bool:
        """Whether two operations of one tensor core are pipelined, whichever comes first."""
        return self.key == other.key or not IN_ORDER_WITH_MMA.isdisjoint((self.kind, other.kind))


@dataclass(eq=False, slots=True)
class Baton:
    """What a barrier hands on: gathered from the arrivals of the current phase, held by the phases complete."""

    gathered: Array | None = None
    held: Array | None = None

    def add(self, knowledge: Array) -> None:
        """An arrival brings this."""
        self.gathered = knowledge if self.gathered is None else np.maximum(self.gathered, knowledge)

    def turn(self) -> None:
        """The phase is complete."""
        if self.gathered is not None:
            self.held = self.gathered if self.held is None else np.maximum(self.held, self.gathered)
            self.gathered = None


class TensorOrder:
    """The hand-overs of a launch. It costs nothing until the first access to Tensor Memory."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._log: list[Access] = []
        self._on = True
        self._repeat: tuple[object, ...] | None = None
        """The MMA that came last, as long as nothing has happened since."""

    def _begin(self) -> None:
        """The first access: make room."""
        launch = self._launch
        self._cluster_warps = launch.cta_warps * launch.cluster_size
        agents = 2 * self._cluster_warps
        warps = launch.slot_count * launch.cta_warps
        cells = (launch.slot_count, TMEM_LANES // LANE_GROUP, TMEM_COLUMNS)
        self._log.append(Access(0, 0, ""))
        self._agent = np.zeros(1024, np.int32)
        """The agent of each serial number."""
        self._last_read, self._last_write = np.zeros(cells, np.int32), np.zeros(cells, np.int32)
        self._known = np.zeros((warps, 2, agents), np.int32)
        self._own_published = np.zeros(warps, np.int32)
        self._fenced = np.zeros((warps, agents), np.int32)
        numbers = np.arange(warps)
        self._fenced[numbers, 2 * (numbers % self._cluster_warps)] = ALWAYS
        self._in_doubt = [False] * warps
        """Whether a warp may know of an access that it has not fenced."""
        self._has_fence, self._polls = _ways_of_ordering(launch.program)

    def enter(self, slot: int) -> None:
        """A CTA takes the slot: its Tensor Memory is untouched."""
        if self._log and slot < len(self._last_read):
            self._last_read[slot] = self._last_write[slot] = 0

    # ------------------------------------------------------------------ synchronisation
    def arrive(self, warp: int, baton: Baton) -> None:
        """A warp tells a barrier what it knows, its own accesses included."""
        if self._log and self._on:
            baton.add(self._knowledge(warp, int(self._own_published[warp])))

    def committed(self, thread: int) -> Array | None:
        """What the arrival of a commit will tell: it implies ``fence::before_thread_sync``."""
        if not (self._log and self._on):
            return None
        return self._knowledge(thread >> 5, len(self._log) - 1)

    def _knowledge(self, warp: int, published: int) -> Array:
        self._repeat = None
        own = 2 * (warp % self._cluster_warps)
        knowledge: Array = self._known[warp].copy()
        mine = knowledge[:, own : own + 2]
        mine[SYNCED] = len(self._log) - 1
        np.maximum(mine[PUBLISHED], published, out=mine[PUBLISHED])
        return knowledge

    def wait(self, warp: int, batons: Iterable[Baton]) -> None:
        """A warp has seen phases complete."""
        if not (self._log and self._on):
            return
        for baton in batons:
            if baton.held is not None:
                self._repeat = None
                known = self._known[warp]
                np.maximum(known, baton.held, out=known)
                self._in_doubt[warp] = True

    def fence(self, warp: int, side: str) -> None:
        """``fence::before_thread_sync`` or ``fence::after_thread_sync``."""
        if not (self._log and self._on):
            return
        self._repeat = None
        known = self._known[warp]
        if side == "fence::before_thread_sync":
            self._own_published[warp] = len(self._log) - 1
            np.maximum(known[PUBLISHED], known[SYNCED], out=known[PUBLISHED])
            return
        own = 2 * (warp % self._cluster_warps)
        self._fenced[warp] = len(self._log) - 1 if self._polls else known[PUBLISHED]
        self._fenced[warp, own] = ALWAYS
        self._in_doubt[warp] = bool((known[SYNCED] > self._fenced[warp]).any())

    # ------------------------------------------------------------------ accesses
    def repeats(self, thread: int, key: object) -> bool:
        """Whether an MMA touches what the one before it did, with nothing in between: no need to look again."""
        repeat = (thread, key)
        if not self._on or repeat == self._repeat:
            return True
        self._repeat = repeat
        return False

    def access(self, access: Access, touches: Iterable[Touch]) -> None:
        """An access is issued: review what it follows, and note it."""
        if not self._on:
            return
        if not self._log:
            self._begin()
        if access.kind != "mma":
            self._repeat = None
        serial = len(self._log)
        warp = access.thread >> 5
        on_core = access.kind not in ("ld", "st")
        self._log.append(access)
        if serial == len(self._agent):
            self._agent = np.concatenate((self._agent, np.zeros_like(self._agent)))
        self._agent[serial] = 2 * (warp % self._cluster_warps) + on_core
        for touch in touches:
            place = touch[:3]
            if self._in_doubt[warp]:
                self._review(warp, access, touch, self._last_write[place])
                if touch.writes:
                    self._review(warp, access, touch, self._last_read[place])
            if touch.writes:
                self._last_write[place] = serial
            if touch.reads:
                self._last_read[place] = serial

    def freed(self, thread: int, slot: int, columns: slice) -> None:
        """``tcgen05.dealloc``, a synchronous instruction: it needs no fence before it, the accesses one after them."""
        if not (self._log and self._on and self._has_fence):
            return
        access = Access(self._launch.pc, thread, "dealloc")
        place = (slot, slice(None), columns)
        touch = Touch(*place, reads=False, writes=True)
        for last in (self._last_write[place], self._last_read[place]):
            self._review(thread >> 5, access, touch, last)
            last[:] = 0

    def _review(self, warp: int, access: Access, touch: Touch, last: Array) -> None:
        """Review an access to cells that were last touched by these serial numbers."""
        if not self._on:
            return
        agents = self._agent[last]
        unordered = (last > self._fenced[warp][agents]) & (last <= self._known[warp, SYNCED][agents])
        if not unordered.any():
            return
        own = 2 * (warp % self._cluster_warps)
        for serial in np.unique(last[unordered]).tolist():
            other, agent = self._log[serial], self._agent[serial]
            if agent == own + 1 and access.kind not in ("ld", "st", "dealloc") and access.in_order_with(other):
                continue
            fenced_there = serial <= self._known[warp, PUBLISHED][agent]
            if fenced_there and access.kind == "dealloc":
                continue
            columns = np.flatnonzero((last == serial).any(axis=0)) + touch.columns.start
            self._remark(access, other, (int(columns[0]), int(columns[-1])), fenced_there)
            # once for each fence that is missing, not for each access behind it
            np.maximum(self._fenced[warp], self._known[warp, SYNCED], out=self._fenced[warp])
            return

    def _remark(self, access: Access, other: Access, columns: tuple[int, int], fenced_there: bool) -> None:
        launch = self._launch
        place = launch.program.where(other.pc)
        first, last = columns
        span = f"column {first}" if first == last else f"columns {first}-{last}"
        what = (f"tcgen05.{access.kind} follows tcgen05.{other.kind} of {launch.thread_name(other.thread)} "
                f"(line {place.line}) in {span}")  # fmt: skip
        if not self._has_fence:
            self._on = False
            launch.review(
                "no-tcgen05-fence",
                f"{what}, and the kernel has no tcgen05.fence: it relies on the barrier alone, as kernels known to "
                "work do; the PTX ISA asks for fence::before_thread_sync before it (a commit implies it) and "
                "fence::after_thread_sync behind it. Said once for the whole kernel",
                access.thread,
            )
        elif fenced_there:
            launch.review(
                "missing-fence-after-thread-sync",
                f"{what}, with no tcgen05.fence::after_thread_sync since the wait that orders them",
                access.thread,
            )
        else:
            launch.review(
                "missing-fence-before-thread-sync",
                f"{what}, with no tcgen05.fence::before_thread_sync between that one and the arrival that hands on",
                access.thread,
            )


def _ways_of_ordering(program: Program) -> tuple[bool, bool]:
    """Whether a program has a ``tcgen05.fence``, and whether it can poll memory."""
    has_fence = polls = False
    for step in program.steps:
        opcode, words = step.instruction.opcode, step.instruction.modifiers
        has_fence |= opcode == "tcgen05" and words[0].startswith("fence::")
        polls |= opcode == "atom" or (opcode == "ld" and not POLLING_LOADS.isdisjoint(words))
    return has_fence, polls
