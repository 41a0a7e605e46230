from __future__ import annotations

import numpy as np
import pytest
from golden_tmem import expand, fnv1a64, golden
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.errors import ConfigError
from umma_probe.layouts.tmem_accumulator import (
    NOWHERE,
    RULES,
    AccumulatorLayout,
    accumulator_map,
    disagreements,
    element_at,
    layout_map,
    recover_layout,
    select_layout,
)

L = AccumulatorLayout

# every form of the PTX table: M, cta_group, ws, sparse -> layout, and the N of at least one kind
FORMS = [
    (32, 1, True, False, L.G, [64, 128, 256]),
    (32, 1, True, True, L.G, [64, 128]),
    (64, 1, True, False, L.E, [64, 128, 256]),
    (64, 1, True, True, L.E, [64, 128]),
    (64, 1, False, False, L.F, range(8, 257, 8)),
    (64, 1, False, True, L.F, range(8, 257, 8)),
    (128, 1, False, False, L.D, range(8, 257, 8)),
    (128, 1, True, False, L.D, [64, 128, 256]),
    (128, 1, True, True, L.D, [64, 128]),
    (128, 2, False, False, L.B, range(16, 257, 16)),
    (128, 2, False, True, L.C, range(16, 257, 16)),
    (256, 2, False, False, L.A, range(16, 257, 16)),
    (256, 2, False, True, L.A, range(16, 257, 16)),
]


@pytest.mark.parametrize(("m", "cta_group", "ws", "sparse", "layout", "ns"), FORMS)
def test_the_ptx_table_chooses_the_layout(m, cta_group, ws, sparse, layout, ns):
    assert {select_layout(m, n, cta_group=cta_group, ws=ws, sparse=sparse) for n in ns} == {layout}


def cute_cases():
    """Accumulators that an MMA can have, CuTe's sparse 2x2 rows apart."""
    for case in golden("tmem_c_layouts"):
        not_an_mma = (case["cta_group"], case["mma_m"]) == (2, 64)
        for_operand_a = case.get("alloc_mode") == "Duplicated" and case["mma_m"] == 128
        conflict = "SPARSE" in case.get("op", "") and (case["cta_group"], case["mma_m"]) == (2, 128)
        if not (not_an_mma or for_operand_a or conflict):
            yield case


def places(case):
    """CuTe's lane, 32-bit column and bit of each element of one CTA."""
    shape = (case["m_per_cta"], case["n"])
    return tuple(expand(case, what, shape, "m n") for what in ("lane", "col", "bit"))


