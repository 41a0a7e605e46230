"""The kinds of ``tcgen05.mma``: operand types and codes, K, scale factors, targets; and the check of a whole case.

Rules that ``check_shape`` enforces beside the table of shapes (``spec/shapes.py``):

- K is not encoded (but for K = 96 of the 4-bit kinds): 32 bytes of A a row when dense, twice the elements when sparse.
- K = 96 (48 bytes a row) exists on sm_103a, dense, as M = 128 for one CTA and M = 256 for a pair, N % 16 == 0.
- D = F16 needs F16 inputs under ``kind::f16``.
- Types narrower than 8 bits are never MN-major by the documents; kernels known to work have them so under f8f6f4 and
  mxf8f6f4 (``NARROW_MN``). A in Tensor Memory is always K-major.
- B of 8 bits or fewer that is MN-major (transposed): N is a multiple of 16, or of 32 with ``cta_group::2``.
- ``.ws`` exists for ``cta_group::1`` and for the kinds without block scaling.
- ``kind::i8`` and the sparse 4-bit kinds exist on some targets only, as NVIDIA's assembler decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING

from umma_probe.errors import ConfigError, unknown_name
from umma_probe.registry import Registry
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.machine import arch as machine
from umma_probe.spec.problems import Problem
from umma_probe.spec.shapes import K96_REF, SHAPES_REF, legal_shapes, shape_rule
from umma_probe.spec.sources import Evidence, Ref, documented, header

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "KINDS",
    "MAJORS",
    "DescriptorFamily",
    "MmaKind",
    "Packing",
    "ScaleVector",
    "check_shape",
    "kinds_available",
    "legal_shapes",
]

MAJORS = ("k", "mn")
K_ULTRA = 96
"""The other K of the 4-bit kinds."""


class DescriptorFamily(Enum):
    """Which table of the PTX ISA lays out a kind's instruction descriptor."""

    PLAIN = "plain"
    SCALED_8BIT = "mxf8f6f4"
    SCALED_4BIT = "mxf4"


class Packing(Enum):
    """How elements follow each other along K or MN in shared memory."""

    DENSE = "dense"
    """No gaps: two 4-bit elements a byte, low nibble first."""
    PADDED_16B = "padded-16B"
    """16 elements at the start of each 16-byte chunk, its rest unused (4- and 6-bit types beside 8-bit ones)."""


@dataclass(frozen=True)
class ScaleVector:
    """One ``.scale_vec`` or ``.block`` qualifier."""

    name: str
    """``1X``, ``2X``, ``4X``: scale factors per row and MMA."""
    block_name: str
    """The other spelling; ``block32`` is 2X or 1X by kind."""
    scales: int
    block_elems: int
    """Elements along K that share one factor (twice as many when sparse)."""
    scale_types: tuple[str, ...]
    sf_ids: tuple[int, ...]
    """Legal values of the descriptor's scale-factor ids."""
    sf_ids_k96: tuple[int, ...] = ()
    """The same with K = 96."""

    def scales_of(self, k: int, sparse: bool = False) -> int:
        """Scale factors a row for ``k`` elements: ``scales``, but 6 or 3 with K = 96."""
        return k // (self.block_elems * (1 + sparse))

    def sf_ids_of(self, k: int) -> tuple[int, ...]:
        """Legal scale-factor ids."""
        return self.sf_ids_k96 if k == K_ULTRA else self.sf_ids


