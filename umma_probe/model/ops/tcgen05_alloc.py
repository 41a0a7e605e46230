"""tcgen05.alloc, dealloc and relinquish_alloc_permit, for one CTA and for a pair.

With ``.cta_group::2`` one warp of each CTA of the pair takes part: the first waits for the second (``dealloc`` *may*
block, so the model lets it: a program that cannot bear that has a hang on silicon too). Both CTAs get the same columns.
Operations in flight when columns are freed are a finding, and happen first; a load whose result nobody waited for
is only a review, as kernels known to work leave such loads behind.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from umma_probe.errors import UmmaProbeError, UndefinedBehavior
from umma_probe.model.asynchrony.waits import Resume, Wait
from umma_probe.model.code.decode import operation, sync_operation
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.threads.cta_pair import cta_slots
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import AddressOperand, Operands
    from umma_probe.model.launch import Launch
    from umma_probe.model.threads.frame import Frame
    from umma_probe.model.threads.strands import Strand

REF = documented("tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit")
U32 = TYPES["u32"]
_Result = TypeVar("_Result")
TMEM_USERS = frozenset({"mma", "cp", "shift", "ld", "st"})


class CtaGroup(Enum):
    """``.cta_group``: one CTA, or the pair of CTAs whose rank differs in bit 0."""

    ONE = "cta_group::1"
    TWO = "cta_group::2"

    @property
    def size(self) -> int:
        """CTAs."""
        return 1 if self is CtaGroup.ONE else 2


def whole_warp(f: Frame, what: str) -> None:
    """``.sync.aligned``: every lane of each warp must be here.

    :raises UndefinedBehavior: some are not, or have exited.
    """
    launch = f.launch
    for warp, positions in f.warps():
        lanes = min(32, launch.block_threads - warp % launch.cta_warps * 32)
        if len(positions) != lanes:
            exited = lanes - int(launch.live_lanes[warp]).bit_count()
            f.fault(
                UndefinedBehavior,
                f"{what}.sync.aligned: {len(positions)} of {lanes} lanes execute it; all must"
                + (f" ({exited} have exited)" if exited else ""),
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


# ---------------------------------------------------------------------- the instructions
@sync_operation("tcgen05.alloc.{group}.sync.aligned.{space?}.b32", group=CtaGroup, space=("shared::cta",), refs=(REF,))
def alloc(ops: Operands, group: CtaGroup, space: str | None) -> Executor:
    """Allocate columns and write the address to shared memory; blocks until there is room."""
    ops.expect_count(2)
    target, columns_slot = ops.address(0), ops.src(1, U32)

    def run(f: Frame, strand: Strand) -> Wait | None:
        base = f.launch.tmem.pairs.outcome(strand)
        if base is None:
            whole_warp(f, "tcgen05.alloc")
            columns = uniform(f, columns_slot, "tcgen05.alloc: the number of columns")
            found = _allocate(f, strand, cta_slots(f, group.size, int(f.threads[0]), "tcgen05.alloc"), columns)
            if isinstance(found, Wait):
                return found
            base = found
        _write_address(f, target, space, base)
        return None

    return run  # type: ignore[return-value]


def _allocate(f: Frame, strand: Strand, slots: tuple[int, ...], columns: int) -> int | Wait:
    """The first column, or what the strand has to wait for."""
    launch, tmem = f.launch, f.launch.tmem
    if wait := tmem.pairs.meet(f, strand, slots, "tcgen05.alloc", (columns,)):
        return wait
    base = _placed(f, lambda: tmem.allocate(slots, columns))
    if base is not None:
        tmem.pairs.part(f, strand, slots, "tcgen05.alloc", base)
        launch.progress += 1
        return base
    owned = int(tmem.allocated[slots[0]].sum())
    wait = Wait(
        Resume.RETRY,
        lambda: f"tcgen05.alloc of {columns} columns: {owned} of 512 are allocated in {launch.cta_name(slots[0])}",
        advice="who should free columns? tcgen05.alloc waits until enough that lie together are free",
    )
    for slot in slots:
        tmem.allocations[slot].waiting.append((strand, wait))
    return wait


def _write_address(f: Frame, target: AddressOperand, space: str | None, base: int) -> None:
    sel = f.sel
    f.select(f.threads[:1])
    address = target.resolve(f)
    f.launch.memory.store(f, space or "generic", address, np.array([[base]], np.uint32))
    f.select(sel)


@sync_operation("tcgen05.dealloc.{group}.sync.aligned.b32", group=CtaGroup, refs=(REF,))
def dealloc(ops: Operands, group: CtaGroup) -> Executor:
    """Free an allocation."""
    ops.expect_count(2)
    taddr_slot, columns_slot = ops.src(0, U32), ops.src(1, U32)

    def run(f: Frame, strand: Strand) -> Wait | None:
        launch, tmem = f.launch, f.launch.tmem
        if tmem.pairs.outcome(strand) is not None:
            return None
        whole_warp(f, "tcgen05.dealloc")
        taddr = uniform(f, taddr_slot, "tcgen05.dealloc: the address")
        columns = uniform(f, columns_slot, "tcgen05.dealloc: the number of columns")
        slots = cta_slots(f, group.size, int(f.threads[0]), "tcgen05.dealloc")
        thread = int(f.threads[0])
        launch.tensor_order.freed(thread, thread // launch.cta_threads, slice(taddr, taddr + columns))
        if wait := tmem.pairs.meet(f, strand, slots, "tcgen05.dealloc", (taddr, columns)):
            return wait
        _settle(launch, slots, int(f.threads[0]))
        for waiting, reason in _placed(f, lambda: tmem.deallocate(slots, taddr, columns)):
            launch.scheduler.wake(waiting, reason)
        tmem.pairs.part(f, strand, slots, "tcgen05.dealloc", taddr)
        launch.progress += 1
        return None

    return run  # type: ignore[return-value]


def _settle(launch: Launch, slots: tuple[int, ...], thread: int) -> None:
    """Nothing may be in flight on columns that are freed."""
    pending = [op for slot in slots for op in launch.engine.pending(TMEM_USERS, cta=slot)]
    for op in pending:
        place = launch.program.where(op.pc)
        message = f"tcgen05.dealloc while tcgen05.{op.kind} of {launch.thread_name(op.thread)} ({place}) is in flight"
        if op.kind == "ld":
            launch.review("dealloc-in-flight", message, thread)
        else:
            launch.report("dealloc-in-flight", message, thread)
    launch.engine.require(pending)


def _placed(f: Frame, action: Callable[[], _Result]) -> _Result:
    """Run an action of Tensor Memory; its errors are those of the running warp."""
    try:
        return action()
    except UmmaProbeError as error:
        f.fault(type(error), error.message, hint=error.hint, ref=error.ref)


@operation("tcgen05.relinquish_alloc_permit.{group}.sync.aligned", group=CtaGroup, refs=(REF,))
def relinquish_alloc_permit(ops: Operands, group: CtaGroup) -> Executor:
    """The CTA will allocate no more. A pair does it together, but nothing shows whether the first side waits."""
    ops.expect_count(0)

    def run(f: Frame) -> None:
        whole_warp(f, "tcgen05.relinquish_alloc_permit")
        for slot in set(f.cta_slots.tolist()):
            f.launch.tmem.allocations[slot].relinquished = True

    return run
