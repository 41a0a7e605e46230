from __future__ import annotations

import numpy as np
import pytest
from golden_tmem import expand, golden

from umma_probe.errors import ConfigError
from umma_probe.layouts.scale_factors import SF_IDS, BlockOrder, ScaleOperand, scale_factor_map, scale_image_map


def tmem_cases():
    return [case for case in golden("sf_layouts") if case["section"] != "gmem"]


def test_agrees_with_cute_at_every_k_block():
    """CuTe gives each MMA an address whose top two bits are the SF_ID: from it the map must find CuTe's bytes."""
    for case in tmem_cases():
        rows, scales, per_mma = case["mn"], case["sf_in_tile"], case["sf_per_mma"]
        split = {"cta_group": 2, "operand": ScaleOperand.SFB, "split_n": True} if case["rep"] == 2 else {}
        lane, column, byte = (expand(case, what, (rows, scales), "mn sf") for what in ("lane", "col", "byte"))
        for block, address in enumerate(int(text, 16) for text in case["kblock_tmem_addr"]):
            placed = scale_factor_map(rows, per_mma, sf_id=address >> 30, **split)
            here = slice(block * per_mma, (block + 1) * per_mma)
            np.testing.assert_array_equal(placed.lane, lane[:, here])
            np.testing.assert_array_equal(placed.column + (address & 0xFFFF), column[:, here])
            np.testing.assert_array_equal(placed.byte, byte[:, here])
            assert list(placed.copies) == case["lane_rep"]
    assert len(tmem_cases()) == 32


def test_two_ctas_hold_the_halves_of_m_as_cute_places_each_half():
    cases = [case for case in tmem_cases() if (case["cta_group"], case["operand"], case["mn"]) == (2, "SFA", 128)]
    assert cases
    for case in cases:
        placed = scale_factor_map(256, case["sf_per_mma"], cta_group=2)
        for cta in (0, 1):
            rows = slice(128 * cta, 128 * cta + 128)
            assert (placed.cta[rows] == cta).all()
            for what, found in (("lane", placed.lane), ("col", placed.column)):
                expected = expand(case, what, (128, case["sf_in_tile"]), "mn sf")[:, : case["sf_per_mma"]]
                np.testing.assert_array_equal(found[rows], expected)


def test_memory_image_agrees_with_cute():
    shared = [case for case in golden("sf_layouts") if case["section"] == "mma"]
    for case in shared:
        shape = (case["mn"], case["sf_in_tile"])
        expected = expand(case, "smem_byte", shape, "mn sf")
        np.testing.assert_array_equal(scale_image_map(*shape, order=BlockOrder.ROWS_FIRST), expected)
    tensors = [case for case in golden("sf_layouts") if case["section"] == "gmem"]
    for case in tensors:
        shape = (case["mn"], len(case["byte_sf"]))
        expected = expand(case, "byte", shape, "mn sf")
        np.testing.assert_array_equal(scale_image_map(*shape, order=BlockOrder.K_FIRST), expected)
    assert (len(shared), len(tensors)) == (17, 4)


def test_one_cp_brings_a_block_to_its_place():
    """32x128b.warpx4 by hand: source row l is lane l (and three copies), its word w column w."""
    image, placed = scale_image_map(128, 4, order=BlockOrder.K_FIRST), scale_factor_map(128, 4)
    np.testing.assert_array_equal(image, 16 * placed.lane + 4 * placed.column + placed.byte)


