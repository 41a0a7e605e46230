from __future__ import annotations

import numpy as np
import pytest
from golden_tmem import expand, fnv1a64, golden
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.errors import ConfigError
from umma_probe.layouts.tmem_accumulator import accumulator_map
from umma_probe.layouts.tmem_ldst import Holder, LdStShape, LdStSpec, ldst_map, parse

S = LdStShape
LEGAL = [
    (shape, num, pack)
    for shape, largest in ((S.S32X32B, 128), (S.S16X64B, 128), (S.S16X128B, 64), (S.S16X256B, 32), (S.S16X32BX2, 128))
    for num in (1, 2, 4, 8, 16, 32, 64, 128)
    if num <= largest
    for pack in (False, True)
]


def spec_of(ptx: str) -> LdStSpec:
    """``tcgen05.ld.red.sync.aligned.32x32b.x32.max.f32`` and the plain forms."""
    parts = ptx.split(".")
    shape = next(i for i, part in enumerate(parts) if part in {s.value for s in LdStShape})
    return parse(".".join(parts[shape : shape + 2]) + (".pack::16b" if "pack::16b" in ptx else ""))


def test_agrees_with_cute_cell_for_cell():
    cases = golden("ldst_maps")
    for case in cases:
        spec = spec_of(case["ptx"])
        split = None if case["imm_half_split"] < 0 else case["imm_half_split"]
        placed = ldst_map(spec.shape, spec.num, pack=spec.pack, half_split=split)
        shape = (32, case["regs"])
        assert placed.lane.shape == shape
        np.testing.assert_array_equal(placed.lane, expand(case, "lane", shape, "t r"))
        np.testing.assert_array_equal(placed.column, expand(case, "col", shape, "t r"))
        if "expanded" in case:
            np.testing.assert_array_equal(placed.lane << 16 | placed.column, case["expanded"])
        assert case["half1"] == ([0, 1, 0] if placed.column_high is not None else [0, 0, 16])
        low = placed.lane << 16 | placed.column << 5
        high = low + 16 if placed.column_high is None else placed.lane << 16 | placed.column_high << 5
        assert fnv1a64(np.stack([low, high], -1).ravel()) == case["fnv1a64"]
        if split is not None:
            assert split == spec.default_half_split
    assert len(cases) == 86


@pytest.mark.parametrize(
    ("text", "registers", "t", "r", "lane", "column"),
    [  # read off the fragments' definition by hand
        ("32x32b.x4", 4, 17, 3, 17, 3),
        ("16x64b.x2", 2, 7, 1, 9, 3),
        ("16x128b.x2", 4, 31, 3, 15, 7),
        ("16x256b.x2", 8, 6, 7, 9, 13),
        ("16x32bx2.x4", 4, 20, 3, 4, 7),
    ],
)
def test_hand_derived_places(text, registers, t, r, lane, column):
    spec = parse(text)
    placed = ldst_map(spec.shape, spec.num)
    assert placed.registers == registers
    assert (placed.lane[t, r], placed.column[t, r]) == (lane, column)


@pytest.mark.parametrize(("shape", "num", "pack"), LEGAL)
def test_covers_a_rectangle_once(shape, num, pack):
    placed = ldst_map(shape, num, pack=pack)
    columns = [placed.column] if placed.column_high is None else [placed.column, placed.column_high]
    cells = np.concatenate([(placed.lane << 16 | column).ravel() for column in columns])
    rectangle = {lane << 16 | column for lane in range(shape.lanes) for column in range(placed.columns_used)}
    assert len(cells) == len(rectangle)
    assert set(cells.tolist()) == rectangle
    assert placed.columns_used <= 512


@settings(derandomize=True, max_examples=80, deadline=None)
@given(case=st.sampled_from([c for c in LEGAL if c[1] <= 8]), t=st.integers(0, 31), data=st.data())
def test_holders_invert_the_map(case, t, data):
    shape, num, pack = case
    placed = ldst_map(shape, num, pack=pack)
    r = data.draw(st.integers(0, placed.registers - 1))
    width = 16 if pack else 32
    assert placed.holders(placed.lane[t, r], placed.column[t, r]) == (Holder(t, r, 0, width),)
    if placed.column_high is not None:
        assert placed.holders(placed.lane[t, r], placed.column_high[t, r]) == (Holder(t, r, 16, 16),)


