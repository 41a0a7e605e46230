"""Instruction descriptors: CUTLASS's words, encode and decode as inverses, and a broken twin of every rule."""

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.errors import ConfigError
from umma_probe.spec.descriptors import MAX_SHIFTS, decode_idesc, encode_idesc, idesc_layout, idesc_problems
from umma_probe.spec.kinds import KINDS, OPERAND_CODES

VECTORS = Path(__file__).parents[2] / "vectors"
INTEGERS = ("m", "n", "sparsity_selector", "max_shift", "sfa_id", "sfb_id")
FLAGS = ("negate_a", "negate_b", "saturate", "sparse")


def golden():
    with (VECTORS / "idesc.csv").open() as lines:
        yield from csv.DictReader(line for line in lines if not line.startswith("#"))


def arguments(row):
    """A row of the table as keywords of encode_idesc."""
    given_ = {f"{x}_type": row[x] for x in ("a", "b", "d")} | {"scale_type": row["scale"] or None}
    given_ |= {name: row[name] for name in ("a_major", "b_major")}
    given_ |= {name: int(row[name]) for name in INTEGERS} | {name: row[name] == "1" for name in FLAGS}
    return given_ | {"k": int(row["k"]) if row["k"] else None}


def test_every_word_of_cutlass():
    rows = list(golden())
    assert len(rows) == 458
    for row in rows:
        assert encode_idesc(row["kind"], **arguments(row)) == int(row["value"], 16), row


def test_every_word_of_cutlass_decodes_to_what_it_was_made_from():
    for row in golden():
        expected = arguments(row)
        fields = decode_idesc(row["kind"], int(row["value"], 16))
        expected["k"] = expected["k"] or KINDS[row["kind"]].k(expected["sparse"])
        actual = {name: getattr(fields, name) for name in expected}
        assert actual == expected
        assert [problem.field for problem in fields.problems if problem.field == "reserved"] == []


@st.composite
def legal_looking(draw):
    """A kind with values that fit their fields."""
    kind = draw(st.sampled_from(list(KINDS)))
    row = KINDS[kind]
    scaled = row.block_scaled
    types = st.sampled_from(sorted(row.operand_types))
    return kind, {
        "a_type": draw(types),
        "b_type": draw(types),
        "d_type": draw(st.sampled_from(row.d_types)),
        "m": draw(st.integers(0, 3 if scaled else 31)) * (128 if scaled else 16),
        "n": draw(st.integers(0, 63)) * 8,
        "a_major": draw(st.sampled_from(["k", "mn"])),
        "b_major": draw(st.sampled_from(["k", "mn"])),
        "negate_a": draw(st.booleans()),
        "negate_b": draw(st.booleans()),
        "saturate": not scaled and draw(st.booleans()),
        "sparse": draw(st.booleans()),
        "sparsity_selector": draw(st.integers(0, 3)),
        "max_shift": 0 if scaled else draw(st.sampled_from(MAX_SHIFTS)),
        "scale_type": draw(st.sampled_from(row.scale_types)) if scaled else None,
        "sfa_id": draw(st.integers(0, 3)) if scaled else 0,
        "sfb_id": draw(st.integers(0, 3)) if scaled else 0,
    }


@given(legal_looking())
@settings(derandomize=True, max_examples=300, deadline=None)
def test_decode_undoes_encode(case):
    kind, values = case
    fields = decode_idesc(kind, encode_idesc(kind, **values))
    assert {name: getattr(fields, name) for name in values} == values


@given(st.sampled_from(list(KINDS)), st.integers(0, 2**32 - 1))
@settings(derandomize=True, max_examples=300, deadline=None)
def test_any_word_is_decoded_and_what_it_says_encodes_back(kind, word):
    fields = decode_idesc(kind, word)
    if {problem.field for problem in fields.problems} & {"reserved", "a_type", "b_type", "d_type"}:
        assert idesc_problems(kind, word)
        return
    names = encode_idesc.__kwdefaults__.keys() - {"force", "k"} | {"a_type", "b_type", "m", "n"}
    values = {name: getattr(fields, name) for name in names}
    assert encode_idesc(kind, **values, k=96 if fields.raw.get("k_size") else None) == word


