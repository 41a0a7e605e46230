"""IEEE 754 arithmetic on arrays in the four rounding modes of PTX, with PTX's own rules for NaN and subnormals.

Rules enforced here (PTX ISA, "Floating Point Instructions"): an f32 result that is NaN is 0x7fffffff; ``.ftz`` takes
subnormal inputs as zeros of their sign and flushes subnormal results likewise; ``.sat`` clamps to [0, 1], and NaN to
+0.

How exactness is had: NumPy rounds f32 and f64 ``+ - * / sqrt`` to nearest, as IEEE 754 demands. Everything else goes
through float64 *rounded to odd*: the sum is cut and its last bit set if anything was lost. Such a value can be
rounded once more, in any mode, to any format at least two bits shorter, as if it were exact (Boldo and Melquiond,
"Emulation of a FMA and correctly rounded sums"). Float64 itself, in directed modes and in ``fma``, goes through
rational numbers, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array

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


def saturate(values: Array) -> Any:
    """Clamped to [+0, 1]; NaN gives +0."""
    return np.where(values > 0, np.minimum(values, values.dtype.type(1)), values.dtype.type(0))


def rectify(values: Array) -> Array:
    """``.relu``: negative values and -0 give +0; NaN stays."""
    return np.where(values <= 0, values.dtype.type(0), values)


@dataclass(frozen=True)
class F32Core:
    """An f32 operation in one rounding mode."""

    rounded: Function
    """f32 arrays to f32, subnormals included."""
    exact: Function | None = None
    """f32 arrays to float64, exact or rounded to odd; None where no inexact result is below 2^-126."""
    mode: Rounding = Rounding.RN


def f32_function(core: F32Core, *, ftz: bool = False, sat: bool = False) -> Function:
    """``core`` with PTX's treatment of NaN, subnormals and saturation."""
    last = saturate if sat else canonical
    if ftz:
        return lambda *values: last(_flushed(core, *map(flush, values)))
    return lambda *values: last(core.rounded(*values))


def _flushed(core: F32Core, *values: Array) -> Any:
    result = core.rounded(*values)
    magnitude = np.abs(result)
    if core.exact is not None:
        edge = magnitude == F32_TINY
        if edge.any():
            kept = ~below_normal(core.exact(*(v[edge] for v in values)), core.mode)
            result[edge] *= kept
    return result * (magnitude >= F32_TINY)


def below_normal(exact: Array, mode: Rounding) -> Array:
    """Whether float64 values near 2^-126 stay below it when rounded to 24 bits with an unbounded exponent.

    That, not the subnormal result, decides whether ``.ftz`` flushes (measured on an H200).
    """
    return np.abs(narrow_f32(exact * 2.0**32, mode)) < F32_TINY * 2.0**32


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


def f32_to_odd(values: Array) -> Any:
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
def f32_add(mode: Rounding) -> F32Core:
    """Addition; a subnormal sum is exact."""
    if mode is Rounding.RN:
        return F32Core(np.add)
    return F32Core(lambda a, b: _f32_sum(a.astype(np.float64), b.astype(np.float64), mode))


def f32_sub(mode: Rounding) -> F32Core:
    """Subtraction; a subnormal difference is exact."""
    if mode is Rounding.RN:
        return F32Core(np.subtract)
    return F32Core(lambda a, b: _f32_sum(a.astype(np.float64), -b.astype(np.float64), mode))


def _f32_sum(a: Array, b: Array, mode: Rounding) -> Array:
    total = narrow_f32(sum_to_odd(a, b), mode)
    if mode is Rounding.RM:
        exact_zero = (a + b == 0) & (np.signbit(a) | np.signbit(b))
        total = np.where(exact_zero, np.float32(-0.0), total)
    return total


def _product(a: Array, b: Array) -> Array:
    """The product of two f32, exact in float64."""
    return a.astype(np.float64) * b


def f32_mul(mode: Rounding) -> F32Core:
    """Multiplication."""
    if mode is Rounding.RN:
        return F32Core(np.multiply, _product)
    return F32Core(lambda a, b: narrow_f32(_product(a, b), mode), _product, mode)


def _product_sum(a: Array, b: Array, c: Array) -> Array:
    return sum_to_odd(_product(a, b), c.astype(np.float64))


def f32_fma(mode: Rounding) -> F32Core:
    """a * b + c, rounded once."""
    if mode is Rounding.RN:
        return F32Core(_f32_fma_nearest, _product_sum)
    return F32Core(lambda a, b, c: _f32_sum(_product(a, b), c.astype(np.float64), mode), _product_sum, mode)