@dataclass(frozen=True)
class MmaKind:
    """One ``.kind``: everything that legality, the descriptor and the model need to know of it."""

    name: str
    family: DescriptorFamily
    operand_types: tuple[str, ...]
    """Of A and of B, chosen independently."""
    d_types: tuple[str, ...]
    k_dense: int
    """Elements; sparse is twice that."""
    smem_element_bits: int
    """Width of one element's place in shared memory; narrower types are padded to it, 16 elements at a time."""
    refs: tuple[Ref, ...]
    scale_vectors: tuple[ScaleVector, ...] = ()
    ws: bool = True
    negate: bool = True
    saturate: bool = False
    mn_major: bool = True
    targets: tuple[str, ...] = ()
    """Targets of the dense form; empty for every target with Tensor Memory."""
    sparse_targets: tuple[str, ...] = ()
    """Targets of ``.sp``; empty for the same as dense."""
    sparsity_selectors: tuple[int, ...] = (0,)
    k_extra: Mapping[int, tuple[str, ...]] | None = None
    """Other K (dense), with the targets that have it."""

    @property
    def k_sparse(self) -> int:
        """Elements of B along K with sparse A."""
        return 2 * self.k_dense

    @property
    def block_scaled(self) -> bool:
        """Whether A and B have scale factors."""
        return bool(self.scale_vectors)

    @property
    def scale_types(self) -> tuple[str, ...]:
        """Scale-factor types, of all scale vectors."""
        return tuple(dict.fromkeys(name for vector in self.scale_vectors for name in vector.scale_types))

    @property
    def operand_codes(self) -> dict[str, int]:
        """Descriptor code of each legal A or B type."""
        return {name: OPERAND_CODES[self.family][name] for name in self.operand_types}

    @property
    def d_codes(self) -> dict[str, int]:
        """Descriptor code of each legal D type; block-scaled kinds do not encode it."""
        return {name: D_CODES[name] for name in self.d_types}

    def packing(self, operand_type: str) -> Packing:
        """How operands of that type lie in shared memory."""
        return Packing.DENSE if FORMATS[operand_type].container_bits == self.smem_element_bits else Packing.PADDED_16B

    def k(self, sparse: bool = False) -> int:
        """The usual K."""
        return self.k_sparse if sparse else self.k_dense


_FP8_CODES = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
OPERAND_CODES: dict[DescriptorFamily, dict[str, int]] = {
    DescriptorFamily.PLAIN: {"f16": 0, "bf16": 1, "tf32": 2, "u8": 0, "s8": 1} | _FP8_CODES,
    DescriptorFamily.SCALED_8BIT: _FP8_CODES,
    DescriptorFamily.SCALED_4BIT: {"e2m1": 1},
}
"""Codes by family: under kinds of one family a code means what the kind's own types make of it."""
D_CODES = {"f16": 0, "f32": 1, "s32": 2}
SCALE_CODES = {"ue4m3": 0, "ue8m0": 1}

KINDS: Registry[MmaKind] = Registry("MMA kind")

_IDESC = documented("Instruction descriptor format for .kind::tf32, .kind::f16, .kind::f8f6f4 and .kind::i8")
_IDESC_MX8 = documented("Instruction descriptor format for .kind::mxf8f6f4")
_IDESC_MX4 = documented("Instruction descriptor format for .kind::mxf4 and .kind::mxf4nvf4")
_HEADER = header("mma_sm100_desc.hpp, InstrDescriptor")
_HEADER_MX = header("mma_sm100_desc.hpp, InstrDescriptorBlockScaled")
_D_F16 = documented("Shapes for tcgen05.mma: various combinations of .kind and shapes", "D = F16 needs F16 inputs")
_TARGETS = Ref("assembler", "tcgen05.mma per target", Evidence.MEASURED, "targets that assemble it")
_MAJOR = documented("Canonical layouts", "which element widths can be MN-major")
NARROW_MN = Ref(
    "cutlass", "test/unit/gemm/device/sm100_tensorop_gemm/narrow_precision/f6f4_f6f4_void_f32_{nn,nt,tt}_layout.cu",
    Evidence.KERNEL, "MN-major operands of 4 and 6 bits, by one CTA and by pairs; Triton has MN-packed mxfp4",
)  # fmt: skip
"""Against the documents: operands narrower than 8 bits that are MN-major, 16 elements in each 16 bytes."""
_TMEM_A = documented("tcgen05.mma, matrix A in Tensor Memory", "always K-major")
_TRANSPOSED_N = documented("tcgen05.mma shapes", "8-bit transposed B: N % 16, with cta_group::2 N % 32")
_WS = documented("tcgen05.mma.ws", "cta_group::1 only, no block scaling")

_FP8_TYPES = tuple(_FP8_CODES)
_A_TARGETS = ("sm_100a", "sm_103a", "sm_107a", "sm_110a")
_ULTRA = {K_ULTRA: ("sm_103a",)}
_VEC_1X = ScaleVector("1X", "block32", 1, 32, ("ue8m0",), (0, 1, 2, 3))
_VEC_2X = ScaleVector("2X", "block32", 2, 32, ("ue8m0",), (0, 2), (0, 1, 2, 3))
_VEC_4X = ScaleVector("4X", "block16", 4, 16, ("ue8m0", "ue4m3"), (0,), (0, 2))


def _kind(row: MmaKind) -> None:
    KINDS.add(row.name, row)


