"""Largest exponents over K, by matrix product; and powers of two by their bits.

With ``w`` such that ``K < 2^w``, the sum over k of ``2^(w * key)`` lies between its largest term and less than ``2^w``
times that, so that the exponent of the sum, divided by ``w``, is the largest key. Rounding cannot spoil it: sums of
non-negative numbers never round below their largest term, and ``K <= 2^w - 1`` leaves a factor of ``1 + 2^-w`` above,
far more than the roundings.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.arith.operands import NO_EXPONENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

_F64_SAFE = 1000
"""Weights from 1 down to ``2^-1000`` are normal float64 numbers."""


def largest_sum(a_keys: NDArray[np.int16], b_keys: NDArray[np.int16]) -> NDArray[np.int16]:
    """(M, K) and (N, K) exponents: the (M, N) maxima over k of their sums.

    Zeros have ``NO_EXPONENT``; where every k has one, the result is far below all real exponents.
    """
    width = a_keys.shape[1].bit_length()
    a_top, b_top = int(a_keys.max()), int(b_keys.max())
    a_weights, a_depth = _weights(a_keys, a_top, width)
    b_weights, b_depth = _weights(b_keys, b_top, width)
    if a_depth + b_depth > _F64_SAFE:
        return _largest_by_comparison(a_keys, b_keys)
    total = a_weights @ b_weights.T
    table = _exponent_table(width) + np.int16(max(a_top + b_top, NO_EXPONENT))
    return table.take(total.view(np.int64) >> 52)


def _weights(keys: NDArray[np.int16], top: int, width: int) -> tuple[NDArray[np.float64], int]:
    """``2^(width * (key - top))``, zero for ``NO_EXPONENT``; and how far below 1 the smallest may be."""
    exponent = keys.astype(np.int64)
    exponent -= top
    exponent *= width
    zero = keys == NO_EXPONENT
    np.putmask(exponent, zero, 0)
    depth = -int(exponent.min())
    np.putmask(exponent, zero, -(1 << 20))
    return power_of_two(exponent), depth


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


def power_of_two_f32(exponent: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
    """``2^exponent`` as float32, exponents clipped to its normal range."""
    bits = np.minimum(exponent, 127).astype(np.int32)
    np.maximum(bits, -126, out=bits)
    bits += 127
    bits <<= 23
    powers: NDArray[np.float32] = bits.view(np.float32)
    return powers
