"""K-major operands in shared memory: descriptor and (row, byte of the row) to the address before the swizzle.

With a swizzle of S bytes, eight rows of S bytes form an atom: row ``r`` starts at ``(r % 8) * S + (r / 8) * SBO``, and
LBO is not used. Without swizzle, the atom is a core matrix of eight 16-byte rows, and the next 16 bytes of the same row
lie LBO further on. SBO is the step from eight rows to the next eight in every mode.

Absolute-LBO mode (sm_103a, 128B swizzle, 48 bytes of K): what would lie beyond the 128-byte row that the operand
starts in lies at the beginning of the rows of a second chunk, at the absolute address that LBO gives. CUTLASS's sm_103a
kernels have tiles of 384 bytes of K in three buffers of 128, and eight MMAs of 48 bytes in each tile: the third and the
sixth begin in one buffer (at byte 96, 112) and end in the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.layouts.base import register_layout
from umma_probe.spec.smem_descriptor import SmemDescriptor, Swizzle
from umma_probe.spec.sources import documented, header

if TYPE_CHECKING:
    from numpy.typing import NDArray

ATOM_ROWS = 8
CHUNK_BYTES = 16
ROW_BYTES = Swizzle.B128.row_bytes

register_layout(
    "smem-k-major",
    "operand element (row, k) to shared-memory byte, K-major",
    documented("Canonical layouts"),
    documented("Strides, leading dimension byte offset and stride dimension byte offset"),
    documented("Absolute address mode for K dimension being 48B"),
    header("mma_traits_sm100.hpp, make_umma_desc"),
    header("mma_traits_sm100.hpp, SM103::mma_unpack", "LBO is the start address of the next buffer"),
)


def linear_bytes(desc: SmemDescriptor, rows: NDArray[np.int64], row_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Address before the swizzle of byte ``row_bytes`` of row ``rows``; the two broadcast."""
    atom_row, atom = rows % ATOM_ROWS, rows // ATOM_ROWS
    if desc.swizzle is Swizzle.NONE:
        chunk = row_bytes // CHUNK_BYTES
        inside = atom_row * CHUNK_BYTES + chunk * desc.lbo_bytes + row_bytes % CHUNK_BYTES
    else:
        inside = atom_row * desc.swizzle.row_bytes + row_bytes
    if desc.lbo_mode:
        first = desc.start_bytes % ROW_BYTES
        beyond = first + row_bytes >= ROW_BYTES
        inside = inside + np.where(beyond, desc.lbo_bytes - (desc.start_bytes - first) - ROW_BYTES, 0)
    return np.asarray(desc.start_bytes + atom * desc.sbo_bytes + inside, dtype=np.int64)
