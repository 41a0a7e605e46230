"""The zero-column mask descriptor of ``tcgen05.mma.ws``: which columns of B count as zero, and by how much B shifts.

The columns are cut into one, two or four sub-masks for M = 128, 64 or 32. Each is a cyclic pattern of a zero run
(skip span + 1 columns) and a used run (use span + 1), that starts with the zero run where its first-span bit is 1,
the first run being shortened by the start count.
"""

from __future__ import annotations

import numpy as np

from umma_probe.errors import IllegalProgram
from umma_probe.spec.zero_column_mask import MASK_REFS, ZERO_COLUMN_MASK


def decode_mask(word: int, m: int, n: int, max_shift: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], int]:
    """(zeroed columns (n,), column shift).

    :raises IllegalProgram: reserved bits are set, or the shift exceeds what the instruction descriptor allows.
    """
    fields = ZERO_COLUMN_MASK.decode(word)
    if word & ZERO_COLUMN_MASK.reserved_mask:
        raise IllegalProgram(f"zero-column mask {word:#018x} has reserved bits set", ref=str(MASK_REFS[0]))
    limit = min(max_shift, 16 if m == 32 else 32)
    shift = fields["column_shift"]
    if shift > limit:
        raise IllegalProgram(
            f"zero-column mask: column shift is {shift}, must be at most {limit}", ref=str(MASK_REFS[0])
        )
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
