from __future__ import annotations

import numpy as np
import pytest
from golden_tmem import golden

from umma_probe.errors import ConfigError
from umma_probe.layouts.tmem_cp import DECOMPRESSIONS, SHAPES, cp_map, parse

ALL = [(shape, how) for shape in SHAPES for how in (None, *DECOMPRESSIONS)]


def test_agrees_with_cute_cell_for_cell():
    cases = golden("cp_maps")
    for case in cases:
        placed = cp_map(case["ptx"].removeprefix(f"tcgen05.cp.cta_group::{case['cta_group']}."))
        # CuTe numbers the four rows of 4x256b by the lane they go to
        row = placed.row * 32 if placed.spec.shape.name == "4x256b" else placed.row
        mine = np.stack([placed.lane, placed.column, row, placed.byte * 8], -1)
        assert sorted(mine.tolist()) == sorted(case["expanded"])
    assert len(cases) == 7


def test_eighteen_spellings_exist():
    assert len({str(parse(shape, how)) for shape, how in ALL}) == 18


@pytest.mark.parametrize(
    ("text", "how", "lane", "column", "source"),
    [
        ("128x256b", None, 77, 5, [(77, 20), (77, 21), (77, 22), (77, 23)]),
        ("4x256b", None, 96, 7, [(3, 28), (3, 29), (3, 30), (3, 31)]),
        ("64x128b.warpx2::02_13", None, 70, 1, [(6, 4), (6, 5), (6, 6), (6, 7)]),
        ("64x128b.warpx2::01_23", None, 70, 1, [(38, 4), (38, 5), (38, 6), (38, 7)]),
        ("64x128b.warpx2::01_23", None, 38, 0, [(6, 0), (6, 1), (6, 2), (6, 3)]),
        ("32x128b.warpx4", None, 127, 3, [(31, 12), (31, 13), (31, 14), (31, 15)]),
        ("32x128b.warpx4", "b6x16_p32", 0, 3, [(0, 9), (0, 10), (0, 11)]),
        ("128x256b", "b4x16_p64", 9, 5, [(9, 18), (9, 19)]),
        ("32x128b.warpx4", None, 0, 4, []),
        ("4x256b", None, 1, 0, []),
    ],
)
def test_hand_derived_sources(text, how, lane, column, source):
    assert list(cp_map(text, how).source_of(lane, column)) == source


@pytest.mark.parametrize(("text", "how"), ALL)
def test_every_cell_once_and_every_source_byte_as_often_as_it_is_multicast(text, how):
    placed = cp_map(text, how)
    shape = placed.spec.shape
    cells = list(zip(placed.lane.tolist(), placed.column.tolist(), strict=True))
    assert cells == sorted(set(cells))
    assert len(cells) == shape.rows * shape.columns * len(shape.copies)
    used = {None: 16, "b6x16_p32": 12, "b4x16_p64": 8}[how]  # bytes of a 16-byte chunk that are not padding
    for row, byte in [(0, 0), (shape.rows - 1, shape.row_bytes - 1), (shape.rows // 2, used - 1), (1, used % 16)]:
        found = placed.cells_of(row, byte)
        assert len(found) == (len(shape.copies) if byte % 16 < used else 0)
        assert all((row, byte) in placed.source_of(*cell) for cell in found)


def test_decompression_may_stand_in_the_spelling_or_beside_it():
    assert parse("4x256b.b8x16.b6x16_p32") == parse("4x256b", "b6x16_p32") == parse("4x256b", ".b8x16.b6x16_p32")
    with pytest.raises(ConfigError, match="must be one"):
        parse("4x256b.b8x16.b6x16_p32", "b4x16_p64")


@pytest.mark.parametrize(
    ("text", "how", "message"),
    [
        ("64x128b", None, "multicast is none, must be spelled 64x128b.warpx2::02_13 or 64x128b.warpx2::01_23"),
        ("32x128b", None, "multicast is none, must be spelled 32x128b.warpx4"),
        ("128x256b.warpx4", None, "multicast is .warpx4, must be spelled 128x256b"),
        ("64x128b.warpx2::03_12", None, "multicast is .warpx2::03_12"),
        ("64x256b", None, "unknown tcgen05.cp shape '64x256b'"),
        ("everything", None, "must be SHAPE"),
        ("4x256b", "b6x16_p64", "did you mean"),
    ],
)
def test_other_spellings_are_refused(text, how, message):
    with pytest.raises(ConfigError) as caught:
        parse(text, how)
    assert message in caught.value.message


def test_places_inside_the_byte_are_marked_as_assumed():
    assert any("assumed" in str(ref) for ref in cp_map("4x256b", "b4x16_p64").refs)
    assert not any("assumed" in str(ref) for ref in cp_map("4x256b").refs)
