"""One window for all products and C: the plain kinds, and mxf8f6f4 with a power of two for each row and column.

    q      = max(raw exponents of the nonzero products, of C if it is nonzero) - fraction bits
    result = sum over the products and C of trunc(term / 2^q), times 2^q

Three ways to the same sum, chosen by the range of the operands; all are exact, so that they cannot differ.

*Nothing is cut off.* If every product is a multiple of ``2^q_max`` for the largest ``q`` of all sums, then the window
cuts no product, and the sum of the products is an ordinary matrix product. In float64 that is exact in any order: all
partial sums are multiples of ``2^q_max`` below ``K * 4 * 2^(q_max + 25)``, so they have at most 33 bits for K <= 64.

*Term by term, in float32.* A product has at most 22 significant bits (11 times 11), so that float32 holds it, provided
that it is a normal number; scaling by a power of two is exact, and what underflows was below one unit anyway. The
units of one term are at most ``(2 - 2^-10)^2 * 2^25 < 2^31 / 16``, so that sixteen of them fit an int32.

*Term by term, in float64,* where the exponents are too wide for float32 (BF16, TF32): from ``2^-266`` to ``2^256`` with
22 bits.

The largest raw exponent of each sum comes from a matrix product as well. With ``w`` such that ``K < 2^w``, the sum over
k of ``2^(w * raw exponent)`` lies between its largest term and less than ``2^w`` times that, so that the exponent of
the sum, divided by ``w``, is the largest exponent. Rounding cannot spoil it: sums of non-negative numbers never round
below their largest term, and ``K <= 2^w - 1`` leaves a factor of ``1 + 2^-w`` above, far more than the roundings.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.arith.operands import NO_EXPONENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umma_probe.model.arith.operands import Accumulator, Operand

_LOWEST = -400
"""Below the raw exponent of every nonzero term (-126 twice, -127 twice of the scales)."""
_F32_SAFE = 100
"""Products whose bits are all within +-this are normal float32 numbers, and so are the powers that scale them."""
_F64_SAFE = 1000
"""The same for the weights that find the largest exponent, in float64."""
_TERMS_PER_INT32 = 16
_BLOCK = 8192
"""Sums that are worked on together, so that the scratch arrays stay in the cache."""


def window_sum(
    a: Operand, b: Operand, c: Accumulator | None, fraction_bits: int, shift: NDArray[np.int16] | None = None
) -> NDArray[np.float64]:
    """The (M, N) sums, exact.

    :param shift: (M, N) powers of two that multiply the products; None: no scaling.
    """
    if no_product_is_cut(a, b, c, fraction_bits, shift):
        return _sum_of_whole_products(a, b, c, fraction_bits, shift)
    return sum_term_by_term(a, b, c, fraction_bits, shift)


def no_product_is_cut(
    a: Operand, b: Operand, c: Accumulator | None, fraction_bits: int, shift: NDArray[np.int16] | None
) -> bool:
    """Whether every product of every sum is a multiple of every quantum that can occur."""
    unit = a.lowest_bit + b.lowest_bit
    if unit < a.highest + b.highest - fraction_bits:
        return False
    lowest_shift = 0 if shift is None else int(shift.min())
    return c is None or unit + lowest_shift >= c.highest - fraction_bits


def _sum_of_whole_products(
    a: Operand, b: Operand, c: Accumulator | None, fraction_bits: int, shift: NDArray[np.int16] | None
) -> NDArray[np.float64]:
    total: NDArray[np.float64] = a.values @ b.values.T
    if shift is not None:
        total *= power_of_two(shift)
    if c is None or c.highest == NO_EXPONENT:
        return total
    highest = a.highest + b.highest + (0 if shift is None else int(shift.max()))
    coarsest = 2.0 ** (max(highest, c.highest) - fraction_bits)
    in_units = c.values / coarsest
    if not (np.trunc(in_units) == in_units).all():
        scale = power_of_two(fraction_bits - largest_exponent(a, b, c, shift))
        return total + np.trunc(c.values * scale) / scale
    return total + c.values


def sum_term_by_term(
    a: Operand, b: Operand, c: Accumulator | None, fraction_bits: int, shift: NDArray[np.int16] | None = None
) -> NDArray[np.float64]:
    """The (M, N) sums by cutting every term; works for all operands."""
    exponent = largest_exponent(a, b, c, shift)
    up = fraction_bits - exponent
    scale = power_of_two(up)
    product_up = up if shift is None else up + shift
    narrow = a.lowest_bit + b.lowest_bit >= -_F32_SAFE and a.highest + b.highest <= _F32_SAFE
    # a term below one unit stays below one unit, and a sum without nonzero products has nothing to scale
    factor = power_of_two_f32(product_up) if narrow else power_of_two(product_up)
    total = _sum_of_cut_products(a.values.astype(factor.dtype), b.values.astype(factor.dtype), factor)
    if c is not None:
        total += np.trunc(c.values * scale)
    total /= scale
    return total


def _sum_of_cut_products(
    a: NDArray[np.floating[Any]], b: NDArray[np.floating[Any]], factor: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """Sum over k of ``trunc(a[m, k] * b[n, k] * factor[m, n])``."""
    M, N = factor.shape
    K = a.shape[1]
    a_columns = np.ascontiguousarray(a.T)[:, :, None]
    b_rows = np.ascontiguousarray(b.T)
    total = np.zeros((M, N))
    rows = max(1, min(M, _BLOCK // N))
    for first in range(0, M, rows):
        block = slice(first, min(first + rows, M))
        product = np.empty_like(factor[block])
        units = np.empty(product.shape, dtype=np.int32)
        partial = np.empty_like(units)
        for k in range(K):
            np.multiply(a_columns[k, block], b_rows[k], out=product)
            np.multiply(product, factor[block], out=product)
            if k % _TERMS_PER_INT32 == 0:
                np.copyto(partial, product, casting="unsafe")  # float to integer cuts toward zero
            else:
                np.copyto(units, product, casting="unsafe")
                np.add(partial, units, out=partial)
            if k % _TERMS_PER_INT32 == _TERMS_PER_INT32 - 1 or k == K - 1:
                total[block] += partial
    return total


def largest_exponent(
    a: Operand, b: Operand, c: Accumulator | None, shift: NDArray[np.int16] | None
) -> NDArray[np.int16]:
    """(M, N): the largest raw exponent of each sum's nonzero terms; ``_LOWEST`` where all are zero."""
    exponent = largest_product_exponent(a, b)
    if shift is not None:
        exponent += shift
    if c is not None:
        np.maximum(exponent, c.raw(), out=exponent)
    return np.maximum(exponent, np.int16(_LOWEST), out=exponent)


