"""Legal shapes against what CUTLASS accepts, and each rule of check_shape with a case that breaks only it."""

import json
from pathlib import Path

import pytest

from umma_probe.errors import ConfigError
from umma_probe.spec.kinds import KINDS, Packing, check_shape, kinds_available, legal_shapes
from umma_probe.spec.shapes import SHAPE_RULES, SOURCE_CONFLICTS, MmaCase, source_conflicts

VECTORS = Path(__file__).parents[2] / "vectors"
CUTLASS = json.loads((VECTORS / "mma_shapes.json").read_text())["cases"]
KIND_OF_OP = {"TF32": "tf32", "F16BF16": "f16", "S8": "i8", "F8F6F4": "f8f6f4"} | {
    name.upper(): name for name in ("mxf8f6f4", "mxf4", "mxf4nvf4")
}
LEGAL = {"m": 128, "n": 64, "a_type": "bf16", "b_type": "bf16", "d_type": "f32"}


def op_case(op):
    """kind, cta_group, sparse, source of A, K (None: usual) of a CUTLASS op's name."""
    ultra = op.startswith("SM103")
    name = op.split("_MMA_")[1] if not ultra else op.removeprefix("SM103_")
    kind = KIND_OF_OP[name.split("_")[0]]
    return kind, 2 if "2x1SM" in op else 1, "SPARSE" in op, "tmem" if "_TS" in op else "smem", 96 if ultra else None


@pytest.mark.parametrize("row", [row for row in CUTLASS if row["legal"] is not None], ids=lambda row: row["op"])
def test_every_shape_agrees_with_cutlass_or_is_a_recorded_conflict(row):
    kind, cta_group, sparse, a_source, k = op_case(row["op"])
    accepted = {
        (int(m), n) for m, ns in row["legal"].items() for n in (range(ns[0], ns[1] + 1, ns[2]) if len(ns) == 3 else ns)
    }
    types = {"a_type": KINDS[kind].operand_types[0], "b_type": KINDS[kind].operand_types[0]}
    for m in (16, 32, 48, 64, 96, 128, 192, 256):
        for n in range(0, 265, 4):
            problems = check_shape(
                kind,
                m=m,
                n=n,
                **types,
                cta_group=cta_group,
                sparse=sparse,
                a_source=a_source,
                k=k,
                arch="sm_103a" if k else "sm_100a",
            )
            case = MmaCase(kind, m, n, cta_group, False, sparse, a_source=a_source, k=k)
            conflicts = [conflict for conflict in source_conflicts(case) if conflict.dissent.source == "cutlass"]
            expected = (m, n) in accepted
            if conflicts:
                assert all(conflict.dissent_accepts == expected for conflict in conflicts), (m, n)
                assert (not problems) != expected, (m, n)
            else:
                assert (not problems) == expected, (m, n, problems)


def test_every_conflict_with_cutlass_is_met_by_an_op():
    met = {
        conflict.name
        for row in CUTLASS
        for kind, cta_group, sparse, a_source, k in [op_case(row["op"])]
        for m in (32, 64, 128, 256)
        for n in range(8, 257, 8)
        for conflict in source_conflicts(MmaCase(kind, m, n, cta_group, False, sparse, a_source=a_source, k=k))
    }
    assert met >= {conflict.name for conflict in SOURCE_CONFLICTS if conflict.dissent.source == "cutlass"}


# The PTX ISA's table by hand: number of (M, N) for (kind, cta_group, ws, sparse), and some that are in or out.
COUNTS = {
    ("f16", 1, False, False): 2 * 32,
    ("tf32", 2, False, True): 2 * 16,
    ("f8f6f4", 1, True, False): 3 * 3,
    ("f8f6f4", 1, True, True): 3 * 2,
    ("i8", 1, False, False): 2 * (4 + 14),
    ("i8", 2, False, False): 2 * 8,
    ("mxf8f6f4", 1, False, True): 32,
    ("mxf4", 2, False, False): 2 * 16,
    ("mxf4nvf4", 2, False, True): 16,
    ("mxf4", 1, True, False): 0,
    ("f16", 2, True, False): 0,
}


@pytest.mark.parametrize("form", COUNTS, ids=str)
def test_number_of_legal_shapes(form):
    shapes = legal_shapes(*form)
    assert len(shapes) == len(set(shapes)) == COUNTS[form]


@pytest.mark.parametrize(
    ("form", "shape", "legal"),
    [
        (("f16", 1, False, False), (128, 64), True),
        (("f16", 1, False, False), (64, 8), True),
        (("f16", 1, False, False), (256, 64), False),
        (("f16", 1, False, False), (128, 264), False),
        (("f16", 2, False, False), (128, 24), False),
        (("i8", 1, False, False), (64, 24), True),
        (("i8", 1, False, False), (64, 40), False),
        (("i8", 2, False, False), (256, 48), False),
        (("f16", 1, True, False), (32, 256), True),
        (("f16", 1, True, True), (32, 256), False),
        (("f16", 1, True, False), (32, 32), False),
        (("mxf8f6f4", 2, False, True), (128, 64), False),
    ],
)
def test_single_shapes(form, shape, legal):
    assert (shape in legal_shapes(*form)) is legal


def test_each_form_has_one_rule_at_most():
    for kind in KINDS:
        for form in [(g, ws, sparse) for g in (1, 2) for ws in (False, True) for sparse in (False, True)]:
            assert sum(rule.covers(kind, *form) for rule in SHAPE_RULES) == (
                not form[1] or (form[0] == 1 and KINDS[kind].ws)
            )


