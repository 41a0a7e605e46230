"""From floating values to a destination format of ``cvt``: rounding and clamping (PTX ISA, "cvt").

Rules enforced here: ``.sat`` clamps to [0, 1] and NaN to +0; ``.satfinite`` clamps what overflows, Inf too, to the
largest number; NaN becomes the format's canonical NaN, or the largest number in formats without NaN; ``.relu`` gives
+0 for negative values. The low 13 bits of a tf32 word are zero. (An H200 rounds ``.rna`` in integers, so some NaN
turn into Inf or numbers there; not followed.) UE8M0 ignores the sign, and its field is the exponent of the value, one
more when ``.rp`` lost something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.model.numbers.rounding import (
    Rounding,
    below_normal,
    bf16_words,
    canonical,
    directed,
    f16_words,
    f32_to_odd,
    narrow_f32,
    rectify,
    saturate,
)
from umma_probe.spec.encoding import decode_to_float64, encode_exact
from umma_probe.spec.formats import FORMATS

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array
    from umma_probe.spec.formats import NumberFormat

Function: TypeAlias = "Callable[..., Any]"

HALF_NAN = np.uint16(0x7FFF)
TF32_NAN = np.uint32(0x7FFFE000)


@dataclass(frozen=True)
class Narrowing:
    """The modifiers of one conversion."""

    mode: Rounding | None = Rounding.RN
    """None: to nearest, ties away from zero."""
    sat: bool = False
    relu: bool = False
    satfinite: bool = False
    ftz: bool = False


def to(name: str, how: Narrowing) -> Function:
    """Values (f32, or float64 that may have been rounded to odd) to the words or floats of a row of that type."""
    finish = _FINISH[name](how)
    if how.relu:
        return lambda values: finish(rectify(values))
    if how.sat:
        return lambda values: finish(saturate(values))
    return finish


# ---------------------------------------------------------------------- f64, f32
def _to_f64(how: Narrowing) -> Function:
    return lambda values: values.astype(np.float64)


def _to_f32(how: Narrowing) -> Function:
    mode = how.mode or Rounding.RN
    if how.ftz:
        return lambda values: canonical(_flushed_f32(values.astype(np.float64), mode))
    if mode is Rounding.RN:
        return lambda values: canonical(values.astype(np.float32))
    return lambda values: canonical(narrow_f32(values.astype(np.float64), mode))


def _flushed_f32(values: Array, mode: Rounding) -> Array:
    return narrow_f32(values, mode) * ~below_normal(values, mode)


# ---------------------------------------------------------------------- 16 bits
def _clamp_finite(words: Array, infinity: int) -> Array:
    """Infinite words to the largest number of the same sign."""
    return np.where(words & np.uint16(0x7FFF) == infinity, words - np.uint16(1), words)


def _to_f16(how: Narrowing) -> Function:
    mode = how.mode or Rounding.RN

    def convert(values: Array) -> Array:
        words = f16_words(values)
        if mode is not Rounding.RN:
            nearest = words.view(np.float16)
            side = np.sign(values.astype(np.float64) - nearest)
            words = f16_words(directed(nearest, side, mode))
        return _clamp_finite(words, 0x7C00) if how.satfinite else words

    return convert


def _to_bf16(how: Narrowing) -> Function:
    mode = how.mode or Rounding.RN

    def convert(values: Array) -> Array:
        single = values if values.dtype == np.float32 else f32_to_odd(values)
        words = bf16_words(single) if mode is Rounding.RN else _bf16_directed(single, mode)
        return _clamp_finite(words, 0x7F80) if how.satfinite else words

    return convert


def _bf16_directed(values: Array, mode: Rounding) -> Array:
    bits = np.ascontiguousarray(values).view(np.uint32)
    words = (bits >> np.uint32(16)).astype(np.uint16)
    if mode is not Rounding.RZ:
        outward = np.signbit(values) == (mode is Rounding.RM)
        words = words + (outward & (bits & np.uint32(0xFFFF) != 0))
    return np.where(np.isnan(values), HALF_NAN, words.astype(np.uint16))


# ---------------------------------------------------------------------- tf32
_TF32_LOW = np.uint32(0x1FFF)


def _to_tf32(how: Narrowing) -> Function:
    def convert(values: Array) -> Array:
        bits = np.ascontiguousarray(values).view(np.uint32)
        if how.mode is None:
            words = bits + np.uint32(0x1000)
        elif how.mode is Rounding.RN:
            words = bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))
        else:
            words = bits
        words = words & ~_TF32_LOW
        if how.satfinite:
            overflow = words & np.uint32(0x7FFFFFFF) == 0x7F800000
            words = np.where(overflow, words - np.uint32(0x2000), words)
        return np.where(np.isnan(values), TF32_NAN, words)

    return convert


# ---------------------------------------------------------------------- 8 bits and less
def largest(fmt: NumberFormat) -> float:
    """The largest finite value of a format."""
    reserved = (1 << fmt.fraction_bits) if fmt.has_inf else int(fmt.has_nan)
    return float(decode_to_float64((1 << (fmt.exponent_bits + fmt.fraction_bits)) - 1 - reserved, fmt))


def small_codes(values: Array, fmt: NumberFormat) -> Array:
    """Codes of a format of 8 bits or fewer, to nearest even and clamped to its largest number."""
    limit = largest(fmt)
    wide = values.astype(np.float64)
    finite = np.clip(np.nan_to_num(wide, nan=limit), -limit, limit)
    exponent = np.maximum(np.frexp(finite)[1] - 1, 1 - fmt.bias)
    step = fmt.fraction_bits - exponent
    rounded = np.ldexp(np.rint(np.ldexp(finite, step)), -step)
    if fmt.has_nan:
        rounded = np.where(np.isnan(wide), np.nan, rounded)
    return encode_exact(np.where(np.abs(rounded) > limit, np.copysign(limit, rounded), rounded), fmt)


def _to_small(name: str) -> Callable[[Narrowing], Function]:
    fmt = FORMATS[name]
    return lambda how: lambda values: small_codes(values, fmt)


def _to_ue8m0(how: Narrowing) -> Function:
    def convert(values: Array) -> Array:
        bits = np.ascontiguousarray(values).view(np.uint32) & np.uint32(0x7FFFFFFF)
        field = bits >> np.uint32(23)
        if how.mode is Rounding.RP:
            # 2^-127, the smallest code, is a subnormal f32
            lost = (bits & np.uint32(0x7FFFFF) != 0) & (bits > 0x400000) & (bits < 0x7F800000)
            field = field + lost
        if how.satfinite:
            field = np.where((field == 0xFF) & (bits <= 0x7F800000), 0xFE, field)
        return field.astype(np.uint8)

    return convert


_FINISH: dict[str, Callable[[Narrowing], Function]] = {
    "f64": _to_f64,
    "f32": _to_f32,
    "f16": _to_f16,
    "bf16": _to_bf16,
    "tf32": _to_tf32,
    "ue8m0": _to_ue8m0,
    **{name: _to_small(name) for name in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")},
}
