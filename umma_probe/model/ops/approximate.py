"""Approximate functions: ``ex2 lg2 sin cos tanh rsqrt`` and the ``.approx`` and ``.full`` forms of ``div rcp sqrt``.

The documents bound the error and fix the special cases; they do not give the bits. Most forms are the function unit of
``model/arith/mufu.py``, or one use of it between multiplications by powers of two, as the assembler writes them out
(ptxas 13.0, the same for sm_90a and sm_100a); these are the H200's bits. For ``tanh`` and f64 the model gives
the true result rounded to nearest, so it may differ from silicon within the bound named at the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.model.arith import mufu
from umma_probe.model.code.decode import alu
from umma_probe.model.numbers.rounding import F32Core, canonical, f32_function, flush
from umma_probe.model.ops.half import F16, lanewise
from umma_probe.spec.sources import Evidence, Ref, assumed, documented

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array, PtxType

Function: TypeAlias = "Callable[..., Any]"

_DOCUMENTED = tuple(
    documented(f"Floating Point Instructions: {name}")
    for name in ("div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")
)
UNIT = (
    Ref("silicon-h200", "function_unit.json", Evidence.MEASURED, "every result of whole binades, bit for bit"),
    assumed("function unit of sm_100a", "its tables are those of sm_90; any binade of results would settle it"),
)
FUNCTIONS = (*_DOCUMENTED, *UNIT)
HALF_FUNCTIONS = (
    documented("Half Precision Floating Point Instructions: tanh"),
    documented("Half Precision Floating Point Instructions: ex2"),
)
_TINY, _HUGE = np.float32(2.0**-126), np.float32(2.0**126)
_UP = np.float32(2.0**24)
_ONE = np.float32(1)


def _wide(function: Function) -> Function:
    """A float64 function of f32 arrays, rounded to f32."""
    return lambda *values: function(*(v.astype(np.float64) for v in values)).astype(np.float32)


def _unit(function: Callable[[Any], Any], a: Array) -> Array:
    return function(a.view(np.uint32)).view(np.float32)  # type: ignore[no-any-return]


# ---------------------------------------------------------------------- the full range: scaled into that of the unit
def _ex2(a: Array) -> Array:
    low = a < -126
    half = _unit(mufu.ex2, np.where(low, a * np.float32(0.5), a))
    return np.where(low, half * half, half)


def _lg2(a: Array) -> Array:
    low = np.abs(a) < _TINY
    result = _unit(mufu.lg2, np.where(low, a * _UP, a))
    return np.where(low, result - np.float32(24), result)


def _root(function: Callable[[Any], Any], back: float) -> Function:
    def apply(a: Array) -> Array:
        low = np.abs(a) < _TINY
        result = _unit(function, np.where(low, a * _UP, a))
        return np.where(low, result * np.float32(back), result)

    return apply


def _rcp(a: Array) -> Array:
    magnitude = np.abs(a)
    scale = np.where(magnitude > _HUGE, np.float32(0.25), np.where(magnitude < _TINY, _UP, _ONE))
    return scale * _unit(mufu.rcp, a * scale)


_TURNS = np.float64(np.uint32(0x3E22F983).view(np.float32))
"""1 / (2 pi) as f32."""


def _of_turns(function: Callable[[Any], Any]) -> Function:
    """A function of the angle in turns: the f32 product with 1 / (2 pi), cut off toward zero."""

    def apply(a: Array) -> Array:
        product = a * _TURNS  # exact: 24 by 24 bits
        turns = product.astype(np.float32)
        beyond = np.abs(turns.astype(np.float64)) > np.abs(product)
        return _unit(function, np.where(beyond, np.nextafter(turns, np.float32(0)), turns))

    return apply


FUNCTION_UNIT: dict[str, tuple[Function, Function]] = {
    "ex2": (lambda a: _unit(mufu.ex2, a), _ex2),
    "lg2": (lambda a: _unit(mufu.lg2, a), _lg2),
    "sin": (_of_turns(mufu.sin), _of_turns(mufu.sin)),
    "cos": (_of_turns(mufu.cos), _of_turns(mufu.cos)),
    "rsqrt": (lambda a: _unit(mufu.rsqrt, a), _root(mufu.rsqrt, 2.0**12)),
    "rcp": (lambda a: _unit(mufu.rcp, a), _rcp),
    "sqrt": (lambda a: _unit(mufu.sqrt, a), _root(mufu.sqrt, 2.0**-12)),
}
"""With ``.ftz``, and without."""


def _register_unary(opcode: str, flushing: Function, full: Function) -> None:
    @alu(f"{opcode}.approx.{{ftz?}}.f32", operands="f32 f32", refs=FUNCTIONS)
    def single(ftz: bool) -> Function:
        return flushing if ftz else full


for _opcode, _functions in FUNCTION_UNIT.items():
    _register_unary(_opcode, *_functions)


@alu("tanh.approx.f32", operands="f32 f32", refs=FUNCTIONS, approximate="2^-11 relative")
def tanh() -> Function:
    """Hyperbolic tangent; subnormals are supported."""
    return f32_function(F32Core(_wide(np.tanh)))


@alu("tanh.approx.{type}", operands="type type", type=f"{F16} bf16 bf16x2", refs=HALF_FUNCTIONS,
     approximate="2^-10.987 (f16) or 2^-8 (bf16) absolute")  # fmt: skip
def tanh_half(type: PtxType) -> Function:
    """Hyperbolic tangent."""
    return lanewise(type, np.tanh)


@alu("ex2.approx.{type}", operands="type type", type=F16, refs=(*HALF_FUNCTIONS, *UNIT))
def ex2_f16(type: PtxType) -> Function:
    """2^a: the unit's result cut off to f16; subnormals are supported, 2^16 and above is Inf."""
    return lanewise(type, _cut_to_f16)


