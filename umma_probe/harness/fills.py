"""What Tensor Memory holds before the MMA: a sentinel that says where it was put, and that no MMA makes.

Word: ``0xff80fc00 | lane << 16 | column + 1``. As an f32 it is a negative NaN, and so is its low half as an f16; the
tensor core's only NaNs are 0x7fffffff and 0x7fff (published measurements on a B200). As an s32 it is negative, which
no sum of a probe's integers is. ``probes/dump.cuh`` has the same rule in CUDA.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES

SENTINEL_MARK = 0xFF80FC00
_ADDRESS = 0x007F03FF
"""The bits in which lane and column + 1 lie."""


def sentinel_words() -> npt.NDArray[np.uint32]:
    """The fill of all cells, shape (128, 512)."""
    lane, column = np.indices((TMEM_LANES, TMEM_COLUMNS), dtype=np.uint32)
    return np.uint32(SENTINEL_MARK) | lane << np.uint32(16) | (column + np.uint32(1))


def sentinel_origin(word: int) -> tuple[int, int] | None:
    """Lane and column that a sentinel was put at; None if the word is no sentinel."""
    column = (word & _ADDRESS & 0xFFFF) - 1
    if word & ~_ADDRESS != SENTINEL_MARK or not 0 <= column < TMEM_COLUMNS:
        return None
    return word >> 16 & 0x7F, column
