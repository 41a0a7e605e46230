"""Where the metadata of sparse A lies in Tensor Memory, and what its 4-bit codes mean.

A code selects the kept values of one group of A: group c of row m is a nibble of a 32-bit column.

====================  ===  ===============  ======  ===============================================
kinds                 K    a group          groups  place of (m, c), relative to the address
====================  ===  ===============  ======  ===============================================
f16                   32   2 of 4           8       lane 16*(m/16) + m%8 + 8*(c/4),
tf32                  16   1 of 2           8       column = selector, nibble 4*((m/8)%2) + c%4
f8f6f4, mxf8f6f4, i8  64   2 of 4           16      lane m, column c/8, nibble c%8; selector 0
mxf4, mxf4nvf4        128  2 of 4 pairs     16      as the 8-bit kinds
====================  ===  ===============  ======  ===============================================

Here m is the row within the CTA, and 16*(m/16) + m%16 its lane. Where accumulator layout F or C puts 16 rows into each
partition, the metadata follow (assumed); where it lies in banks (.ws, layouts E and G), each bank needs a copy.

Codes: for 2 of 4, bits 0-1 are the first kept index, bits 2-3 the second. Legal are the six ascending pairs and 0b0110.
tf32 uses 0b0100 for the first and 0b1110 for the second value. Any other code is undefined behaviour.

Evidence: PTX ISA "Sparse matrices" (text and tables of codes; layout figures are pictures); CuTe's ``tmem_e_frg`` for
M=128 a CTA. Selectors 2 and 3, which PTX allows for f16 and tf32, have no published place.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from umma_probe.errors import ConfigError, NotModelled, UndefinedBehavior
from umma_probe.layouts.base import register_layout
from umma_probe.layouts.tmem_accumulator import RULES, AccumulatorLayout, accumulator_map
from umma_probe.spec.sources import Ref, assumed, documented, header

IntArray = npt.NDArray[np.int64]

NIBBLES_PER_COLUMN = 8

_SPARSE = documented("Sparse matrices: layout of the metadata")
_CODES = documented("Sparse matrices: sparse tcgen05.mma with .kind, metadata values")
_SELECTOR = documented("Sparsity selector")
_FRAGMENT = header("cute/atom/mma_traits_sm100_frag.hpp, tmem_e_frg", "128 rows a CTA only")
_FRAGMENT_WS = header("cute/atom/mma_traits_sm100_frag.hpp, tmem_e_frg_ws", "a copy in each bank")
_HALF = assumed(
    "Sparse matrices, figures for M=64",
    "as for M=128, from the lane that layout F or C gives the row; a sparse MMA with M=64 on silicon settles it",
)
_INDEX_ORDER = assumed(
    "Sparse matrices, metadata values", "first index in bits 0-1; one sparse MMA on silicon settles it"
)


class MetadataClass(Enum):
    """The kinds that share a metadata layout."""

    F16 = "f16"
    TF32 = "tf32"
    BITS8 = "8-bit"
    MXF4 = "mxf4"


@dataclass(frozen=True)
class MetadataRule:
    """One row of the table above."""

    kinds: tuple[str, ...]
    k: int
    group: int
    """Values of A in one group, kept or not."""
    unit: int
    """Neighbouring values that a code keeps or drops together."""
    selectors: tuple[int, ...]
    interleaved: bool
    """8 rows and their neighbours 8 further share a column."""
    codes: dict[int, tuple[int, ...]]
    """Legal code to the kept units of the group, in order."""

    @property
    def groups(self) -> int:
        """Codes of one row for one MMA."""
        return self.k // self.group


_PAIRS: dict[int, tuple[int, ...]] = {
    0b0100: (0, 1),
    0b1000: (0, 2),
    0b1100: (0, 3),
    0b1001: (1, 2),
    0b1101: (1, 3),
    0b1110: (2, 3),
    0b0110: (2, 1),
}
_ONE_OF_TWO: dict[int, tuple[int, ...]] = {0b0100: (0,), 0b1110: (1,)}

# kinds, K, group, unit, selectors, interleaved, codes
RULES_BY_CLASS: dict[MetadataClass, MetadataRule] = {
    MetadataClass.F16: MetadataRule(("f16",), 32, 4, 1, (0, 1), True, _PAIRS),
    MetadataClass.TF32: MetadataRule(("tf32",), 16, 2, 1, (0, 1), True, _ONE_OF_TWO),
    MetadataClass.BITS8: MetadataRule(("f8f6f4", "mxf8f6f4", "i8"), 64, 4, 1, (0,), False, _PAIRS),
    MetadataClass.MXF4: MetadataRule(("mxf4", "mxf4nvf4"), 128, 8, 2, (0,), False, _PAIRS),
}

for _class, _row in RULES_BY_CLASS.items():
    register_layout(
        f"sparse-metadata-{_class.value}",
        f"Metadata of sparse A, kinds {', '.join(_row.kinds)}: {_row.groups} codes a row for K={_row.k}",
        _SPARSE,
        _FRAGMENT,
    )


@dataclass(frozen=True)
class MetadataMap:
    """Group (m, c) to its place, relative to the metadata address without its selector.

    ``cta``, ``lane``, ``column`` and ``nibble`` (0 = bits 0-3) have shape (M, groups). The same code lies again at each
    lane offset of ``copies`` (0 is the first).
    """

    metadata_class: MetadataClass
    layout: AccumulatorLayout
    cta: IntArray
    lane: IntArray
    column: IntArray
    nibble: IntArray
    copies: tuple[int, ...]
    refs: tuple[Ref, ...]

    def group_at(self, lane: int, column: int, nibble: int, cta: int = 0) -> tuple[int, int] | None:
        """The group (m, c) that a nibble of a cell describes, through any copy; None if it describes none."""
        for offset in self.copies:
            here = (self.cta == cta) & (self.lane + offset == lane)
            found = np.argwhere(here & (self.column == column) & (self.nibble == nibble))
            if len(found):
                return int(found[0, 0]), int(found[0, 1])
        return None


def metadata_map(
    metadata_class: MetadataClass,
    m: int,
    *,
    selector: int = 0,
    cta_group: int = 1,
    ws: bool = False,
    lane_base: int = 0,
) -> MetadataMap:
    """Where the code of each group of sparse A lies for one MMA.

    :param selector: sparsity selector of the instruction descriptor.
    :param lane_base: lane of the address; 16 for the upper halves of accumulator layouts C and F, as D's.
    :raises ConfigError: no layout for this shape, or a selector that the kind does not have.
    :raises NotModelled: selector 2 or 3 of f16 and tf32, whose place is not published.
    """
    rule = RULES_BY_CLASS[metadata_class]
    _check_selector(metadata_class, rule, selector)
    rows = accumulator_map(m, 64, cta_group=cta_group, ws=ws, sparse=True, lane_base=lane_base)
    first_lane = rows.lane[:, :1]
    c = np.arange(rule.groups, dtype=np.int64)[np.newaxis, :]
    if rule.interleaved:
        eight = first_lane // 8 % 2
        lane = first_lane - 8 * eight + 8 * (c // 4)
        column, nibble = selector + 0 * lane, 4 * eight + c % 4
    else:
        lane = first_lane + 0 * c
        column, nibble = c // NIBBLES_PER_COLUMN + 0 * lane, c % NIBBLES_PER_COLUMN + 0 * lane
    placed = RULES[rows.layout]
    cta = np.broadcast_to(rows.cta[:, :1], lane.shape)
    copies = tuple(placed.rows_per_cta * bank for bank in range(placed.banks))
    return MetadataMap(metadata_class, rows.layout, cta, lane, column, nibble, copies, _refs(rows.layout))


def _check_selector(metadata_class: MetadataClass, rule: MetadataRule, selector: int) -> None:
    if selector in rule.selectors:
        return
    if rule.interleaved and selector in (2, 3):
        raise NotModelled(
            f"sparsity selector is {selector} for {metadata_class.value}, must be 0 or 1 here",
            hint="PTX allows 0 to 3, but no document says where the metadata of 2 and 3 lie",
            ref=str(_SELECTOR),
        )
    legal = " or ".join(map(str, rule.selectors))
    raise ConfigError(
        f"sparsity selector is {selector}, must be {legal} for {metadata_class.value}", ref=str(_SELECTOR)
    )


def _refs(layout: AccumulatorLayout) -> tuple[Ref, ...]:
    if RULES[layout].half_of_lanes:
        return (_SPARSE, _HALF)
    if RULES[layout].banks > 1:
        return (_SPARSE, _FRAGMENT_WS)
    return (_SPARSE, _FRAGMENT)


def kept_values(metadata_class: MetadataClass, code: int) -> tuple[int, ...]:
    """The kept values of a group, as indices into the group, in the order in which A stores them.

    :raises UndefinedBehavior: a code that the PTX ISA does not define.
    """
    rule = RULES_BY_CLASS[metadata_class]
    units = rule.codes.get(code)
    if units is None:
        legal = ", ".join(f"0b{known:04b}" for known in sorted(rule.codes))
        raise UndefinedBehavior(
            f"metadata code is 0b{code:04b}, must be one of {legal} for {metadata_class.value}", ref=str(_CODES)
        )
    return tuple(rule.unit * unit + i for unit in units for i in range(rule.unit))


CODE_REFS = (_CODES, _INDEX_ORDER)
"""Where the codes are written; which bits hold which index is inferred from the table of values."""
