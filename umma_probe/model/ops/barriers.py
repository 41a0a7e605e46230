"""``bar``, ``barrier`` and ``barrier.cluster``: the CTA's named barriers and the cluster's barrier.

``bar.sync`` is ``barrier.cta.sync.aligned`` (PTX ISA, "bar, barrier"). ``.aligned`` demands that all threads of the
warp execute the same barrier together; a warp that comes in parts is noted for review and gathers first, as
``barrier`` without ``.aligned`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umma_probe.errors import UndefinedBehavior
from umma_probe.model.code.decode import InStep, sync_operation
from umma_probe.model.numbers.values import TYPES
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umma_probe.model.asynchrony.waits import Wait
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame
    from umma_probe.model.threads.strands import Strand

FAMILY = "Parallel Synchronization and Communication Instructions"
BARRIER = documented(f"{FAMILY}: bar, barrier")
CLUSTER = documented(f"{FAMILY}: barrier.cluster")
U32, PRED = TYPES["u32"], TYPES["pred"]


def _uniform(f: Frame, slot: int | None, what: str) -> int | None:
    """The value of an operand that must agree over the warp."""
    if slot is None:
        return None
    row = f.regs[slot][f.sel]
    if (row != row[0]).any():
        f.fault(UndefinedBehavior, f"{what} differs between the threads of a warp, must be the same", ref=str(BARRIER))
    return int(row[0])


def _note_parts(f: Frame, strand: Strand, text: str) -> None:
    launch = f.launch
    if strand.lanes != int(launch.live_lanes[strand.warp]):
        launch.review("partial-warp-barrier", f"{text} is executed by part of a warp", int(f.threads[0]))


def _bind(ops: Operands, first: int, *, aligned: bool, blocking: bool, with_count: bool) -> Executor:
    number = ops.src(first, U32)
    count = ops.src(first + 1, U32) if with_count else None
    text = ops.instruction.text

    def run(f: Frame, strand: Strand) -> Wait | None:
        if aligned:
            _note_parts(f, strand, text)
        return f.launch.named_barriers.arrive(
            f,
            strand,
            _uniform(f, number, "the barrier number") or 0,
            _uniform(f, count, "the thread count"),
            blocking=blocking,
        )

    def together(f: Frame, strands: Sequence[Strand]) -> bool:
        for slot in (number, count):
            row = None if slot is None else f.regs[slot][f.sel]
            if row is not None and (row != row[0]).any():
                return False
        first = int(f.threads[0])
        threads = None if count is None else int(f.regs[count][first])
        return f.launch.named_barriers.pass_together(strands, int(f.regs[number][first]), threads)

    return InStep(run, together) if blocking else run  # type: ignore[return-value]


@sync_operation("bar.{cta?}.sync", refs=(BARRIER,))
def bar_sync(ops: Operands, cta: bool) -> Executor:
    """``bar.sync a{, b}``."""
    ops.expect_count(1, 2)
    return _bind(ops, 0, aligned=True, blocking=True, with_count=len(ops) == 2)


@sync_operation("bar.{cta?}.arrive", refs=(BARRIER,))
def bar_arrive(ops: Operands, cta: bool) -> Executor:
    """``bar.arrive a, b``."""
    ops.expect_count(2)
    return _bind(ops, 0, aligned=True, blocking=False, with_count=True)


@sync_operation("barrier.{cta?}.sync.{aligned?}", refs=(BARRIER,))
def barrier_sync(ops: Operands, cta: bool, aligned: bool) -> Executor:
    """``barrier.sync{.aligned} a{, b}``."""
    ops.expect_count(1, 2)
    return _bind(ops, 0, aligned=aligned, blocking=True, with_count=len(ops) == 2)


@sync_operation("barrier.{cta?}.arrive.{aligned?}", refs=(BARRIER,))
def barrier_arrive(ops: Operands, cta: bool, aligned: bool) -> Executor:
    """``barrier.arrive{.aligned} a, b``."""
    ops.expect_count(2)
    return _bind(ops, 0, aligned=aligned, blocking=False, with_count=True)


# ---------------------------------------------------------------------- reductions
_VOTES: dict[str, Callable[[int, int], bool]] = {
    "and": lambda true, total: true == total,
    "or": lambda true, total: true > 0,
}


def _bind_reduction(ops: Operands, target: int, result: Callable[[int, int], Any], *, aligned: bool) -> Executor:
    ops.expect_count(3, 4)
    number = ops.src(1, U32)
    count = ops.src(2, U32) if len(ops) == 4 else None
    source, negated = ops.pred(len(ops) - 1)
    text = ops.instruction.text

    def run(f: Frame, strand: Strand) -> Wait | None:
        if aligned:
            _note_parts(f, strand, text)
        votes = f.regs[source][f.sel]
        regs = f.regs

        def deliver(threads: Array, true: int, total: int) -> None:
            regs[target][threads] = result(true, total)

        return f.launch.named_barriers.arrive(
            f,
            strand,
            _uniform(f, number, "the barrier number") or 0,
            _uniform(f, count, "the thread count"),
            blocking=True,
            votes=(~votes if negated else votes).tolist(),
            deliver=deliver,
        )

    return run  # type: ignore[return-value]


@sync_operation("bar.{cta?}.red.popc.u32", refs=(BARRIER,))
def bar_popc(ops: Operands, cta: bool) -> Executor:
    """``bar.red.popc.u32 d, a{, b}, {!}c``: how many threads have a true predicate."""
    return _bind_reduction(ops, ops.dst(0, U32), lambda true, total: true, aligned=True)


@sync_operation("bar.{cta?}.red.{op}.pred", refs=(BARRIER,), op=_VOTES)
def bar_vote(ops: Operands, cta: bool, op: Callable[[int, int], bool]) -> Executor:
    """``bar.red.{and,or}.pred p, a{, b}, {!}c``."""
    return _bind_reduction(ops, ops.dst(0, PRED), op, aligned=True)


@sync_operation("barrier.{cta?}.red.popc.{aligned?}.u32", refs=(BARRIER,))
def barrier_popc(ops: Operands, cta: bool, aligned: bool) -> Executor:
    """``barrier.red.popc{.aligned}.u32 d, a{, b}, {!}c``."""
    return _bind_reduction(ops, ops.dst(0, U32), lambda true, total: true, aligned=aligned)


@sync_operation("barrier.{cta?}.red.{op}.{aligned?}.pred", refs=(BARRIER,), op=_VOTES)
def barrier_vote(ops: Operands, cta: bool, op: Callable[[int, int], bool], aligned: bool) -> Executor:
    """``barrier.red.{and,or}{.aligned}.pred p, a{, b}, {!}c``."""
    return _bind_reduction(ops, ops.dst(0, PRED), op, aligned=aligned)


# ---------------------------------------------------------------------- cluster
@sync_operation("barrier.cluster.arrive.{order?}.{aligned?}", refs=(CLUSTER,), order=("release", "relaxed"))
def cluster_arrive(ops: Operands, order: str | None, aligned: bool) -> Executor:
    """``barrier.cluster.arrive{.release,.relaxed}{.aligned}``."""
    ops.expect_count(0)
    text = ops.instruction.text

    def run(f: Frame, strand: Strand) -> None:
        if aligned:
            _note_parts(f, strand, text)
        f.launch.cluster_barriers.arrive(f, strand)

    return run  # type: ignore[return-value]


@sync_operation("barrier.cluster.wait.{order?}.{aligned?}", refs=(CLUSTER,), order=("acquire",))
def cluster_wait(ops: Operands, order: str | None, aligned: bool) -> Executor:
    """``barrier.cluster.wait{.acquire}{.aligned}``."""
    ops.expect_count(0)

    def run(f: Frame, strand: Strand) -> Wait | None:
        return f.launch.cluster_barriers.wait(f, strand)

    return run  # type: ignore[return-value]
