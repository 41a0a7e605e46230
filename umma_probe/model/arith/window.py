"""One window for all products and C: the plain kinds and mxf8f6f4, whose scales are factors of the operands.

    q      = max(raw exponents of the nonzero products, and of C if it is nonzero) - fraction bits
    result = (sum over the products and C of trunc(term / 2^q)) * 2^q

Three ways to the same sums. All are exact, so that they cannot differ; the operands decide which is the fastest.

*Nothing is cut.* Where every product is a multiple of ``2^q``, the window cuts none, and their sum is an ordinary
matrix product. In float64 it is exact in any order: all partial sums are multiples of ``2^q`` and at most
``K * 4 * 2^(q + 25)``, which takes 33 bits for K = 64. Whether this holds for all sums follows from the lowest bits
that are set in A and B; whether it holds for one sum, from the lowest bit of its products.

*Few sums are cut.* These are gathered and done term by term in float64, which holds the product of any two elements: 22
significant bits from ``2^-266`` to ``2^256``, with scales ``2^-520`` to ``2^510``.

*Many are cut.* Term by term for all; in float32 if no operand is near its upper end (none has bits below ``2^-143``)
and every bit of every product is in the middle of its range. A product has at most 22 bits (11 times 11), scaling by a
power of two is exact, and what underflows was below one unit. The units of one term are at most
``(2 - 2^-10)^2 * 2^25 < 2^31 / 16``, so that sixteen of them fit an int32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.arith.exponents import largest_sum, power_of_two

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umma_probe.model.arith.operands import Accumulator, Operand

_LOWEST = -600
"""Below the raw exponent of every nonzero term: twice -126, and twice -127 for the scales."""
_F32_SAFE = 100
"""A product with all bits within +-this is a normal float32 number, and so are the powers that scale it."""
_F32_SMALLEST, _F32_LARGEST = 2.0**-126, 2.0**127
_TERMS_PER_INT32 = 16
_BLOCK = 8192
"""Sums that are worked on together, so that the scratch arrays stay in the cache."""
_SHORT = 16
"""Bits of a product up to which it is worth finding out which sums are cut; of F16 and TF32 nearly all are."""
_FEW = 1 / 4
"""Share of cut sums up to which gathering them is faster."""


def window_sum(a: Operand, b: Operand, c: Accumulator | None, fraction_bits: int) -> NDArray[np.float64]:
    """The (M, N) sums, exact."""
    coarsest = max(a.highest + b.highest, _LOWEST if c is None else c.highest, _LOWEST) - fraction_bits
    no_product_is_cut = a.lowest_bit + b.lowest_bit >= coarsest
    if no_product_is_cut and (c is None or is_multiple(c.values, coarsest)):
        total: NDArray[np.float64] = a.values @ b.values.T
        return total if c is None else total + c.values
    up = fraction_bits - largest_exponent(a, b, c)
    scale = power_of_two(up)
    if no_product_is_cut:
        total = a.values @ b.values.T
    elif a.significand_bits + b.significand_bits <= _SHORT:
        total = sum_where_cut(a, b, scale, largest_sum(a.fineness, b.fineness) > up)
    else:
        total = sum_term_by_term(a, b, scale)
    return total if c is None else total + cut(c.values, scale)


def is_multiple(values: NDArray[np.float64], exponent: int) -> bool:
    """Whether all values are multiples of ``2^exponent``."""
    units = values * 2.0**-exponent
    return bool((np.trunc(units) == units).all())


def cut(values: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values cut off toward zero to multiples of ``1 / scale``, a power of two."""
    units = values * scale
    np.trunc(units, out=units)
    units /= scale
    return units


def largest_exponent(a: Operand, b: Operand, c: Accumulator | None) -> NDArray[np.int16]:
    """(M, N): the largest raw exponent of each sum's nonzero terms; ``_LOWEST`` where all are zero."""
    exponent = largest_sum(a.exponents, b.exponents)
    if c is not None:
        np.maximum(exponent, c.raw(), out=exponent)
    return np.maximum(exponent, np.int16(_LOWEST), out=exponent)


def sum_where_cut(a: Operand, b: Operand, scale: NDArray[np.float64], is_cut: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The (M, N) sums of the products, each cut off to a multiple of ``1 / scale``.

    :param is_cut: False where every product is one already.
    """
    if np.count_nonzero(is_cut) > is_cut.size * _FEW:
        return sum_term_by_term(a, b, scale)
    total: NDArray[np.float64] = a.values @ b.values.T
    m, n = np.nonzero(is_cut)
    scales = scale[m, n]
    units = a.values[m]
    units *= b.values[n]
    units *= scales[:, None]
    np.trunc(units, out=units)
    total[m, n] = units.sum(axis=1) / scales
    return total


def sum_term_by_term(a: Operand, b: Operand, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """The (M, N) sums of the products, each cut off to a multiple of ``1 / scale``."""
    highest = max(a.highest, b.highest, a.highest + b.highest)
    narrow = a.lowest_bit + b.lowest_bit >= -_F32_SAFE and highest <= _F32_SAFE
    # a scale out of float32's range belongs to a sum without products, or to products that are far below one unit
    factor = np.clip(scale, _F32_SMALLEST, _F32_LARGEST).astype(np.float32) if narrow else scale
    units = _cut_units(a.values.astype(factor.dtype), b.values.astype(factor.dtype), factor)
    units /= scale
    return units


def _cut_units(
    a: NDArray[np.floating[Any]], b: NDArray[np.floating[Any]], factor: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """Sum over k of ``trunc(a[m, k] * b[n, k] * factor[m, n])``."""
    M, N = factor.shape
    K = a.shape[1]
    a_columns, b_rows = np.ascontiguousarray(a.T)[:, :, None], np.ascontiguousarray(b.T)
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
