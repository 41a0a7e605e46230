"""What a TMA copy must do, written down a second time: NumPy slices of a padded tensor, and swizzle patterns as tables.

The tables are the figures of the PTX ISA, "Swizzling Modes": row by row which 16-byte chunk of the source stands where.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tma_kernels import SENTINEL

PAD = 40

SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128, "128B-atom-32B": 128, "128B-atom-32B-flip-8B": 128,
         "128B-atom-64B": 128}  # fmt: skip
_ATOM_32B = """
    0 1 2 3 4 5 6 7
    2 3 0 1 6 7 4 5
    4 5 6 7 0 1 2 3
    6 7 4 5 2 3 0 1"""
PATTERNS = {
    "none": "0 1 2 3 4 5 6 7",
    "32B": """
    0 1 2 3 4 5 6 7
    1 0 3 2 5 4 7 6""",
    "64B": """
    0 1 2 3 4 5 6 7
    1 0 3 2 5 4 7 6
    2 3 0 1 6 7 4 5
    3 2 1 0 7 6 5 4""",
    "128B": """
    0 1 2 3 4 5 6 7
    1 0 3 2 5 4 7 6
    2 3 0 1 6 7 4 5
    3 2 1 0 7 6 5 4
    4 5 6 7 0 1 2 3
    5 4 7 6 1 0 3 2
    6 7 4 5 2 3 0 1
    7 6 5 4 3 2 1 0""",
    "128B-atom-32B": _ATOM_32B,
    "128B-atom-32B-flip-8B": _ATOM_32B,
    "128B-atom-64B": """
    0 1 2 3 4 5 6 7
    4 5 6 7 0 1 2 3""",
}


def pattern(swizzle: str) -> Any:
    """(lines, 8): the source chunk at each place."""
    return np.array([line.split() for line in PATTERNS[swizzle].strip().splitlines()], np.int64)


def tile(tensor: Any, at: tuple[int, ...], box: list[int], strides: list[int] | None = None, fill: Any = 0) -> Any:
    """The box of a tensor whose last axis is the fastest; ``at``, ``box`` and ``strides`` go fastest first."""
    steps = strides or [1] * len(box)
    axes = list(zip(tensor.shape, reversed(at), reversed(box), strict=True))
    before = [max(0, -start) for _, start, _ in axes]
    after = [max(0, start + size - extent) for extent, start, size in axes]
    padded = np.pad(tensor, list(zip(before, after, strict=True)), constant_values=fill)
    cuts = zip(axes, before, reversed(steps), strict=True)
    return padded[tuple(slice(low + start, low + start + size, step) for (_, start, size), low, step in cuts)]


def in_shared(rows: Any, swizzle: str, smem_offset: int, smem_bytes: int, background: Any = None) -> Any:
    """Shared memory with rows (n, bytes) stored from ``smem_offset`` on, everything else as it was."""
    pitch = max(rows.shape[1], SPANS[swizzle])
    image = np.full(smem_bytes, SENTINEL, np.uint8) if background is None else background.copy()
    for index, row in enumerate(rows):
        start = smem_offset + index * pitch
        for at in range(0, len(row), 16):
            place, flipped = chunk_place(start + at, swizzle)
            chunk = row[at : at + 16]
            image[place : place + 16] = np.roll(chunk, 8) if flipped else chunk
    return image


def chunk_place(address: int, swizzle: str) -> tuple[int, bool]:
    """Where the 16-byte chunk at ``address`` goes, and whether its halves change places."""
    table = pattern(swizzle)
    line, chunk = address // 128, address % 128 // 16
    place = int(np.flatnonzero(table[line % len(table)] == chunk)[0])
    return line * 128 + place * 16, swizzle.endswith("flip-8B") and line % 2 == 1


def as_rows(box: Any) -> Any:
    """The bytes of a box as rows of its fastest dimension."""
    data = np.ascontiguousarray(box)
    return data.reshape(-1, data.shape[-1]).view(np.uint8)
