"""The function unit that stands behind ``ex2 lg2 rcp rsqrt sqrt sin cos`` (``MUFU``), bit for bit as on an H200.

The unit cuts a function's domain into 64 or 128 segments and interpolates in each with a parabola:

    S = (c0 << p) + c1 * x + c2 * square(x) + rounding,    result = S >> q

where x is what the fraction has below the segment's number and ``square`` drops the low half of its partial products.
The coefficients have 26, 16 and 10 bits, as those of the unit that Oberman and Siu describe (ARITH 2005). All of it was
fitted to results of an H200 on whole binades (``reports/silicon-h200/function_unit.json``); no input was found on which
this differs. That the unit of other targets has the same tables is assumed.

Functions take and give f32 words. Subnormal inputs count as zeros of their sign, subnormal results become zeros: the
``.ftz`` forms are the unit itself. Every NaN is 0x7fffffff.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.arith import mufu_tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]
    Integers = NDArray[np.int64]

_NAN, _INFINITY, _SIGN = 0x7FFFFFFF, 0x7F800000, 0x80000000
_ONE = 1 << 23
_FRACTION = _ONE - 1
_BIAS = 127
_X_BITS = 17


@dataclass(frozen=True)
class _Interpolation:
    """One function's tables, and how its three terms are aligned."""

    rows: tuple[tuple[int, int, int], ...]
    c0_shift: int
    rounding: int
    x_bits: int = _X_BITS
    square_shift: int = 0

    def __call__(self, position: Integers) -> Integers:
        """S for each position: the number of the segment, then x."""
        c0, c1, c2 = self._columns
        segment, x = position >> self.x_bits, position & ((1 << self.x_bits) - 1)
        total: Integers = c2[segment]
        total *= _squares()[x << (_X_BITS - self.x_bits)]
        x *= c1[segment]
        total += x
        total += c0[segment]
        return total

    @cached_property
    def _columns(self) -> tuple[Integers, Integers, Integers]:
        """The coefficients, aligned and with the rounding constant."""
        c0, c1, c2 = np.array(self.rows, np.int64).T.copy()
        return (c0 << self.c0_shift) + self.rounding, c1, c2 << self.square_shift


@cache
def _squares() -> Integers:
    """x * x / 2^19 for each x of 17 bits, each partial product cut off on its own."""
    x = np.arange(1 << _X_BITS)
    total = np.zeros_like(x)
    for bit in range(_X_BITS):
        total += np.where(x >> bit & 1, x >> (_X_BITS + 1 - bit), 0)
    return total >> 1


_EX2 = _Interpolation(mufu_tables.EX2, 13, 0x77E2)
_LG2 = _Interpolation(mufu_tables.LG2, 12, 0x3345, square_shift=1)
_RCP = _Interpolation(mufu_tables.RCP, 13, 0x47E7, x_bits=16)
_RSQRT = _Interpolation(mufu_tables.RSQRT, 14, 0x7FFF, square_shift=2)
_SQRT = _Interpolation(mufu_tables.SQRT, 14, 0x3FFF)
_SIN = _Interpolation(mufu_tables.SIN, 11, 0)


class _Parts:
    """f32 words taken apart."""

    def __init__(self, words: Words) -> None:
        wide = words.astype(np.int64)
        self.sign = wide & _SIGN
        self.exponent = wide >> 23 & 0xFF
        self.fraction = wide & _FRACTION
        self.zero = self.exponent == 0
        top = self.exponent == 0xFF
        self.infinite = top & (self.fraction == 0)
        self.nan = top & (self.fraction != 0)


def _packed(exponent: Integers, significand: Integers) -> Integers:
    """A positive word from a biased exponent and a significand from 2^23 to 2^24; too small is 0, too large Inf."""
    word = (exponent << 23) + (significand - _ONE)
    word *= word >= _ONE
    np.minimum(word, _INFINITY, out=word)
    return word


def _cut(magnitude: Integers, unit_bit: int) -> Integers:
    """A positive word from a fixed-point number whose bit ``unit_bit`` is 1.0, cut off to 24 bits; 0 is 0."""
    values = magnitude.astype(np.float64)  # below 2^53
    _, length = np.frexp(values)
    kept = np.where(length > 24, magnitude >> np.maximum(length - 24, 0), magnitude << np.maximum(24 - length, 0))
    return np.where(magnitude == 0, 0, _packed(length - 1 - unit_bit + _BIAS, kept))


