"""Where operand A of one ``tcgen05.mma`` lies when it is in Tensor Memory: element (m, k) to (CTA, lane, column, bit).

A is K-major: row m lies in one lane, its elements packed little-endian into 32-bit columns, so that one MMA reads
8 columns and the next K step starts 8 columns further. Sparse A holds the kept values only (half of K).

Lanes follow the accumulator's layout, without the cut of N; where the accumulator lies in banks of lanes, each bank
multiplies with its own copy of A, which the program must store:

========================  =============================  ==================================
accumulator layout        lane of row m                  copies (lane offsets)
========================  =============================  ==================================
A, D                      m % 128                        one
B (2 CTAs, M=128)         m % 64                         0, 64
C, F                      32 * (r / 16) + r % 16 (+16)   one; r is the row within the CTA
E (.ws, M=64)             m                              0, 64 (assumed)
G (.ws, M=32)             m                              0, 32, 64, 96 (assumed)
========================  =============================  ==================================

Containers: 32, 16 and 8-bit elements fill their own; 4-bit elements of mxf4 and mxf4nvf4 lie 8 to a column; 4 and 6-bit
elements of f8f6f4 and mxf8f6f4 take an 8-bit container each. The PTX ISA shows the place inside the container as
figures only ("Packing format used for matrix A by .kind::mxf8f6f4 in Tensor Memory"); bits 2-5 for 4-bit and bits 0-5
for 6-bit elements are assumed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umma_probe.errors import ConfigError
from umma_probe.layouts.base import register_layout
from umma_probe.layouts.tmem_accumulator import RULES, AccumulatorLayout, accumulator_map, select_layout
from umma_probe.spec.sources import Evidence, Ref, assumed, documented, header

IntArray = npt.NDArray[np.int64]

COLUMN_BITS = 32
COLUMNS_PER_MMA = 8

_FRAGMENT = header("cute/atom/mma_traits_sm100_frag.hpp, tmem_frg, NonInterleaved and Duplicated")
_ALIGNMENT = documented(
    "Data Path Layout Organization", "layouts C and F: A, D and metadata at the same lane alignment"
)
_DUPLICATED = Ref("triton", "issue 1367 of facebookexperimental/triton", Evidence.KERNEL, "2-CTA M=128 duplicates A")
_WS_COPIES = assumed(
    "Layouts E and G", "one copy of A for each bank of lanes; an MMA .ws with A in Tensor Memory on silicon settles it"
)
_SPARSE_2CTA = assumed(
    "Layout C", "A lies as the accumulator does; a sparse 2-CTA MMA with M=128 on silicon settles it"
)


@dataclass(frozen=True)
class Container:
    """How many bits an element takes and where it lies in them."""

    element_bits: int
    container_bits: int
    low_bit: int
    refs: tuple[Ref, ...]


_PACKED = documented("Packing format for matrix A and B")
_MXF4 = documented("Packing format used for matrix A by .kind::mxf4 and .kind::mxf4nvf4 in Tensor Memory")
_MXF8F6F4 = documented("Packing format used for matrix A by .kind::mxf8f6f4 in Tensor Memory", "8-bit containers")
_BITS_IN_8 = assumed(
    "Packing format used for matrix A by .kind::mxf8f6f4 in Tensor Memory, figures",
    "4-bit elements in bits 2-5, 6-bit in bits 0-5; st of all 256 container values and one MMA on silicon settles it",
)

# (element bits, container bits): where the element lies in its container
CONTAINERS: dict[tuple[int, int], Container] = {
    (row.element_bits, row.container_bits): row
    for row in (
        Container(32, 32, 0, (_PACKED, _FRAGMENT)),
        Container(16, 16, 0, (_PACKED, _FRAGMENT)),
        Container(8, 8, 0, (_PACKED, _FRAGMENT)),
        Container(6, 8, 0, (_MXF8F6F4, _BITS_IN_8)),
        Container(4, 8, 2, (_MXF8F6F4, _BITS_IN_8)),
        Container(4, 4, 0, (_MXF4,)),
    )
}


def _copies_refs(layout: AccumulatorLayout) -> tuple[Ref, ...]:
    return {
        AccumulatorLayout.B: (_FRAGMENT, _DUPLICATED),
        AccumulatorLayout.C: (_ALIGNMENT, _SPARSE_2CTA),
        AccumulatorLayout.E: (_WS_COPIES,),
        AccumulatorLayout.F: (_FRAGMENT, _ALIGNMENT),
        AccumulatorLayout.G: (_WS_COPIES,),
    }.get(layout, (_FRAGMENT,))


for _layout in AccumulatorLayout:
    _banks = RULES[_layout].banks
    register_layout(
        f"operand-a-{_layout.value}",
        f"A in Tensor Memory for accumulator layout {_layout.value}: "
        + (f"{_banks} copies, {RULES[_layout].rows_per_cta} lanes apart" if _banks > 1 else "one copy"),
        *_copies_refs(_layout),
    )


@dataclass(frozen=True)
class OperandMap:
    """Element (m, k) to its place, relative to the A address with lane field ``lane_base``.

    ``cta``, ``lane``, ``column`` and ``bit`` have shape (M, K); ``bit`` is the element's lowest bit in the column.
    The same element lies again at each lane offset of ``copies`` (0 is the first).
    """

    layout: AccumulatorLayout
    container: Container
    lane_base: int
    cta: IntArray
    lane: IntArray
    column: IntArray
    bit: IntArray
    copies: tuple[int, ...]

    @property
    def columns_used(self) -> int:
        """Tensor Memory columns, from the A address on."""
        return int(self.column.max()) + 1

    @property
    def refs(self) -> tuple[Ref, ...]:
        """Where lanes, copies and packing are written."""
        return tuple(dict.fromkeys(_copies_refs(self.layout) + self.container.refs))

    def element_at(self, lane: int, column: int, bit: int, cta: int = 0) -> tuple[int, int] | None:
        """The element (m, k) that a bit of a cell belongs to, through any copy; None if it is no element's."""
        width = self.container.element_bits
        for offset in self.copies:
            here = (self.cta == cta) & (self.lane + offset == lane) & (self.column == column)
            found = np.argwhere(here & (self.bit <= bit) & (bit < self.bit + width))
            if len(found):
                return int(found[0, 0]), int(found[0, 1])
        return None


