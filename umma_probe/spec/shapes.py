"""Which (M, N) an instruction accepts, and where the documents disagree about it.

The rows of ``SHAPE_RULES`` are the PTX ISA's table of valid shapes; K follows from kind and sparsity
(``spec/kinds.py``). ``SOURCE_CONFLICTS`` holds, as data, every case known in which another source accepts more or less
than that table. The PTX ISA is followed; a conflict is reported beside the answer, never in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from umma_probe.spec.sources import Evidence, Ref, documented, header

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPES_REF = documented("Shapes for tcgen05.mma: various combinations of .kind and shapes")

K96_REF = header("mma_sm100_umma.hpp, SM103_MXF4_ULTRA_SS_VS and its kernels", "K = 96 for one CTA")

PLAIN_KINDS = ("f16", "tf32", "f8f6f4", "i8")
SCALED_KINDS = ("mxf8f6f4", "mxf4", "mxf4nvf4")
_BOTH = (False, True)
_DENSE = (False,)
_SPARSE = (True,)

_N8 = tuple(range(8, 257, 8))
_N16 = tuple(range(16, 257, 16))
_N32 = tuple(range(32, 257, 32))
_N_I8 = (8, 16, 24, 32, *range(48, 257, 16))


@dataclass(frozen=True)
class ShapeRule:
    """Every M of ``m`` goes with every N of ``n``."""

    kinds: tuple[str, ...]
    cta_group: int
    ws: bool
    sparse: tuple[bool, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    ref: Ref = SHAPES_REF

    def covers(self, kind: str, cta_group: int, ws: bool, sparse: bool) -> bool:
        """Whether this row speaks about that form of the instruction."""
        return kind in self.kinds and cta_group == self.cta_group and ws == self.ws and sparse in self.sparse


SHAPE_RULES: tuple[ShapeRule, ...] = (
    #         kinds                      cta_group ws  sparse   M             N
    ShapeRule(("f16", "tf32", "f8f6f4"), 1, False, _BOTH, (64, 128), _N8),
    ShapeRule(("f16", "tf32", "f8f6f4"), 2, False, _BOTH, (128, 256), _N16),
    ShapeRule(("i8",), 1, False, _BOTH, (64, 128), _N_I8),
    ShapeRule(("i8",), 2, False, _BOTH, (128, 256), _N32),
    ShapeRule(PLAIN_KINDS, 1, True, _DENSE, (32, 64, 128), (64, 128, 256)),
    ShapeRule(PLAIN_KINDS, 1, True, _SPARSE, (32, 64, 128), (64, 128)),
    ShapeRule(SCALED_KINDS, 1, False, _BOTH, (128,), _N8),
    ShapeRule(SCALED_KINDS, 2, False, _DENSE, (128, 256), _N16),
    ShapeRule(SCALED_KINDS, 2, False, _SPARSE, (256,), _N16),
)


def shape_rule(kind: str, cta_group: int, ws: bool, sparse: bool) -> ShapeRule | None:
    """The row for one form of the instruction, or None where that form does not exist."""
    return next((rule for rule in SHAPE_RULES if rule.covers(kind, cta_group, ws, sparse)), None)


def legal_shapes(kind: str, cta_group: int = 1, ws: bool = False, sparse: bool = False) -> list[tuple[int, int]]:
    """Every legal (M, N), M outer; empty where the form does not exist. An unknown kind has none."""
    rule = shape_rule(kind, cta_group, ws, sparse)
    return [(m, n) for m in rule.m for n in rule.n] if rule else []


@dataclass(frozen=True)
class MmaCase:
    """What one ``tcgen05.mma`` asks for, as far as legality depends on it."""

    kind: str
    m: int
    n: int
    cta_group: int = 1
    ws: bool = False
    sparse: bool = False
    a_type: str = ""
    b_type: str = ""
    a_source: str = "smem"
    """``smem`` or ``tmem``."""
    k: int | None = None
    """Elements; None for the kind's usual K."""


@dataclass(frozen=True)
class SourceConflict:
    """Two sources that disagree; ``dissent_accepts`` tells which of them is the looser one."""

    name: str
    about: str
    followed: Ref
    dissent: Ref
    dissent_accepts: bool
    applies: Callable[[MmaCase], bool]
    """True for the cases in which the two answers differ."""

    def __str__(self) -> str:
        return f"{self.about} Followed: {self.followed}. Against it: {self.dissent}."


def source_conflicts(case: MmaCase) -> list[SourceConflict]:
    """The conflicts that bear on this case."""
    return [conflict for conflict in SOURCE_CONFLICTS if conflict.applies(case)]


_FLOAT_KINDS = ("f16", "tf32", "f8f6f4")
_K96_ROW = documented("Shapes for tcgen05.mma: various combinations of .kind and shapes", "the row with K = 96")


def _dense_plain(case: MmaCase, kinds: tuple[str, ...], cta_group: int, a_source: str) -> bool:
    form = (case.cta_group, case.ws, case.sparse, case.a_source)
    return case.kind in kinds and form == (cta_group, False, False, a_source)


def _sparse_plain(case: MmaCase, kind: str, cta_group: int) -> bool:
    return (case.kind, case.cta_group, case.ws, case.sparse) == (kind, cta_group, False, True)


def _odd_multiple(n: int, step: int) -> bool:
    """N is a multiple of ``step`` but not of twice that, within the range of N."""
    return n % (2 * step) == step and step <= n <= 256