def largest_product_exponent(a: Operand, b: Operand) -> NDArray[np.int16]:
    """(M, N): the largest raw exponent of a nonzero product over k; far below all others if there is none."""
    width = a.values.shape[1].bit_length()
    spread = a.highest - a.lowest_bit + b.highest - b.lowest_bit
    if width * spread > _F64_SAFE:
        return _largest_by_comparison(a, b)
    total = _weights(a, width) @ _weights(b, width).T
    table = _exponent_table(width) + np.int16(a.highest + b.highest)
    return table.take(total.view(np.int64) >> 52)


def _largest_by_comparison(a: Operand, b: Operand) -> NDArray[np.int16]:
    best = np.full((len(a.raw), len(b.raw)), 2 * NO_EXPONENT, dtype=np.int16)
    candidate = np.empty_like(best)
    for k in range(a.raw.shape[1]):
        np.add(a.raw[:, k, None], b.raw[None, :, k], out=candidate)
        np.maximum(best, candidate, out=best)
    return best


def _weights(operand: Operand, width: int) -> NDArray[np.float64]:
    """``2^(width * (raw - highest))``; zero for zeros, whose exponents are below all of float64."""
    exponent = operand.raw.astype(np.int64)
    exponent -= operand.highest
    exponent *= width
    return power_of_two(exponent)


@cache
def _exponent_table(width: int) -> NDArray[np.int16]:
    """Float64 exponent field of a sum of weights to the largest raw exponent relative to the highest."""
    table = (np.arange(2048) - 1023) // width
    table[0] = NO_EXPONENT  # the sum is zero: no nonzero product
    return table.astype(np.int16)


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