FP8 = {"a_type": "e4m3", "b_type": "e4m3"}
FP4 = {"a_type": "e2m1", "b_type": "e2m1"}
# (kind, what differs from LEGAL, field at fault) and its legal twin
TWINS = [
    ("f16", {"a_type": "tf32"}, "a_type", {}),
    ("f16", {"b_type": "e4m3"}, "b_type", {}),
    ("f16", {"d_type": "s32"}, "d_type", {}),
    ("f16", {"d_type": "f16"}, "d_type", {"d_type": "f16", "a_type": "f16", "b_type": "f16"}),
    ("f16", {"d_type": "f16", "a_type": "f16"}, "d_type", {"a_type": "f16"}),
    ("f16", {"m": 96}, "m", {"m": 64}),
    ("f16", {"n": 12}, "n", {"n": 16}),
    ("f16", {"n": 0}, "n", {"n": 256}),
    ("f16", {"cta_group": 3}, "cta_group", {"cta_group": 2}),
    ("f16", {"ws": True, "cta_group": 2}, "cta_group", {"ws": True}),
    ("f16", {"k": 32}, "k", {"k": 16}),
    ("f16", {"k": 16, "sparse": True}, "k", {"k": 32, "sparse": True}),
    ("f16", {"a_source": "tmem", "a_major": "mn"}, "a_major", {"a_source": "smem", "a_major": "mn"}),
    ("f16", {"arch": "sm_120a"}, "arch", {"arch": "sm_110f"}),
    ("i8", {"a_type": "u8", "b_type": "s8", "d_type": "s32", "arch": "sm_103a"}, "arch", None),
    ("f8f6f4", {**FP4, "a_major": "mn"}, "a_major", {**FP4}),
    ("f8f6f4", {**FP8, "b_type": "e3m2", "b_major": "mn"}, "b_major", {**FP8, "b_type": "e3m2"}),
    ("f8f6f4", {**FP8, "b_major": "mn", "n": 24}, "n", {**FP8, "b_major": "mn", "n": 32}),
    (
        "f8f6f4",
        {**FP8, "b_major": "mn", "n": 48, "cta_group": 2},
        "n",
        {**FP8, "b_major": "k", "n": 48, "cta_group": 2},
    ),
    ("mxf8f6f4", {**FP8, "ws": True}, "ws", {**FP8}),
    ("mxf4", {**FP4, "a_major": "mn"}, "a_major", {**FP4}),
    ("mxf4", {**FP4, "k": 96}, "k", {**FP4, "k": 96, "arch": "sm_103a"}),
    ("mxf4", {**FP4, "k": 96, "cta_group": 2, "arch": "sm_103a"}, "m", {**FP4, "k": 96, "arch": "sm_103a"}),
    ("mxf4", {**FP4, "k": 96, "n": 24, "arch": "sm_103a"}, "n", {**FP4, "k": 96, "n": 48, "arch": "sm_103a"}),
    ("mxf4", {**FP4, "k": 96, "sparse": True, "arch": "sm_103a"}, "k", {**FP4, "k": 128, "sparse": True}),
    ("mxf4", {**FP4, "sparse": True, "arch": "sm_100f"}, "arch", {**FP4, "sparse": True, "arch": "sm_103a"}),
]


@pytest.mark.parametrize(("kind", "broken", "field", "twin"), TWINS)
def test_each_rule_finds_its_case_and_passes_the_twin(kind, broken, field, twin):
    problems = check_shape(kind, **{**LEGAL, **broken})
    assert [problem.field for problem in problems] == [field]
    assert "must be" in problems[0].message
    assert str(problems[0].ref) in str(problems[0])
    if twin is not None:
        assert check_shape(kind, **{**LEGAL, **twin}) == []


def test_narrow_mn_major_breaks_a_rule_that_kernels_break_too():
    (problem,) = check_shape("f8f6f4", **{**LEGAL, **FP4, "a_major": "mn"})
    assert "f6f4_f6f4" in str(problem.contradicted)
    for kind, broken in (("mxf4", {**FP4, "a_major": "mn"}), ("f8f6f4", {**FP8, "b_major": "mn", "n": 24})):
        (problem,) = check_shape(kind, **{**LEGAL, **broken})
        assert problem.contradicted is None
    fields = [found.field for found in check_shape("f8f6f4", **{**LEGAL, **FP4, "b_major": "mn", "n": 24})]
    assert fields == ["b_major", "n"]


@pytest.mark.parametrize("argument", [{"a_major": "m"}, {"b_major": "n"}, {"a_source": "regs"}, {"arch": "sm_99a"}])
def test_what_is_no_choice_at_all_is_a_usage_error(argument):
    with pytest.raises(ConfigError):
        check_shape("f16", **{**LEGAL, **argument})


def test_kinds_by_target():
    assert kinds_available("sm_100a") == list(KINDS)
    assert "i8" not in kinds_available("sm_100f")
    assert kinds_available("sm_90a") == []


@pytest.mark.parametrize(
    ("kind", "type_", "packing"),
    [
        ("f8f6f4", "e2m1", Packing.PADDED_16B),
        ("mxf8f6f4", "e3m2", Packing.PADDED_16B),
        ("f8f6f4", "e5m2", Packing.DENSE),
        ("mxf4", "e2m1", Packing.DENSE),
        ("tf32", "tf32", Packing.DENSE),
    ],
)
def test_packing(kind, type_, packing):
    assert KINDS[kind].packing(type_) is packing


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_one_mma_reads_32_bytes_of_a_row(kind):
    assert kind.refs
    assert kind.k_dense * kind.smem_element_bits == 256
    assert kind.k(sparse=True) == 2 * kind.k_dense
    if kind.block_scaled:
        vector = kind.scale_vectors[0]
        assert vector.scales * vector.block_elems == kind.k_dense