def assert_equals_cute(placed, case):
    lane, column, bit = places(case)
    packed = case.get("storage_type") == "f16"  # CuTe's own packing of 16-bit storage, two a column
    here = (placed.column // 2, placed.column % 2 * 16) if packed else (placed.column, 0 * placed.column)
    for cta in range(case["cta_group"]):
        rows = slice(cta * case["m_per_cta"], (cta + 1) * case["m_per_cta"])
        assert (placed.cta[rows] == cta).all()
        np.testing.assert_array_equal(placed.lane[rows], lane)
        np.testing.assert_array_equal(here[0][rows], column)
        np.testing.assert_array_equal(here[1][rows], bit)


def test_agrees_with_cute_cell_for_cell():
    count = 0
    for case in cute_cases():
        ws, sparse = case.get("alloc_mode") == "ws", "SPARSE" in case.get("op", "")
        placed = accumulator_map(case["mma_m"], case["n"], cta_group=case["cta_group"], ws=ws, sparse=sparse)
        assert_equals_cute(placed, case)
        count += 1
    assert count == 434


def test_agrees_with_the_expanded_lists_and_the_hashes():
    expanded = hashed = 0
    for case in cute_cases():
        if case.get("storage_type") == "f16" or case["m_per_cta"] * case["n"] > 4096:
            continue
        placed = accumulator_map(
            case["mma_m"], case["n"], cta_group=case["cta_group"], ws=case.get("alloc_mode") == "ws"
        )
        rows = slice(0, case["m_per_cta"])
        assert fnv1a64((placed.lane[rows] << 16 | placed.column[rows] << 5).ravel()) == case["fnv1a64"]
        hashed += 1
        if "expanded" in case:
            np.testing.assert_array_equal(placed.lane[rows] << 16 | placed.column[rows], case["expanded"])
            expanded += 1
    assert (expanded, hashed) == (9, 114)


def test_cute_gives_sparse_m128_over_two_ctas_as_2x2_and_the_conflict_is_data():
    cases = [
        case
        for case in golden("tmem_c_layouts")
        if "SPARSE" in case.get("op", "") and (case["cta_group"], case["mma_m"]) == (2, 128)
    ]
    assert len(cases) == 6
    for case in cases:
        assert_equals_cute(layout_map(L.B, case["n"]), case)
        assert select_layout(128, case["n"], cta_group=2, sparse=True) is L.C
    (conflict,) = disagreements(128, cta_group=2, sparse=True)
    assert [layout for layout, _ in conflict.claims] == [L.C, L.B]
    assert conflict.chosen is L.C
    assert not disagreements(128, cta_group=2)
    assert not disagreements(256, cta_group=2, sparse=True)


@pytest.mark.parametrize(
    ("layout", "m", "n", "expected"),
    [
        # derived by hand from the PTX table and TVM's description of layouts C and F
        (L.A, 255, 7, (1, 127, 7)),
        (L.B, 100, 40, (1, 36 + 64, 8)),
        (L.C, 64 + 33, 40, (1, 64 + 1, 40)),
        (L.D, 100, 40, (0, 100, 40)),
        (L.E, 5, 63, (0, 5 + 64, 31)),
        (L.F, 47, 3, (0, 64 + 15, 3)),
        (L.G, 31, 50, (0, 31 + 96, 2)),
    ],
)
def test_hand_derived_elements(layout, m, n, expected):
    placed = layout_map(layout, 64)
    assert (placed.cta[m, n], placed.lane[m, n], placed.column[m, n]) == expected


@pytest.mark.parametrize(("m", "cta_group", "ws", "sparse", "layout", "ns"), FORMS)
def test_bijective_and_inverse(m, cta_group, ws, sparse, layout, ns):
    for n in ns:
        for lane_base in RULES[layout].lane_bases:
            placed = accumulator_map(m, n, cta_group=cta_group, ws=ws, sparse=sparse, lane_base=lane_base)
            cells = placed.cta << 16 | placed.lane << 9 | placed.column
            assert len(np.unique(cells)) == m * n
            m_at, n_at = placed.inverse
            rows, columns = np.indices((m, n))
            np.testing.assert_array_equal(m_at[placed.cta, placed.lane, placed.column], rows)
            np.testing.assert_array_equal(n_at[placed.cta, placed.lane, placed.column], columns)
            assert (m_at != NOWHERE).sum() == m * n
            assert placed.column.max() + 1 == placed.columns_used
            assert placed.lane.max() < 128


@settings(derandomize=True, max_examples=60)
@given(lane=st.integers(0, 127), column=st.integers(0, 511), upper=st.booleans())
def test_element_at_inverts_layout_f(lane, column, upper):
    found = element_at(lane, column, m=64, n=48, lane_base=16 if upper else 0)
    inside = lane % 32 // 16 == upper and column < 48
    assert found == ((lane // 32 * 16 + lane % 16, column) if inside else None)


def test_half_layouts_leave_the_other_lanes_alone():
    lower, upper = accumulator_map(64, 8), accumulator_map(64, 8, lane_base=16)
    assert not set(lower.lanes_used) & set(upper.lanes_used)
    assert len(lower.lanes_used) == len(upper.lanes_used) == 64


@pytest.mark.parametrize(("m", "cta_group", "ws", "sparse", "layout", "ns"), FORMS)
def test_recovers_each_layout_by_name(m, cta_group, ws, sparse, layout, ns):
    for lane_base in RULES[layout].lane_bases:
        n = ns[-1]
        placed = accumulator_map(m, n, cta_group=cta_group, ws=ws, sparse=sparse, lane_base=lane_base)
        for cta in range(cta_group):
            seen_m, seen_n = (np.full((128, 512), NOWHERE) for _ in range(2))
            for i, j in np.argwhere(placed.cta == cta):
                seen_m[placed.lane[i, j], placed.column[i, j]] = i
                seen_n[placed.lane[i, j], placed.column[i, j]] = j
            found = recover_layout(seen_m, seen_n, m=m, n=n, cta=cta)
            assert found.name == layout.value + ("+16" if lane_base else "")


def test_recovers_none_from_a_map_with_holes_or_strays():
    m_at, n_at = (array[0].copy() for array in accumulator_map(128, 64).inverse)
    assert recover_layout(m_at, n_at, m=128, n=64).name == "D"
    holes = n_at.copy()
    holes[:, 32:36] = NOWHERE
    assert recover_layout(m_at, holes, m=128, n=64).layout is None
    stray = np.pad(m_at, ((0, 0), (0, 1)), constant_values=NOWHERE)
    stray[5, 64] = 3
    wide = np.pad(n_at, ((0, 0), (0, 1)), constant_values=NOWHERE)
    assert recover_layout(stray, wide, m=128, n=64).name == "none"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"m": 96, "n": 64}, "M is 96, must be 64 or 128 with cta_group 1"),
        ({"m": 256, "n": 64}, "M is 256, must be 64 or 128 with cta_group 1"),
        ({"m": 32, "n": 64}, "M is 32, must be 64 or 128 with cta_group 1"),
        ({"m": 64, "n": 64, "cta_group": 2}, "M is 64, must be 128 or 256 with cta_group 2"),
        ({"m": 256, "n": 64, "ws": True}, "M is 256, must be 32 or 64 or 128 with cta_group 1 .ws"),
        ({"m": 128, "n": 64, "cta_group": 2, "ws": True}, ".ws is given with cta_group 2"),
        ({"m": 128, "n": 64, "cta_group": 3}, "cta_group is 3, must be 1 or 2"),
        ({"m": 128, "n": 0}, "N is 0, must be a multiple of 8"),
        ({"m": 128, "n": 12}, "N is 12, must be a multiple of 8"),
        ({"m": 128, "n": 264}, "N is 264, must be a multiple of 8"),
        ({"m": 128, "n": 24, "cta_group": 2}, "N is 24, must be a multiple of 16"),
        ({"m": 32, "n": 32, "ws": True}, "N is 32, must be 64, 128, 256 with .ws"),
        ({"m": 32, "n": 256, "ws": True, "sparse": True}, "N is 256, must be 64, 128 with .ws and sparse A"),
        ({"m": 128, "n": 64, "lane_base": 16}, "lane of the D address is 16, must be 0 for layout D"),
        ({"m": 64, "n": 64, "lane_base": 8}, "lane of the D address is 8, must be 0 or 16 for layout F"),
    ],
)
def test_illegal_shapes_are_refused_with_the_rule(arguments, message):
    with pytest.raises(ConfigError) as caught:
        accumulator_map(**arguments)
    assert caught.value.message.startswith(message)
    assert "PTX ISA" in caught.value.ref


def test_cute_defines_a_fragment_that_no_mma_has():
    assert any((case["cta_group"], case["mma_m"]) == (2, 64) for case in golden("tmem_c_layouts"))
    with pytest.raises(ConfigError):
        select_layout(64, 64, cta_group=2)