def test_overlapping_halves_have_two_holders_and_outside_has_none():
    placed = ldst_map(S.S16X32BX2, 2, half_split=1)
    assert placed.holders(3, 1) == (Holder(3, 1), Holder(19, 0))
    assert placed.holders(16, 0) == ()
    assert ldst_map(S.S16X32BX2, 1, half_split=-1).column[16, 0] == -1
    for split, place in {0x100002: (16, 2), -0x100000: (-16, 0), -0x100003: (-16, -3), 0xFFFF: (1, -1)}.items():
        placed = ldst_map(S.S16X32BX2, 2, half_split=split)
        assert (placed.lane[16, 1], placed.column[16, 1] - 1) == place
        assert (placed.lane[15, 1], placed.column[15, 1]) == (15, 1)


@pytest.mark.parametrize("text", ["16x128b.x128", "16x256b.x64", "16x256b.x128"])
def test_more_than_128_registers_are_refused(text):
    with pytest.raises(ConfigError, match="must be at most 128"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("32x32b.x3", "num is 3, must be one of 1, 2, 4"),
        ("32x32b.x256", "num is 256"),
        ("32x32b", "must be SHAPE.xNUM"),
        ("16x265b.x1", "did you mean 16x256b"),
        ("", "must be SHAPE.xNUM"),
    ],
)
def test_bad_spellings_are_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse(text)


def test_only_16x32bx2_takes_a_split():
    with pytest.raises(ConfigError, match="only 16x32bx2 has one"):
        ldst_map(S.S16X64B, 2, half_split=2)


def test_spelling_round_trips():
    for shape, num, pack in LEGAL:
        assert parse(str(LdStSpec(shape, num, pack))) == LdStSpec(shape, num, pack)
    assert parse("16x64b.x2.unpack::16b").pack


def element_numbers(case):
    """CTA 0's accumulator as the loads of one warpgroup see it: (thread, value) to m * N + n."""
    spec = LdStSpec(*tmem_load_atom(case["atom"]))
    load = ldst_map(spec.shape, spec.num, pack=spec.pack)
    placed = accumulator_map(case["mma_m"], case["n"], cta_group=case["cta_group"])
    m_at, n_at = (array[0] for array in placed.inverse)
    packed = case["value_type"] == "f16 packed"
    result = []
    for warp, instructions in enumerate(case["instr_addr"]):
        for thread in range(32):
            values = []
            for lane_base, column_base, _ in instructions:
                assert lane_base // 32 == warp
                for r in range(load.registers):
                    lane, column = lane_base + load.lane[thread, r], column_base + load.column[thread, r]
                    if packed:  # two neighbouring n in a column
                        cells = [(lane, 2 * column), (lane, 2 * column + 1)]
                    elif load.column_high is not None:
                        cells = [(lane, column), (lane, column_base + load.column_high[thread, r])]
                    else:
                        cells = [(lane, column)]
                    values += [int(m_at[cell] * case["n"] + n_at[cell]) for cell in cells]
            result.append(values)
    return result


def tmem_load_atom(atom: str) -> tuple[LdStShape, int, bool]:
    """``SM100_TMEM_LOAD_16dp256b2x_16b`` to shape, num, pack."""
    name = atom.removeprefix("SM100_TMEM_LOAD_")
    pack = name.endswith("_16b")
    lanes, rest = name.removesuffix("_16b").split("dp")
    bits, num = rest.removesuffix("x").split("b")
    return LdStShape(f"{lanes}x{bits}b"), int(num), pack


def test_loads_find_the_accumulator_elements_that_cute_partitions():
    cases = golden("tmem_copy")
    for case in cases:
        assert element_numbers(case) == case["mn"]
    assert len(cases) == 13
