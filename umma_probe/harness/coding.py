"""Operands chosen so that every element of D names its own place, exactly, in every kind and type.

Two passes: in the *row* pass D(m, n) = bias + m, in the *column* pass D(m, n) = bias + n. One operand carries the
coordinate, the other the same weights in every row. Along K each product counts: the carrying operand is never zero, so
an element that is fetched from the wrong place, or not at all, changes the sum.

For one MMA along K: D = sum over k of weight(k) * (1 + digit(row, k)), where the digits of row r add up to r under the
weights. Weights and carried values are integers that the narrowest format (e2m1: 0, 1, 2, 3, 4, 6) holds. Further MMAs
along K (``k_tiles``) carry 1 or 2 in place of the coded values: they add a known amount, different for neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from umma_probe.errors import ConfigError, InternalError
from umma_probe.spec.encoding import decode_to_float64, encode_exact
from umma_probe.spec.formats import FORMATS

Floats = npt.NDArray[np.float64]

WEIGHTS = (1, 2, 3, 4, 6)
"""Repeated along K."""
_LARGEST = 256
"""No carried value is above this: bf16 holds all integers up to here."""


@dataclass(frozen=True)
class CodedPass:
    """Operands of one launch, as values: ``a`` (M, K of all tiles), ``b`` (N, K of all tiles)."""

    name: str
    """``row`` or ``column``."""
    a: Floats
    b: Floats
    bias: int
    count: int
    """Coordinates run from 0 to below this."""

    def coordinate(self, values: Floats) -> npt.NDArray[np.int64]:
        """The coordinate that each value of D names, -1 for none."""
        with np.errstate(invalid="ignore"):
            number = np.where(np.isfinite(values), values, -1.0) - self.bias
        named = (number == np.floor(number)) & (number >= 0) & (number < self.count)
        return np.where(named, number, -1).astype(np.int64)


def coded_passes(
    m: int, n: int, tile_k: int, k_tiles: int, a_type: str, b_type: str, d_type: str
) -> tuple[CodedPass, CodedPass]:
    """The row pass and the column pass.

    :raises ConfigError: D cannot hold a sum exactly.
    """
    weights = np.resize(np.array(WEIGHTS, np.float64), tile_k)
    factors = [1, *(1 + tile % 2 for tile in range(1, k_tiles))]
    bias = int(weights.sum()) * sum(factors)
    for count in (m, n):
        encode_exact(np.arange(bias, bias + count, dtype=np.float64), d_type)

    def carrying(count: int, type_: str) -> Floats:
        tiles = [carried_values(count, tile_k, type_), *(np.full((count, tile_k), factor) for factor in factors[1:])]
        return np.concatenate(tiles, axis=1, dtype=np.float64)

    def weighing(count: int) -> Floats:
        return np.broadcast_to(np.tile(weights, k_tiles), (count, tile_k * k_tiles))

    return (
        CodedPass("row", carrying(m, a_type), weighing(n), bias, m),
        CodedPass("column", weighing(m), carrying(n, b_type), bias, n),
    )


@lru_cache(maxsize=64)
def carried_values(count: int, tile_k: int, type_: str) -> Floats:
    """``1 + digit`` for rows 0 to ``count - 1``, shape (count, tile_k); every value is exact in the format.

    :raises ConfigError: the format cannot carry that many rows.
    """
    weights = np.resize(np.array(WEIGHTS), tile_k)
    digits = np.array([value - 1 for value in _integers(type_)])
    order = np.argsort(-weights, kind="stable")
    values = np.zeros((count, tile_k), np.int64)
    rest = np.arange(count)
    for position, k in enumerate(order):
        # an even share of what is left, so that every k carries some of a large coordinate; the lightest ks finish
        share = -(-rest // int(weights[order[position:]].sum()))
        wanted = np.minimum(share, rest // weights[k])
        values[:, k] = digits[np.searchsorted(digits, wanted, side="right") - 1]
        rest = rest - weights[k] * values[:, k]
    if rest.any():
        raise ConfigError(f"operands of type {type_} with K = {tile_k} cannot name {count} coordinates exactly")
    if ((values * weights).sum(axis=1) != np.arange(count)).any():
        raise InternalError("coded digits do not add up")
    return values.astype(np.float64) + 1.0


@lru_cache(maxsize=32)
def _integers(type_: str) -> list[int]:
    """Integers from 1 that the format holds exactly, ascending."""
    row = FORMATS[type_]
    if row.bits > 8:
        return list(range(1, _LARGEST + 1))
    values = decode_to_float64(np.arange(1 << row.bits), row)
    return [int(value) for value in np.unique(values[np.isfinite(values)]) if value == int(value) and 1 <= value <= 256]


def raw_codes(values: Floats, type_: str) -> npt.NDArray[np.generic]:
    """Element codes as the kernel wants them: one byte an element up to 8 bits, else the element's own width."""
    words: npt.NDArray[np.generic] = np.ascontiguousarray(encode_exact(values, type_))
    return words


def decode_d(words: npt.NDArray[np.uint32], d_type: str) -> Floats:
    """Values of Tensor Memory words as elements of D; 16-bit elements are in the low half."""
    if d_type == "f16":
        values: npt.NDArray[np.floating[Any]] = words.astype(np.uint16).view(np.float16)
    elif d_type == "s32":
        return words.view(np.int32).astype(np.float64)
    else:
        values = words.view(np.float32)
    with np.errstate(invalid="ignore"):  # the sentinel is a signalling NaN
        return values.astype(np.float64)