# Words worked out by hand from the tables.
F16 = 0x08100490  # bf16 x bf16 -> f32, 128 x 64
FP8 = 0x08100010  # e4m3 x e4m3 -> f32, 128 x 64
I8 = 0x081004A0  # s8 x s8 -> s32
TF32 = 0x08100910
MX8 = 0x08900000  # e4m3, ue8m0
MX4 = 0x08900480  # e2m1, ue8m0
NV4 = 0x08100480  # e2m1, ue4m3


@pytest.mark.parametrize(
    ("kind", "word"),
    [("f16", F16), ("f8f6f4", FP8), ("i8", I8), ("tf32", TF32), ("mxf8f6f4", MX8), ("mxf4", MX4), ("mxf4nvf4", NV4)],
)
def test_the_good_twins_are_good(kind, word):
    fields = decode_idesc(kind, word)
    assert (fields.m, fields.n) == (128, 64)
    assert idesc_problems(kind, word, sparse=False) == []


ILLEGAL = [
    ("f16", F16 | 1 << 6, "reserved", "6"),
    ("f16", F16 | 1 << 23, "reserved", "23"),
    ("f16", F16 | 1 << 29, "reserved", "29"),
    ("mxf8f6f4", MX8 | 1 << 31, "reserved", "31"),
    ("mxf8f6f4", MX8 | 1 << 24, "reserved", "24"),
    ("mxf4", MX4 | 1 << 12, "reserved", "12"),
    ("f16", (F16 & ~(7 << 7)) | 2 << 7, "a_type", "tf32 under another kind"),
    ("f8f6f4", FP8 | 2 << 10, "b_type", "code 2"),
    ("f8f6f4", FP8 | 7 << 7, "a_type", "code 7"),
    ("mxf4", MX4 & ~(7 << 7), "a_type", "code 0"),
    ("f16", F16 | 3 << 4, "d_type", "code 3"),
    ("tf32", TF32 & ~(3 << 4), "d_type", "f16 under another kind"),
    ("f16", F16 & ~(3 << 4), "d_type", "f16"),  # D = f16 from bf16 inputs
    ("f16", F16 | 1 << 3, "saturate", "integers"),
    ("i8", I8 | 1 << 13, "negate_a", "must be 0"),
    ("i8", I8 | 1 << 14, "negate_b", "must be 0"),
    ("f8f6f4", FP8 | 1, "sparsity_selector", "must be 0"),
    ("i8", I8 | 2, "sparsity_selector", "must be 0"),
    ("mxf8f6f4", MX8 | 1, "sparsity_selector", "must be 0"),
    ("mxf8f6f4", MX8 & ~(1 << 23), "scale_type", "ue4m3"),
    ("mxf4", MX4 & ~(1 << 23), "scale_type", "ue4m3"),
    ("mxf4", MX4 | 1 << 4, "sfb_id", "0 or 2"),
    ("mxf4", MX4 | 3 << 29, "sfa_id", "0 or 2"),
    ("mxf4nvf4", NV4 | 2 << 29, "sfa_id", "must be 0"),  # ue4m3 means four scales a row
    ("mxf4", MX4 | 1 << 15, "a_major", "must be k"),
    ("mxf4", MX4 | 1 << 16, "b_major", "must be k"),
    ("f16", (F16 & ~(31 << 24)) | 6 << 24, "m", "M is 96"),
    ("f16", F16 & ~(63 << 17), "n", "N is 0"),
    ("f16", F16 | 63 << 17, "n", "N is 504"),
]


@pytest.mark.parametrize(("kind", "word", "field", "says"), ILLEGAL)
def test_each_broken_rule_is_named(kind, word, field, says):
    problems = idesc_problems(kind, word)
    assert [problem.field for problem in problems] == [field]
    assert says in problems[0].message


def test_the_word_must_fit_the_instruction():
    assert [problem.field for problem in idesc_problems("f16", F16, sparse=True)] == ["sparse"]
    assert [problem.field for problem in idesc_problems("f16", F16 | 4, sparse=False)] == ["sparse"]
    assert idesc_problems("f16", F16 | 4, sparse=True) == []
    assert [problem.field for problem in idesc_problems("f16", F16, k=32)] == ["k"]
    assert [problem.field for problem in idesc_problems("mxf4", MX4 | 1 << 31, cta_group=2)] == ["k"]
    assert idesc_problems("mxf4", MX4 | 1 << 31, arch="sm_103a") == []


