"""Approximate functions: ``ex2 lg2 sin cos tanh rsqrt`` and the ``.approx`` and ``.full`` forms of ``div rcp sqrt``.

The documents bound the error and fix the special cases; they do not give the bits. The model gives the true result
rounded to nearest, so it may differ from silicon within the bound named at each operation. ``.ftz`` and special cases
are exact. Without ``.ftz`` subnormals are supported (PTX ISA, "Floating Point Instructions").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.model.decode import alu
from umma_probe.model.ops.half import F16, lanewise
from umma_probe.model.rounding import F32Core, f32_function
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.values import Array, PtxType

Function: TypeAlias = "Callable[..., Any]"

FUNCTIONS = tuple(
    documented(f"Floating Point Instructions: {name}")
    for name in ("div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")
)
HALF_FUNCTIONS = (
    documented("Half Precision Floating Point Instructions: tanh"),
    documented("Half Precision Floating Point Instructions: ex2"),
)


def _wide(function: Function) -> Function:
    """A float64 function of f32 arrays, rounded to f32."""
    return lambda *values: function(*(v.astype(np.float64) for v in values)).astype(np.float32)


_TURNS = np.float64(np.uint32(0x3E22F983).view(np.float32))
"""1 / (2 pi) as f32."""


def _of_turns(function: Function) -> Function:
    """A function of the angle as silicon reduces it: in turns, the f32 product with 1 / (2 pi) cut off toward zero.

    So large angles differ from the true function by more than the bound; an H200 gives these results to within 2^-21.5
    of 1 for every f32 (``reports/fidelity-sm90-h200.json``).
    """

    def apply(a: Array) -> Array:
        product = a * _TURNS  # exact: 24 by 24 bits
        turns = product.astype(np.float32).astype(np.float64)
        beyond = np.abs(turns) > np.abs(product)
        turns = np.where(beyond, np.nextafter(turns.astype(np.float32), np.float32(0)).astype(np.float64), turns)
        return np.asarray(function(2 * np.pi * np.fmod(turns, 1.0)))

    return apply


def _reciprocal_root(a: Array) -> Array:
    return 1.0 / np.sqrt(a)


_UNARY: dict[str, tuple[Function, str]] = {
    "ex2": (np.exp2, "2 ulp over the full range"),
    "lg2": (np.log2, "2^-22 absolute or relative"),
    "sin": (_of_turns(np.sin), "2^-20.5 absolute within -pi..pi"),
    "cos": (_of_turns(np.cos), "2^-20.5 absolute within -pi..pi"),
    "rsqrt": (_reciprocal_root, "2^-22.9 relative"),
    "rcp": (np.reciprocal, "1 ulp"),
    "sqrt": (np.sqrt, "2^-23 relative"),
}


def _register_unary(opcode: str, function: Function, bound: str) -> None:
    @alu(f"{opcode}.approx.{{ftz?}}.f32", operands="f32 f32", refs=FUNCTIONS, approximate=bound)
    def single(ftz: bool) -> Function:
        return f32_function(F32Core(_wide(function)), ftz=ftz)


for _opcode, (_function, _bound) in _UNARY.items():
    _register_unary(_opcode, _function, _bound)


@alu("tanh.approx.f32", operands="f32 f32", refs=FUNCTIONS, approximate="2^-11 relative")
def tanh() -> Function:
    """Hyperbolic tangent; subnormals are supported."""
    return f32_function(F32Core(_wide(np.tanh)))


@alu("tanh.approx.{type}", operands="type type", type=f"{F16} bf16 bf16x2", refs=HALF_FUNCTIONS,
     approximate="2^-10.987 (f16) or 2^-8 (bf16) absolute")  # fmt: skip
def tanh_half(type: PtxType) -> Function:
    """Hyperbolic tangent."""
    return lanewise(type, np.tanh)


@alu("ex2.approx.{type}", operands="type type", type=F16, refs=HALF_FUNCTIONS, approximate="2^-9.9 relative")
def ex2_f16(type: PtxType) -> Function:
    """2^a; subnormals are supported."""
    return lanewise(type, np.exp2)


@alu("ex2.approx.ftz.{type}", operands="type type", type="bf16 bf16x2", refs=HALF_FUNCTIONS,
     approximate="2^-7 relative")  # fmt: skip
def ex2_bf16(type: PtxType) -> Function:
    """2^a; subnormal inputs and results are flushed."""
    # bf16 has the exponents of f32, so its subnormals are those of f32
    return lanewise(type, lambda a: _flush_bf16(np.exp2(_flush_bf16(a))))


def _flush_bf16(values: Array) -> Array:
    return values * (np.abs(values) >= 2.0**-126)


@alu("rcp.approx.ftz.f64", operands="f64 f64", refs=FUNCTIONS, approximate="the upper 32 bits of the result, 2^-20")
def rcp_f64() -> Function:
    """1 / a from the upper word of a; the lower word of the result is 0."""
    return _upper_f64(np.reciprocal)


@alu("rsqrt.approx.{ftz?}.f64", operands="f64 f64", refs=FUNCTIONS, approximate="the upper 32 bits of the result")
def rsqrt_f64(ftz: bool) -> Function:
    """1 / sqrt(a)."""
    return _upper_f64(_reciprocal_root) if ftz else _reciprocal_root


def _upper_f64(function: Function) -> Function:
    """A function of the upper word alone, with flushing; NaN is the canonical upper word."""

    def apply(a: Array) -> Array:
        result = _upper_word(_flush_f64(function(_flush_f64(_upper_word(a)))))
        return np.where(np.isnan(result), _UPPER_NAN, result)

    return apply


_UPPER_NAN = np.uint64(0x7FFFFFFF_00000000).view(np.float64)


def _upper_word(values: Array) -> Array:
    return (values.view(np.uint64) & np.uint64(0xFFFFFFFF_00000000)).view(np.float64)


def _flush_f64(values: Array) -> Array:
    return values * (np.abs(values) >= np.finfo(np.float64).tiny)


# ---------------------------------------------------------------------- division
def _divide_approximately(a: Array, b: Array) -> Any:
    """a * (1 / b): for 2^126 < |b| < 2^128 the reciprocal is 0, so the result is 0, or NaN for an infinite a."""
    magnitude = np.abs(b)
    huge = (magnitude > 2.0**126) & np.isfinite(b)
    if not huge.any():
        return _divide(a, b)
    zero = np.copysign(0.0, b)
    return np.where(huge, (a * zero).astype(np.float32), _divide(a, b))


_divide = _wide(np.divide)


@alu("div.approx.{ftz?}.f32", operands="f32 f32 f32", refs=FUNCTIONS, approximate="2 ulp for |b| within 2^-126..2^126")
def div_approx(ftz: bool) -> Function:
    """a times an approximate reciprocal of b."""
    return f32_function(F32Core(_divide_approximately), ftz=ftz)


@alu("div.full.{ftz?}.f32", operands="f32 f32 f32", refs=FUNCTIONS, approximate="2 ulp over the full range")
def div_full(ftz: bool) -> Function:
    """Division with scaled operands."""
    return f32_function(F32Core(_divide), ftz=ftz)
