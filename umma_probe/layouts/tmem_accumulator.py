"""Where the accumulator D of one ``tcgen05.mma`` lies in Tensor Memory: element (m, n) to (CTA, lane, column).

The PTX ISA names seven data path layouts, A to G, and chooses one by M, ``.cta_group``, sparsity of A and ``.ws``.
Everything here is relative to the D address; one 32-bit column holds one element, also a 16-bit one (low half).

========  ==========================  ==========  =======  ======================================  =============
layout    used by                     rows a CTA  columns  lane of local row r, column n           lane of D
========  ==========================  ==========  =======  ======================================  =============
A         M=256, cta_group::2         128         N        r                                       0
B         M=128, cta_group::2, dense  64          N/2      r + 64 * (n / (N/2)), column n % (N/2)  0
C         M=128, cta_group::2, sparse 64          N        32 * (r / 16) + r % 16                  0 or 16
D         M=128, cta_group::1         128         N        r                                       0
E         M=64, .ws                   64          N/2      as B                                    0
F         M=64, not .ws               64          N        as C                                    0 or 16
G         M=32, .ws                   32          N/4      r + 32 * (n / (N/4)), column n % (N/4)  0
========  ==========================  ==========  =======  ======================================  =============

Evidence: the table of layouts is the PTX ISA's ("Data Path Layout Organization"; its text calls E "2x3", which can only
mean 2x2). The element maps are figures there; as formulas they follow CuTe's fragments (``mma_traits_sm100_frag.hpp``).
What the documents do not agree on is in :data:`DISAGREEMENTS`.

N is checked against what at least one MMA kind takes; the narrower rule of one kind belongs to the kinds' own table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from umma_probe.errors import ConfigError
from umma_probe.layouts.base import register_layout
from umma_probe.spec.sources import Evidence, Ref, assumed, documented, header

if TYPE_CHECKING:
    from collections.abc import Iterator

IntArray = npt.NDArray[np.int64]

LANES = 128
NOWHERE = -1
"""In an inverse map: this cell holds no element."""

_SELECTION = documented("Data Path Layout Organization", "M, cta_group, sparsity of A and .ws choose the layout")
_FRAGMENT = header("cute/atom/mma_traits_sm100_frag.hpp, tmem_frg")
_FRAGMENT_WS = header("cute/atom/mma_traits_sm100_frag.hpp, tmem_frg_ws", "no MMA atom of this version uses it")


class AccumulatorLayout(Enum):
    """The data path layouts of the PTX ISA."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"
    E = "E"
    F = "F"
    G = "G"


@dataclass(frozen=True)
class LayoutRule:
    """One row of the table above."""

    layout: AccumulatorLayout
    m: int
    cta_group: int
    rows_per_cta: int
    banks: int
    """N is cut into this many parts that lie ``rows_per_cta`` lanes apart."""
    half_of_lanes: bool
    """16 rows in each 32-lane partition; the other 16 lanes are left alone."""
    summary: str
    refs: tuple[Ref, ...]

    @property
    def lane_bases(self) -> tuple[int, ...]:
        """Lanes at which the D address may lie."""
        return (0, 16) if self.half_of_lanes else (0,)


def _rule(
    layout: AccumulatorLayout,
    shape: tuple[int, int, int, int],
    summary: str,
    anchor: str,
    *refs: Ref,
    half_of_lanes: bool = False,
) -> tuple[AccumulatorLayout, LayoutRule]:
    m, cta_group, rows_per_cta, banks = shape
    all_refs = (documented(anchor), _SELECTION, *refs)
    register_layout(f"accumulator-{layout.value}", summary, *all_refs)
    return layout, LayoutRule(layout, m, cta_group, rows_per_cta, banks, half_of_lanes, summary, all_refs)


_L = AccumulatorLayout
_TRITON_2X2 = Ref("triton", "issue 1367 of facebookexperimental/triton", Evidence.KERNEL, "2-CTA M=128 lies 2x2")
_TVM_HALVES = Ref("tvm", "issue 20068", Evidence.KERNEL, "lane offset 0 or 16 selects the half of each partition")

# layout, (M, cta_group, rows a CTA, banks)
RULES: dict[AccumulatorLayout, LayoutRule] = dict(
    (
        _rule(_L.A, (256, 2, 128, 1), "M=256, cta_group::2: row to lane, column to column", "Layout A", _FRAGMENT),
        _rule(
            _L.B,
            (128, 2, 64, 2),
            "M=128, cta_group::2, dense A: 2x2, the upper half of N in lanes 64-127",
            "Layout B",
            _FRAGMENT,
            _TRITON_2X2,
        ),
        _rule(
            _L.C,
            (128, 2, 64, 1),
            "M=128, cta_group::2, sparse A: 16 rows in each partition, half of the lanes",
            "Layout C",
            assumed(
                "Layout C, figure",
                "placed as layout F with 64 rows a CTA; one MMA with coordinate-coded operands on silicon settles it",
            ),
            half_of_lanes=True,
        ),
        _rule(_L.D, (128, 1, 128, 1), "M=128, cta_group::1: row to lane, column to column", "Layout D", _FRAGMENT),
        _rule(_L.E, (64, 1, 64, 2), "M=64, .ws: 2x2, the upper half of N in lanes 64-127", "Layout E", _FRAGMENT_WS),
        _rule(
            _L.F,
            (64, 1, 64, 1),
            "M=64, not .ws: 16 rows in each partition, half of the lanes",
            "Layout F",
            _FRAGMENT,
            _TVM_HALVES,
            half_of_lanes=True,
        ),
        _rule(_L.G, (32, 1, 32, 4), "M=32, .ws: 1x4, a quarter of N in each partition", "Layout G", _FRAGMENT_WS),
    )
)


