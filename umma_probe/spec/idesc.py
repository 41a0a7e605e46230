"""Instruction descriptors of ``tcgen05.mma`` (32 bits): three layouts, encode, decode, and what is wrong with a word.

The PTX ISA has one table for the kinds f16, tf32, f8f6f4 and i8, one for mxf8f6f4, and one for mxf4 and mxf4nvf4.
Only *values that fit their field* can be encoded; whether they are legal is a separate question (``idesc_problems``),
since probing illegal words on silicon is a purpose of this program, and NVIDIA's assembler does not check them.

Where the documents disagree: the table of the plain kinds allows a sparsity selector of 0 to 3 throughout, the section
on sparse operands only for f16 and tf32 (followed). CUTLASS also has selector bits in block-scaled descriptors, which
the PTX ISA reserves (followed). CUTLASS writes ``M >> 4`` at bit 24 of those, the PTX ISA ``M >> 7`` at bit 27: for the
legal M of 128 and 256 these are the same bits. With K = 96 the table of the 4-bit kinds allows scale-factor ids 0 and
2, the section on scale factors also 1 and 3 for blocks of 32 (followed; CUTLASS's kernels step through all four).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from umma_probe.bits import BitField, BitLayout
from umma_probe.errors import ConfigError, unknown_name
from umma_probe.spec.kinds import (
    D_CODES,
    K_ULTRA,
    KINDS,
    MAJORS,
    OPERAND_CODES,
    SCALE_CODES,
    DescriptorFamily,
    MmaKind,
    check_shape,
)
from umma_probe.spec.problems import Problem
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_SHIFTS = (0, 8, 16, 32)
"""Columns of B that ``.ws`` may shift by, in the order of their codes."""

IDESC_LAYOUTS: dict[DescriptorFamily, BitLayout] = {
    DescriptorFamily.PLAIN: BitLayout(
        "instruction descriptor",
        32,
        (
            BitField("sparsity_selector", 0, 2),
            BitField("sparse", 2, 1),
            BitField("saturate", 3, 1),
            BitField("d_type", 4, 2),
            BitField("a_type", 7, 3),
            BitField("b_type", 10, 3),
            BitField("negate_a", 13, 1),
            BitField("negate_b", 14, 1),
            BitField("a_major", 15, 1),
            BitField("b_major", 16, 1),
            BitField("n", 17, 6),
            BitField("m", 24, 5),
            BitField("max_shift", 30, 2),
        ),
    ),
    DescriptorFamily.SCALED_8BIT: BitLayout(
        "instruction descriptor (mxf8f6f4)",
        32,
        (
            BitField("sparsity_selector", 0, 2),
            BitField("sparse", 2, 1),
            BitField("sfb_id", 4, 2),
            BitField("a_type", 7, 3),
            BitField("b_type", 10, 3),
            BitField("negate_a", 13, 1),
            BitField("negate_b", 14, 1),
            BitField("a_major", 15, 1),
            BitField("b_major", 16, 1),
            BitField("n", 17, 6),
            BitField("scale_type", 23, 1),
            BitField("m", 27, 2),
            BitField("sfa_id", 29, 2),
        ),
    ),
    DescriptorFamily.SCALED_4BIT: BitLayout(
        "instruction descriptor (mxf4, mxf4nvf4)",
        32,
        (
            BitField("sparsity_selector", 0, 2),
            BitField("sparse", 2, 1),
            BitField("sfb_id", 4, 2),
            BitField("a_type", 7, 3),
            BitField("b_type", 10, 2),
            BitField("negate_a", 13, 1),
            BitField("negate_b", 14, 1),
            BitField("a_major", 15, 1),
            BitField("b_major", 16, 1),
            BitField("n", 17, 6),
            BitField("scale_type", 23, 1),
            BitField("m", 27, 2),
            BitField("sfa_id", 29, 2),
            BitField("k_size", 31, 1),
        ),
    ),
}
N_UNIT = 8
"""N is stored in units of this."""
K_SIZES = (64, K_ULTRA)
"""Dense K by the code of ``k_size`` (sparse: 128 for code 0)."""

_SELECTOR = documented("Sparsity selector", "only .kind::f16 and .kind::tf32 select")
_SF_ID = documented("Scale factor A ID, scale factor B ID")


def m_unit(family: DescriptorFamily) -> int:
    """M is stored in units of this."""
    return 16 if family is DescriptorFamily.PLAIN else 128


@dataclass(frozen=True)
class IdescFields:
    """A decoded word: names instead of codes; None where the code means nothing (then ``problems`` says so)."""

    kind: str
    m: int
    n: int
    k: int
    """Elements along K that the instruction consumes (of B when sparse)."""
    a_type: str | None
    b_type: str | None
    d_type: str | None
    """``f32`` for the block-scaled kinds, which do not encode it."""
    a_major: str
    b_major: str
    negate_a: bool
    negate_b: bool
    saturate: bool
    sparse: bool
    sparsity_selector: int
    max_shift: int
    """Columns."""
    scale_type: str | None
    """None for the plain kinds."""
    sfa_id: int
    sfb_id: int
    raw: Mapping[str, int]
    """Every field's bits."""
    problems: tuple[Problem, ...]
    """Undefined codes and reserved bits; legality of the whole is ``idesc_problems``."""


