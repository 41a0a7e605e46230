"""Operands as the adder sees them: exact values with the exponents that were encoded.

The window is placed by *raw* exponents: the encoded exponent, unbiased, and that of the smallest normal number for
subnormals. A zero has none (``NO_EXPONENT``). Inf and NaN never reach the adder: their values are zero here, and
``specials`` keeps them for ``specials.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.arith.exponents import NO_EXPONENT, Exponents
from umma_probe.spec.encoding import decode_to_float64
from umma_probe.spec.formats import FORMATS, NumberFormat

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Operand:
    """A or B of one instruction; every array is (rows, K)."""

    values: NDArray[np.float64]
    """Exact; zero where the element is zero, Inf or NaN."""
    raw: NDArray[np.int16]
    """Raw exponents; ``NO_EXPONENT`` where ``values`` is zero."""
    lowest_bits: NDArray[np.int16]
    """Exponents of the lowest bits that are set, never above ``raw``; ``-NO_EXPONENT`` where ``values`` is zero."""
    specials: NDArray[np.float64] | None
    """The values with Inf and NaN; None if there are none."""

    @cached_property
    def highest(self) -> int:
        """The largest raw exponent; ``NO_EXPONENT`` if all are zero."""
        return int(self.raw.max())

    @cached_property
    def lowest_bit(self) -> int:
        """All values are multiples of ``2^lowest_bit``; ``-NO_EXPONENT`` if all are zero."""
        return int(self.lowest_bits.min())

    @property
    def exponents(self) -> Exponents:
        """``raw``; no raw exponent is below the lowest bit."""
        return Exponents(self.raw, min(self.lowest_bit, self.highest), self.highest)

    @property
    def fineness(self) -> Exponents:
        """The lowest bits, negated: the largest sum is the lowest bit of the products."""
        return Exponents(-self.lowest_bits, -max(self.lowest_bit, self.highest), -self.lowest_bit)

    @property
    def significand_bits(self) -> int:
        """Of the longest element, without the leading bit."""
        return int((self.raw - self.lowest_bits).max())


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
    values = -decoded.values if negate else decoded.values
    if (finite := np.isfinite(values)).all():
        return replace(decoded, values=values)
    return replace(decoded, values=np.where(finite, values, 0.0), specials=values)


def scaled(elements: Operand, scales: Operand) -> Operand:
    """Each element times the scale of its block, exactly.

    :param scales: (rows, S); block s is the elements from ``s * K / S`` on. A scale that is NaN makes zeros.
    """
    block = elements.values.shape[1] // scales.values.shape[1]
    values = elements.values * np.repeat(scales.values, block, axis=1)
    zero = values == 0.0
    raw = elements.raw + np.repeat(scales.raw, block, axis=1)
    lowest_bits = elements.lowest_bits + np.repeat(scales.lowest_bits, block, axis=1)
    np.putmask(raw, zero, NO_EXPONENT)
    np.putmask(lowest_bits, zero, -NO_EXPONENT)
    return Operand(values, raw, lowest_bits, elements.specials)


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


@np.errstate(invalid="ignore")  # a signalling NaN is data here
def _decode(words: NDArray[np.unsignedinteger[Any]], fmt: NumberFormat) -> Operand:
    if fmt.name == "tf32":
        kept = words.astype(np.uint32, copy=False) & np.uint32(-1 << fmt.container_shift & 0xFFFF_FFFF)
        return _analyse(kept.view(np.float32).astype(np.float64), fmt)
    table = _table(fmt.name)
    codes = words & words.dtype.type((1 << fmt.bits) - 1)
    return Operand(table.values.take(codes), table.raw.take(codes), table.lowest_bits.take(codes), None)


@cache
def _table(name: str) -> Operand:
    """All codes of a format of at most 16 bits."""
    fmt = FORMATS[name]
    return _analyse(decode_to_float64(np.arange(1 << fmt.bits, dtype=np.uint32), fmt), fmt)


def _analyse(values: NDArray[np.float64], fmt: NumberFormat) -> Operand:
    """Exponents of values that came from ``fmt``; those of Inf and NaN are the exponents of a zero.

    No subnormal of these formats is a subnormal float64, so that its exponent field is that of the leading bit.
    """
    bits = values.view(np.int64) & 0x7FFF_FFFF_FFFF_FFFF
    absent = (bits == 0) | (bits >= 0x7FF << 52)
    leading = (bits >> 52) - 1023
    raw = np.maximum(leading, 1 - fmt.bias if fmt.has_zero else -fmt.bias)
    significand = (bits & 0xF_FFFF_FFFF_FFFF) | 1 << 52
    isolated = (significand & -significand).astype(np.float64)
    lowest_bits = leading - 52 + (isolated.view(np.int64) >> 52) - 1023
    np.putmask(raw, absent, NO_EXPONENT)
    np.putmask(lowest_bits, absent, -NO_EXPONENT)
    return Operand(values, raw.astype(np.int16), lowest_bits.astype(np.int16), None)
