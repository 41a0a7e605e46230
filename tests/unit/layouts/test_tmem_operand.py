from __future__ import annotations

import numpy as np
import pytest
from golden_tmem import expand, fnv1a64, golden

from umma_probe.errors import ConfigError
from umma_probe.layouts.tmem_accumulator import AccumulatorLayout
from umma_probe.layouts.tmem_operand import CONTAINERS, container_for, mma_k, operand_a_map

FORMS = [
    (128, {}, (0,)),
    (64, {}, (0,)),
    (64, {"lane_base": 16}, (0,)),
    (256, {"cta_group": 2}, (0,)),
    (128, {"cta_group": 2}, (0, 64)),
    (128, {"cta_group": 2, "sparse": True}, (0,)),
    (64, {"ws": True}, (0, 64)),
    (32, {"ws": True}, (0, 32, 64, 96)),
]


def copied(placed, array, rows):
    """``array`` of one CTA's rows, once for each copy, below each other; lanes moved by the copy's offset."""
    moved = array is placed.lane
    return np.concatenate([array[rows] + (offset if moved else 0) for offset in placed.copies])


def test_agrees_with_cute_cell_for_cell():
    cases = golden("tmem_a_layouts")
    for case in cases:
        placed = operand_a_map(case["mma_m"], case["k"], case["elem_bits"], cta_group=case["cta_group"])
        for cta in range(case["cta_group"]):
            rows = slice(cta * case["m_per_cta"], (cta + 1) * case["m_per_cta"])
            assert (placed.cta[rows] == cta).all()
            lane, column, bit = (copied(placed, a, rows) for a in (placed.lane, placed.column, placed.bit))
            for what, found in (("lane", lane), ("col", column), ("bit", bit)):
                np.testing.assert_array_equal(found, expand(case, what, found.shape, "m k"))
            if "expanded" in case:
                np.testing.assert_array_equal(lane << 16 | column, case["expanded"])
            assert fnv1a64((lane << 16 | column << 5 | bit).ravel()) == case["fnv1a64"]
    assert len(cases) == 141


def test_each_k_step_is_eight_columns_further():
    for case in golden("tmem_a_layouts"):
        if case.get("alloc_mode") == "Interleaved" or case["tiles_m"] != 1:
            continue  # there CuTe puts other tiles in between
        whole = operand_a_map(
            case["mma_m"], case["k"] * case["tiles_k"], case["elem_bits"], cta_group=case["cta_group"]
        )
        for _, block, lane, column, bit in case["tiles"]:
            first = block * case["k"]
            assert (lane, bit) == (0, 0)
            assert whole.column[0, first] == column


def test_cute_duplicates_accumulator_rows_where_a_must_be_duplicated():
    cases = [
        case for case in golden("tmem_c_layouts") if case.get("alloc_mode") == "Duplicated" and case["mma_m"] == 128
    ]
    assert len(cases) == 38
    placed = operand_a_map(128, 16, 16, cta_group=2)
    lane = copied(placed, placed.lane, slice(0, 64))[:, 0]
    for case in cases:
        np.testing.assert_array_equal(expand(case, "lane", (128, case["n"]), "m n")[:, 0], lane)


@pytest.mark.parametrize(("m", "form", "copies"), FORMS)
@pytest.mark.parametrize(("element_bits", "container_bits"), list(CONTAINERS))
def test_bijective_and_inverse(m, form, copies, element_bits, container_bits):
    k = 2 * mma_k(element_bits, container_bits)
    placed = operand_a_map(m, k, element_bits, container_bits=container_bits, **form)
    assert placed.copies == copies
    assert placed.columns_used == 16
    cells = np.concatenate(
        [placed.cta << 24 | (placed.lane + offset) << 16 | placed.column << 8 | placed.bit for offset in copies]
    )
    assert len(np.unique(cells)) == m * k * len(copies)
    for i, j in [(0, 0), (m - 1, k - 1), (m // 2, k // 2), (17, 3)]:
        for offset in copies:
            for inner in (0, element_bits - 1):
                lane, column, bit = placed.lane[i, j] + offset, placed.column[i, j], placed.bit[i, j] + inner
                assert placed.element_at(lane, column, bit, placed.cta[i, j]) == (i, j)


@pytest.mark.parametrize(
    ("element_bits", "container_bits", "k", "column", "bit"),
    [
        (32, None, 5, 5, 0),
        (16, None, 5, 2, 16),
        (8, None, 5, 1, 8),
        (6, None, 5, 1, 8),
        (4, 8, 5, 1, 10),
        (4, None, 5, 0, 20),
        (4, 4, 13, 1, 20),
    ],
)
def test_packing_by_hand(element_bits, container_bits, k, column, bit):
    placed = operand_a_map(128, mma_k(element_bits, container_bits), element_bits, container_bits=container_bits)
    assert (placed.column[3, k], placed.bit[3, k]) == (column, bit)


def test_bits_of_narrow_containers_are_marked_as_assumed():
    assert any("assumed" in str(ref) for ref in container_for(6).refs)
    assert any("assumed" in str(ref) for ref in container_for(4, 8).refs)
    assert not any("assumed" in str(ref) for ref in container_for(8).refs)


def test_unused_bits_and_lanes_belong_to_no_element():
    assert operand_a_map(64, 32, 6).element_at(0, 0, 6) is None
    assert operand_a_map(64, 32, 6).element_at(16, 0, 0) is None
    assert operand_a_map(64, 32, 8).element_at(0, 8, 0) is None


def test_layout_follows_the_accumulator():
    assert operand_a_map(64, 16, 16).layout is AccumulatorLayout.F
    assert operand_a_map(64, 16, 16, ws=True).layout is AccumulatorLayout.E
    assert operand_a_map(64, 16, 16, lane_base=16).lane[16, 0] == 48


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((128, 8, 16), "K is 8, must be a positive multiple of 16 for 16-bit"),
        ((128, 0, 16), "K is 0, must be"),
        ((128, 16, 12), "element bits in container bits is 12 in 12, must be one of 32 in 32"),
        ((96, 16, 16), "M is 96, must be 64 or 128"),
    ],
)
def test_illegal_operands_are_refused(arguments, message):
    with pytest.raises(ConfigError) as caught:
        operand_a_map(*arguments)
    assert caught.value.message.startswith(message)