def idesc_layout(kind: str) -> BitLayout:
    """The layout of a kind's descriptors.

    :raises ConfigError: unknown kind.
    """
    return IDESC_LAYOUTS[KINDS[kind].family]


def encode_idesc(
    kind: str,
    *,
    a_type: str,
    b_type: str,
    m: int,
    n: int,
    d_type: str | None = None,
    a_major: str = "k",
    b_major: str = "k",
    negate_a: bool = False,
    negate_b: bool = False,
    saturate: bool = False,
    sparse: bool = False,
    sparsity_selector: int = 0,
    max_shift: int = 0,
    scale_type: str | None = None,
    sfa_id: int = 0,
    sfb_id: int = 0,
    k: int | None = None,
    force: bool = False,
) -> int:
    """The descriptor word. Values need not be legal, but each must fit its field.

    :param d_type: of the plain kinds, None for the kind's widest; the block-scaled kinds do not encode it.
    :param scale_type: of the block-scaled kinds; None where the kind has only one.
    :param max_shift: columns, for ``.ws``.
    :param k: None for the kind's usual K.
    :param force: cut values down to their field's bits, and leave out those that the layout has no field for.
    :raises ConfigError: unknown kind or type; unless forced, a value that does not fit or that has no field.
    """
    row = KINDS[kind]
    layout = IDESC_LAYOUTS[row.family]
    values: dict[str, int] = {
        "a_type": _operand_code(row, "a_type", a_type),
        "b_type": _operand_code(row, "b_type", b_type),
        "m": _units(layout["m"], m, m_unit(row.family), force),
        "n": _units(layout["n"], n, N_UNIT, force),
        "a_major": _code("a_major", a_major, MAJORS),
        "b_major": _code("b_major", b_major, MAJORS),
        "negate_a": int(negate_a),
        "negate_b": int(negate_b),
        "sparse": int(sparse),
        "sparsity_selector": sparsity_selector,
        **_optional_codes(row, d_type, saturate, max_shift, scale_type, sfa_id, sfb_id, k),
    }
    present = {name for name in values if any(field.name == name for field in layout.fields)}
    for name in values.keys() - present:
        if values[name] and not force:
            raise ConfigError(f"{name} is {values[name]}, must be 0: {layout.name} has no such field")
    fitting = {name: values[name] & layout[name].limit if force else values[name] for name in values if name in present}
    return layout.encode(fitting)


def _optional_codes(
    row: MmaKind,
    d_type: str | None,
    saturate: bool,
    max_shift: int,
    scale_type: str | None,
    sfa_id: int,
    sfb_id: int,
    k: int | None,
) -> dict[str, int]:
    """Codes of the fields that only some families have."""
    codes = {
        "saturate": int(saturate),
        "max_shift": _code("max_shift", max_shift, MAX_SHIFTS),
        "sfa_id": sfa_id,
        "sfb_id": sfb_id,
        "k_size": _k_size(row, k),
    }
    if row.block_scaled:
        codes["scale_type"] = _scale_code(row, scale_type)
        _known("d_type", d_type or "f32", row.d_types)
    elif scale_type is not None:
        raise ConfigError(f"scale_type is {scale_type}, must be absent: kind::{row.name} is not block scaled")
    else:
        codes["d_type"] = D_CODES[_known("d_type", d_type or row.d_types[-1], D_CODES)]
    return codes


_TYPE_OF = {"a_type": "type of A", "b_type": "type of B", "d_type": "type of D", "scale_type": "scale-factor type"}


def _known(field: str, name: str, known: Mapping[str, int] | tuple[str, ...]) -> str:
    if name not in known:
        raise ConfigError(unknown_name(_TYPE_OF[field], name, known))
    return name


