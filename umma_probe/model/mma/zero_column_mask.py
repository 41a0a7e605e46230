"""The zero-column mask descriptor of ``tcgen05.mma.ws``: which columns of B count as zero, and by how much B shifts.

The columns are cut into one, two or four sub-masks for M = 128, 64 or 32. Each is a cyclic pattern of a zero run
(skip span + 1 columns) and a used run (use span + 1), that starts with the zero run where its first-span bit is 1,
the first run being shortened by the start count. The field table of the PTX ISA names the two spans the other way
round than its own examples and CUTLASS do; the examples win.
"""

from __future__ import annotations

import numpy as np

from umma_probe.bits import BitField, BitLayout
from umma_probe.errors import IllegalProgram
from umma_probe.spec.sources import documented, header

REFS = (
    documented("Zero-column mask descriptor", "spans as in the examples; the field table swaps them"),
    header("mma_sm100_desc.hpp, MaskAndShiftB"),
)
MASK_LAYOUT = BitLayout(
    "zero-column mask",
    64,
    (
        *(BitField(f"start_count_{i}", 8 * i, 8) for i in range(4)),
        *(BitField(f"first_span_{i}", 32 + i, 1) for i in range(4)),
        BitField("enable", 39, 1),
        BitField("skip_span", 40, 8),
        BitField("use_span", 48, 8),
        BitField("column_shift", 56, 6),
    ),
)


def decode_mask(word: int, m: int, n: int, max_shift: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], int]:
    """(zeroed columns (n,), column shift).

    :raises IllegalProgram: reserved bits are set, or the shift exceeds what the instruction descriptor allows.
    """
    fields = MASK_LAYOUT.decode(word)
    if word & MASK_LAYOUT.reserved_mask:
        raise IllegalProgram(f"zero-column mask {word:#018x} has reserved bits set", ref=str(REFS[0]))
    limit = min(max_shift, 16 if m == 32 else 32)
    shift = fields["column_shift"]
    if shift > limit:
        raise IllegalProgram(f"zero-column mask: column shift is {shift}, must be at most {limit}", ref=str(REFS[0]))
    zero = np.zeros(n, np.bool_)
    if fields["enable"]:
        segments = 128 // m
        width = n // segments
        for i in range(segments):
            zero[i * width : (i + 1) * width] = _segment(fields, i, width)
    return zero, shift


def _segment(fields: dict[str, int], index: int, width: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    skip, use = fields["skip_span"] + 1, fields["use_span"] + 1
    zero_first = bool(fields[f"first_span_{index}"])
    first = skip if zero_first else use
    start = min(fields[f"start_count_{index}"], first - 1)
    position = (np.arange(width) + start) % (skip + use)
    return position < first if zero_first else position >= first