def _cut_to_f16(a: Array) -> Array:
    result = _unit(mufu.ex2, a.astype(np.float32))
    near = result.astype(np.float16)
    cut = np.where(near > result, np.nextafter(near, np.float16(0)), near)
    return np.where(result >= 2.0**16, np.float16(np.inf), cut).astype(np.float64)


@alu("ex2.approx.ftz.{type}", operands="type type", type="bf16 bf16x2", refs=(*HALF_FUNCTIONS, *UNIT))
def ex2_bf16(type: PtxType) -> Function:
    """2^a: the upper half of the unit's result; subnormal inputs and results are flushed."""
    return lanewise(type, _cut_to_bf16)


def _cut_to_bf16(a: Array) -> Array:
    words = mufu.ex2(a.astype(np.float32).view(np.uint32)) & np.uint32(0xFFFF0000)
    return words.view(np.float32).astype(np.float64)


@alu("rcp.approx.ftz.f64", operands="f64 f64", refs=FUNCTIONS, approximate="the upper 32 bits of the result, 2^-20")
def rcp_f64() -> Function:
    """1 / a from the upper word of a; the lower word of the result is 0."""
    return _upper_f64(np.reciprocal)


def _reciprocal_root(a: Array) -> Array:
    return 1.0 / np.sqrt(a)


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
def _divide(*, whole_range: bool, ftz: bool) -> Function:
    """a times the unit's reciprocal of b, both scaled where b is at an end of the range.

    :param whole_range: ``div.full``; without, a b above 2^126 has the reciprocal 0.
    """

    def apply(a: Array, b: Array) -> Array:
        if ftz:
            a, b = flush(a), flush(b)
        magnitude = np.abs(b)
        scale = np.where((magnitude < _TINY) & (not ftz), _UP, _ONE)
        if whole_range:
            scale = np.where(magnitude > _HUGE, np.float32(0.25), scale)
            a, b = (flush(v * scale) if ftz else v * scale for v in (a, b))
        elif not ftz:
            a, b = a * scale, b * scale
        result = canonical(a * _unit(mufu.rcp, b))
        return flush(result) if ftz else result

    return apply


@alu("div.approx.{ftz?}.f32", operands="f32 f32 f32", refs=FUNCTIONS)
def div_approx(ftz: bool) -> Function:
    """a times an approximate reciprocal of b."""
    return _divide(whole_range=False, ftz=ftz)


@alu("div.full.{ftz?}.f32", operands="f32 f32 f32", refs=FUNCTIONS)
def div_full(ftz: bool) -> Function:
    """Division with scaled operands."""
    return _divide(whole_range=True, ftz=ftz)