@dataclass(frozen=True)
class Disagreement:
    """A case for which two documents give different layouts."""

    case: str
    chosen: AccumulatorLayout
    claims: tuple[tuple[AccumulatorLayout, Ref], ...]
    settled_by: str


DISAGREEMENTS: tuple[Disagreement, ...] = (
    Disagreement(
        case="M=128, cta_group::2, sparse A",
        chosen=_L.C,
        claims=(
            (
                _L.C,
                documented("Data Path Layout Organization", "the row for sparse A says 4x1, half of the lanes"),
            ),
            (
                _L.B,
                header(
                    "cute/atom/mma_traits_sm100.hpp, 2x1SM sparse atoms",
                    "they type the accumulator as the 2x2 fragment, but their metadata fragment wants 128 rows a CTA; "
                    "so the atoms cannot be instantiated: weak evidence",
                ),
            ),
        ),
        settled_by="one sparse 2-CTA MMA with M=128 and coordinate-coded operands on silicon",
    ),
)


def disagreements(m: int, *, cta_group: int = 1, sparse: bool = False) -> tuple[Disagreement, ...]:
    """What the documents do not agree on for this case; empty for all but sparse M=128 over two CTAs."""
    return DISAGREEMENTS if (m, cta_group, sparse) == (128, 2, True) else ()


def select_layout(m: int, n: int, *, cta_group: int = 1, ws: bool = False, sparse: bool = False) -> AccumulatorLayout:
    """The layout of D for an M x N instruction.

    :raises ConfigError: no layout exists for this shape.
    """
    if cta_group not in (1, 2):
        raise ConfigError(f"cta_group is {cta_group}, must be 1 or 2", ref=str(_SELECTION))
    if ws and cta_group == 2:
        raise ConfigError(".ws is given with cta_group 2, must be cta_group 1", ref=str(_SELECTION))
    by_m = {
        (1, False): {64: _L.F, 128: _L.D},
        (1, True): {32: _L.G, 64: _L.E, 128: _L.D},
        (2, False): {128: _L.C if sparse else _L.B, 256: _L.A},
    }[cta_group, ws]
    if m not in by_m:
        legal = " or ".join(map(str, by_m))
        raise ConfigError(
            f"M is {m}, must be {legal} with cta_group {cta_group}{' .ws' if ws else ''}", ref=str(_SELECTION)
        )
    _check_n(n, cta_group, ws, sparse)
    return by_m[m]


def _check_n(n: int, cta_group: int, ws: bool, sparse: bool) -> None:
    step = 8 * cta_group
    if ws:
        legal: tuple[int, ...] = (64, 128) if sparse else (64, 128, 256)
        rule = ", ".join(map(str, legal)) + (" with .ws and sparse A" if sparse else " with .ws")
    else:
        legal = tuple(range(step, 257, step))
        rule = f"a multiple of {step} from {step} to 256 with cta_group {cta_group}"
    if n not in legal:
        raise ConfigError(
            f"N is {n}, must be {rule}", ref=str(documented("Matrix shape: various combinations of .kind and shapes"))
        )


@dataclass(frozen=True)
class AccumulatorMap:
    """Element (m, n) to its place, relative to the D address with lane field ``lane_base``.

    ``cta``, ``lane`` and ``column`` have shape (M, N); ``lane`` includes ``lane_base``.
    """

    layout: AccumulatorLayout
    lane_base: int
    cta: IntArray
    lane: IntArray
    column: IntArray

    @property
    def m(self) -> int:
        """Rows of D, over all CTAs."""
        return int(self.lane.shape[0])

    @property
    def n(self) -> int:
        """Columns of D."""
        return int(self.lane.shape[1])

    @property
    def ctas(self) -> int:
        """1, or 2 for cta_group::2."""
        return RULES[self.layout].cta_group

    @property
    def columns_used(self) -> int:
        """Tensor Memory columns that D takes, from the D address on."""
        return int(self.column.max()) + 1

    @cached_property
    def lanes_used(self) -> IntArray:
        """The lanes that hold elements (the same in both CTAs), ascending."""
        return np.unique(self.lane).astype(np.int64)

    @cached_property
    def inverse(self) -> tuple[IntArray, IntArray]:
        """``m`` and ``n`` of each cell, shape (CTAs, 128, columns_used); :data:`NOWHERE` where none lies."""
        shape = (self.ctas, LANES, self.columns_used)
        m_at, n_at = np.full(shape, NOWHERE, np.int64), np.full(shape, NOWHERE, np.int64)
        rows, columns = np.indices(self.lane.shape)
        m_at[self.cta, self.lane, self.column] = rows
        n_at[self.cta, self.lane, self.column] = columns
        return m_at, n_at

    def element_at(self, lane: int, column: int, cta: int = 0) -> tuple[int, int] | None:
        """The element (m, n) of a cell, None if the cell is not part of D.

        :raises ConfigError: no such lane or CTA.
        """
        if not 0 <= lane < LANES:
            raise ConfigError(f"lane is {lane}, must be 0 to {LANES - 1}")
        if not 0 <= cta < self.ctas:
            raise ConfigError(f"CTA is {cta}, must be 0{' or 1' if self.ctas == 2 else ' with cta_group 1'}")
        if not 0 <= column < self.columns_used:
            return None
        m_at, n_at = self.inverse
        m, n = int(m_at[cta, lane, column]), int(n_at[cta, lane, column])
        return None if m == NOWHERE else (m, n)


