"""Scalar video instructions: a part of each source, an operation, a clamp, and a third operand (PTX ISA, "Scalar Video
Instructions").

A byte or half of a source is extended by its type. The result is clamped to the destination's range (that of its part,
if it is one) under ``.sat``, then added to ``c`` or compared with it, or put into ``c`` at the part of the destination.
Before a second operation it has 33 bits. The SIMD forms (``vadd2``, ``vabsdiff4`` ...) and negated operands of ``vmad``
are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import PtxSyntaxError
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.values import TYPES, PtxType
from umma_probe.ptx import nodes
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame

    Binary: TypeAlias = Callable[[Array, Array], Array]

REFS = (documented("Scalar Video Instructions"),)
SIGNS = "u32 s32"
SECOND: dict[str, Binary] = {"add": np.add, "min": np.minimum, "max": np.maximum}
COMPARISONS: dict[str, Binary] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
B32 = TYPES["b32"]
WHOLE = (0, 32)
PARTS = {f"b{i}": (8 * i, 8) for i in range(4)} | {f"h{i}": (16 * i, 16) for i in range(2)}
"""Name to (first bit, bits)."""
SCALES = {"shr7": 7, "shr15": 15}


@dataclass(frozen=True)
class Source:
    """Bits of a register."""

    slot: int
    first: int
    bits: int
    signed: bool

    @classmethod
    def of(cls, ops: Operands, index: int, type_: PtxType) -> Source:
        """From ``r`` or ``r.h1``."""
        operand, (first, bits) = _part(ops, ops[index])
        return cls(ops.source(operand, B32), first, bits, type_.category == "s")

    def values(self, f: Frame) -> Array:
        """Extended to 64 bits."""
        words = f.regs[self.slot][f.sel].astype(np.int64) >> self.first & (1 << self.bits) - 1
        return words - (words >> self.bits - 1 << self.bits) if self.signed else words


def _part(ops: Operands, operand: nodes.Operand) -> tuple[nodes.Operand, tuple[int, int]]:
    if not isinstance(operand, nodes.Element):
        return operand, WHOLE
    if operand.index not in PARTS:
        raise PtxSyntaxError(f"{ops.instruction.text}: part .{operand.index}, must be one of {', '.join(PARTS)}")
    return operand.base, PARTS[operand.index]


def _executor(
    ops: Operands, compute: Binary, d: PtxType, a: PtxType, b: PtxType, sat: bool, second: Binary | None
) -> Executor:
    """``d{.dsel}, a{.asel}, b{.bsel}{, c}``."""
    target, (first, bits) = _part(ops, ops[0])
    third = second is not None or bits != 32
    ops.expect_count(4 if third else 3)
    if second is not None and bits != 32:
        raise PtxSyntaxError(f"{ops.instruction.text}: a second operation and a part of D, must be one of them")
    slot = ops.destination(target, B32)
    sources = Source.of(ops, 1, a), Source.of(ops, 2, b)
    c = Source(ops.src(3, B32), *WHOLE, d.category == "s") if third else None

    def run(f: Frame) -> None:
        result = compute(*(source.values(f) for source in sources))
        if sat:
            result = clamped(result, bits, d.category == "s")
        if c is not None:
            other = c.values(f)
            result = second(_wrapped(result, 33), other) if second else _merged(result, other, first, bits)
        f.regs[slot][f.sel] = (result & 0xFFFF_FFFF).astype(np.uint32)

    return run


def clamped(values: Array, bits: int, signed: bool) -> Array:
    """Within the range of a signed or unsigned number of so many bits."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    result: Array = np.clip(values, low, high)
    return result


def _wrapped(values: Array, bits: int) -> Array:
    shift = 64 - bits
    return values << shift >> shift


def _merged(values: Array, into: Array, first: int, bits: int) -> Array:
    mask = (1 << bits) - 1
    return into & ~(mask << first) | (values & mask) << first


# ---------------------------------------------------------------------- instructions
@operation("vadd.{d}.{a}.{b}.{sat?}.{second?}", d=SIGNS, a=SIGNS, b=SIGNS, second=SECOND, refs=REFS)
def vadd(ops: Operands, d: PtxType, a: PtxType, b: PtxType, sat: bool, second: Binary | None) -> Executor:
    """``a + b``."""
    return _executor(ops, np.add, d, a, b, sat, second)


@operation("vsub.{d}.{a}.{b}.{sat?}.{second?}", d=SIGNS, a=SIGNS, b=SIGNS, second=SECOND, refs=REFS)
def vsub(ops: Operands, d: PtxType, a: PtxType, b: PtxType, sat: bool, second: Binary | None) -> Executor:
    """``a - b``."""
    return _executor(ops, np.subtract, d, a, b, sat, second)


