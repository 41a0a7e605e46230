"""What ``wgmma`` fetches from shared memory: the canonical layouts, and the base offset, which sm_90 honours.

The base offset says which row of the swizzle pattern lies at row 0 of an aligned block: it is subtracted from bits 7-9
of the address before these pick the row. Nothing else of the address changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.layouts import smem_k_major, smem_mn_major
from umma_probe.layouts.base import register_layout
from umma_probe.layouts.swizzle import BASE_OFFSET, swizzle_address
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umma_probe.spec.smem_descriptor import SmemDescriptor

register_layout(
    "wgmma-operand",
    "element of an operand of wgmma to its bytes in shared memory",
    documented("Asynchronous warpgroup-level matrix: shared memory matrix layout"),
    BASE_OFFSET,
)


def wgmma_byte_addresses(desc: SmemDescriptor, major: str, element_bytes: int, rows: int, k: int) -> NDArray[np.int64]:
    """Shared byte addresses of an operand, shape (rows, k * element bytes), in K order.

    :param major: ``k`` or ``mn``.
    """
    row = np.arange(rows, dtype=np.int64)[:, None]
    payload = np.arange(k * element_bytes, dtype=np.int64)[None, :]
    if major == "mn":
        first = smem_mn_major.linear_bytes(desc, element_bytes, row, payload // element_bytes)
        linear = first + payload % element_bytes
    else:
        linear = smem_k_major.linear_bytes(desc, row, payload)
    return swizzle_address(linear, desc.swizzle, desc.base_offset)