def _f32_fma_nearest(a: Array, b: Array, c: Array) -> Array:
    product = _product(a, b)
    total = product + c
    # two roundings can differ from one only if the first ends on a tie of the second: then these bits are zero
    if (total.view(np.uint64) & _LOW_28).all():
        return total.astype(np.float32)
    return sum_to_odd(product, c.astype(np.float64)).astype(np.float32)


def _quotient(a: Array, b: Array) -> Array:
    """The quotient of two f32 in float64: not exact, but never on the wrong side of an f32 or of a tie of two."""
    return a.astype(np.float64) / b


def f32_div(mode: Rounding) -> F32Core:
    """Division. The residual of a quotient to nearest is exact in float64."""
    if mode is Rounding.RN:
        return F32Core(np.divide, _quotient)

    def divide(a: Array, b: Array) -> Array:
        nearest = a / b
        wide = b.astype(np.float64)
        residual = a - nearest.astype(np.float64) * wide
        return directed(nearest, residual * np.sign(wide), mode)

    return F32Core(divide, _quotient, mode)


def f32_rcp(mode: Rounding) -> F32Core:
    """Reciprocal."""
    divide = f32_div(mode)
    return F32Core(lambda a: divide.rounded(np.ones_like(a), a), lambda a: _quotient(np.ones_like(a), a), mode)


def f32_sqrt(mode: Rounding) -> F32Core:
    """Square root; never subnormal."""
    if mode is Rounding.RN:
        return F32Core(np.sqrt)

    def root(a: Array) -> Array:
        nearest = np.sqrt(a)
        return directed(nearest, a - nearest.astype(np.float64) ** 2, mode)

    return F32Core(root)


# ---------------------------------------------------------------------- f64
F64_QUIET = np.uint64(1 << 51)


def f64_function(core: Function, *, dividend_first: bool = False) -> Function:
    """``core`` with NaN passed on as an H200 does, made quiet: that of b before that of c before that of a.

    :param dividend_first: ``div`` takes that of a before that of b.
    """

    def apply(*values: Array) -> Any:
        result = core(*values)
        if np.isnan(result).any():
            last_wins = reversed(values) if dividend_first else (values[0], *reversed(values[1:]))
            for source in last_wins:
                bad = np.isnan(source)
                result[bad] = (source[bad].view(np.uint64) | F64_QUIET).view(np.float64)
        return result

    return apply


def _exact(function: Callable[..., Fraction], nearest: Function, mode: Rounding) -> Function:
    """A float64 function: ``nearest`` where it is special, else the rational ``function`` rounded."""

    def one(start: float, *values: float) -> float:
        if not all(map(math.isfinite, values)):
            return start
        exact = function(*map(Fraction, values))
        if exact == 0:
            return start
        return round_f64(exact, mode)

    scalar: Function = np.frompyfunc(one, len(_names(function)) + 1, 1)

    def apply(*values: Array) -> Any:
        return scalar(nearest(*values), *values).astype(np.float64)

    return apply


def _names(function: Callable[..., Fraction]) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def round_f64(exact: Fraction, mode: Rounding) -> float:
    """A rational number, not zero, as float64."""
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = math.inf if exact > 0 else -math.inf
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
    return nearest


def _downward(nearest: Function, mode: Rounding) -> Function:
    """Give a sum that is exactly zero its sign in downward rounding: -0, unless both parts are +0."""
    if mode is not Rounding.RM:
        return nearest

    def apply(*values: Array) -> Array:
        total = nearest(*values)
        first, second = (values[0] * values[1], values[2]) if len(values) == 3 else values
        return np.where((total == 0) & (np.signbit(first) | np.signbit(second)), -0.0, total)

    return apply


def f64_add(mode: Rounding) -> Function:
    """Addition."""
    if mode is Rounding.RN:
        return np.add
    return _exact(lambda a, b: a + b, _downward(np.add, mode), mode)


def f64_sub(mode: Rounding) -> Function:
    """Subtraction."""
    add = f64_add(mode)
    return np.subtract if mode is Rounding.RN else lambda a, b: add(a, -b)


def f64_mul(mode: Rounding) -> Function:
    """Multiplication."""
    return np.multiply if mode is Rounding.RN else _exact(lambda a, b: a * b, np.multiply, mode)


def f64_fma(mode: Rounding) -> Function:
    """a * b + c, rounded once."""
    return _exact(lambda a, b, c: a * b + c, _downward(_f64_fma_special, mode), mode)


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
    return _exact(lambda a, b: a / b if b else Fraction(0), np.divide, mode)


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

    sides: Function = np.frompyfunc(side, 2, 1)

    def root(a: Array) -> Array:
        nearest = np.sqrt(a)
        return directed(nearest, sides(nearest, a).astype(np.float64), mode)

    return root