@operation("vabsdiff.{d}.{a}.{b}.{sat?}.{second?}", d=SIGNS, a=SIGNS, b=SIGNS, second=SECOND, refs=REFS)
def vabsdiff(ops: Operands, d: PtxType, a: PtxType, b: PtxType, sat: bool, second: Binary | None) -> Executor:
    """``|a - b|``."""
    return _executor(ops, lambda x, y: np.abs(x - y), d, a, b, sat, second)


@operation("vmin.{d}.{a}.{b}.{sat?}.{second?}", d=SIGNS, a=SIGNS, b=SIGNS, second=SECOND, refs=REFS)
def vmin(ops: Operands, d: PtxType, a: PtxType, b: PtxType, sat: bool, second: Binary | None) -> Executor:
    """The smaller of ``a`` and ``b``."""
    return _executor(ops, np.minimum, d, a, b, sat, second)


@operation("vmax.{d}.{a}.{b}.{sat?}.{second?}", d=SIGNS, a=SIGNS, b=SIGNS, second=SECOND, refs=REFS)
def vmax(ops: Operands, d: PtxType, a: PtxType, b: PtxType, sat: bool, second: Binary | None) -> Executor:
    """The larger of ``a`` and ``b``."""
    return _executor(ops, np.maximum, d, a, b, sat, second)


@operation("vshr.{d}.{a}.{b}.{sat?}.{mode}.{second?}", d=SIGNS, a=SIGNS, b="u32", mode=("clamp", "wrap"),
           second=SECOND, refs=REFS)  # fmt: skip
def vshr(ops: Operands, d: PtxType, a: PtxType, b: PtxType, sat: bool, mode: str, second: Binary | None) -> Executor:
    """``a >> b``; ``.wrap`` takes b modulo 32, ``.clamp`` at most 32."""
    return _executor(ops, lambda x, y: x >> _distance(y, mode), d, a, b, sat, second)


@operation("vshl.{d}.{a}.{b}.{sat?}.{mode}.{second?}", d=SIGNS, a=SIGNS, b="u32", mode=("clamp", "wrap"),
           second=SECOND, refs=REFS)  # fmt: skip
def vshl(ops: Operands, d: PtxType, a: PtxType, b: PtxType, sat: bool, mode: str, second: Binary | None) -> Executor:
    """``a << b``; see ``vshr``."""

    def shifted(x: Array, y: Array) -> Array:
        distance = _distance(y, mode)
        # by 32 the sign and the lower 32 bits, all zero, say what it is; 65 bits would not fit
        return np.where(distance == 32, np.sign(x) << 40, x << np.minimum(distance, 31))

    return _executor(ops, shifted, d, a, b, sat, second)


def _distance(b: Array, mode: str) -> Array:
    return b & 31 if mode == "wrap" else np.minimum(b, 32)


@operation("vset.{a}.{b}.{comparison}.{second?}", a=SIGNS, b=SIGNS, comparison=COMPARISONS, second=SECOND, refs=REFS)
def vset(ops: Operands, a: PtxType, b: PtxType, comparison: Binary, second: Binary | None) -> Executor:
    """1 where the comparison holds, else 0; ``d`` and ``c`` are unsigned."""
    return _executor(ops, lambda x, y: comparison(x, y).astype(np.int64), TYPES["u32"], a, b, False, second)


@operation("vmad.{d}.{a}.{b}.{po?}.{sat?}.{scale?}", d=SIGNS, a=SIGNS, b=SIGNS, scale=SCALES, refs=REFS)
def vmad(ops: Operands, d: PtxType, a: PtxType, b: PtxType, po: bool, sat: bool, scale: int | None) -> Executor:
    """``(a * b + c (+ 1)) >> scale``; signed if ``a`` or ``b`` is."""
    ops.expect_count(4)
    signed = "s" in (a.category, b.category)
    slot, sources = ops.dst(0, B32), (Source.of(ops, 1, a), Source.of(ops, 2, b))
    c = Source(ops.src(3, B32), *WHOLE, signed)

    def run(f: Frame) -> None:
        x, y = (source.values(f).astype(object) for source in sources)  # u32 * u32 + u32 takes 65 bits
        total = x * y + c.values(f).astype(object) + int(po) >> (scale or 0)
        result = clamped(total, 32, signed) if sat else total
        f.regs[slot][f.sel] = (result & 0xFFFF_FFFF).astype(np.uint32)

    return run
