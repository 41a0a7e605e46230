"""The arithmetic of ``atom``, ``red`` and ``cp.reduce``: one new value from the old value and an operand.

Rules (PTX ISA, "Parallel Synchronization and Communication Instructions: atom"): ``inc`` is ``old >= b ? 0 : old +
1``, ``dec`` is ``old == 0 || old > b ? b : old - 1``; integer sums wrap; ``add.f32`` on global memory flushes no
subnormals here and rounds to nearest even, as ``.f64`` does; ``.noftz`` adds of ``f16`` and ``bf16`` round to nearest
even; floating minimum and maximum drop a NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.errors import PtxSyntaxError
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.numbers.values import Array, PtxType

Combine: TypeAlias = "Callable[[Any, Any], Any]"
"""(old, operand) -> new, element-wise over arrays of the type's own words."""

ATOM = documented("Parallel Synchronization and Communication Instructions: atom", "which types have which operations")

INTEGER_OPS: dict[str, Combine] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, b: np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, b: np.where((old == 0) | (old > b), b, old - old.dtype.type(1)),
    "exch": lambda old, b: b,
}
FLOAT_OPS: dict[str, Combine] = {"add": np.add, "min": np.fmin, "max": np.fmax, "exch": lambda old, b: b}
ALLOWED: dict[str, str] = {
    "b32": "and or xor exch cas",
    "b64": "and or xor exch cas",
    "b128": "exch cas",
    "b16": "cas",
    "u32": "add inc dec min max",
    "s32": "add min max",
    "u64": "add min max",
    "s64": "add min max",
    "f32": "add",
    "f64": "add",
    "f16": "add min max",
    "bf16": "add min max",
    "f16x2": "add min max",
    "bf16x2": "add min max",
}
"""Type to its operations."""


def check_allowed(text: str, op: str, type_: PtxType) -> None:
    """:raises PtxSyntaxError: the type does not have the operation."""
    allowed = ALLOWED.get(type_.name, "").split()
    if op not in allowed:
        raise PtxSyntaxError(f"{text}: .{type_} has {', '.join(allowed) or 'no atomic operation'}", ref=str(ATOM))


def combiner(op: str, type_: PtxType) -> tuple[Combine, Any]:
    """(function, the dtype that it works on). Packed types work on twice as many 16-bit elements."""
    match type_.name:
        case "f16" | "f16x2":
            return _canonical(op, np.uint16(0x7FFF)), np.dtype(np.float16)
        case "bf16" | "bf16x2":
            return _on_bf16(FLOAT_OPS[op]), np.dtype(np.uint16)
        case "f32":
            return _canonical(op, np.uint32(0x7FFF_FFFF)), type_.dtype
        case "f64":
            return FLOAT_OPS[op], type_.dtype
        case _:
            return INTEGER_OPS[op], type_.dtype


def _canonical(op: str, nan: Any) -> Combine:
    """The operation with one NaN for all, as an H200 gives it; an exchange keeps its bits."""
    function = FLOAT_OPS[op]
    if op == "exch":
        return function

    def run(old: Array, operand: Array) -> Array:
        total = np.asarray(function(old, operand))
        return np.where(np.isnan(total), nan.view(total.dtype), total)

    return run


def _on_bf16(function: Combine) -> Combine:
    def run(old: Array, operand: Array) -> Array:
        # a sum of two bf16 is exact in f64, so it is rounded once
        total = function(widen_bf16(old).astype(np.float64), widen_bf16(operand).astype(np.float64))
        return round_bf16(total)

    return run


def widen_bf16(words: Array) -> Array:
    """bf16 words as f32 values."""
    return (np.asarray(words).astype(np.uint32) << 16).view(np.float32)


def round_bf16(values: Array) -> Array:
    """f64 values as bf16 words, to nearest even."""
    wide = np.asarray(values, np.float64)
    near = wide.astype(np.float32)
    word = near.view(np.uint32)
    # round to odd on the way to f32, so that the second rounding sees what the first cut off
    inexact = np.isfinite(near) & (near.astype(np.float64) != wide)
    away = inexact & (np.abs(near.astype(np.float64)) > np.abs(wide))
    word = np.where(away, word - 1, word)
    word = np.where(inexact, word | 1, word).astype(np.uint32)
    rounded = (word + 0x7FFF + (word >> 16 & 1)) >> 16
    return np.where(np.isnan(wide), np.uint32(0x7FFF), rounded).astype(np.uint16)
