"""Floating ``min max abs neg copysign testp`` (PTX ISA, "Floating Point Instructions").

Rules enforced here: -0 is less than +0; one NaN input gives the other input, or NaN with ``.NaN``; two give NaN.
``.xorsign.abs`` compares magnitudes and takes the product's sign. Three inputs (f32, sm_100 and later) compare all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.errors import PtxSyntaxError
from umma_probe.model.code.decode import alu, operation
from umma_probe.model.numbers.narrowing import HALF_NAN
from umma_probe.model.numbers.rounding import canonical, f64_function, flush
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.half import BF16, F16, HalfFormat
from umma_probe.spec.sources import assumed, documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

Function: TypeAlias = "Callable[..., Any]"
F32 = TYPES["f32"]

ORDER = (documented("Floating Point Instructions: min"), documented("Floating Point Instructions: max"))
SIGN = (
    documented("Floating Point Instructions: abs"),
    documented("Floating Point Instructions: neg"),
    assumed(
        "Floating Point Instructions: neg", "NaN is unspecified: canonical as on an H200; a B200 run would settle it"
    ),
)
COPYSIGN = (documented("Floating Point Instructions: copysign"),)
TESTP = (documented("Floating Point Instructions: testp"),)

_PICK = {"min": (np.fmin, np.minimum, np.bitwise_or), "max": (np.fmax, np.maximum, np.bitwise_and)}
"""Opcode to: the pick that ignores NaN, the pick that keeps NaN, and what the sign bits of two zeros combine with."""


def _ordered(opcode: str, *, nan: bool) -> Function:
    """min or max of two float arrays with ordered zeros."""
    quiet, strict, signs = _PICK[opcode]
    pick = strict if nan else quiet

    def order(a: Array, b: Array) -> Array:
        chosen = pick(a, b)
        if not chosen.all():
            word = np.dtype(f"u{a.dtype.itemsize}")
            both = signs(a.view(word), b.view(word)).view(a.dtype)
            chosen = np.where((a == 0) & (b == 0), both, chosen)
        return chosen

    def contiguous(a: Array, b: Array) -> Array:
        return order(np.ascontiguousarray(a), np.ascontiguousarray(b))

    return contiguous


def _xorsign(order: Function) -> Function:
    def apply(a: Array, b: Array) -> Any:
        magnitude = order(np.abs(a), np.abs(b))
        signed = np.where(np.signbit(a) != np.signbit(b), -magnitude, magnitude)
        return np.where(np.isnan(magnitude), magnitude, signed)

    return apply


def _f64_order(order: Function) -> Function:
    with_nan = f64_function(order)

    def apply(a: Array, b: Array) -> Any:
        both = np.isnan(a) & np.isnan(b)
        return np.where(both, with_nan(a, b), order(a, b)) if both.any() else order(a, b)

    return apply


def _half(type_: PtxType, order: Function, *, ftz: bool) -> Function:
    form = HalfFormat(type_)

    def apply(*registers: Array) -> Array:
        values = [form.values(form.lanes(r)) for r in registers]
        if ftz:
            values = [form.flush(v) for v in values]
        return form.register(form.round(order(*values)))

    return apply


def _bind_f32(ops: Operands, order: Function, *, ftz: bool, magnitudes: bool) -> Executor:
    """The f32 form with two or three sources."""
    ops.expect_count(3, 4)
    if magnitudes and len(ops) == 3:
        raise PtxSyntaxError(f"{ops.instruction.text}: .abs without .xorsign needs three sources")
    target, *sources = ops.dst(0, F32), *(ops.src(i, F32) for i in range(1, len(ops)))

    def run(f: Frame) -> None:
        r, s = f.regs, f.sel
        values = [r[i][s] for i in sources]
        if ftz:
            values = [flush(v) for v in values]
        if magnitudes:
            values = [np.abs(v) for v in values]
        r[target][s] = canonical(reduce(order, values))

    return run


def _register(opcode: str) -> None:
    quiet, strict = _ordered(opcode, nan=False), _ordered(opcode, nan=True)
    quiet_signed, strict_signed = _xorsign(quiet), _xorsign(strict)
    f64_order = _f64_order(quiet)

    @operation(f"{opcode}.{{ftz?}}.{{NaN?}}.{{abs?}}.f32", refs=ORDER)
    def single(ops: Operands, ftz: bool, NaN: bool, abs: bool) -> Executor:
        return _bind_f32(ops, strict if NaN else quiet, ftz=ftz, magnitudes=abs)

    @alu(f"{opcode}.{{ftz?}}.{{NaN?}}.xorsign.abs.f32", operands="f32 f32 f32", refs=ORDER)
    def single_signed(ftz: bool, NaN: bool) -> Function:
        order = strict_signed if NaN else quiet_signed
        return (lambda a, b: canonical(order(flush(a), flush(b)))) if ftz else (lambda a, b: canonical(order(a, b)))

    @alu(f"{opcode}.f64", operands="f64 f64 f64", refs=ORDER)
    def double() -> Function:
        return f64_order

    @alu(f"{opcode}.{{ftz?}}.{{NaN?}}.{{type}}", type=F16, refs=ORDER)
    def f16(ftz: bool, NaN: bool, type: PtxType) -> Function:
        return _half(type, strict if NaN else quiet, ftz=ftz)

    @alu(f"{opcode}.{{ftz?}}.{{NaN?}}.xorsign.abs.{{type}}", type=F16, refs=ORDER)
    def f16_signed(ftz: bool, NaN: bool, type: PtxType) -> Function:
        return _half(type, strict_signed if NaN else quiet_signed, ftz=ftz)

    @alu(f"{opcode}.{{NaN?}}.{{type}}", type=BF16, refs=ORDER)
    def bf16(NaN: bool, type: PtxType) -> Function:
        return _half(type, strict if NaN else quiet, ftz=False)

    @alu(f"{opcode}.{{NaN?}}.xorsign.abs.{{type}}", type=BF16, refs=ORDER)
    def bf16_signed(NaN: bool, type: PtxType) -> Function:
        return _half(type, strict_signed if NaN else quiet_signed, ftz=False)


for _opcode in _PICK:
    _register(_opcode)


# ---------------------------------------------------------------------- sign
_SIGNS = {"abs": np.abs, "neg": np.negative}


def _half_sign(opcode: str, type_: PtxType, *, ftz: bool) -> Function:
    form = HalfFormat(type_)
    sign = np.uint16(0x8000)

    def apply(register: Array) -> Array:
        words = form.lanes(register)
        if ftz:
            words = form.round(form.flush(form.values(words)))
        return form.register(
            np.where(np.isnan(form.values(words)), HALF_NAN, words & ~sign if opcode == "abs" else words ^ sign)
        )

    return apply


def _register_sign(opcode: str, function: Function) -> None:
    @alu(f"{opcode}.{{ftz?}}.f32", operands="f32 f32", refs=SIGN)
    def single(ftz: bool) -> Function:
        return (lambda a: canonical(function(flush(a)))) if ftz else (lambda a: canonical(function(a)))

    @alu(f"{opcode}.f64", operands="f64 f64", refs=SIGN)
    def double() -> Function:
        return f64_function(function)

    @alu(f"{opcode}.{{ftz?}}.{{type}}", operands="type type", type=F16, refs=SIGN)
    def f16(ftz: bool, type: PtxType) -> Function:
        return _half_sign(opcode, type, ftz=ftz)

    @alu(f"{opcode}.{{type}}", operands="type type", type=BF16, refs=SIGN)
    def bf16(type: PtxType) -> Function:
        return _half_sign(opcode, type, ftz=False)


for _opcode, _function in _SIGNS.items():
    _register_sign(_opcode, _function)


@alu("copysign.{type}", type="f32 f64", refs=COPYSIGN)
def copysign(type: PtxType) -> Function:
    """The magnitude of b with the sign of a."""
    return lambda a, b: np.copysign(b, a)


# ---------------------------------------------------------------------- testp
def _tiny(a: Array) -> Any:
    return np.abs(a) < np.finfo(a.dtype).tiny


_TESTS: dict[str, Function] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & (~_tiny(a) | (a == 0)),
    "subnormal": lambda a: _tiny(a) & (a != 0),
}


@alu("testp.{test}.{type}", operands="pred type", test=_TESTS, type="f32 f64", refs=TESTP)
def testp(test: Function, type: PtxType) -> Function:
    """Which class a number is of; zeros count as normal."""
    return test