def layout_map(layout: AccumulatorLayout, n: int, *, lane_base: int = 0) -> AccumulatorMap:
    """The formula of one layout, for an N that its banks divide.

    :raises ConfigError: the lane of the D address is not one that the layout allows.
    """
    rule = RULES[layout]
    if lane_base not in rule.lane_bases:
        legal = " or ".join(map(str, rule.lane_bases))
        raise ConfigError(
            f"lane of the D address is {lane_base}, must be {legal} for layout {layout.value}", ref=str(_SELECTION)
        )
    bank_columns, rest = divmod(n, rule.banks)
    if rest or n <= 0:
        raise ConfigError(f"N is {n}, must be a positive multiple of {rule.banks} for layout {layout.value}")
    rows, columns = np.indices((rule.m, n), dtype=np.int64)
    cta, local = rows // rule.rows_per_cta, rows % rule.rows_per_cta
    lane = 32 * (local // 16) + local % 16 if rule.half_of_lanes else local
    lane = lane_base + lane + rule.rows_per_cta * (columns // bank_columns)
    return AccumulatorMap(layout, lane_base, cta, lane, columns % bank_columns)


def accumulator_map(
    m: int, n: int, *, cta_group: int = 1, ws: bool = False, sparse: bool = False, lane_base: int = 0
) -> AccumulatorMap:
    """Where each element of an M x N accumulator lies, as the PTX ISA chooses the layout.

    :param lane_base: lane of the D address; 16 is the upper half of each partition, for layouts C and F.
    :raises ConfigError: no layout exists for this shape, or not at this lane.
    """
    layout = select_layout(m, n, cta_group=cta_group, ws=ws, sparse=sparse)
    return layout_map(layout, n, lane_base=lane_base)


def element_at(
    lane: int,
    column: int,
    cta: int = 0,
    *,
    m: int,
    n: int,
    cta_group: int = 1,
    ws: bool = False,
    sparse: bool = False,
    lane_base: int = 0,
) -> tuple[int, int] | None:
    """The element (m, n) that lies in a cell relative to the D address; None if the cell is not part of D."""
    placed = accumulator_map(m, n, cta_group=cta_group, ws=ws, sparse=sparse, lane_base=lane_base)
    return placed.element_at(lane, column, cta)


@dataclass(frozen=True)
class RecoveredLayout:
    """What an observed map equals: ``layout`` is None if it is none of the documented ones."""

    layout: AccumulatorLayout | None
    lane_base: int = 0

    @property
    def name(self) -> str:
        """``A`` to ``G``, ``F+16`` for the upper half of the lanes, or ``none``."""
        if self.layout is None:
            return "none"
        return self.layout.value + (f"+{self.lane_base}" if self.lane_base else "")


def recover_layout(observed_m: IntArray, observed_n: IntArray, *, m: int, n: int, cta: int = 0) -> RecoveredLayout:
    """Which documented layout an observed map equals, cell for cell.

    :param observed_m, observed_n: the element found in each cell of one CTA, shape (128, columns), relative to the
        D address; :data:`NOWHERE` where no element was found. Columns beyond the layout's must hold none.
    :param m, n: the instruction's shape; layouts of another M are not candidates.
    """
    for candidate in _candidates(m, n, cta):
        m_at, n_at = candidate.inverse
        if _equals(observed_m, m_at[cta]) and _equals(observed_n, n_at[cta]):
            return RecoveredLayout(candidate.layout, candidate.lane_base)
    return RecoveredLayout(None)


def _candidates(m: int, n: int, cta: int) -> Iterator[AccumulatorMap]:
    for layout, rule in RULES.items():
        if rule.m == m and n % rule.banks == 0 and cta < rule.cta_group:
            for lane_base in rule.lane_bases:
                yield layout_map(layout, n, lane_base=lane_base)


def _equals(observed: IntArray, expected: IntArray) -> bool:
    used = expected.shape[1]
    return (
        observed.shape[0] == LANES
        and observed.shape[1] >= used
        and bool((observed[:, :used] == expected).all())
        and bool((observed[:, used:] == NOWHERE).all())
    )
