"""Largest exponents over K, by matrix product; and powers of two by their bits.

With ``w`` such that ``K < 2^w``, the sum over k of ``2^(w * key)`` lies between its largest term and less than ``2^w``
times that, so that the exponent of the sum, divided by ``w``, is the largest key. Rounding cannot spoil it: sums of
non-negative numbers never round below their largest term, and ``K <= 2^w - 1`` leaves a factor of ``1 + 2^-w`` above,
far more than the roundings.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_EXPONENT = -0x2000
"""Exponent of a zero: below every real one, and so is the sum of two."""

_F64_SAFE = 1000
"""Weights from 1 down to ``2^-1000`` are normal float64 numbers."""


class Exponents(NamedTuple):
    """Exponents of (rows, K) elements, with bounds of those that are not ``NO_EXPONENT``."""

    keys: NDArray[np.int16]
    lowest: int
    highest: int


def largest_sum(a: Exponents, b: Exponents) -> NDArray[np.int16]:
    """(M, K) and (N, K) exponents: the (M, N) maxima over k of their sums.

    Where no k has two exponents, the result is far below all real ones.
    """
    width = a.keys.shape[1].bit_length()
    if width * (a.highest - a.lowest + b.highest - b.lowest) > _F64_SAFE:
        return _largest_by_comparison(a.keys, b.keys)
    total = _weights(a, width) @ _weights(b, width).T
    table = _exponent_table(width) + np.int16(max(a.highest + b.highest, NO_EXPONENT))
    return table.take(total.view(np.int64) >> 52)


def _weights(exponents: Exponents, width: int) -> NDArray[np.float64]:
    """``2^(width * (key - highest))``; zero for ``NO_EXPONENT``, which is below float64's range."""
    relative = exponents.keys.astype(np.int64)
    relative -= exponents.highest
    relative *= width
    np.putmask(relative, exponents.keys == NO_EXPONENT, -1 << 20)
    return power_of_two(relative)


@cache
def _exponent_table(width: int) -> NDArray[np.int16]:
    """Float64 exponent field of a sum of weights to the largest key, relative to the sum of the highest."""
    table = (np.arange(2048) - 1023) // width
    table[0] = NO_EXPONENT  # the sum is zero
    return table.astype(np.int16)


def _largest_by_comparison(a_keys: NDArray[np.int16], b_keys: NDArray[np.int16]) -> NDArray[np.int16]:
    best = np.full((len(a_keys), len(b_keys)), NO_EXPONENT, dtype=np.int16)
    candidate = np.empty_like(best)
    for k in range(a_keys.shape[1]):
        np.add(a_keys[:, k, None], b_keys[None, :, k], out=candidate)
        np.maximum(best, candidate, out=best)
    return best


def power_of_two(exponent: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """``2^exponent`` for exponents up to 1023; zero below -1022."""
    bits = exponent.astype(np.int64)
    bits += 1023
    np.maximum(bits, 0, out=bits)
    bits <<= 52
    return bits.view(np.float64)
