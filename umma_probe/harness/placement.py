"""How a probe lays one operand out in shared memory: strides, size, and the descriptor that says so.

The strides are free choices within the canonical layouts; they are picked compact, and LBO and SBO different wherever
both count, so that a kernel (or a machine) that mixes them up shows. The kernel stages by its own formulas
(``probes/operands.cuh``), the tensor core fetches by the descriptor: if these agree, the documents are right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from umma_probe.spec.descriptors import Swizzle, encode_smem_desc
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS

TILE_BYTES = 32
"""Bytes of K that one dense MMA takes of a row."""
PATTERN_BYTES = 1024
"""Every operand starts on this boundary, so that any swizzle pattern starts with it."""

OPERAND_STRUCT = np.dtype(
    [("desc", "<u8"), *((name, "<u4") for name in ("smem", "rows", "tile_k", "lbo", "sbo", "panel", "phase", "unused"))]
)
"""``struct Operand`` of ``probes/operands.cuh``."""

_C_NAMES = {
    Swizzle.NONE: "SWIZZLE_NONE",
    Swizzle.B128_BASE32B: "SWIZZLE_128B_BASE32B",
    Swizzle.B128: "SWIZZLE_128B",
    Swizzle.B64: "SWIZZLE_64B",
    Swizzle.B32: "SWIZZLE_32B",
}


@dataclass(frozen=True)
class SmemPlacement:
    """One operand in shared memory; everything in bytes but ``rows`` and ``tile_k``."""

    rows: int
    tile_k: int
    major: str
    swizzle: Swizzle
    lbo: int
    sbo: int
    panel: int
    size: int
    phase: int = 0
    """Bytes by which the swizzle pattern is displaced: 0, or a planted fault."""

    @property
    def desc(self) -> int:
        """The descriptor, without the start address."""
        return encode_smem_desc(start_bytes=0, lbo_bytes=self.lbo, sbo_bytes=self.sbo, swizzle=self.swizzle)

    def struct(self, smem: int) -> bytes:
        """The kernel's argument, for an operand that begins at byte ``smem`` of dynamic shared memory."""
        row = (self.desc, smem, self.rows, self.tile_k, self.lbo, self.sbo, self.panel, self.phase, 0)
        return np.array([row], OPERAND_STRUCT).tobytes()

    def defines(self, operand: str) -> dict[str, str]:
        """The kernel's macros, for ``A`` or ``B``."""
        return {f"{operand}_SWIZZLE": _C_NAMES[self.swizzle], f"{operand}_MAJOR": f"{self.major.upper()}_MAJOR"}


def place_operand(kind: str, type_: str, rows: int, k_tiles: int, major: str, swizzle: Swizzle) -> SmemPlacement:
    """Lay out ``rows`` x (``k_tiles`` MMAs along K)."""
    tile_k = KINDS[kind].k_dense
    width = swizzle.row_bytes
    if major == "k":
        groups = -(-rows // 8)
        if swizzle is Swizzle.NONE:
            lbo, sbo, panel = groups * 128, 128, 0
            size = lbo * (TILE_BYTES // 16) * k_tiles
        else:
            lbo, sbo, panel = 16, 8 * width, groups * 8 * width
            size = panel * -(-TILE_BYTES * k_tiles // width)
    else:
        k_rows = 4 if swizzle is Swizzle.B128_BASE32B else 8
        block = k_rows * width
        k_blocks = tile_k * k_tiles // k_rows
        across = -(-rows * FORMATS[type_].container_bits // 8 // width)
        next_k, next_width, panel = block, block * k_blocks, 0
        lbo, sbo = (next_k, next_width) if swizzle is Swizzle.NONE else (next_width, next_k)
        size = across * next_width
    return SmemPlacement(rows, tile_k, major, swizzle, lbo, sbo, panel, -(-size // PATTERN_BYTES) * PATTERN_BYTES)


def default_swizzle(type_: str, major: str) -> Swizzle:
    """128 bytes; MN-major elements of 32 bits exist with 32-byte atoms only."""
    wide = FORMATS[type_].container_bits == 32
    return Swizzle.B128_BASE32B if major == "mn" and wide else Swizzle.B128
