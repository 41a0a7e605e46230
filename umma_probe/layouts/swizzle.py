"""The swizzle of shared memory: an exclusive-or on the bits of the absolute shared address.

Address bits 7 and up pick a row of the pattern; they are added without carry to the bits that pick the 16-byte chunk
(32-byte chunk in mode ``128B-base32B``) inside the row. The source bits are left alone, so each map is its own inverse,
and it permutes only within aligned blocks of 1024 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.layouts.base import register_layout
from umma_probe.spec.smem_descriptor import Swizzle
from umma_probe.spec.sources import Evidence, Ref, documented, header

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

PERIOD_BYTES = 1024
"""Adding a multiple of this to an address adds it to the swizzled address, in every mode."""

_ROW_SHIFT = 7
BASE_OFFSET = Ref(
    "silicon-h200",
    "base_offset.json",
    Evidence.MEASURED,
    "wgmma: the base offset is subtracted from the row number of the pattern, in every mode and major-ness",
)
# mode -> (mask of the row bits, position of the chunk bits)
_XOR: dict[Swizzle, tuple[int, int]] = {
    Swizzle.NONE: (0, 4),
    Swizzle.B32: (1, 4),
    Swizzle.B64: (3, 4),
    Swizzle.B128: (7, 4),
    Swizzle.B128_BASE32B: (3, 5),
}

register_layout(
    "smem-swizzle",
    "shared address before the swizzle to the address after it",
    documented("Shared memory swizzling modes"),
    header("mma_sm100_desc.hpp", "Swizzle<B,4,3>, and Swizzle<2,5,2> for 128B-base32B"),
)


def swizzle_address(address: ArrayLike, mode: Swizzle, base_offset: int = 0) -> NDArray[np.int64]:
    """Where the byte at an unswizzled ``address`` really lies; same shape.

    :param base_offset: the row of the pattern that lies at row 0; see ``BASE_OFFSET``.
    """
    mask, position = _XOR[mode]
    linear = np.asarray(address, dtype=np.int64)
    return np.asarray(linear ^ ((((linear >> _ROW_SHIFT) - base_offset) & mask) << position), dtype=np.int64)


def unswizzle_address(address: ArrayLike, mode: Swizzle) -> NDArray[np.int64]:
    """The inverse of ``swizzle_address``: the same exclusive-or."""
    return swizzle_address(address, mode)