def test_selectors_and_scale_ids_that_are_legal():
    assert idesc_problems("f16", F16 | 3 | 4) == []
    assert idesc_problems("tf32", TF32 | 2 | 4) == []
    assert idesc_problems("mxf8f6f4", MX8 | 3 << 29 | 1 << 4) == []
    assert idesc_problems("mxf4nvf4", (NV4 | 1 << 23) | 2 << 29, scale_vector="2X") == []


def test_the_scale_vector_restricts_type_and_ids():
    two = NV4 | 1 << 23 | 2 << 29
    assert [problem.field for problem in idesc_problems("mxf4nvf4", two, scale_vector="4X")] == ["sfa_id"]
    assert [problem.field for problem in idesc_problems("mxf4nvf4", NV4, scale_vector="2X")] == ["scale_type"]
    with pytest.raises(ConfigError, match="scale vector"):
        idesc_problems("mxf8f6f4", MX8, scale_vector="3X")


BASE = {"a_type": "bf16", "b_type": "bf16", "m": 128, "n": 64}
MXBASE = {"a_type": "e2m1", "b_type": "e2m1", "m": 128, "n": 64}


@pytest.mark.parametrize(
    ("kind", "values", "says"),
    [
        ("f17", BASE, "unknown MMA kind"),
        ("f16", {**BASE, "a_type": "bf17"}, "type of A"),
        ("f16", {**BASE, "d_type": "f64"}, "type of D"),
        ("f16", {**BASE, "m": 72}, "m is 72"),
        ("f16", {**BASE, "m": 512}, "must fit 5 bits"),
        ("f16", {**BASE, "m": -16}, r"m is -16, must fit 5 bits in units of 16 \(0 to 496\)"),
        ("mxf4", {**MXBASE, "m": 512}, r"m is 512, must fit 2 bits in units of 128 \(0 to 384\)"),
        ("f16", {**BASE, "n": 12}, "n is 12"),
        ("f16", {**BASE, "n": 512}, "must fit 6 bits"),
        ("f16", {**BASE, "sparsity_selector": 4}, "must fit 2 bits"),
        ("f16", {**BASE, "max_shift": 4}, "max_shift is 4"),
        ("f16", {**BASE, "a_major": "row"}, "a_major is row"),
        ("f16", {**BASE, "k": 64}, "k is 64"),
        ("f16", {**BASE, "sfa_id": 1}, "no such field"),
        ("f16", {**BASE, "scale_type": "ue8m0"}, "not block scaled"),
        ("mxf4", {**MXBASE, "m": 64}, "multiple of 128"),
        ("mxf4", {**MXBASE, "a_type": "e4m3"}, "type of A"),
        ("mxf4", {**MXBASE, "saturate": True}, "no such field"),
        ("mxf4", {**MXBASE, "sfa_id": 4}, "must fit 2 bits"),
        ("mxf4", {**MXBASE, "scale_type": "e4m3"}, "scale-factor type"),
        ("mxf4", {**MXBASE, "d_type": "f16"}, "type of D"),
        ("mxf4nvf4", MXBASE, "scale_type is missing"),
    ],
)
def test_what_cannot_be_encoded_is_refused(kind, values, says):
    with pytest.raises(ConfigError, match=says):
        encode_idesc(kind, **values)


def test_force_cuts_down_to_the_field():
    assert encode_idesc("f16", **{**BASE, "n": 69}, force=True) == F16
    assert encode_idesc("f16", **{**BASE, "m": 512 + 128}, force=True) == F16
    assert encode_idesc("mxf4", **MXBASE, saturate=True, force=True) == MX4


def test_a_type_of_another_kind_is_encoded_and_reported():
    word = encode_idesc("f16", **{**BASE, "a_type": "tf32"})
    assert decode_idesc("f16", word).a_type is None
    assert word >> 7 & 7 == OPERAND_CODES[KINDS["f16"].family]["tf32"] == 2


@pytest.mark.parametrize("word", [-1, 1 << 32])
def test_a_word_is_32_bits(word):
    with pytest.raises(ConfigError, match="32 bits"):
        decode_idesc("f16", word)


@pytest.mark.parametrize("kind", KINDS)
def test_layouts_are_32_bits(kind):
    assert idesc_layout(kind).width == 32
