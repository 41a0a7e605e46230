"""K-major operands in shared memory: descriptor and (row, byte of the row) to the address before the swizzle.

With a swizzle of S bytes, eight rows of S bytes form an atom: row ``r`` starts at ``(r % 8) * S + (r / 8) * SBO``, and
LBO is not used. Without swizzle, the atom is a core matrix of eight 16-byte rows, and the next 16 bytes of the same row
lie LBO further on. SBO is the step from eight rows to the next eight in every mode.
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

register_layout(
    "smem-k-major",
    "operand element (row, k) to shared-memory byte, K-major",
    documented("Canonical layouts"),
    documented("Strides, leading dimension byte offset and stride dimension byte offset"),
    header("mma_traits_sm100.hpp, make_umma_desc"),
)


def linear_bytes(desc: SmemDescriptor, rows: NDArray[np.int64], row_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Address before the swizzle of byte ``row_bytes`` of row ``rows``; the two broadcast."""
    atom_row, atom = rows % ATOM_ROWS, rows // ATOM_ROWS
    if desc.swizzle is Swizzle.NONE:
        chunk = row_bytes // CHUNK_BYTES
        inside = atom_row * CHUNK_BYTES + chunk * desc.lbo_bytes + row_bytes % CHUNK_BYTES
    else:
        inside = atom_row * desc.swizzle.row_bytes + row_bytes
    return np.asarray(desc.start_bytes + atom * desc.sbo_bytes + inside, dtype=np.int64)
