from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from golden_tmem import expand, golden

from umma_probe.errors import ConfigError, NotModelled, UndefinedBehavior
from umma_probe.layouts.sparse_metadata import RULES_BY_CLASS, MetadataClass, kept_values, metadata_map

CUTE_TYPES = {
    "f16": MetadataClass.F16,
    "tf32": MetadataClass.TF32,
    "u8 (8-bit/mixed f8f6f4)": MetadataClass.BITS8,
    "e2m1": MetadataClass.MXF4,
}


def test_agrees_with_cute_at_every_k_block():
    """CuTe's K block sits at a column; bit 0 of it is the selector where the kind has one."""
    for case in golden("tmem_e_layouts"):
        metadata_class = CUTE_TYPES[case["value_type"]]
        rule = RULES_BY_CLASS[metadata_class]
        shape = (case["m"], case["k"])
        assert rule.k == case["k"]
        groups = np.arange(case["k"]) // rule.group
        for block in range(case["k_blocks"]):
            start = 0 if case["col_kb"] == 0 else case["col_kb"][block]
            selector = start & 1 if len(rule.selectors) > 1 else 0
            placed = metadata_map(metadata_class, case["m"], selector=selector)
            np.testing.assert_array_equal(placed.lane[:, groups], expand(case, "lane", shape, "m k"))
            column = expand(case, "col", shape, "m k") + start
            np.testing.assert_array_equal(placed.column[:, groups] + (start - selector), column)
            elements = expand(case, "sub", shape, "m k")
            np.testing.assert_array_equal(placed.nibble[:, groups], elements // (case["elems_per_column"] // 8))
    assert len(golden("tmem_e_layouts")) == 7


@pytest.mark.parametrize("metadata_class", MetadataClass)
@pytest.mark.parametrize(
    ("m", "form", "copies"),
    [
        (128, {}, 1),
        (64, {}, 1),
        (64, {"lane_base": 16}, 1),
        (256, {"cta_group": 2}, 1),
        (128, {"cta_group": 2}, 1),
        (64, {"ws": True}, 2),
        (32, {"ws": True}, 4),
    ],
)
def test_bijective_and_inverse(metadata_class, m, form, copies):
    rule = RULES_BY_CLASS[metadata_class]
    placed = metadata_map(metadata_class, m, **form)
    assert placed.lane.shape == (m, rule.groups)
    assert len(placed.copies) == copies
    cells = [
        placed.cta << 20 | (placed.lane + offset) << 12 | placed.column << 4 | placed.nibble for offset in placed.copies
    ]
    assert len(np.unique(cells)) == m * rule.groups * copies
    for i, c in [(0, 0), (m - 1, rule.groups - 1), (9, 5)]:
        for offset in placed.copies:
            where = (placed.lane[i, c] + offset, placed.column[i, c], placed.nibble[i, c], placed.cta[i, c])
            assert placed.group_at(*where) == (i, c)
    assert placed.group_at(0, 7, 0) is None


def test_hand_derived_places():
    f16 = metadata_map(MetadataClass.F16, 128, selector=1)
    assert (f16.lane[27, 6], f16.column[27, 6], f16.nibble[27, 6]) == (16 + 3 + 8, 1, 4 + 2)
    eight = metadata_map(MetadataClass.BITS8, 128)
    assert (eight.lane[27, 13], eight.column[27, 13], eight.nibble[27, 13]) == (27, 1, 5)
    half = metadata_map(MetadataClass.TF32, 64)
    assert (half.lane[27, 6], half.nibble[27, 6]) == (32 + 3 + 8, 6)


def test_metadata_of_half_layouts_stay_in_their_half_of_each_partition():
    for base in (0, 16):
        lanes = metadata_map(MetadataClass.F16, 64, lane_base=base).lane
        assert set((lanes % 32 // 16).ravel().tolist()) == {base // 16}


def test_places_that_no_document_gives_are_marked_as_assumed():
    assert any("assumed" in str(ref) for ref in metadata_map(MetadataClass.F16, 64).refs)
    assert not any("assumed" in str(ref) for ref in metadata_map(MetadataClass.F16, 128).refs)


def test_codes_select_every_ascending_pair_and_one_more():
    kept = {code: kept_values(MetadataClass.F16, code) for code in RULES_BY_CLASS[MetadataClass.F16].codes}
    assert {pair for pair in kept.values() if pair[0] < pair[1]} == set(combinations(range(4), 2))
    assert kept[0b0110] == (2, 1)
    assert len(kept) == 7
    for code, (first, second) in kept.items():
        assert code == first | second << 2


@pytest.mark.parametrize(
    ("metadata_class", "code", "kept"),
    [
        (MetadataClass.F16, 0b1100, (0, 3)),
        (MetadataClass.BITS8, 0b1001, (1, 2)),
        (MetadataClass.TF32, 0b0100, (0,)),
        (MetadataClass.TF32, 0b1110, (1,)),
        (MetadataClass.MXF4, 0b1000, (0, 1, 4, 5)),
    ],
)
def test_kept_values(metadata_class, code, kept):
    assert kept_values(metadata_class, code) == kept


@pytest.mark.parametrize("metadata_class", MetadataClass)
def test_other_codes_are_undefined(metadata_class):
    illegal = set(range(16)) - set(RULES_BY_CLASS[metadata_class].codes)
    assert 0b0000 in illegal
    assert 0b1111 in illegal
    for code in illegal:
        with pytest.raises(UndefinedBehavior, match=f"metadata code is 0b{code:04b}"):
            kept_values(metadata_class, code)


def test_selectors():
    with pytest.raises(NotModelled, match="selector is 2 for f16"):
        metadata_map(MetadataClass.F16, 128, selector=2)
    with pytest.raises(ConfigError, match="selector is 4, must be 0 or 1 for f16"):
        metadata_map(MetadataClass.F16, 128, selector=4)
    with pytest.raises(ConfigError, match="selector is 1, must be 0 for 8-bit"):
        metadata_map(MetadataClass.BITS8, 128, selector=1)
    with pytest.raises(ConfigError, match="M is 32"):
        metadata_map(MetadataClass.F16, 32)
