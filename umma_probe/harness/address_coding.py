"""Patterns in which every place of a memory says its own address, a part of it in each pass.

Two codings. *Values*: each element-sized unit holds the number 1 + digit of its index, which the tensor core multiplies
exactly; for elements of whole bytes. *Bits*: each single bit holds one bit of its own bit address, and in a second
series of passes the complement; for elements of any width at any place, of types in which every code is a number, and
for raw copies. A place that holds zero, or that was never read, does not pass for an address in either.

Addresses are in bits throughout, from the first byte of the memory, and -1 where none is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umma_probe.spec.encoding import decode_to_float64, encode_exact
from umma_probe.spec.formats import FORMATS

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Addresses = npt.NDArray[np.int64]

NOWHERE = -1
_DIGIT_BITS = {"s8": 6, "u8": 6, "e4m3": 3, "e5m2": 3}
_WIDE_DIGIT_BITS = 8
"""1 to 256 are exact in f16, bf16 and tf32."""


@dataclass(frozen=True)
class ValueCoding:
    """Units of one element of ``type``, which has 8, 16 or 32 bits."""

    type: str
    size: int
    """Bytes of the memory."""

    @property
    def unit_bytes(self) -> int:
        """Bytes of an element."""
        return FORMATS[self.type].container_bits // 8

    @property
    def _digit_bits(self) -> int:
        return _DIGIT_BITS.get(self.type, _WIDE_DIGIT_BITS)

    @property
    def passes(self) -> int:
        """How many patterns there are."""
        return -(-(self.size // self.unit_bytes - 1).bit_length() // self._digit_bits)

    def patterns(self) -> Bytes:
        """(passes, size)."""
        index = np.arange(self.size // self.unit_bytes)
        rows = [
            encode_exact(1.0 + (index >> self._digit_bits * number & (1 << self._digit_bits) - 1), self.type)
            for number in range(self.passes)
        ]
        return np.ascontiguousarray(rows).view(np.uint8)

    def addresses(self, values: Floats) -> Addresses:
        """Of elements that hold ``values`` (passes, ...)."""
        digits = values - 1
        with np.errstate(invalid="ignore"):
            known = ((digits >= 0) & (digits < 1 << self._digit_bits) & (digits == np.floor(digits))).all(axis=0)
        whole = np.where(known, digits, 0).astype(np.int64)
        shifts = self._digit_bits * np.arange(self.passes).reshape(-1, *[1] * (values.ndim - 1))
        found: Addresses = (whole << shifts).sum(axis=0) * (8 * self.unit_bytes)
        return np.where(known & (found < 8 * self.size), found, NOWHERE)


@dataclass(frozen=True)
class BitCoding:
    """Single bits."""

    size: int
    """Bytes of the memory."""

    @property
    def address_bits(self) -> int:
        """Bits of a bit address."""
        return (8 * self.size - 1).bit_length()

    @property
    def passes(self) -> int:
        """How many patterns there are: one an address bit, and as many complements."""
        return 2 * self.address_bits

    def patterns(self) -> Bytes:
        """(passes, size); the complements are the second half."""
        address = np.arange(8 * self.size)
        rows = [np.packbits(address >> bit & 1, bitorder="little") for bit in range(self.address_bits)]
        plain = np.array(rows, np.uint8)
        return np.concatenate([plain, ~plain])

    def addresses(self, bits: npt.NDArray[Any]) -> Addresses:
        """Of bits that held ``bits`` (passes, ...), each 0 or 1."""
        plain, complement = bits[: self.address_bits].astype(np.int64), bits[self.address_bits :]
        known = (plain != complement).all(axis=0)
        shifts = np.arange(self.address_bits).reshape(-1, *[1] * (bits.ndim - 1))
        found: Addresses = (plain << shifts).sum(axis=0)
        return np.where(known & (found < 8 * self.size), found, NOWHERE)

    def element_addresses(self, values: Floats, type_: str) -> Addresses:
        """Of the first bit of elements that hold ``values`` (passes, ...); -1 if their bits are not neighbours.

        Of a type without Inf and NaN. Both zeros read as 0: the complement then tells them apart.
        """
        width = FORMATS[type_].bits
        codes = _codes_of(values, type_)
        plain, complement = codes[: self.address_bits], codes[self.address_bits :]
        limit = (1 << width) - 1
        plain, complement = (
            np.where(plain == 0, limit ^ complement, plain),
            np.where(complement == 0, limit ^ plain, complement),
        )
        known = (plain >= 0) & (complement >= 0)
        both = np.where(known, np.concatenate([plain, complement]).reshape(2, *plain.shape), 0).reshape(codes.shape)
        places = np.stack([self.addresses(both >> bit & 1) for bit in range(width)])
        steps = np.arange(width).reshape(-1, *[1] * (values.ndim - 1))
        neighbours = known.all(axis=0) & (places == places[0] + steps).all(axis=0)
        return np.where(neighbours, places[0], NOWHERE)


def _codes_of(values: Floats, type_: str) -> Addresses:
    """The code of each value, 0 for either zero; -1 for no number of the type."""
    table = decode_to_float64(np.arange(1 << FORMATS[type_].bits), FORMATS[type_])
    order = np.argsort(table, kind="stable")
    position = np.minimum(np.searchsorted(table[order], values), len(table) - 1)
    codes = np.where(table[order][position] == values, order[position], NOWHERE)
    return np.where(values == 0, 0, codes)
