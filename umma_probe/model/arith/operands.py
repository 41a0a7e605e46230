"""Operands as the adder sees them: exact values with the exponents that were encoded.

The window is placed by *raw* exponents: the encoded exponent, unbiased, and that of the smallest normal number for
subnormals. A zero has none (``NO_EXPONENT``). Inf and NaN never reach the adder: their values are zero here, and
``specials`` keeps them for ``specials.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.spec.encoding import decode_to_float64
from umma_probe.spec.formats import FORMATS, NumberFormat

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_EXPONENT = -0x2000
"""Raw exponent of a zero: below every real one, and so is the sum of two."""

_NO_BIT = 0x2000


@dataclass(frozen=True)
class Operand:
    """A or B of one instruction; every array is (rows, K)."""

    values: NDArray[np.float64]
    """Exact; zero where the element is zero, Inf or NaN."""
    raw: NDArray[np.int16]
    """Raw exponents; ``NO_EXPONENT`` where ``values`` is zero."""
    highest: int
    """The largest raw exponent; ``NO_EXPONENT`` if all are zero."""
    lowest_bit: int
    """Every value is a multiple of ``2^lowest_bit``, the largest such power; 0 if all are zero.

    No raw exponent is below it.
    """
    specials: NDArray[np.float64] | None
    """The values with Inf and NaN; None if there are none."""


@dataclass(frozen=True)
class Accumulator:
    """C of one instruction; arrays are (M, N)."""

    words: NDArray[np.uint32]
    values: NDArray[np.float64]
    """As for an operand."""
    highest: int
    """The largest raw exponent; ``NO_EXPONENT`` if all are zero."""
    fmt: NumberFormat
    scale_down: int
    """``values`` are those of ``words`` times ``2^-scale_down``, and so are the exponents."""
    specials: NDArray[np.float64] | None

    def raw(self) -> NDArray[np.int16]:
        """Raw exponents; ``NO_EXPONENT`` where C is zero, anything where it is Inf or NaN."""
        field = self.words >> np.uint32(self.fmt.fraction_bits)
        field &= np.uint32(self.fmt.exponent_limit)
        raw = field.astype(np.int16)
        np.maximum(raw, 1, out=raw)
        raw -= np.int16(self.fmt.bias + self.scale_down)
        np.putmask(raw, self.values == 0.0, NO_EXPONENT)
        return raw


@dataclass(frozen=True)
class _Decoded:
    """Values, raw exponents and lowest set bits of words, same shape; zeros have ``NO_EXPONENT`` and ``_NO_BIT``."""

    values: NDArray[np.float64]
    raw: NDArray[np.int16]
    lowest_bit: NDArray[np.int16]


def operand(
    words: NDArray[np.unsignedinteger[Any]],
    fmt: NumberFormat,
    *,
    negate: bool = False,
    valid: NDArray[np.bool_] | None = None,
) -> Operand:
    """Decode (rows, K) element words; where ``valid`` is False the element is absent, which adds as a zero does."""
    if valid is not None:
        words = np.where(valid, words, words.dtype.type(0))
    decoded = _decode(words, fmt)
    values, raw = decoded.values, decoded.raw
    if negate:
        values = -values
    specials = None
    if not (finite := np.isfinite(values)).all():
        specials, values = values, np.where(finite, values, 0.0)
    highest = int(raw.max())
    lowest_bit = int(decoded.lowest_bit.min()) if highest != NO_EXPONENT else 0
    return Operand(values, raw, highest, lowest_bit, specials)


def accumulator(words: NDArray[np.unsignedinteger[Any]], fmt: NumberFormat, scale_down: int = 0) -> Accumulator:
    """Decode (M, N) words of an F32 or F16 accumulator; F16 is the low half."""
    words = np.ascontiguousarray(words, dtype=np.uint32)
    if fmt.name == "f32":
        values = words.view(np.float32).astype(np.float64)
    else:
        values = _table(fmt.name).values.take(words & np.uint32(0xFFFF))
    specials = None
    if not (finite := np.isfinite(values)).all():
        specials, values = values, np.where(finite, values, 0.0)
    if scale_down:
        values *= 2.0**-scale_down
    top = max(-float(values.min()), float(values.max()))
    highest = max(int(np.frexp(top)[1]) - 1, 1 - fmt.bias - scale_down) if top else NO_EXPONENT
    return Accumulator(words, values, highest, fmt, scale_down, specials)


def _decode(words: NDArray[np.unsignedinteger[Any]], fmt: NumberFormat) -> _Decoded:
    if fmt.name == "tf32":
        kept = words.astype(np.uint32, copy=False) & np.uint32(-1 << fmt.container_shift & 0xFFFF_FFFF)
        return _analyse(kept.view(np.float32).astype(np.float64), fmt)
    table = _table(fmt.name)
    codes = words & words.dtype.type((1 << fmt.bits) - 1)
    return _Decoded(table.values.take(codes), table.raw.take(codes), table.lowest_bit.take(codes))


@cache
def _table(name: str) -> _Decoded:
    """All codes of a format of at most 16 bits."""
    fmt = FORMATS[name]
    return _analyse(decode_to_float64(np.arange(1 << fmt.bits, dtype=np.uint32), fmt), fmt)


def _analyse(values: NDArray[np.float64], fmt: NumberFormat) -> _Decoded:
    """Exponents of values that came from ``fmt``; Inf and NaN count as zeros.

    No subnormal of these formats is a subnormal float64, so that its exponent field is that of the leading bit.
    """
    bits = values.view(np.int64) & 0x7FFF_FFFF_FFFF_FFFF
    absent = (bits == 0) | (bits >= 0x7FF << 52)
    leading = (bits >> 52) - 1023
    raw = np.maximum(leading, 1 - fmt.bias if fmt.has_zero else -fmt.bias)
    significand = (bits & 0xF_FFFF_FFFF_FFFF) | 1 << 52
    isolated = (significand & -significand).astype(np.float64)
    lowest_bit = leading - 52 + (isolated.view(np.int64) >> 52) - 1023
    return _Decoded(
        values,
        np.where(absent, NO_EXPONENT, raw).astype(np.int16),
        np.where(absent, _NO_BIT, lowest_bit).astype(np.int16),
    )
