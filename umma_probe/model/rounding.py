"""IEEE 754 arithmetic on arrays in the four rounding modes of PTX, with PTX's own rules for NaN and subnormals.

Rules enforced here (PTX ISA, "Floating Point Instructions"): an f32 result that is NaN is 0x7fffffff; ``.ftz`` takes subnormal
inputs as zeros of their sign and flushes subnormal results likewise; ``.sat`` clamps to [0, 1], and NaN to +0.

How exactness is had: NumPy rounds f32 and f64 ``+ - * / sqrt`` to nearest, as IEEE 754 demands. Everything else goes through float64 *rounded to
odd*: the sum is cut and its last bit set if anything was lost. Such a value can be rounded once more, in any mode, to any format at least two
bits shorter, as if it were exact (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums"). Float64 itself, in directed modes
and in ``fma``, goes through rational numbers, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from umma_probe.model.values import Array

Function: TypeAlias = "Callable[..., Any]"

F32_NAN = np.uint32(0x7FFFFFFF).view(np.float32)
F32_TINY = np.finfo(np.float32).tiny
"""The smallest normal f32, 2^-126."""
_LOW_28 = np.uint64((1 << 28) - 1)
_ONE = np.uint64(1)


class Rounding(Enum):
    """Rounding modifiers of floating-point results."""

    RN = "rn"
    """To nearest, ties to even."""
    RZ = "rz"
    """Towards zero."""
    RM = "rm"
    """Towards minus infinity."""
    RP = "rp"
    """Towards plus infinity."""


# ---------------------------------------------------------------------- NaN, subnormals, saturation
def canonical(values: Array) -> Array:
    """f32 with every NaN replaced by PTX's. Works in place."""
    bad = values != values
    if bad.any():
        values[bad] = F32_NAN
    return values


def flush(values: Array) -> Array:
    """f32 with subnormals replaced by zeros of their sign."""
    # times one or times zero: the zero keeps the sign, and NaN stays NaN
    return values * (np.abs(values) >= F32_TINY)


def saturate(values: Array) -> Array:
    """Clamped to [+0, 1]; NaN gives +0."""
    return np.where(values > 0, np.minimum(values, values.dtype.type(1)), values.dtype.type(0))


def rectify(values: Array) -> Array:
    """``.relu``: negative values and -0 give +0; NaN stays."""
    return np.where(values <= 0, values.dtype.type(0), values)


def f32_function(core: Function, *, ftz: bool = False, sat: bool = False) -> Function:
    """``core`` on f32 arrays with PTX's treatment of inputs and results."""
    last = saturate if sat else canonical
    if ftz:
        return lambda *values: last(flush(core(*map(flush, values))))
    return lambda *values: last(core(*values))


# ---------------------------------------------------------------------- from float64 to a shorter format
def sum_to_odd(a: Array, b: Array) -> Array:
    """float64 a + b, rounded to odd. Inf and NaN as in plain addition."""
    total = a + b
    shadow = total - a
    error = (a - (total - shadow)) + (b - shadow)
    bits = total.view(np.uint64)
    # NaN and Inf have no error that compares; an odd total is already the right one
    inexact = (np.abs(error) > 0) & ((bits & _ONE) == 0)
    if not inexact.any():
        return total
    outward = (error > 0) == (total > 0)
    return np.where(inexact, np.where(outward, bits + _ONE, bits - _ONE), bits).view(np.float64)


def narrow_f32(values: Array, mode: Rounding = Rounding.RN) -> Array:
    """float64 to f32."""
    nearest = values.astype(np.float32)
    if mode is Rounding.RN:
        return nearest
    return directed(nearest, np.sign(values - nearest), mode)


def directed(nearest: Array, side: Array, mode: Rounding) -> Array:
    """Correct a result rounded to nearest: ``side`` is the sign of (exact value - ``nearest``), 0 or NaN if exact."""
    kind = nearest.dtype.type
    if mode is Rounding.RM:
        return np.where(side < 0, np.nextafter(nearest, kind(-np.inf)), nearest)
    if mode is Rounding.RP:
        return np.where(side > 0, np.nextafter(nearest, kind(np.inf)), nearest)
    too_large = np.where(np.signbit(nearest), side > 0, side < 0)
    return np.where(too_large, np.nextafter(nearest, kind(0)), nearest)


