"""The zero-column mask descriptor of ``tcgen05.mma.ws`` (64 bits): its fields.

The field table of the PTX ISA names the two spans the other way round than its own examples and CUTLASS do; the
examples win. A span is stored as its length less one. ``start_count`` and ``first_span`` are those of each sub-mask.
"""

from __future__ import annotations

from umma_probe.bits import BitField, BitLayout
from umma_probe.spec.sources import documented, header

MASK_REFS = (
    documented("Zero-column mask descriptor", "spans as in the examples; the field table swaps them"),
    header("mma_sm100_desc.hpp, MaskAndShiftB"),
)
ZERO_COLUMN_MASK = BitLayout(
    "zero-column mask",
    64,
    (
        *(BitField(f"start_count_{part}", 8 * part, 8) for part in range(4)),
        *(BitField(f"first_span_{part}", 32 + part, 1) for part in range(4)),
        BitField("enable", 39, 1),
        BitField("skip_span", 40, 8),
        BitField("use_span", 48, 8),
        BitField("column_shift", 56, 6),
    ),
)
