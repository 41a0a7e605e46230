"""MN-major (transposed) operands in shared memory: descriptor and (mn, k) to the address before the swizzle.

A row of the atom holds ``W = S / element bytes`` neighbours along MN for one k (S is 16 bytes without swizzle), and an
atom has 8 such rows, or 4 in mode ``128B-base32B``. With a swizzle, LBO leads to the next W along MN and SBO to the
next atom along K; without one the two change places. The documents define 8- and 16-bit elements for every mode but
``128B-base32B``, and 32-bit elements for that mode alone; for the rest the formula gives what CuTe's descriptor
function lays out, and ``smem_operand.operand_problems`` says that it is not documented.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.layouts.base import register_layout
from umma_probe.spec.smem_descriptor import SmemDescriptor, Swizzle
from umma_probe.spec.sources import documented, header

if TYPE_CHECKING:
    from numpy.typing import NDArray

register_layout(
    "smem-mn-major",
    "operand element (mn, k) to shared-memory byte, MN-major",
    documented("Canonical layouts"),
    documented("Strides, leading dimension byte offset and stride dimension byte offset"),
    header("mma_traits_sm100.hpp, make_umma_desc", "128B-base32B: atoms of 4 rows along K"),
)


def atom_k(swizzle: Swizzle) -> int:
    """Rows along K of one atom."""
    return 4 if swizzle is Swizzle.B128_BASE32B else 8


def linear_bytes(
    desc: SmemDescriptor, element_bytes: int, mn: NDArray[np.int64], k: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Address before the swizzle of the first byte of element (mn, k); the two broadcast."""
    row_bytes = desc.swizzle.row_bytes
    width = row_bytes // element_bytes
    depth = atom_k(desc.swizzle)
    mn_step, k_step = desc.lbo_bytes, desc.sbo_bytes
    if desc.swizzle is Swizzle.NONE:
        mn_step, k_step = k_step, mn_step
    along_mn = mn % width * element_bytes + mn // width * mn_step
    along_k = k % depth * row_bytes + k // depth * k_step
    return np.asarray(desc.start_bytes + along_mn + along_k, dtype=np.int64)