def _code(field: str, value: object, values: tuple[object, ...]) -> int:
    if value not in values:
        raise ConfigError(f"{field} is {value}, must be {' or '.join(map(str, values))}")
    return values.index(value)


def _operand_code(row: MmaKind, field: str, name: str) -> int:
    codes = OPERAND_CODES[row.family]
    return codes[_known(field, name, codes)]


def _scale_code(row: MmaKind, scale_type: str | None) -> int:
    if scale_type is None:
        if len(row.scale_types) > 1:
            raise ConfigError(f"scale_type is missing, must be {' or '.join(row.scale_types)} under kind::{row.name}")
        scale_type = row.scale_types[0]
    return SCALE_CODES[_known("scale_type", scale_type, SCALE_CODES)]


def _units(field: BitField, value: int, unit: int, force: bool) -> int:
    if value % unit and not force:
        raise ConfigError(f"{field.name} is {value}, must be a multiple of {unit}: the field counts in units of {unit}")
    if not 0 <= value // unit <= field.limit and not force:
        raise ConfigError(
            f"{field.name} is {value}, must fit {field.width} bits in units of {unit} (0 to {field.limit * unit})"
        )
    return value // unit


def _k_size(row: MmaKind, k: int | None) -> int:
    if k is None or k in (row.k_dense, row.k_sparse):
        return 0
    if k in (row.k_extra or {}):
        return K_SIZES.index(k)
    known = (row.k_dense, row.k_sparse, *(row.k_extra or {}))
    raise ConfigError(f"k is {k}, must be {' or '.join(map(str, known))} under kind::{row.name}: K is not a free field")


def decode_idesc(kind: str, word: int) -> IdescFields:
    """The fields of a word, with the problems that lie in the word alone.

    :raises ConfigError: unknown kind, or the word does not fit 32 bits.
    """
    row = KINDS[kind]
    layout = IDESC_LAYOUTS[row.family]
    if not 0 <= word < 1 << layout.width:
        raise ConfigError(f"instruction descriptor is {word:#x}, must fit {layout.width} bits")
    raw = layout.decode(word)
    sparse = bool(raw["sparse"])
    scale = next((name for name, code in SCALE_CODES.items() if code == raw.get("scale_type")), None)
    d_type = "f32" if row.block_scaled else _name_of(raw["d_type"], row.d_codes)
    return IdescFields(
        kind=kind,
        m=raw["m"] * m_unit(row.family),
        n=raw["n"] * N_UNIT,
        k=K_SIZES[1] * (1 + sparse) if raw.get("k_size") else row.k(sparse),
        a_type=_name_of(raw["a_type"], row.operand_codes),
        b_type=_name_of(raw["b_type"], row.operand_codes),
        d_type=d_type,
        a_major=MAJORS[raw["a_major"]],
        b_major=MAJORS[raw["b_major"]],
        negate_a=bool(raw["negate_a"]),
        negate_b=bool(raw["negate_b"]),
        saturate=bool(raw.get("saturate", 0)),
        sparse=sparse,
        sparsity_selector=raw["sparsity_selector"],
        max_shift=MAX_SHIFTS[raw.get("max_shift", 0)],
        scale_type=scale,
        sfa_id=raw.get("sfa_id", 0),
        sfb_id=raw.get("sfb_id", 0),
        raw=raw,
        problems=tuple(_word_problems(row, layout, word, raw)),
    )


def _name_of(code: int, codes: Mapping[str, int]) -> str | None:
    return next((name for name, known in codes.items() if known == code), None)


