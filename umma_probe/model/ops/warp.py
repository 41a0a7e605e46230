"""Instructions in which the lanes of a warp exchange values under a member mask.

Rules enforced here (PTX ISA, "Parallel Synchronization and Communication Instructions"): the executing thread must be
named by its member mask; all non-exited members must come; a value that ``shfl.sync`` takes from a lane that is no
member is undefined: a poison pattern is delivered, and that is noted for review. ``elect.sync`` elects the lowest
member (the ISA only promises the same leader every time).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import PtxSyntaxError
from umma_probe.model.code.decode import operation, sync_operation
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.state.bytes import POISON_WORD
from umma_probe.model.threads.warp_sync import Collective
from umma_probe.spec.sources import assumed, documented

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.asynchrony.waits import Wait
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame
    from umma_probe.model.threads.strands import Strand
    from umma_probe.model.threads.warp_sync import Rows

FAMILY = "Parallel Synchronization and Communication Instructions"
B32, U32, PRED = TYPES["b32"], TYPES["u32"], TYPES["pred"]
_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)


def _collective(
    ops: Operands,
    mask_index: int,
    sources: list[int],
    targets: list[int],
    compute: Callable[[Frame, Array, Rows], Rows],
    *,
    negated: bool = False,
) -> Executor:
    def gather(f: Frame) -> Rows:
        rows = tuple(f.regs[source][f.sel] for source in sources)
        return (~rows[0],) if negated else rows

    def scatter(f: Frame, results: Rows) -> None:
        for target, row in zip(targets, results, strict=True):
            f.regs[target][f.sel] = row

    op = Collective(ops.instruction.text, ops.src(mask_index, U32), gather, compute, scatter)

    def run(f: Frame, strand: Strand) -> Wait | None:
        return f.launch.warp_sync.execute(f, strand, op)

    return run  # type: ignore[return-value]


def _pair_targets(ops: Operands, type_: PtxType) -> tuple[list[int], bool]:
    """The slots of ``d|p`` or ``d``, and whether the predicate is there."""
    value, predicate = ops.pair(0)
    targets = [ops.destination(value, type_)]
    if predicate is not None:
        targets.append(ops.destination(predicate, PRED))
    return targets, predicate is not None


def _mask_of(lanes: Array) -> int:
    return int(np.bitwise_or.reduce(_BITS[lanes]))


# ---------------------------------------------------------------------- shfl.sync
def shuffle_source(mode: str, lane: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """(source lane, in range) of every lane; the segment mask is bits 8-12 of ``c``, the clamp bits 0-4."""
    bval, cval, segment = b & 31, c & 31, c >> 8 & 31
    low = lane & segment
    high = low | (cval & ~segment)
    match mode:
        case "up":
            source = lane - bval
            inside = source >= high
        case "down":
            source = lane + bval
            inside = source <= high
        case "bfly":
            source = lane ^ bval
            inside = source <= high
        case _:
            source = low | (bval & ~segment)
            inside = source <= high
    return np.where(inside, source, lane), inside


@sync_operation(
    "shfl.sync.{mode}.b32",
    refs=(documented(f"{FAMILY}: shfl.sync"),),
    mode=("up", "down", "bfly", "idx"),
)
def shfl_sync(ops: Operands, mode: str) -> Executor:
    """``shfl.sync.mode.b32 d{|p}, a, b, c, membermask``."""
    ops.expect_count(5)
    targets, has_predicate = _pair_targets(ops, B32)
    sources = [ops.src(1, B32), ops.src(2, U32), ops.src(3, U32)]

    def compute(f: Frame, lanes: Array, rows: Rows) -> Rows:
        values = np.full(32, POISON_WORD, np.uint32)
        values[lanes] = rows[0]
        source, inside = shuffle_source(mode, lanes, rows[1].astype(np.int64), rows[2].astype(np.int64))
        _note_absent(f, lanes, source)
        results = values[source]
        return (results, inside) if has_predicate else (results,)

    return _collective(ops, 4, sources, targets, compute)


def _note_absent(f: Frame, lanes: Array, source: Array) -> None:
    if len(lanes) == 32:
        return
    absent = ~np.isin(source, lanes)
    if absent.any():
        at = int(np.argmax(absent))
        thread = int(f.threads[0]) // 32 * 32 + int(lanes[at])
        # for review only: reductions over part of a warp throw such values away
        f.launch.review("shfl-absent-lane", f"shfl.sync takes the value of lane {int(source[at])}, no member", thread)


# ---------------------------------------------------------------------- vote, match, redux, elect
@sync_operation("vote.sync.{mode}.pred", refs=(documented(f"{FAMILY}: vote.sync"),), mode=("all", "any", "uni"))
def vote_sync(ops: Operands, mode: str) -> Executor:
    """``vote.sync.mode.pred d, {!}a, membermask``."""
    ops.expect_count(3)
    source, negated = ops.pred(1)

    def compute(f: Frame, lanes: Array, rows: Rows) -> Rows:
        (votes,) = rows
        result = {"all": votes.all(), "any": votes.any(), "uni": votes.all() or not votes.any()}[mode]
        return (np.full(len(lanes), result),)

    return _collective(ops, 2, [source], [ops.dst(0, PRED)], compute, negated=negated)


@sync_operation("vote.sync.ballot.b32", refs=(documented(f"{FAMILY}: vote.sync"),))
def vote_ballot(ops: Operands) -> Executor:
    """``vote.sync.ballot.b32 d, {!}a, membermask``: one bit a member."""
    ops.expect_count(3)
    source, negated = ops.pred(1)

    def compute(f: Frame, lanes: Array, rows: Rows) -> Rows:
        ballot = np.bitwise_or.reduce(np.where(rows[0], _BITS[lanes], np.uint32(0)))
        return (np.full(len(lanes), ballot),)

    return _collective(ops, 2, [source], [ops.dst(0, B32)], compute, negated=negated)


@sync_operation("match.any.sync.{type}", refs=(documented(f"{FAMILY}: match.sync"),), type="b32 b64")
def match_any(ops: Operands, type: PtxType) -> Executor:
    """``match.any.sync d, a, membermask``: the members with the same value."""
    ops.expect_count(3)

    def compute(f: Frame, lanes: Array, rows: Rows) -> Rows:
        same = rows[0][:, None] == rows[0][None, :]
        return (np.bitwise_or.reduce(np.where(same, _BITS[lanes], np.uint32(0)), axis=1),)

    return _collective(ops, 2, [ops.src(1, type)], [ops.dst(0, B32)], compute)


@sync_operation("match.all.sync.{type}", refs=(documented(f"{FAMILY}: match.sync"),), type="b32 b64")
def match_all(ops: Operands, type: PtxType) -> Executor:
    """``match.all.sync d{|p}, a, membermask``: the mask if all values agree, else zero."""
    ops.expect_count(3)
    targets, has_predicate = _pair_targets(ops, B32)

    def compute(f: Frame, lanes: Array, rows: Rows) -> Rows:
        agree = bool((rows[0] == rows[0][0]).all())
        value = np.full(len(lanes), _mask_of(lanes) if agree else 0, np.uint32)
        return (value, np.full(len(lanes), agree)) if has_predicate else (value,)

    return _collective(ops, 2, [ops.src(1, type)], targets, compute)


_REDUCTIONS: dict[str, Any] = {
    "add": lambda values: np.add.reduce(values, dtype=values.dtype),
    "min": np.min,
    "max": np.max,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}
REDUX = documented(f"{FAMILY}: redux.sync")
_REDUX_OPS = {"u32": ("add", "min", "max"), "s32": ("add", "min", "max"), "b32": ("and", "or", "xor")}


@sync_operation("redux.sync.{op}.{type}", refs=(REDUX,), op=_REDUCTIONS, type="u32 s32 b32")
def redux_sync(ops: Operands, op: Callable[[Array], Any], type: PtxType) -> Executor:
    """``redux.sync.op.type d, a, membermask``."""
    ops.expect_count(3)
    if not any(_REDUCTIONS[name] is op for name in _REDUX_OPS[type.name]):
        raise PtxSyntaxError(f"{ops.instruction.text}: .{type} has {', '.join(_REDUX_OPS[type.name])}", ref=str(REDUX))

    def compute(f: Frame, lanes: Array, rows: Rows) -> Rows:
        return (np.full(len(lanes), op(rows[0]), rows[0].dtype),)

    return _collective(ops, 2, [ops.src(1, type)], [ops.dst(0, type)], compute)


@sync_operation("redux.sync.{op}.{abs?}.{NaN?}.f32", refs=(REDUX,), op=("min", "max"))
def redux_f32(ops: Operands, op: str, abs: bool, NaN: bool) -> Executor:
    """``redux.sync.{min,max}{.abs}{.NaN}.f32 d, a, membermask``."""
    ops.expect_count(3)

    def compute(f: Frame, lanes: Array, rows: Rows) -> Rows:
        return (np.full(len(lanes), reduce_f32(rows[0], op, absolute=abs, propagate=NaN), np.float32),)

    return _collective(ops, 2, [ops.src(1, TYPES["f32"])], [ops.dst(0, TYPES["f32"])], compute)


def reduce_f32(values: Array, op: str, *, absolute: bool, propagate: bool) -> Any:
    """Minimum or maximum; -0 is below +0. NaN inputs are skipped, or with ``propagate`` make the result NaN."""
    values = np.abs(values) if absolute else values
    nan = np.isnan(values)
    if nan.all() or (propagate and nan.any()):
        return np.uint32(0x7FFFFFFF).view(np.float32)
    numbers = values[~nan]
    # sign and magnitude to two's complement: integers in the order of the numbers
    words = numbers.view(np.int32)
    keys = np.where(words < 0, words ^ np.int32(0x7FFFFFFF), words)
    return numbers[np.argmin(keys) if op == "min" else np.argmax(keys)]


@sync_operation(
    "elect.sync",
    refs=(documented(f"{FAMILY}: elect.sync"), assumed(f"{FAMILY}: elect.sync", "the leader is the lowest member")),
)
def elect_sync(ops: Operands) -> Executor:
    """``elect.sync d|p, membermask``."""
    ops.expect_count(2)
    targets, has_predicate = _pair_targets(ops, U32)

    def compute(f: Frame, lanes: Array, rows: Rows) -> Rows:
        leader = np.full(len(lanes), lanes[0], np.uint32)
        return (leader, lanes == lanes[0]) if has_predicate else (leader,)

    return _collective(ops, 1, [], targets, compute)


@sync_operation("bar.warp.sync", refs=(documented(f"{FAMILY}: bar.warp.sync"),))
def bar_warp_sync(ops: Operands) -> Executor:
    """``bar.warp.sync membermask``."""
    ops.expect_count(1)
    return _collective(ops, 0, [], [], lambda f, lanes, rows: ())


@operation("activemask.b32", refs=(documented(f"{FAMILY}: activemask"),))
def activemask(ops: Operands) -> Executor:
    """``activemask.b32 d``: the lanes of the warp that execute this instruction together."""
    ops.expect_count(1)
    target = ops.dst(0, U32)

    def run(f: Frame) -> None:
        masks = np.empty(f.count, np.uint32)
        for _, positions in f.warps():
            masks[positions] = _mask_of(f.threads[positions] & 31)
        f.regs[target][f.sel] = masks

    return run
