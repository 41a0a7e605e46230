"""Non-bulk ``cp.async``: copies from global to shared memory that each thread starts and waits for by group.

Rules enforced here (PTX ISA, "Data Movement and Conversion Instructions: cp.async"): cp-size is 4, 8 or 16 (``.cg``:
16) and both addresses are multiples of it; of the source only src-size bytes are read, the rest of the destination
becomes zero; ignore-src copies zeros. Non-bulk copies are weak writes of the *generic* proxy, so the tensor core sees
them only behind ``fence.proxy.async``. Data is read when the copy takes effect, not when it is started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import IllegalProgram, UndefinedBehavior
from umma_probe.model.asynchrony.async_engine import AsyncOp
from umma_probe.model.asynchrony.transfer_groups import Transfer
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.ld_st import CACHE_HINT, PREFETCH_SIZES
from umma_probe.model.ops.mbarrier import OWN, BarrierOperand
from umma_probe.model.threads.frame import Frame
from umma_probe.ptx import nodes
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array

FAMILY = "Data Movement and Conversion Instructions"
COPY = documented(f"{FAMILY}: cp.async")
U32, PRED = TYPES["u32"], TYPES["pred"]
KIND = "cp.async"


@dataclass(frozen=True, slots=True)
class CopyOperands:
    """Destination, source and how much of it."""

    space: str
    target: Any
    source: Any
    size: int
    source_size: int | None
    """Slot of src-size."""
    ignore: tuple[int, bool] | None
    """(slot, negated) of ignore-src."""

    def source_sizes(self, f: Frame) -> Array:
        """How many bytes each running thread reads."""
        sizes = np.full(f.count, self.size, np.int64)
        if self.source_size is not None:
            sizes = f.regs[self.source_size][f.sel].astype(np.int64)
            if (sizes > self.size).any():
                f.fault(UndefinedBehavior, f"cp.async: src-size is {int(sizes.max())}, must be at most {self.size}")
        if self.ignore is not None:
            slot, negated = self.ignore
            sizes = np.where(f.regs[slot][f.sel] ^ negated, 0, sizes)
        return sizes


@operation(
    "cp.async.{cache}.{space}.global.{hint?}.{prefetch?}",
    refs=(COPY,),
    cache=("ca", "cg"),
    space=OWN,
    hint=CACHE_HINT,
    prefetch=PREFETCH_SIZES,
)
def cp_async(ops: Operands, cache: str, space: str, hint: str | None, prefetch: str | None) -> Executor:
    """``cp.async.{ca,cg}.shared.global [dst], [src], cp-size{, src-size | ignore-src}{, cache-policy}``."""
    extra = 1 if hint else 0
    ops.expect_count(3 + extra, 4 + extra)
    size = ops.immediate(2)
    allowed = (16,) if cache == "cg" else (4, 8, 16)
    if size not in allowed:
        raise IllegalProgram(f"{ops.instruction.text}: cp-size is {size}, must be {' or '.join(map(str, allowed))}")
    source_size, ignore = None, None
    if len(ops) == 4 + extra:
        if _is_predicate(ops, 3):
            ignore = ops.pred(3)
        else:
            source_size = ops.src(3, U32)
    operands = CopyOperands(space, ops.address(0), ops.address(1), size, source_size, ignore)
    return lambda f: _start(f, operands)


def _is_predicate(ops: Operands, index: int) -> bool:
    operand = ops[index]
    if isinstance(operand, nodes.Not):
        return True
    if not isinstance(operand, nodes.Name):
        return False
    name = ops.qualified.get(operand.text, operand.text)
    return ops.table.registers.get(name) == 1


def _start(f: Frame, operands: CopyOperands) -> None:
    launch = f.launch
    memory = launch.memory
    targets = operands.target.resolve(f)
    memory.check_alignment(f, targets, operands.size)
    offsets = memory.shared_offsets(f, operands.space, targets, operands.size)
    sources = operands.source.resolve(f)
    memory.check_alignment(f, sources, operands.size)
    sizes = operands.source_sizes(f)
    # a warp's copies complete together; where everything completes at once, those of all warps do
    at_once = launch.engine.eager and launch.engine.trace is None
    for at in (slice(None),) if at_once else (at for _, at in f.warps()):
        threads = f.threads[at]
        op = _copy_op(launch, threads, offsets[at], sources[at], sizes[at], operands.size)
        launch.engine.submit(op)
        if not op.done:
            launch.copy_groups.add(threads.tolist(), Transfer(op, op))


def _copy_op(launch: Launch, threads: Array, offsets: Array, sources: Array, sizes: Array, size: int) -> AsyncOp:
    def effect() -> None:
        shared = launch.shared
        words = read_global(Frame(launch, launch.regs, threads), sources, sizes, size)
        shared.bytes.scatter(offsets, words.dtype.itemsize, words)
        shared.note_generic(offsets, size, launch.tick())

    first = int(threads[0])
    return AsyncOp(KIND, launch.pc, first // launch.cta_threads, first, effect)


def read_global(f: Frame, sources: Array, sizes: Array, size: int) -> Array:
    """``size`` bytes for each thread, as words (n, count): the first ``sizes`` from global memory, the others zero."""
    width = min(size, 8)
    if (sizes == size).all():
        return _read(f, sources, size, width)
    data = np.zeros((len(sources), size), np.uint8)
    threads = f.threads
    for length in np.unique(sizes[sizes > 0]).tolist():
        at = np.flatnonzero(sizes == length)
        f.select(threads[at])
        data[at, :length] = _read(f, sources[at], length, 1)
    f.select(threads)
    return data.view(f"u{width}")


def _read(f: Frame, sources: Array, length: int, width: int) -> Array:
    """``length`` bytes from each source, as words of ``width`` bytes."""
    memory, offsets = f.launch.memory.locate(f, "global", sources, length)
    known = memory.all_written(offsets, length)
    if not known.all():
        bad = int(np.flatnonzero(~known)[0])
        f.launch.report(
            "uninitialised-read",
            f"copies .global address {int(sources[bad]):#x}, which was never written",
            int(f.threads[bad]),
        )
    return memory.gather(offsets, width, length // width)


# ---------------------------------------------------------------------- groups
@operation("cp.async.commit_group", refs=(documented(f"{FAMILY}: cp.async.commit_group"),))
def commit_group(ops: Operands) -> Executor:
    """``cp.async.commit_group``."""
    ops.expect_count(0)
    return lambda f: f.launch.copy_groups.commit(f.threads.tolist())


@operation("cp.async.wait_group", refs=(documented(f"{FAMILY}: cp.async.wait_group, cp.async.wait_all"),))
def wait_group(ops: Operands) -> Executor:
    """``cp.async.wait_group N``: at most the N newest groups of the thread are pending."""
    ops.expect_count(1)
    newest = ops.immediate(0)
    return lambda f: f.launch.engine.require(f.launch.copy_groups.waited(f.threads.tolist(), newest))


@operation("cp.async.wait_all", refs=(documented(f"{FAMILY}: cp.async.wait_group, cp.async.wait_all"),))
def wait_all(ops: Operands) -> Executor:
    """``cp.async.wait_all``: everything that the thread started, committed or not."""
    ops.expect_count(0)

    def run(f: Frame) -> None:
        threads = f.threads.tolist()
        groups = f.launch.copy_groups
        groups.commit(threads)
        f.launch.engine.require(groups.waited(threads, 0))

    return run


@operation(
    "cp.async.mbarrier.arrive.{noinc?}.{space?}.b64",
    refs=(documented("Parallel Synchronization and Communication Instructions: cp.async.mbarrier.arrive"),),
    space=OWN,
)
def mbarrier_arrive(ops: Operands, noinc: bool, space: str | None) -> Executor:
    """``cp.async.mbarrier.arrive{.noinc}.b64 [addr]``: arrive when the thread's earlier copies are complete."""
    ops.expect_count(1)
    barrier = BarrierOperand(ops.address(0), space)

    def run(f: Frame) -> None:
        launch = f.launch
        for thread, target in zip(f.threads.tolist(), barrier.objects(f), strict=True):
            if not noinc:
                launch.mbarriers.raise_pending(target, 1)
            who = f"cp.async of {launch.thread_name(thread)}"

            def effect(target: Any = target, who: str = who) -> None:
                launch.mbarriers.arrive(target, 1, who)

            earlier = tuple(launch.copy_groups.all_pending((thread,)))
            op = AsyncOp(f"{KIND}.arrive", launch.pc, thread // launch.cta_threads, thread, effect, earlier)
            launch.engine.submit(op)

    return run
