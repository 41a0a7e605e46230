"""tcgen05.alloc, dealloc and relinquish_alloc_permit."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import IllegalProgram, NotModelled, UmmaProbeError, UndefinedBehavior
from umma_probe.model.decode import operation, sync_operation
from umma_probe.model.values import TYPES
from umma_probe.model.waits import Resume, Wait
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.decode import Executor
    from umma_probe.model.frame import Frame
    from umma_probe.model.operands import Operands
    from umma_probe.model.strands import Strand

REF = documented("tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit")
U32 = TYPES["u32"]


class CtaGroup(Enum):
    """``.cta_group``: one CTA, or the pair of CTAs whose rank differs in bit 0."""

    ONE = "cta_group::1"
    TWO = "cta_group::2"

    @property
    def size(self) -> int:
        """CTAs."""
        return 1 if self is CtaGroup.ONE else 2


def whole_warp(f: Frame, what: str) -> None:
    """``.sync.aligned``: every live lane of each warp must be here.

    :raises UndefinedBehavior: some are not.
    """
    launch = f.launch
    for warp, positions in f.warps():
        live = int(launch.live_lanes[warp])
        if len(positions) != live.bit_count():
            f.fault(
                UndefinedBehavior,
                f"{what}.sync.aligned: {len(positions)} of {live.bit_count()} lanes execute it; all must",
                int(f.threads[positions[0]]),
                hint="issue it from code that the whole warp reaches together",
                ref=str(REF),
            )


def uniform(f: Frame, slot: int, what: str) -> int:
    """The value of an operand that must be the same in all running threads.

    :raises UndefinedBehavior: it is not.
    """
    values = f.regs[slot][f.sel]
    first = values[0]
    if (values != first).any():
        f.fault(UndefinedBehavior, f"{what} differs between the threads of a warp; it must be uniform", ref=str(REF))
    return int(first)


@sync_operation("tcgen05.alloc.{group}.sync.aligned.{space?}.b32", group=CtaGroup, space=("shared::cta",), refs=(REF,))
def alloc(ops: Operands, group: CtaGroup, space: str | None) -> Executor:
    """Allocate columns and write the address to shared memory; blocks until there is room."""
    ops.expect_count(2)
    if group is CtaGroup.TWO:
        raise NotModelled("tcgen05.alloc with cta_group::2")
    target, columns_slot = ops.address(0), ops.src(1, U32)

    def run(f: Frame, strand: Strand) -> Wait | None:
        whole_warp(f, "tcgen05.alloc")
        launch = f.launch
        columns = uniform(f, columns_slot, "tcgen05.alloc: the number of columns")
        slot = int(f.cta_slots[0])
        try:
            base = launch.tmem.allocate(slot, columns)
        except UmmaProbeError as error:
            f.fault(type(error), error.message, hint=error.hint, ref=error.ref)
        if base is None:
            launch.tmem.allocations[slot].waiting.append(strand)
            owned = int(launch.tmem.allocated[slot].sum())
            return Wait(
                Resume.RETRY,
                lambda: f"tcgen05.alloc of {columns} columns: {owned} of 512 are allocated in {launch.cta_name(slot)}",
            )
        sel = f.sel
        f.select(f.threads[:1])
        address = target.resolve(f)
        launch.memory.store(f, space or "generic", address, np.array([[base]], np.uint32))
        f.select(sel)
        return None

    return run  # type: ignore[return-value]


@operation("tcgen05.dealloc.{group}.sync.aligned.b32", group=CtaGroup, refs=(REF,))
def dealloc(ops: Operands, group: CtaGroup) -> Executor:
    """Free an allocation."""
    ops.expect_count(2)
    if group is CtaGroup.TWO:
        raise NotModelled("tcgen05.dealloc with cta_group::2")
    taddr_slot, columns_slot = ops.src(0, U32), ops.src(1, U32)

    def run(f: Frame) -> None:
        whole_warp(f, "tcgen05.dealloc")
        launch = f.launch
        addresses, counts = f.regs[taddr_slot][f.sel], f.regs[columns_slot][f.sel]
        for warp, positions in f.warps():
            slot = warp // launch.cta_warps
            at = positions[0]
            try:
                waiting = launch.tmem.deallocate(slot, int(addresses[at]), int(counts[at]))
            except IllegalProgram as error:
                f.fault(IllegalProgram, error.message, int(f.threads[at]), hint=error.hint, ref=error.ref)
            launch.progress += 1
            for strand in waiting:
                launch.scheduler.wake(strand)

    return run


@operation("tcgen05.relinquish_alloc_permit.{group}.sync.aligned", group=CtaGroup, refs=(REF,))
def relinquish_alloc_permit(ops: Operands, group: CtaGroup) -> Executor:
    """The CTA will allocate no more."""
    ops.expect_count(0)

    def run(f: Frame) -> None:
        whole_warp(f, "tcgen05.relinquish_alloc_permit")
        for slot in np.unique(f.cta_slots).tolist():
            f.launch.tmem.allocations[slot].relinquished = True

    return run