_PLAIN = DescriptorFamily.PLAIN
_kind(
    MmaKind("f16", _PLAIN, ("f16", "bf16"), ("f16", "f32"), 16, 16, (_IDESC, _HEADER), sparsity_selectors=(0, 1, 2, 3))
)
_kind(MmaKind("tf32", _PLAIN, ("tf32",), ("f32",), 8, 32, (_IDESC, _HEADER), sparsity_selectors=(0, 1, 2, 3)))
_kind(MmaKind("f8f6f4", _PLAIN, _FP8_TYPES, ("f16", "f32"), 32, 8, (_IDESC, _HEADER)))
_kind(
    MmaKind(
        "i8",
        _PLAIN,
        ("u8", "s8"),
        ("s32",),
        32,
        8,
        (_IDESC, _HEADER, _TARGETS),
        negate=False,
        saturate=True,
        targets=("sm_100a", "sm_110a"),
    )
)
_kind(
    MmaKind(
        "mxf8f6f4",
        DescriptorFamily.SCALED_8BIT,
        _FP8_TYPES,
        ("f32",),
        32,
        8,
        (_IDESC_MX8, _HEADER_MX),
        scale_vectors=(_VEC_1X,),
        ws=False,
    )
)
for _name, _vectors in (("mxf4", (_VEC_2X,)), ("mxf4nvf4", (_VEC_2X, _VEC_4X))):
    _kind(
        MmaKind(
            _name,
            DescriptorFamily.SCALED_4BIT,
            ("e2m1",),
            ("f32",),
            64,
            4,
            (_IDESC_MX4, _HEADER_MX, _TARGETS),
            scale_vectors=_vectors,
            ws=False,
            mn_major=False,
            sparse_targets=_A_TARGETS,
            k_extra=_ULTRA,
        )
    )


def kinds_available(arch: str) -> list[str]:
    """The kinds that a target has, dense form.

    :raises ConfigError: unknown target.
    """
    if not machine(arch).has_tmem:
        return []
    return [kind.name for kind in KINDS.values() if not kind.targets or arch in kind.targets]


def check_shape(
    kind: str,
    *,
    m: int,
    n: int,
    a_type: str,
    b_type: str,
    d_type: str | None = None,
    cta_group: int = 1,
    ws: bool = False,
    sparse: bool = False,
    a_major: str = "k",
    b_major: str = "k",
    k: int | None = None,
    a_source: str = "smem",
    arch: str = "sm_100a",
) -> list[Problem]:
    """Every rule that the case breaks; empty if it is legal.

    :param m, n: of the instruction (of the pair with ``cta_group`` 2), elements.
    :param k: elements along K, None for the usual; of B when sparse.
    :param d_type: None where it is not encoded.
    :param a_source: ``smem`` or ``tmem``.
    :raises ConfigError: unknown kind, target, majorness or source of A.
    """
    row = KINDS[kind]
    for name, value, known in (
        ("a_major", a_major, MAJORS),
        ("b_major", b_major, MAJORS),
        ("a_source", a_source, ("smem", "tmem")),
    ):
        if value not in known:
            raise ConfigError(f"{name}: {unknown_name('value', value, known)}")
    return [
        *_check_target(row, sparse, arch),
        *_check_types(row, a_type, b_type, d_type),
        *_check_form(row, m, n, cta_group, ws, sparse),
        *_check_k(row, m, n, k, cta_group, sparse, arch),
        *_check_majorness(row, "a", a_type, a_major),
        *_check_majorness(row, "b", b_type, b_major),
        *_check_transposed_n(b_type, b_major, n, cta_group),
        *_check_tmem_a(a_source, a_major),
    ]


def _check_target(row: MmaKind, sparse: bool, arch: str) -> Iterator[Problem]:
    if not machine(arch).has_tmem:
        yield Problem("arch", f"arch is {arch}, must be a target with Tensor Memory", _TARGETS)
        return
    targets = (sparse and row.sparse_targets) or row.targets
    if targets and arch not in targets:
        form = f"{'sparse ' if sparse else ''}kind::{row.name}"
        yield Problem("arch", f"arch is {arch}, must be {' or '.join(targets)} for {form}", _TARGETS)