def _words(values: Any) -> Words:
    return np.asarray(values).astype(np.uint32)


def ex2(words: Words) -> Words:
    """2^a. A negative a with a fraction is taken as the complement of its magnitude, which is cut off to 23 bits."""
    values = np.ascontiguousarray(words).view(np.float32)
    scaled = np.clip(values.astype(np.float64) * _ONE, -_BIAS << 23, (_BIAS + 1) << 23)
    nan = values != values
    if some_nan := bool(nan.any()):
        scaled[nan] = 0
    value = scaled.astype(np.int64)
    position = value & _FRACTION
    value -= (value < 0) & (position != 0)
    result = _packed((value >> 23) + _BIAS, _EX2(value & _FRACTION) >> 15)
    if some_nan:
        result[nan] = _NAN
    return _words(result)


def lg2(words: Words) -> Words:
    """The logarithm of a to base 2, cut off; a negative one is taken as the complement."""
    a = _Parts(words)
    part = _LG2(a.fraction) >> 2
    part = np.where((a.fraction == 0) & (a.exponent == _BIAS), 0, part)
    value = part + ((a.exponent - _BIAS) << 36)
    result = _cut(np.where(value < 0, ~value, value), 36) | np.where(value < 0, _SIGN, 0)
    result = np.where(a.infinite, _INFINITY, result)
    result = np.where(a.nan | (a.sign != 0), _NAN, result)
    return _words(np.where(a.zero, _SIGN | _INFINITY, result))


def rcp(words: Words) -> Words:
    """1 / a."""
    a = _Parts(words)
    result = _packed(2 * _BIAS - 1 - a.exponent, _RCP(a.fraction) >> 15)
    result = np.where(a.zero, _INFINITY, np.where(a.infinite, 0, result))
    return _words(np.where(a.nan, _NAN, result | a.sign))


def rsqrt(words: Words) -> Words:
    """1 / sqrt(a)."""
    a = _Parts(words)
    power = a.exponent - _BIAS
    position = a.fraction | (power & 1) << 23
    significand = np.where(position == 0, 2 * _ONE, _RSQRT(position) >> 16)
    result = _packed(_BIAS - 1 - (power >> 1), significand)
    result = np.where(a.infinite, 0, result)
    result = np.where(a.nan | (a.sign != 0), _NAN, result)
    return _words(np.where(a.zero, _INFINITY | a.sign, result))


def sqrt(words: Words) -> Words:
    """The square root of a."""
    a = _Parts(words)
    power = a.exponent - _BIAS
    position = a.fraction | (power & 1) << 23
    significand = np.where(position == 0, _ONE, _SQRT(position) >> 17)
    result = _packed(_BIAS + (power >> 1), significand)
    result = np.where(a.infinite, _INFINITY, result)
    result = np.where(a.nan | (a.sign != 0), _NAN, result)
    return _words(np.where(a.zero, a.sign, result))


def sin(words: Words) -> Words:
    """The sine of a turns."""
    a = _Parts(words)
    return _quarters(a, _quarter_turns(a), a.sign)


def cos(words: Words) -> Words:
    """The cosine of a turns."""
    a = _Parts(words)
    return _quarters(a, _quarter_turns(a) + _ONE, np.zeros_like(a.sign))


def _quarter_turns(a: _Parts) -> Integers:
    """The magnitude in quarters of a turn, with 23 fraction bits, without whole turns."""
    shift = a.exponent - _BIAS + 2
    whole = a.fraction | _ONE
    scaled = np.where(shift >= 0, whole << np.clip(shift, 0, 32), whole >> np.clip(-shift, 0, 32))
    return np.where(a.zero | (shift > 32), 0, scaled) & (4 * _ONE - 1)


def _quarters(a: _Parts, turns: Integers, sign: Integers) -> Words:
    quarter = turns >> 23
    position = np.where(quarter & 1, ~turns, turns) & _FRACTION
    result = _cut(_SIN(position), 37) | (sign ^ np.where(quarter & 2, _SIGN, 0))
    return _words(np.where(a.nan | a.infinite, _NAN, result))
