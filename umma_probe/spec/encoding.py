"""Container words to numbers and back, for every row of ``spec/formats.py``; exact, no rounding anywhere.

Every format here fits float64 without loss, so float64 is the common value type. Bits of the container that the tensor
core ignores (the low 13 of TF32, bit 7 of UE4M3) are ignored when decoding and zero when encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.spec.formats import FORMATS, NumberFormat

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_F64 = FORMATS["f64"]


def decode_to_float64(words: ArrayLike, fmt: NumberFormat | str) -> NDArray[np.float64]:
    """The values of container words, same shape.

    :param words: integers; bits above the container are ignored.
    :raises ConfigError: ``fmt`` is an unknown name.
    """
    fmt = _row(fmt)
    codes = (np.asarray(words).astype(np.uint64, copy=False) >> np.uint64(fmt.container_shift)) & np.uint64(
        (1 << fmt.bits) - 1
    )
    if fmt is _F64:
        return codes.view(np.float64)
    if fmt.is_integer:
        return _decode_integer(codes.astype(np.int64), fmt)
    return _decode_float(codes.astype(np.int64), fmt)


def encode_exact(values: ArrayLike, fmt: NumberFormat | str) -> NDArray[Any]:
    """Container words of ``values``, same shape, of type ``fmt.word_dtype``.

    NaN becomes ``fmt.nan_word``; ``-0.0`` becomes 0 where the format has no negative zero.

    :raises ConfigError: ``fmt`` is an unknown name, or it cannot hold a value exactly (the first such is named).
    """
    fmt = _row(fmt)
    array = np.asarray(values, dtype=np.float64)
    codes = _encode_integer(array, fmt) if fmt.is_integer else _encode_float(array, fmt)
    words: NDArray[Any] = (codes << np.uint64(fmt.container_shift)).astype(fmt.word_dtype)
    decoded = decode_to_float64(words, fmt)
    wrong = ~((decoded == array) | (np.isnan(decoded) & np.isnan(array)))
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        value = float(array[index])
        raise ConfigError(
            f"{fmt.name}: value{list(index) if index else ''} is {value!r}, must be one that the format holds exactly"
        )
    return words


def _row(fmt: NumberFormat | str) -> NumberFormat:
    return FORMATS[fmt] if isinstance(fmt, str) else fmt


def _decode_integer(codes: NDArray[np.int64], fmt: NumberFormat) -> NDArray[np.float64]:
    if fmt.signed:
        sign = 1 << (fmt.bits - 1)
        codes = (codes ^ sign) - sign
    return codes.astype(np.float64)


def _decode_float(codes: NDArray[np.int64], fmt: NumberFormat) -> NDArray[np.float64]:
    fraction = codes & ((1 << fmt.fraction_bits) - 1)
    exponent = (codes >> fmt.fraction_bits) & fmt.exponent_limit
    subnormal = (exponent == 0) & fmt.has_zero
    significand = np.where(subnormal, fraction, fraction | (1 << fmt.fraction_bits)).astype(np.float64)
    scale = np.where(subnormal, 1, exponent) - fmt.bias - fmt.fraction_bits
    values = np.ldexp(significand, scale)
    if fmt.has_inf:
        special = exponent == fmt.exponent_limit
        values = np.where(special, np.where(fraction == 0, np.inf, np.nan), values)
    elif fmt.has_nan:
        all_ones = (1 << (fmt.exponent_bits + fmt.fraction_bits)) - 1
        values = np.where((codes & all_ones) == all_ones, np.nan, values)
    if fmt.signed:
        negative = (codes >> (fmt.bits - 1)) != 0
        values = np.where(negative, -values, values)
    return np.asarray(values, dtype=np.float64)


def _encode_integer(values: NDArray[np.float64], fmt: NumberFormat) -> NDArray[np.uint64]:
    """Two's complement codes; what does not fit becomes some other code, which the caller's check finds."""
    low, high = (-(1 << fmt.fraction_bits), (1 << fmt.fraction_bits) - 1) if fmt.signed else (0, (1 << fmt.bits) - 1)
    clamped = np.clip(np.nan_to_num(values, nan=0.0), low, high).astype(np.int64)
    return (clamped & ((1 << fmt.bits) - 1)).astype(np.uint64)


def _encode_float(values: NDArray[np.float64], fmt: NumberFormat) -> NDArray[np.uint64]:
    """Codes of the values cut off to the format; what does not fit becomes another code: the caller checks."""
    if fmt is _F64:
        nan = np.uint64(_F64.nan_word or 0)
        return np.where(np.isnan(values), nan, values.view(np.uint64))
    finite = np.isfinite(values)
    magnitude = np.abs(np.where(finite, values, 0.0))
    lowest = (1 if fmt.has_zero else 0) - fmt.bias
    exponent = np.maximum(np.frexp(magnitude)[1] - 1, lowest)
    significand = np.ldexp(magnitude, fmt.fraction_bits - exponent).astype(np.int64)
    normal = significand >> fmt.fraction_bits != 0
    field = np.where(normal, exponent + fmt.bias, 0)
    codes = (field << fmt.fraction_bits) | (significand & ((1 << fmt.fraction_bits) - 1))
    codes = np.where((field > fmt.exponent_limit) | ~finite, 0, codes)
    if fmt.has_inf:
        codes = np.where(np.isinf(values), fmt.exponent_limit << fmt.fraction_bits, codes)
    if fmt.nan_word is not None:
        codes = np.where(np.isnan(values), fmt.nan_word >> fmt.container_shift, codes)
    if fmt.signed:
        codes = codes | (np.signbit(values) & ~np.isnan(values)).astype(np.int64) << (fmt.bits - 1)
    return np.asarray(codes, dtype=np.int64).astype(np.uint64)