def _check_types(row: MmaKind, a_type: str, b_type: str, d_type: str | None) -> Iterator[Problem]:
    for field, name in (("a_type", a_type), ("b_type", b_type)):
        if name not in row.operand_types:
            rule = " or ".join(row.operand_types)
            yield Problem(field, f"{field} is {name}, must be {rule} under kind::{row.name}", row.refs[0])
    if d_type is None:
        return
    if d_type not in row.d_types:
        rule = " or ".join(row.d_types)
        yield Problem("d_type", f"d_type is {d_type}, must be {rule} under kind::{row.name}", row.refs[0])
    elif row.name == "f16" and d_type == "f16" and (a_type, b_type) != ("f16", "f16"):
        yield Problem(
            "d_type", f"d_type is f16 with A {a_type} and B {b_type}, must be f32 unless both are f16", _D_F16
        )


def _check_form(row: MmaKind, m: int, n: int, cta_group: int, ws: bool, sparse: bool) -> Iterator[Problem]:
    if cta_group not in (1, 2):
        yield Problem("cta_group", f"cta_group is {cta_group}, must be 1 or 2", SHAPES_REF)
        return
    if ws and not row.ws:
        yield Problem("ws", f"kind is {row.name}, must be a kind without block scaling with .ws", _WS)
        return
    if ws and cta_group != 1:
        yield Problem("cta_group", f"cta_group is {cta_group}, must be 1 with .ws", _WS)
        return
    rule = shape_rule(row.name, cta_group, ws, sparse)
    assert rule is not None, "SHAPE_RULES has a row for every form that exists"
    form = f"{'sparse ' if sparse else ''}kind::{row.name}, cta_group::{cta_group}{', .ws' if ws else ''}"
    if m not in rule.m:
        yield Problem("m", f"M is {m}, must be {_values(rule.m)} for {form}", rule.ref)
    if n not in rule.n:
        yield Problem("n", f"N is {n}, must be {_values(rule.n)} for {form}", rule.ref)


def _values(values: tuple[int, ...]) -> str:
    """``64 or 128``; ``8 to 256 in steps of 8``."""
    steps = {b - a for a, b in pairwise(values)}
    if len(values) > 4 and len(steps) == 1:
        return f"{values[0]} to {values[-1]} in steps of {steps.pop()}"
    if len(values) > 4:
        return ", ".join(map(str, values))
    return " or ".join(map(str, values))


def _check_k(row: MmaKind, m: int, n: int, k: int | None, cta_group: int, sparse: bool, arch: str) -> Iterator[Problem]:
    if k is None or k == row.k(sparse):
        return
    targets = (row.k_extra or {}).get(k)
    form = f"{'sparse' if sparse else 'dense'} kind::{row.name}"
    if targets is None or sparse:
        yield Problem("k", f"K is {k}, must be {row.k(sparse)} for {form}", SHAPES_REF)
        return
    if arch not in targets:
        yield Problem(
            "k", f"K is {k} on {arch}, must be {row.k(sparse)}; K = {k} exists on {', '.join(targets)}", SHAPES_REF
        )
        return
    if m != 128 * cta_group:
        yield Problem("m", f"M is {m} with K = {k} and cta_group::{cta_group}, must be {128 * cta_group}", SHAPES_REF)
    if n % 16:
        yield Problem("n", f"N is {n} with K = {k}, must be a multiple of 16", K96_REF)


def _check_majorness(row: MmaKind, operand: str, type_: str, major: str) -> Iterator[Problem]:
    if major != "mn":
        return
    field = f"{operand}_major"
    if not row.mn_major:
        yield Problem(field, f"{field} is mn, must be k under kind::{row.name}", row.refs[0])
    elif type_ in FORMATS and FORMATS[type_].container_bits < 8:
        yield Problem(field, f"{field} is mn for {type_}, must be k for types narrower than 8 bits", _MAJOR, NARROW_MN)


def _check_transposed_n(b_type: str, b_major: str, n: int, cta_group: int) -> Iterator[Problem]:
    if b_major != "mn" or b_type not in FORMATS or FORMATS[b_type].container_bits > 8 or cta_group not in (1, 2):
        return
    step = 16 * cta_group
    if n % step:
        rule = f"must be a multiple of {step} with cta_group::{cta_group}"
        yield Problem("n", f"N is {n} with MN-major {b_type} B, {rule}", _TRANSPOSED_N)


def _check_tmem_a(a_source: str, a_major: str) -> Iterator[Problem]:
    if a_source == "tmem" and a_major == "mn":
        yield Problem("a_major", "a_major is mn with A in Tensor Memory, must be k", _TMEM_A)