@pytest.mark.parametrize("scale_vec", [1, 2, 4, 3, 6])
@pytest.mark.parametrize(
    ("rows", "form"),
    [
        (128, {}),
        (256, {}),
        (8, {}),
        (200, {}),
        (256, {"cta_group": 2}),
        (128, {"cta_group": 2}),
        (256, {"cta_group": 2, "operand": ScaleOperand.SFB}),
        (240, {"cta_group": 2, "operand": ScaleOperand.SFB, "split_n": True}),
        (48, {"cta_group": 2, "operand": ScaleOperand.SFB, "split_n": True}),
    ],
)
def test_bijective_and_inverse(rows, scale_vec, form):
    for sf_id in SF_IDS[scale_vec]:
        placed = scale_factor_map(rows, scale_vec, sf_id=sf_id, **form)
        cells = [
            placed.cta << 20 | (placed.lane + offset) << 12 | placed.column << 2 | placed.byte
            for offset in placed.copies
        ]
        assert len(np.unique(cells)) == rows * scale_vec * len(placed.copies)
        assert placed.byte.max() < 4
        assert placed.lane.max() + placed.copies[-1] < 128
        for i in {0, rows // 2, rows - 1}:
            for offset in placed.copies:
                s = scale_vec - 1
                where = (placed.lane[i, s] + offset, placed.column[i, s], placed.byte[i, s])
                assert placed.scale_at(*where, placed.cta[i, s]) == (i, s)
                if placed.in_both_ctas:
                    assert placed.scale_at(*where, 1) == (i, s)


def test_k96_agrees_with_cute_where_its_kernels_step():
    """CUTLASS's sm_103a kernels take 3 or 6 scales at a time from the fragment of 4 a block."""
    stepped = 0
    for case in tmem_cases():
        rows, scales = case["mn"], case["sf_in_tile"]
        if case["rep"] == 2 or scales % 4 or rows not in (128, 256):
            continue
        lane, column, byte = (expand(case, what, (rows, scales), "mn sf") for what in ("lane", "col", "byte"))
        for count in (3, 6):
            for first in range(0, scales - count + 1, count):
                placed = scale_factor_map(rows, count, sf_id=first % 4)
                base = int(column[0, first])
                here = slice(first, first + count)
                np.testing.assert_array_equal(placed.lane, lane[:, here])
                np.testing.assert_array_equal(placed.column + base, column[:, here])
                np.testing.assert_array_equal(placed.byte, byte[:, here])
                stepped += 1
    assert stepped > 10


def test_split_of_n_by_hand():
    placed = scale_factor_map(160, 1, cta_group=2, operand=ScaleOperand.SFB, split_n=True)
    assert (placed.lane[79, 0], placed.column[79, 0]) == (15, 2)
    assert (placed.lane[80 + 33, 0], placed.column[80 + 33, 0]) == (64 + 1, 1)


def test_cells_without_a_scale():
    placed = scale_factor_map(40, 1, sf_id=2)
    assert placed.scale_at(8, 1, 2) is None
    assert placed.scale_at(7, 1, 2) == (39, 0)
    assert placed.scale_at(7, 1, 1) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": 128, "scale_vec": 5}, "scale_vec is 5, must be 1, 2 or 4, or with K = 96 3 or 6"),
        ({"rows": 128, "scale_vec": 1, "sf_id": 4}, "SF_ID is 4, must be 0, 1, 2, 3 with scale_vec 1"),
        ({"rows": 128, "scale_vec": 2, "sf_id": 1}, "SF_ID is 1, must be 0, 2 with scale_vec 2"),
        ({"rows": 128, "scale_vec": 4, "sf_id": 2}, "SF_ID is 2, must be 0 with scale_vec 4"),
        ({"rows": 0, "scale_vec": 1}, "rows is 0, must be 1 to 256"),
        ({"rows": 257, "scale_vec": 1}, "rows is 257, must be 1 to 256"),
        ({"rows": 128, "scale_vec": 1, "cta_group": 0}, "cta_group is 0"),
        ({"rows": 127, "scale_vec": 1, "cta_group": 2}, "rows is 127, must be even"),
        ({"rows": 128, "scale_vec": 1, "split_n": True}, "split of N is asked for, must be SFB with cta_group 2"),
    ],
)
def test_illegal_forms_are_refused(arguments, message):
    with pytest.raises(ConfigError) as caught:
        scale_factor_map(**arguments)
    assert caught.value.message.startswith(message)