def _word_problems(row: MmaKind, layout: BitLayout, word: int, raw: Mapping[str, int]) -> Iterator[Problem]:
    """Undefined codes, reserved bits and fields that the kind wants zero."""
    ref = row.refs[0]
    for field in ("a_type", "b_type", "d_type"):
        codes = row.d_codes if field == "d_type" else row.operand_codes
        if field in raw and _name_of(raw[field], codes) is None:
            rule = ", ".join(f"{code} ({name})" for name, code in codes.items())
            other = _name_of(raw[field], D_CODES if field == "d_type" else OPERAND_CODES[row.family])
            elsewhere = f" ({other} under another kind)" if other else ""
            yield Problem(field, f"{field} is code {raw[field]}{elsewhere}, must be {rule} under kind::{row.name}", ref)
    if reserved := word & layout.reserved_mask:
        bits = ", ".join(str(bit) for bit in range(layout.width) if reserved >> bit & 1)
        yield Problem("reserved", f"reserved bits {bits} are 1, must be 0", ref)
    if raw["sparsity_selector"] not in row.sparsity_selectors:
        rule = f"must be 0 under kind::{row.name}"
        yield Problem("sparsity_selector", f"sparsity_selector is {raw['sparsity_selector']}, {rule}", _SELECTOR)
    if raw.get("saturate") and not row.saturate:
        yield Problem("saturate", f"saturate is 1, must be 0 under kind::{row.name} (integers only)", ref)
    for field in ("negate_a", "negate_b"):
        if raw[field] and not row.negate:
            yield Problem(field, f"{field} is 1, must be 0 under kind::{row.name}", ref)
    if row.block_scaled:
        yield from _scale_problems(row, raw, K_SIZES[raw.get("k_size", 0)])


def _scale_problems(row: MmaKind, raw: Mapping[str, int], k: int) -> Iterator[Problem]:
    scale_type = _name_of(raw["scale_type"], SCALE_CODES)
    if scale_type not in row.scale_types:
        rule = " or ".join(row.scale_types)
        yield Problem("scale_type", f"scale_type is {scale_type}, must be {rule} under kind::{row.name}", row.refs[0])
    vectors = [vector for vector in row.scale_vectors if scale_type in vector.scale_types] or row.scale_vectors
    legal = sorted({sf_id for vector in vectors for sf_id in vector.sf_ids_of(k)})
    for field in ("sfa_id", "sfb_id"):
        if raw[field] not in legal:
            rule = " or ".join(map(str, legal))
            yield Problem(
                field, f"{field} is {raw[field]}, must be {rule} under kind::{row.name}, {scale_type}", _SF_ID
            )


def idesc_problems(
    kind: str,
    word: int,
    *,
    cta_group: int = 1,
    ws: bool = False,
    sparse: bool | None = None,
    a_source: str = "smem",
    k: int | None = None,
    scale_vector: str | None = None,
    arch: str = "sm_100a",
) -> list[Problem]:
    """Every rule that the word breaks as the descriptor of one form of the instruction.

    :param sparse: whether the instruction has ``.sp``; None to take the word's own bit.
    :param k: the K that the caller counts on; None for what the word says.
    :param scale_vector: ``1X``, ``2X`` or ``4X``, if known: it restricts the scale type and the scale-factor ids.
    :raises ConfigError: unknown kind, target or scale vector, or the word does not fit 32 bits.
    """
    row = KINDS[kind]
    fields = decode_idesc(kind, word)
    problems = list(fields.problems)
    if sparse is not None and sparse != fields.sparse:
        rule = f"must be {int(sparse)} for an instruction {'with' if sparse else 'without'} .sp"
        problems.append(Problem("sparse", f"sparse is {int(fields.sparse)}, {rule}", row.refs[0]))
    problems += check_shape(
        kind,
        m=fields.m,
        n=fields.n,
        a_type=fields.a_type or row.operand_types[0],
        b_type=fields.b_type or row.operand_types[0],
        d_type=fields.d_type,
        cta_group=cta_group,
        ws=ws,
        sparse=fields.sparse,
        a_major=fields.a_major,
        b_major=fields.b_major,
        k=fields.k if k is None else k,
        a_source=a_source,
        arch=arch,
    )
    if scale_vector is not None:
        problems += _scale_vector_problems(row, fields, scale_vector)
    return problems


def _scale_vector_problems(row: MmaKind, fields: IdescFields, name: str) -> Iterator[Problem]:
    vector = next((vector for vector in row.scale_vectors if vector.name == name), None)
    if vector is None:
        raise ConfigError(unknown_name("scale vector", name, [vector.name for vector in row.scale_vectors]))
    if fields.scale_type not in vector.scale_types:
        rule = " or ".join(vector.scale_types)
        yield Problem("scale_type", f"scale_type is {fields.scale_type}, must be {rule} with {name}", row.refs[0])
    for field, sf_id in (("sfa_id", fields.sfa_id), ("sfb_id", fields.sfb_id)):
        if sf_id not in vector.sf_ids_of(fields.k):
            rule = " or ".join(map(str, vector.sf_ids_of(fields.k)))
            width = f" and K = {fields.k}" if fields.k == K_ULTRA else ""
            yield Problem(field, f"{field} is {sf_id}, must be {rule} with scale vector {name}{width}", _SF_ID)