def f32_to_odd(values: Array) -> Array:
    """float64 to f32, rounded to odd."""
    cut = narrow_f32(values, Rounding.RZ)
    return (cut.view(np.uint32) | (np.abs(values - cut) > 0)).view(np.float32)


def bf16_words(values: Array) -> Array:
    """f32 to bf16 words (uint16), to nearest even; NaN gives 0x7fff."""
    bits = values.view(np.uint32) if values.flags.c_contiguous else np.ascontiguousarray(values).view(np.uint32)
    words = ((bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)).astype(np.uint16)
    bad = values != values
    if bad.any():
        words[bad] = 0x7FFF
    return words


def f16_words(values: Array) -> Array:
    """f32 or float64 to f16 words (uint16), to nearest even; NaN gives 0x7fff."""
    words = values.astype(np.float16).view(np.uint16)
    bad = values != values
    if bad.any():
        words[bad] = 0x7FFF
    return words


# ---------------------------------------------------------------------- f32
def _downward_zero(total: Array, *, negative: Array) -> Array:
    """A sum that is exactly zero is -0 when rounding down, unless both parts are +0."""
    return np.where((total == 0) & negative, -np.abs(total), total)


def f32_add(mode: Rounding) -> Function:
    """Addition."""
    if mode is Rounding.RN:
        return np.add
    return lambda a, b: _f32_sum(a.astype(np.float64), b.astype(np.float64), mode)


def f32_sub(mode: Rounding) -> Function:
    """Subtraction."""
    if mode is Rounding.RN:
        return np.subtract
    return lambda a, b: _f32_sum(a.astype(np.float64), -b.astype(np.float64), mode)


def _f32_sum(a: Array, b: Array, mode: Rounding) -> Array:
    total = narrow_f32(sum_to_odd(a, b), mode)
    if mode is Rounding.RM:
        exact_zero = (a + b == 0) & (np.signbit(a) | np.signbit(b))
        total = np.where(exact_zero, np.float32(-0.0), total)
    return total


def f32_mul(mode: Rounding) -> Function:
    """Multiplication; the product of two f32 is exact in float64."""
    if mode is Rounding.RN:
        return np.multiply
    return lambda a, b: narrow_f32(a.astype(np.float64) * b, mode)


def f32_fma(mode: Rounding) -> Function:
    """a * b + c, rounded once."""
    if mode is not Rounding.RN:
        return lambda a, b, c: _f32_sum(a.astype(np.float64) * b, c.astype(np.float64), mode)
    return _f32_fma_nearest


def _f32_fma_nearest(a: Array, b: Array, c: Array) -> Array:
    product = a.astype(np.float64) * b
    total = product + c
    # two roundings can differ from one only if the first ends on a tie of the second: then these bits are zero
    if (total.view(np.uint64) & _LOW_28).all():
        return total.astype(np.float32)
    return sum_to_odd(product, c.astype(np.float64)).astype(np.float32)


def f32_div(mode: Rounding) -> Function:
    """Division. The residual of a quotient to nearest is exact in float64."""
    if mode is Rounding.RN:
        return np.divide

    def divide(a: Array, b: Array) -> Array:
        nearest = a / b
        wide = b.astype(np.float64)
        residual = a - nearest.astype(np.float64) * wide
        return directed(nearest, residual * np.sign(wide), mode)

    return divide


def f32_rcp(mode: Rounding) -> Function:
    """Reciprocal."""
    divide = f32_div(mode)
    return lambda a: divide(np.ones_like(a), a)


def f32_sqrt(mode: Rounding) -> Function:
    """Square root."""
    if mode is Rounding.RN:
        return np.sqrt

    def root(a: Array) -> Array:
        nearest = np.sqrt(a)
        return directed(nearest, a - nearest.astype(np.float64) ** 2, mode)

    return root


