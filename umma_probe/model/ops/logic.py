"""Bitwise logic and shifts (PTX ISA, "Logic and Shift Instructions").

Rules enforced here: ``shl`` and ``shr`` clamp their count to the width, so a large count gives 0, or copies of the
sign for ``shr.s``; ``shf`` takes its count modulo 32 (``.wrap``) or at most 32 (``.clamp``). Bit i of ``immLut`` is
the result of ``lop3`` where (a, b, c) have the bits of i, ``a`` the highest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.errors import PtxSyntaxError
from umma_probe.model.code.decode import alu, operation
from umma_probe.model.code.operands import PRED
from umma_probe.model.numbers.values import TYPES
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

Function: TypeAlias = "Callable[..., Any]"

LOGIC = tuple(
    documented(f"Logic and Shift Instructions: {name}") for name in ("and", "or", "xor", "not", "cnot", "lop3")
)
SHIFT = tuple(documented(f"Logic and Shift Instructions: {name}") for name in ("shl", "shr", "shf"))
BITS = "b16 b32 b64"
U32 = TYPES["u32"]


def _register_logic(opcode: str, function: Function) -> None:
    @alu(f"{opcode}.{{type}}", type=BITS, refs=LOGIC)
    def words(type: PtxType) -> Function:
        return function

    @operation(f"{opcode}.pred", refs=LOGIC)
    def predicates(ops: Operands) -> Executor:
        ops.expect_count(3)
        target = ops.dst(0, PRED)
        (a, not_a), (b, not_b) = ops.pred(1), ops.pred(2)

        def run(f: Frame) -> None:
            r, s = f.regs, f.sel
            left, right = r[a][s], r[b][s]
            r[target][s] = function(~left if not_a else left, ~right if not_b else right)

        return run


_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
for _opcode, _function in _LOGIC.items():
    _register_logic(_opcode, _function)


@alu("not.{type}", operands="type type", type=f"pred {BITS}", refs=LOGIC)
def not_(type: PtxType) -> Function:
    """Complement."""
    return np.invert


@alu("cnot.{type}", operands="type type", type=BITS, refs=LOGIC)
def cnot(type: PtxType) -> Function:
    """1 for 0, else 0."""
    return lambda a: (a == 0).astype(a.dtype)


# ---------------------------------------------------------------------- lop3
def _three_input(table: int) -> Function:
    """The function of three words with that truth table."""

    def combine(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros(len(a), np.uint32)
        for row in range(8):
            if table >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    return combine


def _lookup_table(ops: Operands, index: int) -> int:
    table = ops.immediate(index)
    if not 0 <= table <= 255:
        raise PtxSyntaxError(f"{ops.instruction.text}: immLut is {table}, must be 0 to 255")
    return table


@operation("lop3.b32", refs=LOGIC)
def lop3(ops: Operands) -> Executor:
    """Any function of three bits."""
    ops.expect_count(5)
    target, (a, b, c) = ops.dst(0, U32), (ops.src(i, U32) for i in (1, 2, 3))
    function = _three_input(_lookup_table(ops, 4))

    def run(f: Frame) -> None:
        r, s = f.regs, f.sel
        r[target][s] = function(r[a][s], r[b][s], r[c][s])

    return run


@operation("lop3.{combine}.b32", combine={"or": np.logical_or, "and": np.logical_and}, refs=LOGIC)
def lop3_predicate(ops: Operands, combine: Function) -> Executor:
    """``d|p``: p = (d != 0) combined with the predicate q."""
    ops.expect_count(6)
    word, predicate = ops.pair(0)
    if predicate is None:
        raise PtxSyntaxError(f"{ops.instruction.text}: the destination must be d|p")
    target, flag = ops.destination(word, U32), ops.destination(predicate, PRED)
    a, b, c = (ops.src(i, U32) for i in (1, 2, 3))
    function = _three_input(_lookup_table(ops, 4))
    q, negated = ops.pred(5)

    def run(f: Frame) -> None:
        r, s = f.regs, f.sel
        result = function(r[a][s], r[b][s], r[c][s])
        r[flag][s] = combine(result != 0, r[q][s] ^ negated)
        r[target][s] = result

    return run


# ---------------------------------------------------------------------- shifts
@alu("shl.{type}", operands="type type u32", type=BITS, refs=SHIFT)
def shl(type: PtxType) -> Function:
    """Left shift."""
    width, last = type.bits, type.bits - 1
    word = type.dtype.type

    def shift(a: Array, count: Array) -> Any:
        shifted = a << (count & last).astype(word)
        large = count >= width
        return np.where(large, word(0), shifted) if large.any() else shifted

    return shift


@alu("shr.{type}", operands="type type u32", type=f"{BITS} u16 u32 u64 s16 s32 s64", refs=SHIFT)
def shr(type: PtxType) -> Function:
    """Right shift, arithmetic for signed types."""
    width, last = type.bits, type.bits - 1
    word = type.dtype.type
    if type.signed:
        return lambda a, count: a >> np.minimum(count, last).astype(word)

    def shift(a: Array, count: Array) -> Any:
        shifted = a >> (count & last).astype(word)
        large = count >= width
        return np.where(large, word(0), shifted) if large.any() else shifted

    return shift


_COUNT: dict[str, Function] = {
    "wrap": lambda count: (count & np.uint32(31)).astype(np.uint64),
    "clamp": lambda count: np.minimum(count, 32).astype(np.uint64),
}


@alu("shf.l.{mode}.b32", operands="u32 u32 u32 u32", mode=_COUNT, refs=SHIFT)
def shf_left(mode: Function) -> Function:
    """The upper word of b:a shifted left; a is the lower word."""
    half = np.uint64(32)
    return lambda a, b, count: ((((b.astype(np.uint64) << half) | a) << mode(count)) >> half).astype(np.uint32)


@alu("shf.r.{mode}.b32", operands="u32 u32 u32 u32", mode=_COUNT, refs=SHIFT)
def shf_right(mode: Function) -> Function:
    """The lower word of b:a shifted right."""
    half = np.uint64(32)
    return lambda a, b, count: (((b.astype(np.uint64) << half) | a) >> mode(count)).astype(np.uint32)
