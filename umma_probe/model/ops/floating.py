"""f32, f32x2 and f64 arithmetic (PTX ISA, "Floating Point Instructions").

Rules enforced here: results are rounded once, as the modifier says (to nearest even without one); ``fma`` and ``mad``
with a rounding modifier do not round the product. NaN, ``.ftz`` and ``.sat`` are those of
``model/numbers/rounding.py``. A packed type works on each half. ``add sub fma`` with a third type (``add.f32.bf16``)
widen the 16-bit operands exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.model.code.decode import alu
from umma_probe.model.numbers import rounding
from umma_probe.model.numbers.rounding import F32Core, Rounding, f32_function, f64_function
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array, PtxType

Function: TypeAlias = "Callable[..., Any]"

ARITHMETIC = tuple(documented(f"Floating Point Instructions: {name}") for name in ("add", "sub", "mul", "fma", "mad"))
DIVISION = tuple(documented(f"Floating Point Instructions: {name}") for name in ("div", "rcp", "sqrt"))
MIXED = tuple(documented(f"Mixed Precision Floating Point Instructions: {name}") for name in ("add", "sub", "fma"))


def pairs(function: Function) -> Function:
    """Apply a function of f32 arrays to each half of 64-bit words."""

    def packed(*words: Array) -> Any:
        return function(*(np.ascontiguousarray(w).view(np.float32) for w in words)).view(np.uint64)

    return packed


def _register(opcode: str, count: int, f32: Callable[[Rounding], F32Core], f64: Callable[[Rounding], Function]) -> None:
    """The f32, f32x2 and f64 forms of add, sub, mul or fma; the rounding may be left out except for fma."""
    mode = "rounding" if opcode == "fma" else "rounding?"

    def build(rounding: Rounding | None, ftz: bool, sat: bool) -> Function:
        return f32_function(f32(rounding or Rounding.RN), ftz=ftz, sat=sat)

    @alu(
        f"{opcode}.{{{mode}}}.{{ftz?}}.{{sat?}}.f32",
        operands=("f32",) * (count + 1),
        rounding=Rounding,
        refs=ARITHMETIC,
    )
    def scalar(rounding: Rounding | None, ftz: bool, sat: bool) -> Function:
        return build(rounding, ftz, sat)

    @alu(f"{opcode}.{{{mode}}}.{{ftz?}}.f32x2", operands=("f32x2",) * (count + 1), rounding=Rounding, refs=ARITHMETIC)
    def packed(rounding: Rounding | None, ftz: bool) -> Function:
        return pairs(build(rounding, ftz, False))

    @alu(f"{opcode}.{{{mode}}}.f64", operands=("f64",) * (count + 1), rounding=Rounding, refs=ARITHMETIC)
    def double(rounding: Rounding | None) -> Function:
        return f64_function(f64(rounding or Rounding.RN))


_register("add", 2, rounding.f32_add, rounding.f64_add)
_register("sub", 2, rounding.f32_sub, rounding.f64_sub)
_register("mul", 2, rounding.f32_mul, rounding.f64_mul)
_register("fma", 3, rounding.f32_fma, rounding.f64_fma)


@alu("mad.{rounding?}.{ftz?}.{sat?}.f32", operands="f32 f32 f32 f32", rounding=Rounding, refs=ARITHMETIC)
def mad(rounding: Rounding | None, ftz: bool, sat: bool) -> Function:
    """``fma`` under its old name, on sm_20 and later."""
    return f32_function(_f32_fma(rounding or Rounding.RN), ftz=ftz, sat=sat)


_f32_fma = rounding.f32_fma


@alu("mad.{rounding}.f64", operands="f64 f64 f64 f64", rounding=Rounding, refs=ARITHMETIC)
def mad_f64(rounding: Rounding) -> Function:
    """``fma`` under its old name."""
    return f64_function(_f64_fma(rounding))


_f64_fma = rounding.f64_fma


# ---------------------------------------------------------------------- mixed precision
def widen(words: Array, type_: PtxType) -> Array:
    """f16 values or bf16 words as f32."""
    if type_.name == "f16":
        return words.astype(np.float32)
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _register_mixed(opcode: str, function: Callable[[Rounding], F32Core]) -> None:
    @alu(
        f"{opcode}.{{rounding?}}.{{sat?}}.f32.{{type}}",
        operands="f32 type f32",
        rounding=Rounding,
        type="f16 bf16",
        refs=MIXED,
    )
    def mixed(rounding: Rounding | None, sat: bool, type: PtxType) -> Function:
        core = f32_function(function(rounding or Rounding.RN), sat=sat)
        return lambda a, c: core(widen(a, type), c)


_register_mixed("add", rounding.f32_add)
_register_mixed("sub", rounding.f32_sub)


@alu(
    "fma.{rounding}.{sat?}.f32.{type}",
    operands="f32 type type f32",
    rounding=Rounding,
    type="f16 bf16",
    refs=MIXED,
)
def fma_mixed(rounding: Rounding, sat: bool, type: PtxType) -> Function:
    """a * b + c with 16-bit a and b."""
    core = f32_function(_f32_fma(rounding), sat=sat)
    return lambda a, b, c: core(widen(a, type), widen(b, type), c)


# ---------------------------------------------------------------------- div, rcp, sqrt
def _register_division(
    opcode: str, count: int, f32: Callable[[Rounding], F32Core], f64: Callable[[Rounding], Function]
) -> None:
    @alu(f"{opcode}.{{rounding}}.{{ftz?}}.f32", operands=("f32",) * (count + 1), rounding=Rounding, refs=DIVISION)
    def single(rounding: Rounding, ftz: bool) -> Function:
        return f32_function(f32(rounding), ftz=ftz)

    @alu(f"{opcode}.{{rounding}}.f64", operands=("f64",) * (count + 1), rounding=Rounding, refs=DIVISION)
    def double(rounding: Rounding) -> Function:
        return f64_function(f64(rounding), dividend_first=True)


_register_division("div", 2, rounding.f32_div, rounding.f64_div)
_register_division("rcp", 1, rounding.f32_rcp, rounding.f64_rcp)
_register_division("sqrt", 1, rounding.f32_sqrt, rounding.f64_sqrt)