# ---------------------------------------------------------------------- f64
def _exact(function: Callable[..., Fraction], nearest: Function, mode: Rounding) -> Function:
    """A float64 function: ``nearest`` where it is special, else the rational ``function`` rounded."""

    def one(start: float, *values: float) -> float:
        if not all(map(math.isfinite, values)):
            return start
        exact = function(*map(Fraction, values))
        if exact == 0:
            return start
        return round_f64(exact, mode)

    scalar = np.frompyfunc(one, len(_names(function)) + 1, 1)

    def apply(*values: Array) -> Array:
        return scalar(nearest(*values), *values).astype(np.float64)

    return apply


def _names(function: Callable[..., Fraction]) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def round_f64(exact: Fraction, mode: Rounding) -> float:
    """A rational number, not zero, as float64."""
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = math.copysign(math.inf, exact)
    if math.isinf(nearest):
        inward = mode is Rounding.RZ or mode is (Rounding.RM if exact > 0 else Rounding.RP)
        return math.nextafter(nearest, 0.0) if inward else nearest
    difference = exact - Fraction(nearest)
    if mode is Rounding.RM and difference < 0:
        return math.nextafter(nearest, -math.inf)
    if mode is Rounding.RP and difference > 0:
        return math.nextafter(nearest, math.inf)
    if mode is Rounding.RZ and abs(Fraction(nearest)) > abs(exact):
        return math.nextafter(nearest, 0.0)
    return nearest if nearest != 0 else math.copysign(0.0, exact)


def _downward(function: Function, mode: Rounding) -> Function:
    """Give sums that are exactly zero their sign in downward rounding."""
    if mode is not Rounding.RM:
        return function

    def apply(*values: Array) -> Array:
        total = function(*values)
        if len(values) == 2:
            return _downward_zero(total, negative=np.signbit(values[0]) | np.signbit(values[1]))
        a, b, c = values
        underflow = (a * b == 0) & (a != 0) & (b != 0)
        return _downward_zero(total, negative=(np.signbit(a * b) | np.signbit(c)) & ~underflow)

    return apply


def f64_add(mode: Rounding) -> Function:
    """Addition."""
    if mode is Rounding.RN:
        return np.add
    return _downward(_exact(lambda a, b: a + b, np.add, mode), mode)


def f64_sub(mode: Rounding) -> Function:
    """Subtraction."""
    add = f64_add(mode)
    return np.subtract if mode is Rounding.RN else lambda a, b: add(a, -b)


def f64_mul(mode: Rounding) -> Function:
    """Multiplication."""
    return np.multiply if mode is Rounding.RN else _exact(lambda a, b: a * b, np.multiply, mode)


def f64_fma(mode: Rounding) -> Function:
    """a * b + c, rounded once."""
    return _downward(_exact(lambda a, b, c: a * b + c, _f64_fma_special, mode), mode)


def _f64_fma_special(a: Array, b: Array, c: Array) -> Array:
    # only zeros, Inf and NaN are taken from here; a finite product that overflows must not meet an infinite c
    finite = np.isfinite(a) & np.isfinite(b)
    product = np.where(finite, np.copysign(np.minimum(np.abs(a * b), 1.0), a * b), a * b)
    exactly_zero = finite & np.isfinite(c) & (a * b == -c)
    return np.where(exactly_zero & (c != 0), 0.0, product + c)


def f64_div(mode: Rounding) -> Function:
    """Division."""
    if mode is Rounding.RN:
        return np.divide
    exact = _exact(lambda a, b: a / b if b else Fraction(0), np.divide, mode)
    return exact


def f64_rcp(mode: Rounding) -> Function:
    """Reciprocal."""
    divide = f64_div(mode)
    return lambda a: divide(np.ones_like(a), a)


def f64_sqrt(mode: Rounding) -> Function:
    """Square root."""
    if mode is Rounding.RN:
        return np.sqrt

    def side(nearest: float, a: float) -> float:
        if not math.isfinite(nearest) or not math.isfinite(a):
            return 0.0
        difference = Fraction(a) - Fraction(nearest) ** 2
        return float((difference > 0) - (difference < 0))

    sides = np.frompyfunc(side, 2, 1)

    def root(a: Array) -> Array:
        nearest = np.sqrt(a)
        return directed(nearest, sides(nearest, a).astype(np.float64), mode)

    return root
