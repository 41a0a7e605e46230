"""The fragments of ``wgmma``: element of A or D to (thread of the warpgroup, register, bit of the register).

Thread ``t`` belongs to warp ``t / 32``, which has rows ``16 * warp`` to ``16 * warp + 15``; within a warp the lane's
*group* ``lane / 4`` picks a row and its *place* ``lane % 4`` the columns. Registers are counted in words of 32 bits, in
the order of the instruction's operand list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.layouts.base import register_layout
from umma_probe.spec.sources import documented
from umma_probe.spec.wgmma import M

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

register_layout(
    "wgmma-d",
    "accumulator element (m, n) of wgmma to thread, register and bit",
    documented("wgmma.mma_async", "Register fragments: accumulator of .m64nNk16, .m64nNk8, .m64nNk32"),
)
register_layout(
    "wgmma-a",
    "element (m, k) of A in registers of wgmma to thread, register and bit",
    documented("wgmma.mma_async", "Register fragments: matrix A of .m64nNk16, .m64nNk8, .m64nNk32"),
)

ROWS_PER_WARP = 16


@dataclass(frozen=True)
class FragmentMap:
    """Where each element lies; all arrays have the matrix's shape."""

    thread: IntArray
    """0 to 127, of the warpgroup."""
    register: IntArray
    bit: IntArray
    """The element's lowest bit in the register."""
    registers: int
    """Of one thread."""

    def gather(self, words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
        """The element codes, in the matrix's shape, from registers (128, R)."""
        mask = np.uint32((1 << bits) - 1)
        return np.asarray(words[self.thread, self.register] >> self.bit.astype(np.uint32) & mask, dtype=np.uint32)

    def scatter(self, codes: NDArray[np.unsignedinteger]) -> NDArray[np.uint32]:
        """Registers (128, R) that hold these element codes."""
        words = np.zeros((4 * 32, self.registers), np.uint32)
        shifted = codes.astype(np.uint32) << self.bit.astype(np.uint32)
        np.bitwise_or.at(words, (self.thread, self.register), shifted)
        return words


def accumulator_fragment(n: int, d_type: str) -> FragmentMap:
    """D, (64, n), of type ``f32``, ``s32`` or ``f16``."""
    row, column = np.meshgrid(np.arange(M), np.arange(n), indexing="ij")
    half = row % ROWS_PER_WARP // 8
    if d_type == "f16":
        return FragmentMap(_thread(row, column % 8 // 2), 2 * (column // 8) + half, 16 * (column % 2), n // 4)
    return FragmentMap(_thread(row, column % 8 // 2), 4 * (column // 8) + 2 * half + column % 2, 0 * row, n // 2)


def operand_a_fragment(element_bits: int) -> FragmentMap:
    """A, (64, k), for elements of 8, 16 or 32 bits: four registers a thread."""
    per_word = 32 // element_bits
    row, k = np.meshgrid(np.arange(M), np.arange(8 * per_word), indexing="ij")
    word = k // per_word
    register = 2 * (word // 4) + row % ROWS_PER_WARP // 8
    return FragmentMap(_thread(row, word % 4), register, element_bits * (k % per_word), 4)


def _thread(row: IntArray, place: IntArray) -> IntArray:
    return np.asarray(32 * (row // ROWS_PER_WARP) + 4 * (row % 8) + place, dtype=np.int64)
