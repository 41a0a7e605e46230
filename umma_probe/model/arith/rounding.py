"""The exact sum to the word of D.

F32: cut off toward zero, to the subnormal grid below ``2^-126``; ``2^128`` and above is Inf. F16: nearest, ties to
even. No result is -0. The sums come as float64, where they are exact: ``window.py`` shows why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umma_probe.spec.arithmetic import Window

_F32_MIN_NORMAL = -126
_F64_FRACTION_BITS = 52


def to_words(values: NDArray[np.float64], d_type: str, window: Window) -> NDArray[np.uint32]:
    """The words of D, same shape; F16 in the low half."""
    return _to_f16(values) if d_type == "f16" else _to_f32(values, window.result_fraction_bits)


def _to_f32(values: NDArray[np.float64], fraction_bits: int) -> NDArray[np.uint32]:
    words = _cut_below_leading_bit(values, fraction_bits)
    # words 1 to 0x800000 are subnormal or next to it, where the grid is fixed and does not follow the leading bit
    near_subnormal = (words & np.uint32(0x7FFF_FFFF)) - np.uint32(1) < np.uint32(0x80_0000)
    if near_subnormal.any():
        grid = 2.0 ** (_F32_MIN_NORMAL - fraction_bits)
        small = np.abs(values) < 2.0**_F32_MIN_NORMAL
        words = _cut_below_leading_bit(np.where(small, np.trunc(values / grid) * grid, values), fraction_bits)
    return words


def _cut_below_leading_bit(values: NDArray[np.float64], fraction_bits: int) -> NDArray[np.uint32]:
    """F32 words of the values with ``fraction_bits`` kept: exact for normal numbers and for multiples of the grid."""
    kept = values.view(np.int64) & np.int64(-1 << (_F64_FRACTION_BITS - fraction_bits))
    result = kept.view(np.float64).astype(np.float32)
    result += np.float32(0.0)  # -0 becomes +0
    return result.view(np.uint32)


def _to_f16(values: NDArray[np.float64]) -> NDArray[np.uint32]:
    words = values.astype(np.float16).view(np.uint16).astype(np.uint32)
    words[words == 0x8000] = 0
    return words