SOURCE_CONFLICTS: tuple[SourceConflict, ...] = (
    SourceConflict(
        "tmem-a-n8",
        "cta_group::1, M = 128, A in Tensor Memory: CUTLASS demands N % 16 == 0, the PTX ISA N % 8 == 0.",
        SHAPES_REF,
        header("mma_sm100_umma.hpp, SM100_MMA_*_TS static asserts"),
        False,
        lambda c: _dense_plain(c, _FLOAT_KINDS, 1, "tmem") and c.m == 128 and _odd_multiple(c.n, 8),
    ),
    SourceConflict(
        "tmem-a-n16-pair",
        "cta_group::2, A in Tensor Memory: CUTLASS demands N % 32 == 0, the PTX ISA N % 16 == 0.",
        SHAPES_REF,
        header("mma_sm100_umma.hpp, SM100_MMA_*_2x1SM_TS static asserts"),
        False,
        lambda c: _dense_plain(c, _FLOAT_KINDS, 2, "tmem") and c.m in (128, 256) and _odd_multiple(c.n, 16),
    ),
    SourceConflict(
        "sparse-f8f6f4-n8",
        "Sparse kind::f8f6f4, cta_group::1, M = 128: CUTLASS demands N % 16 == 0, the PTX ISA N % 8 == 0.",
        SHAPES_REF,
        header("mma_sm100_umma.hpp, SM100_MMA_F8F6F4_SS_SPARSE static asserts"),
        False,
        lambda c: _sparse_plain(c, "f8f6f4", 1) and c.m == 128 and _odd_multiple(c.n, 8),
    ),
    SourceConflict(
        "sparse-f8f6f4-n16-pair",
        "Sparse kind::f8f6f4, cta_group::2: CUTLASS demands N % 32 == 0, the PTX ISA N % 16 == 0.",
        SHAPES_REF,
        header("mma_sm100_umma.hpp, SM100_MMA_F8F6F4_2x1SM_SS_SPARSE static asserts"),
        False,
        lambda c: _sparse_plain(c, "f8f6f4", 2) and c.m in (128, 256) and _odd_multiple(c.n, 16),
    ),
    SourceConflict(
        "mxf8f6f4-m128-pair",
        "Dense kind::mxf8f6f4, cta_group::2: CUTLASS demands M = 256, the PTX ISA allows M = 128 too.",
        SHAPES_REF,
        header("mma_sm100_umma.hpp, SM100_MMA_MXF8F6F4_2x1SM_SS static asserts"),
        False,
        lambda c: (c.kind, c.cta_group, c.ws, c.sparse, c.m) == ("mxf8f6f4", 2, False, False, 128) and c.n in _N16,
    ),
    SourceConflict(
        "i8-n24",
        "kind::i8, cta_group::1: CUTLASS refuses N = 24, the PTX ISA lists it.",
        SHAPES_REF,
        header("mma_sm100_umma.hpp, SM100_MMA_S8_* static asserts"),
        False,
        lambda c: (c.kind, c.cta_group, c.ws, c.n) == ("i8", 1, False, 24) and c.m in (64, 128),
    ),
    SourceConflict(
        "sparse-mxf4nvf4-m-pair",
        "Sparse kind::mxf4nvf4, cta_group::2: CUTLASS accepts M = 32, 64 and 128, the PTX ISA only M = 256.",
        SHAPES_REF,
        header("mma_sm100_umma.hpp, SM100_MMA_MXF4NVF4_2x1SM_SS_SPARSE static asserts"),
        True,
        lambda c: (
            (c.kind, c.cta_group, c.ws, c.sparse) == ("mxf4nvf4", 2, False, True)
            and c.m in (32, 64, 128)
            and c.n in _N16
        ),
    ),
    SourceConflict(
        "k96-one-cta",
        "K = 96 (sm_103a) with cta_group::1: CUTLASS has it for N % 16 == 0, the PTX ISA lists cta_group::2 only.",
        K96_REF,
        _K96_ROW,
        False,
        lambda c: (
            (c.cta_group, c.ws, c.sparse, c.m, c.k) == (1, False, False, 128, 96)
            and c.kind in ("mxf4", "mxf4nvf4")
            and c.n in _N16
        ),
    ),
    SourceConflict(
        "k96-m128-pair",
        "K = 96 (sm_103a) with cta_group::2: CUTLASS accepts M = 128 too, the PTX ISA lists M = 256 only.",
        _K96_ROW,
        header("mma_sm100_umma.hpp, SM103_MXF4_ULTRA_2x1SM_SS_VS static asserts"),
        True,
        lambda c: (
            (c.cta_group, c.ws, c.sparse, c.m, c.k) == (2, False, False, 128, 96)
            and c.kind in ("mxf4", "mxf4nvf4")
            and c.n in _N16
        ),
    ),
    SourceConflict(
        "smem-a-n8-kernel",
        "kind::f16, cta_group::1, M = 128: DeepGEMM demands N % 16 == 0, the PTX ISA and CUTLASS N % 8 == 0.",
        SHAPES_REF,
        Ref("deepgemm", "sm100_bf16_gemm.cuh static asserts", Evidence.KERNEL),
        False,
        lambda c: _dense_plain(c, ("f16",), 1, "smem") and c.m == 128 and _odd_multiple(c.n, 8),
    ),
    SourceConflict(
        "f16-mixed-types",
        "kind::f16 with A and B of different types: MMA-Sim models it, the PTX ISA neither lists nor forbids the mix.",
        documented("Shapes for tcgen05.mma: various combinations of .kind and shapes", "types are .f16, .bf16"),
        Ref("mma-sim", "tcgen05mma, kind::f16 with A = f16, B = bf16", Evidence.MEASURED),
        True,
        lambda c: c.kind == "f16" and bool(c.a_type and c.b_type) and c.a_type != c.b_type,
    ),
)