def container_for(element_bits: int, container_bits: int | None = None) -> Container:
    """The packing of an element; ``container_bits`` chooses for 4-bit elements: 4 (mxf4, the default) or 8 (f8f6f4).

    :raises ConfigError: no MMA kind packs so.
    """
    if container_bits is None:
        container_bits = 8 if element_bits == 6 else element_bits
    row = CONTAINERS.get((element_bits, container_bits))
    if row is None:
        known = ", ".join(f"{e} in {c}" for e, c in CONTAINERS)
        raise ConfigError(
            f"element bits in container bits is {element_bits} in {container_bits}, must be one of {known}",
            ref=str(_PACKED),
        )
    return row


def mma_k(element_bits: int, container_bits: int | None = None) -> int:
    """Values of one row that one MMA reads from Tensor Memory: K if dense, K/2 if sparse."""
    return COLUMNS_PER_MMA * COLUMN_BITS // container_for(element_bits, container_bits).container_bits


def operand_a_map(
    m: int,
    k: int,
    element_bits: int,
    *,
    container_bits: int | None = None,
    cta_group: int = 1,
    ws: bool = False,
    sparse: bool = False,
    lane_base: int = 0,
) -> OperandMap:
    """Where each element of A lies in Tensor Memory.

    :param k: values stored a row; a multiple of :func:`mma_k` (sparse: the kept half).
    :param lane_base: lane of the A address; 16 for the upper halves of layouts C and F.
    :raises ConfigError: no layout for this shape, no such packing, K is not whole MMAs.
    """
    container = container_for(element_bits, container_bits)
    step = mma_k(element_bits, container_bits)
    if k <= 0 or k % step:
        raise ConfigError(f"K is {k}, must be a positive multiple of {step} for {element_bits}-bit elements of A")
    any_n = 64  # legal for every layout; lanes do not depend on it
    layout = select_layout(m, any_n, cta_group=cta_group, ws=ws, sparse=sparse)
    rows = accumulator_map(m, any_n, cta_group=cta_group, ws=ws, sparse=sparse, lane_base=lane_base)
    shape = (m, k)
    position = np.arange(k, dtype=np.int64) * container.container_bits
    rule = RULES[layout]
    return OperandMap(
        layout,
        container,
        lane_base,
        np.broadcast_to(rows.cta[:, :1], shape),
        np.broadcast_to(rows.lane[:, :1], shape),
        np.broadcast_to(position // COLUMN_BITS, shape),
        np.broadcast_to(position % COLUMN_BITS + container.low_bit, shape),
        tuple(rule.rows_per_cta * bank for bank in range(rule.banks)),
    )
