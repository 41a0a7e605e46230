"""Operands and accumulators drawn so that the edges of the arithmetic count.

Exponents near and far apart, cancellation, subnormals, infinities and NaNs. Every function draws container words of one
number format, of a shape (rows, columns).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from umma_probe.spec.formats import NumberFormat

    Words = NDArray[np.uint32]
    Random = np.random.Generator


def _any_bits(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    """Every code equally likely, NaNs and infinities among them."""
    return random.integers(0, 1 << row.container_bits, shape, dtype=np.uint64).astype(np.uint32)


def _assembled(row: NumberFormat, sign: Any, exponent: Any, fraction: Any) -> Words:
    """Words from fields; exponents beyond the largest finite one are cut."""
    highest = row.exponent_limit - (1 if row.has_inf or row.fraction_bits == 0 else 0)
    field = np.clip(exponent, 0, highest).astype(np.uint64)
    code = (np.asarray(sign, np.uint64) << np.uint64(row.bits - 1)) | field << np.uint64(row.fraction_bits)
    code |= np.asarray(fraction, np.uint64)
    top_is_nan = row.has_nan and not row.has_inf
    if top_is_nan:
        code = np.where(code & np.uint64((1 << row.bits - 1) - 1) == (1 << row.bits - 1) - 1, code - np.uint64(1), code)
    return np.asarray(code << np.uint64(row.container_shift), np.uint32)


def _near(random: Random, shape: tuple[int, int], row: NumberFormat, spread: int) -> Words:
    """Finite numbers whose exponents lie within ``spread`` of one another, around 1."""
    if row.is_integer:
        return _any_bits(random, shape, row)
    centre = row.bias
    exponent = random.integers(centre - spread // 2, centre + spread - spread // 2 + 1, shape)
    return _assembled(row, random.integers(0, 2, shape), exponent, random.integers(0, 1 << row.fraction_bits, shape))


def _normal(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    return _near(random, shape, row, 4)


def _wide(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    return _near(random, shape, row, min(40, row.exponent_limit))


def _small(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    """Subnormals and the smallest normal numbers, one in four an ordinary one."""
    if row.is_integer:
        return _any_bits(random, shape, row)
    low = _assembled(row, random.integers(0, 2, shape), random.integers(0, 3, shape),
                     random.integers(0, 1 << row.fraction_bits, shape))  # fmt: skip
    return np.asarray(np.where(random.random(shape) < 0.25, _normal(random, shape, row), low), np.uint32)


def _cancelling(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    """Columns in pairs of equal size and opposite sign, a few of them one unit apart."""
    words = _near(random, shape, row, 12)
    if row.is_integer:
        return words
    half = shape[1] // 2
    flipped = words[:, :half] ^ np.uint32(1 << (row.bits - 1 + row.container_shift))
    nudge = (random.random((shape[0], half)) < 0.1).astype(np.uint32) << np.uint32(row.container_shift)
    words[:, half : 2 * half] = flipped ^ nudge
    return words


def _special(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    """Ordinary numbers, and one in fifty any code at all."""
    ordinary = _normal(random, shape, row)
    return np.asarray(np.where(random.random(shape) < 0.02, _any_bits(random, shape, row), ordinary), np.uint32)


DATA: dict[str, Callable[[Random, tuple[int, int], NumberFormat], Words]] = {
    "normal": _normal,
    "wide": _wide,
    "small": _small,
    "cancelling": _cancelling,
    "special": _special,
    "any": _any_bits,
}
