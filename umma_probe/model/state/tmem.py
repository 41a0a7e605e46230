"""Tensor Memory: 128 lanes by 512 columns of 32 bits per CTA, its allocator and its shadow.

An address is ``lane << 16 | column``. Allocation goes by columns: a power of two from 32 to 512, all lanes (PTX
ISA, "tcgen05.alloc"). A CTA is alone on its multiprocessor in the model unless told otherwise, so a full Tensor
Memory blocks only behind the CTA's own allocations. Every cell knows whether it was written since its columns were
allocated, and by which step. Contents outlive ``dealloc`` until the columns are allocated again, so a snapshot after
the kernel shows what it computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import IllegalProgram
from umma_probe.model.sanitizer.landing_stores import check_read
from umma_probe.model.state.bytes import POISON_WORD
from umma_probe.model.threads.cta_pair import PairMeetings
from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.asynchrony.waits import Wait
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.strands import Strand
    from umma_probe.spec.machine import Arch

ALLOC_REF = documented("tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit")
ALLOCATION_UNIT = 32
"""What a never-written cell reads as; the read itself is a finding."""
LANE_SHIFT = 16
COLUMN_MASK = 0xFFFF


@dataclass
class CtaAllocations:
    """The allocations of one CTA: column base to size."""

    blocks: dict[int, int] = field(default_factory=dict)
    last_size: int = TMEM_COLUMNS
    relinquished: bool = False
    history: list[tuple[int, int]] = field(default_factory=list)
    """Every block there was, (base, size), freed ones too."""
    waiting: list[tuple[Strand, Wait]] = field(default_factory=list)


@dataclass(frozen=True)
class TmemImage:
    """What Tensor Memory of one CTA looked like at one moment; arrays have the shape (lane, column)."""

    words: Array
    written: Array
    """Since the columns were last allocated."""
    writer: Array
    """Step number of the last write; meaningless where nothing was written."""
    blocks: tuple[tuple[int, int], ...] = ()
    """Every allocation that there was: (base, columns)."""


class TensorMemory:
    """The Tensor Memory of every resident CTA.

    ``words``, ``written`` and ``writer`` have the shape (slot, lane, column); ``writer`` is the step number of the last
    write, -1 for none; ``allocated`` (slot, column) says which columns a CTA owns.
    """

    def __init__(self, slots: int, arch: Arch) -> None:
        slots = slots if arch.has_tmem else 0
        shape = (slots, TMEM_LANES, TMEM_COLUMNS)
        self.words = np.full(shape, POISON_WORD, np.uint32)
        self.written = np.zeros(shape, np.bool_)
        self.writer = np.full(shape, -1, np.int32)
        self.allocated = np.zeros((slots, TMEM_COLUMNS), np.bool_)
        self.allocations = [CtaAllocations() for _ in range(slots)]
        self.pairs = PairMeetings()

    def enter(self, slot: int) -> None:
        """A CTA takes the slot: nothing allocated, nothing written."""
        if slot < len(self.allocations):
            self.words[slot] = POISON_WORD
            self.written[slot] = False
            self.writer[slot] = -1
            self.allocated[slot] = False
            self.allocations[slot] = CtaAllocations()
            self.pairs.clear(slot)

    def leave(self, launch: Launch, slot: int) -> None:
        """The CTA exits; what it still owns is a finding."""
        if slot < len(self.allocations) and self.allocations[slot].blocks:
            blocks = ", ".join(f"{size} columns at {base}" for base, size in self.allocations[slot].blocks.items())
            launch.report(
                "tmem-leak",
                f"{launch.cta_name(slot)} exits with Tensor Memory allocated ({blocks}); all must be freed before",
                slot * launch.cta_threads,
            )

    def snapshot(self, slot: int) -> TmemImage:
        """A copy; empty on an architecture that has no Tensor Memory."""
        if slot >= len(self.words):
            return TmemImage(np.zeros((0, 0), np.uint32), np.zeros((0, 0), np.bool_), np.zeros((0, 0), np.int32))
        blocks = tuple(self.allocations[slot].history)
        return TmemImage(self.words[slot].copy(), self.written[slot].copy(), self.writer[slot].copy(), blocks)

    # ------------------------------------------------------------------ allocation
    def allocate(self, slots: tuple[int, ...], columns: int) -> int | None:
        """First fit, the same columns in each of the slots (one CTA, or a pair); None if there is no room now.

        :raises IllegalProgram: the size is not a power of two from 32 to 512, grows, or the permit was given up.
        """
        if columns not in (32, 64, 128, 256, 512):
            raise IllegalProgram(f"tcgen05.alloc: {columns} columns, must be a power of two from 32 to 512",
                                 ref=str(ALLOC_REF))  # fmt: skip
        states = [self.allocations[slot] for slot in slots]
        for state in states:
            if state.relinquished:
                raise IllegalProgram("tcgen05.alloc after tcgen05.relinquish_alloc_permit in the same CTA",
                                     ref=str(ALLOC_REF))  # fmt: skip
            if columns > state.last_size:
                raise IllegalProgram(
                    f"tcgen05.alloc: {columns} columns after an allocation of {state.last_size}; "
                    "sizes must not increase",
                    hint="allocate the largest block first",
                    ref=str(ALLOC_REF),
                )
        for base in range(0, TMEM_COLUMNS - columns + 1, ALLOCATION_UNIT):
            if not any(self.allocated[slot, base : base + columns].any() for slot in slots):
                for slot, state in zip(slots, states, strict=True):
                    self.allocated[slot, base : base + columns] = True
                    self.words[slot, :, base : base + columns] = POISON_WORD
                    self.written[slot, :, base : base + columns] = False
                    state.blocks[base] = state.last_size = columns
                    state.history.append((base, columns))
                return base
        return None

    def deallocate(self, slots: tuple[int, ...], taddr: int, columns: int) -> list[tuple[Strand, Wait]]:
        """Free a block in each of the slots and return the strands that waited for room.

        :raises IllegalProgram: no such allocation.
        """
        woken: list[tuple[Strand, Wait]] = []
        for slot in slots:
            state = self.allocations[slot]
            if state.blocks.get(taddr) != columns:
                known = ", ".join(f"{s} columns at {b:#x}" for b, s in state.blocks.items()) or "nothing"
                raise IllegalProgram(
                    f"tcgen05.dealloc of {columns} columns at {taddr:#x}: allocated is {known}",
                    hint="pass the address that tcgen05.alloc wrote (not a pointer to it), and the same size",
                    ref=str(ALLOC_REF),
                )
            del state.blocks[taddr]
            self.allocated[slot, taddr : taddr + columns] = False
            waiting, state.waiting = state.waiting, []
            woken += [item for item in waiting if item not in woken]
        return woken

    # ------------------------------------------------------------------ access
    def read(self, launch: Launch, thread: int, slot: int, lanes: slice | Array, columns: slice, what: str) -> Array:
        """The words of a box of cells, (lanes, columns); reading a cell that was never written is a finding."""
        check_read(launch, thread, slot, lanes, columns, what)
        known = self.written[slot][lanes, columns]
        if not known.all():
            row, at = np.argwhere(~known)[0]
            lane = int(np.arange(TMEM_LANES)[lanes][row])
            launch.report("uninitialised-tmem", f"{what} reads lane {lane}, column {columns.start + at} of "
                          f"{launch.cta_name(slot)}, which was never written ({int((~known).sum())} cells)",
                          thread)  # fmt: skip
        words: Array = self.words[slot][lanes, columns]
        return words

    def read_cells(self, launch: Launch, thread: int, slot: int, lanes: Array, columns: Array, what: str) -> Array:
        """The words of single cells (index arrays that broadcast); the same findings as :meth:`read`."""
        check_read(launch, thread, slot, lanes, columns, what)
        known = self.written[slot, lanes, columns]
        if not known.all():
            at = tuple(np.argwhere(~known)[0])
            lane, column = (int(np.broadcast_to(index, known.shape)[at]) for index in (lanes, columns))
            launch.report("uninitialised-tmem", f"{what} reads lane {lane}, column {column} of "
                          f"{launch.cta_name(slot)}, which was never written ({int((~known).sum())} cells)",
                          thread)  # fmt: skip
        words: Array = self.words[slot, lanes, columns]
        return words

    def write_box(self, slot: int, lanes: slice | Array, columns: slice, words: Array, pc: int) -> None:
        """Write a box of cells (lanes, columns) and note the step that wrote them."""
        self.words[slot][lanes, columns] = words
        self.written[slot][lanes, columns] = True
        self.writer[slot][lanes, columns] = pc

    def write(self, slot: int, lanes: Array, columns: Array, words: Array, pc: int) -> None:
        """Write cells (index arrays that broadcast) and note the step that wrote them."""
        self.words[slot, lanes, columns] = words
        self.written[slot, lanes, columns] = True
        self.writer[slot, lanes, columns] = pc

    def check(
        self,
        launch: Launch,
        pc: int,
        thread: int,
        slot: int,
        lanes: tuple[int, int],
        columns: tuple[int, int],
        what: str,
    ) -> None:
        """Check a box of cells, bounds inclusive-exclusive.

        :raises DeviceError: outside Tensor Memory, or in columns that the CTA has not allocated.
        """
        (l0, l1), (c0, c1) = lanes, columns
        if l0 < 0 or l1 > TMEM_LANES or c0 < 0 or c1 > TMEM_COLUMNS:
            raise launch.fault_at(pc, thread, f"{what} touches lanes {l0}-{l1 - 1}, columns {c0}-{c1 - 1}: "
                                  f"outside Tensor Memory ({TMEM_LANES} lanes, {TMEM_COLUMNS} columns)")  # fmt: skip
        owned = self.allocated[slot, c0:c1]
        if not owned.all():
            first = c0 + int(np.flatnonzero(~owned)[0])
            touched = f"columns {c0}-{c1 - 1}; column {first}" if c1 - c0 > 1 else f"column {first}, which"
            raise launch.fault_at(pc, thread, f"{what} touches {touched} is not allocated",
                                  "allocate enough columns, and use them before tcgen05.dealloc")  # fmt: skip


__all__ = ["ALLOCATION_UNIT", "COLUMN_MASK", "LANE_SHIFT", "TensorMemory", "TmemImage"]
