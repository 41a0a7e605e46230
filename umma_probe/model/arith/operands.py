"""Operands as the adder sees them: exact values with the exponents that were encoded.

The window is placed by *raw* exponents: the encoded exponent, unbiased, and that of the smallest normal number for
subnormals. A zero has none (``NO_EXPONENT``). Inf and NaN never reach the adder: their values are zero here, and
``specials`` keeps them for ``specials.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.spec.encoding import decode_to_float64
from umma_probe.spec.formats import FORMATS, NumberFormat

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_EXPONENT = -0x2000
"""Raw exponent of a zero: below every real one, and so is a sum of several."""


@dataclass(frozen=True)
class Operand:
    """A or B of one instruction; every array is (rows, K)."""

    values: NDArray[np.float64]
    """Exact; zero where the element is zero, Inf or NaN."""
    raw: NDArray[np.int16]
    """Raw exponents; ``NO_EXPONENT`` where ``values`` is zero."""
    lowest_bit: int
    """Every value is a multiple of ``2^lowest_bit``."""
    specials: NDArray[np.float64] | None
    """The values with Inf and NaN; None if there are none."""

    @property
    def highest(self) -> int:
        """The largest raw exponent; ``NO_EXPONENT`` if all are zero."""
        return int(self.raw.max())

    @property
    def lowest(self) -> int:
        """The smallest raw exponent of a nonzero value; 0 if all are zero."""
        return int(self.raw.min(initial=0, where=self.values != 0)) if self.values.any() else 0


@dataclass(frozen=True)
class Accumulator:
    """C of one instruction; arrays are (M, N)."""

    words: NDArray[np.uint32]
    values: NDArray[np.float64]
    fmt: NumberFormat
    scale_down: int
    """C is multiplied by ``2^-scale_down`` (``scale-input-d``)."""
    specials: NDArray[np.float64] | None

    @property
    def highest(self) -> int:
        """The largest raw exponent; ``NO_EXPONENT`` if all are zero."""
        top = float(np.abs(self.values).max(initial=0.0))
        if top == 0.0:
            return NO_EXPONENT
        return max(int(np.frexp(top)[1]) - 1, 1 - self.fmt.bias - self.scale_down)

    def raw(self) -> NDArray[np.int16]:
        """Raw exponents; ``NO_EXPONENT`` where C is zero."""
        field = ((self.words >> np.uint32(self.fmt.fraction_bits)) & np.uint32(self.fmt.exponent_limit)).astype(
            np.int16
        )
        np.maximum(field, 1, out=field)
        field -= np.int16(self.fmt.bias + self.scale_down)
        field[self.values == 0.0] = NO_EXPONENT
        return field


def operand(
    words: NDArray[np.unsignedinteger], fmt: NumberFormat, *, negate: bool, valid: NDArray[np.bool_] | None = None
) -> Operand:
    """Decode (rows, K) element words; where ``valid`` is False the element is absent, which is the same as zero."""
    values = _values(words, fmt)
    if negate:
        values = -values
    if valid is not None:
        values = np.where(valid, values, 0.0)
    finite = np.isfinite(values)
    specials = None
    if not finite.all():
        specials, values = values, np.where(finite, values, 0.0)
    raw, lowest_bit = raw_exponents(values, fmt)
    return Operand(values, raw, lowest_bit, specials)


def accumulator(words: NDArray[np.unsignedinteger], fmt: NumberFormat, scale_down: int) -> Accumulator:
    """Decode (M, N) words of an F32 or F16 accumulator; F16 is the low half."""
    words = words.astype(np.uint32, copy=False)
    if fmt.name == "f32":
        values = np.ascontiguousarray(words).view(np.float32).astype(np.float64)
    else:
        values = _values(words, fmt)
    if scale_down:
        values = values * 2.0**-scale_down
    specials = None
    finite = np.isfinite(values)
    if not finite.all():
        specials, values = values, np.where(finite, values, 0.0)
    return Accumulator(words, values, fmt, scale_down, specials)


def raw_exponents(values: NDArray[np.float64], fmt: NumberFormat) -> tuple[NDArray[np.int16], int]:
    """The raw exponents of finite values, and the largest ``g`` such that all are multiples of ``2^g`` (0 if all zero).

    A float64 shows its exponent in bits 52-62 and, its values having at most 11 significant bits here, the rest above.
    """
    bits = np.ascontiguousarray(values).view(np.int64) & 0x7FFF_FFFF_FFFF_FFFF
    exponent = ((bits >> 52) - 1023).astype(np.int16)
    raw = np.maximum(exponent, np.int16(1 - fmt.bias if fmt.has_zero else -fmt.bias))
    zero = bits == 0
    raw[zero] = NO_EXPONENT
    significand = (bits & 0xF_FFFF_FFFF_FFFF) | (1 << 52)
    lowest_set = (significand & -significand).astype(np.float64).view(np.int64) >> 52
    lowest_bit = lowest_set - (1023 + 52) + exponent
    return raw, int(lowest_bit.min(initial=0x7FFF, where=~zero)) if not zero.all() else 0


def _values(words: NDArray[np.unsignedinteger], fmt: NumberFormat) -> NDArray[np.float64]:
    if fmt.name == "tf32":
        kept = words.astype(np.uint32, copy=False) & np.uint32(0xFFFF_FFFF << fmt.container_shift & 0xFFFF_FFFF)
        return kept.view(np.float32).astype(np.float64)
    return _table(fmt.name).take(words & words.dtype.type((1 << fmt.bits) - 1))


@lru_cache(maxsize=None)
def _table(name: str) -> NDArray[np.float64]:
    """The values of all codes of a format of at most 16 bits."""
    fmt = FORMATS[name]
    return decode_to_float64(np.arange(1 << fmt.bits, dtype=np.uint32), fmt)
