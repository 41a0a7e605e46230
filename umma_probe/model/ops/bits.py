"""Counting, finding, extracting and permuting bits (PTX ISA, "Integer Arithmetic Instructions", "prmt").

Rules enforced here: position and length of ``bfe`` and ``bfi`` are restricted to 0..255, and a field may start or end
beyond the word. What a larger number means is as an H200 has it: the 32-bit forms take its low 8 bits, the 64-bit
forms all of it. ``bfe.s`` fills with the field's top bit, or with the word's where the field reaches beyond it.
``bfind`` looks for the highest bit that differs from the sign, 0xffffffff if there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.model.code.decode import alu
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array, PtxType

Function: TypeAlias = "Callable[..., Any]"

BIT_FIELDS = tuple(
    documented(f"Integer Arithmetic Instructions: {name}")
    for name in ("popc", "clz", "bfind", "fns", "brev", "bfe", "bfi", "szext", "bmsk")
)
PERMUTE = (documented("Data Movement and Conversion Instructions: prmt"),)
WORDS = "u32 u64 s32 s64"
BITS = "b32 b64"
NONE = np.uint32(0xFFFFFFFF)


@alu("popc.{type}", operands="u32 type", type=BITS, refs=BIT_FIELDS)
def popc(type: PtxType) -> Function:
    """How many bits are set."""
    return np.bitwise_count


def top_bit(words: Array) -> Array:
    """Position of the highest set bit of unsigned words, as int64; -1 for 0."""
    smeared = words.copy()
    shift = 1
    while shift < 8 * words.dtype.itemsize:
        smeared |= smeared >> words.dtype.type(shift)
        shift *= 2
    return np.bitwise_count(smeared).astype(np.int64) - 1


@alu("clz.{type}", operands="u32 type", type=BITS, refs=BIT_FIELDS)
def clz(type: PtxType) -> Function:
    """How many zero bits lead."""
    last = type.bits - 1
    return lambda a: (last - top_bit(a)).astype(np.uint32)


def _unlike_sign(a: Array) -> Array:
    return np.where(a < 0, ~a, a).astype(np.dtype(f"u{a.dtype.itemsize}"))


@alu("bfind.{type}", operands="u32 type", type=WORDS, refs=BIT_FIELDS)
def bfind(type: PtxType) -> Function:
    """The position of the highest bit unlike the sign."""
    return lambda a: top_bit(_unlike_sign(a)).astype(np.uint32)


@alu("bfind.shiftamt.{type}", operands="u32 type", type=WORDS, refs=BIT_FIELDS)
def bfind_shift(type: PtxType) -> Function:
    """The left shift that brings that bit to the top."""
    last = type.bits - 1

    def shift(a: Array) -> Array:
        at = top_bit(_unlike_sign(a))
        return np.where(at < 0, NONE, (last - at).astype(np.uint32))

    return shift


_REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)


@alu("brev.{type}", operands="type type", type=BITS, refs=BIT_FIELDS)
def brev(type: PtxType) -> Function:
    """Bits in reverse order."""
    return lambda a: _REVERSED[a.byteswap().view(np.uint8)].view(a.dtype)


def low_ones(count: Array, bits: int) -> Array:
    """Unsigned 64-bit words with that many low bits set; ``count`` (int64) is clamped to 0..``bits``."""
    count = np.clip(count, 0, bits).astype(np.uint64)
    return np.where(count == 64, ~np.uint64(0), (np.uint64(1) << (count & np.uint64(63))) - np.uint64(1))


def _count(count: Array, bits: int) -> Array:
    """A position or length of a field in words of that width."""
    return (count & np.uint32(0xFF) if bits == 32 else np.minimum(count, 255)).astype(np.int64)


def _shift_left(words: Array, count: Array) -> Array:
    return np.where(count > 63, np.uint64(0), words << (count & 63).astype(np.uint64))


def _shift_right(words: Array, count: Array) -> Array:
    return np.where(count > 63, np.uint64(0), words >> (count & 63).astype(np.uint64))


@alu("bfe.{type}", operands="type type u32 u32", type=WORDS, refs=BIT_FIELDS)
def bfe(type: PtxType) -> Function:
    """Extract ``length`` bits from ``position``."""
    bits, unsigned = type.bits, np.dtype(f"u{type.bytes}")

    def extract(a: Array, position: Array, length: Array) -> Array:
        position, length = _count(position, bits), _count(length, bits)
        word = a.astype(unsigned).astype(np.uint64)
        kept = np.minimum(length, np.maximum(bits - position, 0))
        field = _shift_right(word, position) & low_ones(kept, bits)
        if type.signed:
            top = np.minimum(position + length - 1, bits - 1)
            negative = (length > 0) & (_shift_right(word, top) & np.uint64(1)).astype(np.bool_)
            field = np.where(negative, field | ~low_ones(kept, bits), field)
        return field.astype(unsigned).view(type.dtype)

    return extract


@alu("bfi.{type}", operands="type type type u32 u32", type=BITS, refs=BIT_FIELDS)
def bfi(type: PtxType) -> Function:
    """Put the low ``length`` bits of a into b at ``position``."""
    bits, word = type.bits, type.dtype

    def insert(a: Array, b: Array, position: Array, length: Array) -> Any:
        position, length = _count(position, bits), _count(length, bits)
        mask = _shift_left(low_ones(length, bits), position).astype(word)
        return (_shift_left(a.astype(np.uint64), position).astype(word) & mask) | (b & ~mask)

    return insert


@alu("bmsk.{mode}.b32", operands="u32 u32 u32", mode=("clamp", "wrap"), refs=BIT_FIELDS)
def bmsk(mode: str) -> Function:
    """``length`` ones from ``position``."""

    def mask(position: Array, length: Array) -> Array:
        if mode == "wrap":
            position, length = position & np.uint32(31), length & np.uint32(31)
        at, count = np.minimum(position, 32).astype(np.int64), np.minimum(length, 32).astype(np.int64)
        return _shift_left(low_ones(count, 32), at).astype(np.uint32)

    return mask


@alu("szext.{mode}.{type}", operands="type type u32", mode=("clamp", "wrap"), type="u32 s32", refs=BIT_FIELDS)
def szext(mode: str, type: PtxType) -> Function:
    """The low ``count`` bits, extended by zero or by their top bit."""

    def extend(a: Array, count: Array) -> Array:
        n = (count & np.uint32(31) if mode == "wrap" else np.minimum(count, 32)).astype(np.int64)
        low = a.astype(np.int64) & low_ones(n, 32).astype(np.int64)
        if type.signed:
            top = (n > 0) & (low >> np.maximum(n - 1, 0) & 1).astype(np.bool_)
            low = np.where(top, low - (np.int64(1) << n), low)
        return low.astype(type.dtype)

    return extend


@alu("fns.b32", operands="u32 u32 u32 s32", refs=BIT_FIELDS)
def fns() -> Function:
    """The n-th set bit from ``base``, upwards for a positive offset, downwards for a negative one."""

    def find(mask: Array, base: Array, offset: Array) -> Array:
        return np.array([_nth(int(m), int(b), int(o)) for m, b, o in zip(mask, base, offset, strict=True)], np.uint32)

    return find


def _nth(mask: int, base: int, offset: int) -> int:
    if offset == 0:
        return base if base < 32 and mask >> base & 1 else 0xFFFFFFFF
    path = range(base, 32) if offset > 0 else range(min(base, 31), -1, -1)
    hits = [position for position in path if mask >> position & 1]
    return hits[abs(offset) - 1] if abs(offset) <= len(hits) else 0xFFFFFFFF


# ---------------------------------------------------------------------- prmt
_MODES = {
    "f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
    "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
    "rc8": [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]],
    "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
    "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
    "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
}
"""Mode to, by the low 2 bits of the selector, the source byte of each result byte, lowest first."""


def _bytes_of(a: Array, b: Array) -> Array:
    return np.stack([a, b], axis=1).view(np.uint8)


@alu("prmt.b32", operands="u32 u32 u32 u32", refs=PERMUTE)
def prmt() -> Function:
    """Each nibble of c picks one of the 8 bytes of b:a, or with its bit 3 that byte's sign eight times."""
    shifts = np.arange(0, 16, 4, dtype=np.uint32)

    def permute(a: Array, b: Array, c: Array) -> Array:
        nibbles = c[:, None] >> shifts
        picked = np.take_along_axis(_bytes_of(a, b), (nibbles & np.uint32(7)).astype(np.intp), axis=1)
        signs = (picked >> np.uint8(7)) * np.uint8(0xFF)
        return np.where(nibbles & np.uint32(8), signs, picked).view(np.uint32)[:, 0]

    return permute


@alu("prmt.b32.{mode}", operands="u32 u32 u32 u32", mode=_MODES, refs=PERMUTE)
def prmt_mode(mode: list[list[int]]) -> Function:
    """A fixed pattern of bytes, by the low 2 bits of c."""
    table = np.array(mode, np.intp)
    return lambda a, b, c: np.take_along_axis(_bytes_of(a, b), table[c & np.uint32(3)], axis=1).view(np.uint32)[:, 0]
