"""Integer addition, multiplication, minimum and maximum (PTX ISA, "Integer Arithmetic Instructions").

Rules enforced here: results wrap modulo 2^n; ``.sat`` (only ``.s32``) clamps to MININT..MAXINT; ``.wide`` gives twice
the width; ``.hi`` is the upper half of the full product; ``mul24`` multiplies the low 24 bits and gives bits 0-31 or
16-47 of the product. Packed 16-bit types work on each half. ``.relu`` clamps negative results to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.model.code.decode import alu
from umma_probe.model.numbers.values import TYPES
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array, PtxType

Function: TypeAlias = "Callable[..., Any]"

ADD = (documented("Integer Arithmetic Instructions: add"), documented("Integer Arithmetic Instructions: sub"))
MULTIPLY = (documented("Integer Arithmetic Instructions: mul"), documented("Integer Arithmetic Instructions: mad"))
MULTIPLY_24 = (
    documented("Integer Arithmetic Instructions: mul24"),
    documented("Integer Arithmetic Instructions: mad24"),
)
SIGNED = (documented("Integer Arithmetic Instructions: abs"), documented("Integer Arithmetic Instructions: neg"))
ORDER = (documented("Integer Arithmetic Instructions: min"), documented("Integer Arithmetic Instructions: max"))
DIFFERENCE = (documented("Integer Arithmetic Instructions: sad"),)

INTEGERS = "u16 u32 u64 s16 s32 s64"
PACKED = "u16x2 s16x2"
_SIGNED = "s16 s32 s64"
_NARROW = "u16 u32 s16 s32"
_WIDE = {name: TYPES[f"{name[0]}{2 * int(name[1:])}"] for name in _NARROW.split()}
_INT32 = np.iinfo(np.int32)


def halves(function: Function, type_: PtxType) -> Function:
    """Apply a function of 16-bit arrays to each half of packed 32-bit words."""
    half = np.dtype(np.int16 if type_.name == "s16x2" else np.uint16)

    def packed(*words: Array) -> Any:
        return function(*(np.ascontiguousarray(w).view(half) for w in words)).view(np.uint32)

    return packed


def _saturated(function: Function) -> Function:
    """A function of 32-bit signed arrays computed in 64 bits and clamped."""

    def clamped(*values: Array) -> Any:
        wide = function(*(v.astype(np.int64) for v in values))
        return np.clip(wide, _INT32.min, _INT32.max).astype(np.int32)

    return clamped


# ---------------------------------------------------------------------- add, sub
@alu("add.{type}", type=INTEGERS, refs=ADD)
def add(type: PtxType) -> Function:
    """Sum."""
    return np.add


@alu("sub.{type}", type=INTEGERS, refs=ADD)
def sub(type: PtxType) -> Function:
    """Difference."""
    return np.subtract


@alu("add.sat.s32", operands="s32 s32 s32", refs=ADD)
def add_sat() -> Function:
    """Sum, clamped."""
    return _saturated(np.add)


@alu("sub.sat.s32", operands="s32 s32 s32", refs=ADD)
def sub_sat() -> Function:
    """Difference, clamped."""
    return _saturated(np.subtract)


@alu("add.{type}", type=PACKED, refs=ADD)
def add_packed(type: PtxType) -> Function:
    """Sums of halves."""
    return halves(np.add, type)


# ---------------------------------------------------------------------- mul, mad
def high_product(type_: PtxType) -> Function:
    """The upper half of the full product."""
    if type_.bits == 64:
        return _high_signed_64 if type_.signed else _high_unsigned_64
    wide, shift = _WIDE[type_.name].dtype.type, type_.bits
    narrow = type_.dtype

    def high(a: Array, b: Array) -> Any:
        return (np.multiply(a, b, dtype=wide) >> wide(shift)).astype(narrow)

    return high


def _high_unsigned_64(a: Array, b: Array) -> Any:
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    return a1 * b1 + (middle >> half) + (a0 * b1 + (middle & low) >> half)


def _high_signed_64(a: Array, b: Array) -> Any:
    unsigned = _high_unsigned_64(a.astype(np.uint64), b.astype(np.uint64)).astype(np.int64)
    return unsigned - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)


def _wide_product(type_: PtxType) -> Function:
    wide = _WIDE[type_.name].dtype
    return lambda a, b: np.multiply(a, b, dtype=wide)


def _wide(slots: dict[str, Any]) -> PtxType:
    return _WIDE[slots["type"].name]


@alu("mul.lo.{type}", type=INTEGERS, refs=MULTIPLY)
def mul_lo(type: PtxType) -> Function:
    """The lower half of the product."""
    return np.multiply


@alu("mul.hi.{type}", type=INTEGERS, refs=MULTIPLY)
def mul_hi(type: PtxType) -> Function:
    """The upper half of the product."""
    return high_product(type)


@alu("mul.wide.{type}", operands=(_wide, "type", "type"), type=_NARROW, refs=MULTIPLY)
def mul_wide(type: PtxType) -> Function:
    """The full product."""
    return _wide_product(type)


@alu("mad.lo.{type}", operands="type type type type", type=INTEGERS, refs=MULTIPLY)
def mad_lo(type: PtxType) -> Function:
    """a * b + c."""
    return lambda a, b, c: a * b + c


@alu("mad.hi.{type}", operands="type type type type", type=INTEGERS, refs=MULTIPLY)
def mad_hi(type: PtxType) -> Function:
    """The upper half of a * b, plus c."""
    high = high_product(type)
    return lambda a, b, c: high(a, b) + c


@alu("mad.hi.sat.s32", operands="s32 s32 s32 s32", refs=MULTIPLY)
def mad_hi_sat() -> Function:
    """The upper half of a * b, plus c, clamped."""
    return _saturated(lambda a, b, c: (a * b >> 32) + c)


@alu("mad.wide.{type}", operands=(_wide, "type", "type", _wide), type=_NARROW, refs=MULTIPLY)
def mad_wide(type: PtxType) -> Function:
    """The full product of a * b, plus a c of its width."""
    product = _wide_product(type)
    return lambda a, b, c: product(a, b) + c


# ---------------------------------------------------------------------- 24 bits
def _product_24(part: int, type_: PtxType) -> Function:
    """A function of 64-bit arrays: the chosen 32 bits of the 48-bit product."""

    def low_24(a: Array) -> Array:
        value = a & 0xFFFFFF
        return (value ^ 0x800000) - 0x800000 if type_.signed else value

    return lambda a, b: (low_24(a) * low_24(b)) >> part


_PARTS_24 = {"lo": 0, "hi": 16}


@alu("mul24.{part}.{type}", part=_PARTS_24, type="u32 s32", refs=MULTIPLY_24)
def mul24(part: int, type: PtxType) -> Function:
    """Product of 24-bit values."""
    product = _product_24(part, type)
    return lambda a, b: product(a.astype(np.int64), b.astype(np.int64)).astype(type.dtype)


@alu("mad24.{part}.{type}", operands="type type type type", part=_PARTS_24, type="u32 s32", refs=MULTIPLY_24)
def mad24(part: int, type: PtxType) -> Function:
    """Product of 24-bit values, plus c."""
    product = mul24(part, type)
    return lambda a, b, c: product(a, b) + c


@alu("mad24.hi.sat.s32", operands="s32 s32 s32 s32", refs=MULTIPLY_24)
def mad24_sat() -> Function:
    """Bits 16-47 of the product of 24-bit values, plus c, clamped."""
    product = _product_24(16, TYPES["s32"])
    # the 32 bits of the product are a signed value before c is added
    return _saturated(lambda a, b, c: product(a, b).astype(np.int32) + c)


# ---------------------------------------------------------------------- sign and order
@alu("abs.{type}", operands="type type", type=_SIGNED, refs=SIGNED)
def absolute(type: PtxType) -> Function:
    """Magnitude; MININT stays."""
    return np.abs


@alu("neg.{type}", operands="type type", type=_SIGNED, refs=SIGNED)
def negate(type: PtxType) -> Function:
    """Two's complement; MININT stays."""
    return np.negative


_ORDER = {"min": np.minimum, "max": np.maximum}


def _register_order(opcode: str, function: Function) -> None:
    def rectified(*values: Array) -> Any:
        return np.maximum(function(*values), 0)

    alu(f"{opcode}.{{type}}", type=INTEGERS, refs=ORDER)(lambda type: function)
    alu(f"{opcode}.{{type}}", type=PACKED, refs=ORDER)(lambda type: halves(function, type))
    alu(f"{opcode}.relu.s32", operands="s32 s32 s32", refs=ORDER)(lambda: rectified)
    alu(f"{opcode}.relu.{{type}}", type="s16x2", refs=ORDER)(lambda type: halves(rectified, type))


for _opcode, _function in _ORDER.items():
    _register_order(_opcode, _function)


@alu("sad.{type}", operands="type type type type", type=INTEGERS, refs=DIFFERENCE)
def sad(type: PtxType) -> Function:
    """c + |a - b|."""
    return lambda a, b, c: c + np.where(a < b, b - a, a - b)
