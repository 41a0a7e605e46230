"""What the MMA fetches: CuTe's maps, the PTX ISA's worked examples, hand-made padded maps, and the inverse."""

import csv
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.errors import ConfigError, UndefinedBehavior
from umma_probe.layouts.smem_operand import (
    element_bit_address,
    elements_at_byte,
    elements_touching,
    operand_byte_addresses,
    operand_problems,
    rows_share_bytes,
    smem_extent,
    unpack_elements,
)
from umma_probe.layouts.swizzle import swizzle_address, unswizzle_address
from umma_probe.spec.kinds import Packing
from umma_probe.spec.smem_descriptor import SmemDescriptor, Swizzle, decode_smem_desc

VECTORS = Path(__file__).parents[2] / "vectors"
MAPS = json.loads((VECTORS / "smem_desc_maps.json").read_text())["cases"]
WIDTHS = {"bf16": 16, "tf32": 32, "e4m3": 8, "e2m1": 4}
DENSE, PADDED = Packing.DENSE, Packing.PADDED_16B


def golden():
    with (VECTORS / "smem_desc.csv").open() as lines:
        yield from csv.DictReader(line for line in lines if not line.startswith("#"))


def fnv1a64(values):
    """With the offset basis of the table, which is not the usual one."""
    state = 1469598103934665603
    for byte in np.asarray(values, dtype="<u4").tobytes():
        state = ((state ^ byte) * 0x100000001B3) & (2**64 - 1)
    return f"{state:016x}"


def full_map(desc, major, width, packing, rows, k):
    return element_bit_address(desc, major, width, packing, np.arange(rows)[:, None], np.arange(k)[None, :])


def test_every_element_of_every_layout_of_cute():
    rows = list(golden())
    assert len(rows) == 278
    for row in rows:
        blocks = [
            full_map(
                decode_smem_desc(int(word, 16)),
                row["major"],
                int(row["element_bits"]),
                DENSE,
                int(row["rows"]),
                int(row["mma_k"]),
            )
            for word in row["words"].split()
        ]
        assert fnv1a64(np.stack(blocks) - int(row["base"]) * 8) == row["fnv1a64"], row


@pytest.mark.parametrize("case", MAPS, ids=lambda c: f"{c['elem']}-{c['major']}-{c['word']}")
def test_maps_of_cute_written_out(case):
    expected = np.array(case["bit"])
    desc = decode_smem_desc(int(case["word"], 16))
    actual = full_map(desc, case["major"], WIDTHS[case["elem"]], DENSE, *expected.shape)
    np.testing.assert_array_equal(actual - case["base"] * 8, expected)


def test_the_fast_form_points_at_the_same_bytes():
    """Write each element's own code at its bit address; gathering and unpacking must give the codes back in order."""
    for row in golden():
        width, rows, k = int(row["element_bits"]), int(row["rows"]), int(row["mma_k"])
        desc = decode_smem_desc(int(row["words"].split()[-1], 16))
        if operand_problems(desc, row["major"], width, DENSE, k):
            continue
        check_gather(desc, row["major"], width, DENSE, rows, k)


def check_gather(desc, major, width, packing, rows, k):
    codes = np.random.default_rng(7).integers(0, 1 << width, (rows, k), dtype=np.int64)
    bits = full_map(desc, major, width, packing, rows, k)
    memory = np.zeros(int(bits.max()) + width, dtype=np.uint8)
    for bit in range(width):
        memory[bits + bit] = (codes >> bit) & 1
    image = np.packbits(memory, bitorder="little")
    gathered = image[operand_byte_addresses(desc, major, width, packing, rows, k)]
    if rows_share_bytes(major, width):
        rows, k, codes = k, rows, codes.T
    assert gathered.shape == (rows, k * width // 8)
    np.testing.assert_array_equal(unpack_elements(gathered, width), codes)


@pytest.mark.parametrize("width", [4, 6])
@pytest.mark.parametrize("swizzle", [Swizzle.NONE, Swizzle.B32, Swizzle.B128])
def test_padded_operands_gather_too(width, swizzle):
    check_gather(SmemDescriptor(0x400, 256, 1024, swizzle), "k", width, PADDED, 16, 32)


@pytest.mark.parametrize("width", [4, 6])
@pytest.mark.parametrize("swizzle", [Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128])
def test_narrow_mn_major_operands_gather_along_their_rows(width, swizzle):
    check_gather(SmemDescriptor(0x400, 4096, 1024, swizzle), "mn", width, PADDED, 64, 32)


def test_narrow_mn_major_elements_lie_where_bytes_would_in_their_chunks():
    """Chunk 1 of the fourth row of 128 bytes: the swizzle moves it to chunk 1 ^ 3."""
    desc = SmemDescriptor(0, 4096, 1024, Swizzle.B128)
    row = 3 * 128 * 8
    assert int(element_bit_address(desc, "mn", 4, PADDED, 17, 3)) == row + 2 * 128 + 4
    assert int(element_bit_address(desc, "mn", 6, PADDED, 31, 3)) == row + 2 * 128 + 15 * 6
    assert int(element_bit_address(desc, "mn", 4, PADDED, 128, 8)) == (4096 + 1024) * 8
    assert operand_byte_addresses(desc, "mn", 4, PADDED, 32, 32)[3].tolist() == [*range(432, 440), *range(416, 424)]
    with pytest.raises(ConfigError, match="dense 4-bit"):
        element_bit_address(desc, "mn", 4, DENSE, 0, 0)
    with pytest.raises(ConfigError, match="multiple of 16"):
        operand_byte_addresses(desc, "mn", 4, PADDED, 24, 32)


def test_padded_elements_by_hand():
    desc = SmemDescriptor(0, 128, 256, Swizzle.NONE)
    bits = full_map(desc, "k", 6, PADDED, 2, 32)
    assert bits[0, :3].tolist() == [0, 6, 12]
    assert bits[0, 15] == 90  # the 16th element ends at bit 96: 12 bytes, then 4 of padding
    assert bits[0, 16] == 128 * 8  # the next 16-byte chunk lies LBO further on
    assert bits[1, 1] == 16 * 8 + 6
    assert full_map(desc, "k", 4, PADDED, 1, 17)[0, [15, 16]].tolist() == [60, 1024]
    payload = operand_byte_addresses(desc, "k", 6, PADDED, 1, 32)[0]
    assert payload.tolist() == [*range(12), *range(128, 140)]


def test_nibbles_low_first():
    desc = SmemDescriptor(0x100, 128, 256, Swizzle.NONE)
    assert full_map(desc, "k", 4, DENSE, 1, 3)[0].tolist() == [0x800, 0x804, 0x808]
    assert unpack_elements(np.array([[0x21, 0x43]], dtype=np.uint8), 4).tolist() == [[1, 2, 3, 4]]


def test_unpacked_words_are_the_numbers():
    values = np.array([[1.5, -2.0]], dtype=ml_dtypes.bfloat16)
    words = unpack_elements(values.view(np.uint8), 16)
    assert words.tolist() == [[0x3FC0, 0xC000]]


# The PTX ISA's worked examples of the canonical layouts: the steps that a correct staging of the matrix gives.
@pytest.mark.parametrize(
    ("desc", "major", "width", "element", "byte"),
    [
        (SmemDescriptor(0, 256, 128, Swizzle.NONE), "mn", 16, (8, 0), 128),
        (SmemDescriptor(0, 256, 128, Swizzle.NONE), "mn", 16, (0, 8), 256),
        (SmemDescriptor(0, 256, 512, Swizzle.B32), "mn", 16, (16, 0), 256),
        (SmemDescriptor(0, 256, 512, Swizzle.B32), "mn", 16, (0, 8), 512),
        (SmemDescriptor(0, 512, 1024, Swizzle.B64), "mn", 16, (32, 0), 512),
        (SmemDescriptor(0, 512, 1024, Swizzle.B64), "mn", 16, (0, 8), 1024),
        (SmemDescriptor(0, 256, 128, Swizzle.NONE), "k", 32, (8, 0), 128),
        (SmemDescriptor(0, 256, 128, Swizzle.NONE), "k", 32, (0, 4), 256),
        (SmemDescriptor(0, 0, 256, Swizzle.B32), "k", 32, (8, 0), 256),
        (SmemDescriptor(0, 4096, 512, Swizzle.B128_BASE32B), "mn", 32, (32, 0), 4096),
        (SmemDescriptor(0, 4096, 512, Swizzle.B128_BASE32B), "mn", 32, (0, 4), 512),
        (SmemDescriptor(0, 4096, 512, Swizzle.B128_BASE32B), "mn", 32, (0, 1), 128 + 32),
        (SmemDescriptor(0, 0, 1024, Swizzle.B128), "k", 16, (3, 8), 3 * 128 + (1 ^ 3) * 16),
        (SmemDescriptor(96, 0, 1024, Swizzle.B128), "k", 16, (1, 8), 128 + (7 ^ 1) * 16),
        (SmemDescriptor(0, 0, 512, Swizzle.B64), "k", 8, (2, 16), 128 + (1 ^ 1) * 16),
    ],
)
def test_steps_by_hand(desc, major, width, element, byte):
    assert int(element_bit_address(desc, major, width, DENSE, *element)) == byte * 8


@given(st.sampled_from(Swizzle), st.integers(0, 2**18), st.integers(0, 255))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_the_swizzle_is_its_own_inverse_and_repeats(mode, address, block):
    there = int(swizzle_address(address, mode))
    assert int(unswizzle_address(there, mode)) == address
    assert there // 1024 == address // 1024
    assert int(swizzle_address(address + block * 1024, mode)) == there + block * 1024


@pytest.mark.parametrize("mode", Swizzle)
def test_the_swizzle_moves_whole_chunks(mode):
    size = 32 if mode is Swizzle.B128_BASE32B else 16
    moved = swizzle_address(np.arange(1024), mode).reshape(-1, size)
    np.testing.assert_array_equal(moved - moved[:, :1], np.broadcast_to(np.arange(size), moved.shape))
    assert sorted(moved.ravel().tolist()) == list(range(1024))


@given(
    st.sampled_from(
        [("k", 4, DENSE), ("k", 6, PADDED), ("k", 8, DENSE), ("k", 16, DENSE), ("mn", 8, DENSE), ("mn", 16, DENSE)]
    ),
    st.sampled_from([mode for mode in Swizzle if mode is not Swizzle.B128_BASE32B]),
    st.integers(0, 4095).map(lambda units: units * 16),
    st.integers(0, 63).map(lambda units: units * 16),
    st.sampled_from([8, 24, 64]),
)
@settings(derandomize=True, max_examples=60, deadline=None)
def test_the_inverse_finds_exactly_the_elements_whose_bits_lie_in_the_byte(operand, mode, start, step, rows):
    major, width, packing = operand
    desc = SmemDescriptor(start, step, step * 2, mode)
    k = 32 if width < 16 else 16
    bits = full_map(desc, major, width, packing, rows, k)
    low, high = smem_extent(desc, major, width, packing, rows, k)
    assert (low, high) == (int(bits.min()) // 8, (int(bits.max()) + width - 1) // 8)
    address = (low + high) // 2
    expected = [tuple(map(int, at)) for at in np.argwhere((bits < (address + 1) * 8) & (bits + width > address * 8))]
    assert elements_at_byte(desc, major, width, packing, rows, k, address) == expected
    assert not elements_touching(desc, major, width, packing, rows, k, [low - 1, high + 1]).any()


def test_byte_addresses_depend_on_the_start_only_through_its_phase():
    for start in (0x40, 0x440, 0x8840):
        desc = SmemDescriptor(start, 0, 1024, Swizzle.B128)
        bits = full_map(desc, "k", 16, DENSE, 32, 16)
        np.testing.assert_array_equal(operand_byte_addresses(desc, "k", 16, DENSE, 32, 16)[:, ::2] * 8, bits)


def test_a_caller_cannot_spoil_the_cache():
    desc = SmemDescriptor(0, 128, 256, Swizzle.NONE)
    operand_byte_addresses(desc, "k", 16, DENSE, 8, 16)[:] = -1
    assert operand_byte_addresses(desc, "k", 16, DENSE, 8, 16)[0, 0] == 0


@pytest.mark.parametrize(
    ("desc", "major", "width", "packing", "k", "field"),
    [
        (SmemDescriptor(0, 0, 256, Swizzle.B32), "k", 16, DENSE, 32, "k"),  # 64 bytes in rows of 32
        (SmemDescriptor(0, 0, 256, Swizzle.B32), "k", 6, PADDED, 64, "k"),
        (SmemDescriptor(0, 0, 256, Swizzle.B128), "mn", 32, DENSE, 8, "swizzle"),
        (SmemDescriptor(0, 0, 256, Swizzle.B128_BASE32B), "mn", 16, DENSE, 16, "swizzle"),
        (SmemDescriptor(0, 0, 256, Swizzle.NONE), "k", 8, PADDED, 32, "elem"),
        (SmemDescriptor(0, 0, 1024, Swizzle.B128, lbo_mode=1), "k", 4, DENSE, 64, "lbo_mode"),  # 32 bytes of K
        (SmemDescriptor(0, 0, 1024, Swizzle.B128, lbo_mode=1), "mn", 16, DENSE, 24, "lbo_mode"),
        (SmemDescriptor(96, 0, 1024, Swizzle.B128), "k", 4, DENSE, 96, "lbo_mode"),
    ],
)
def test_what_the_documents_leave_open_is_not_answered(desc, major, width, packing, k, field):
    assert [problem.field for problem in operand_problems(desc, major, width, packing, k)] == [field]
    with pytest.raises(UndefinedBehavior, match=r"must be|padded packing"):
        operand_byte_addresses(desc, major, width, packing, 8, k)


def test_legal_twins_have_no_problems():
    assert operand_problems(SmemDescriptor(0, 0, 256, Swizzle.B32), "k", 16, DENSE, 16) == []
    assert operand_problems(SmemDescriptor(0, 0, 512, Swizzle.B64), "k", 16, DENSE, 32) == []
    assert operand_problems(SmemDescriptor(0, 0, 256, Swizzle.B128_BASE32B), "mn", 32, DENSE, 8) == []
    assert operand_problems(SmemDescriptor(0, 0, 256, Swizzle.NONE), "k", 16, DENSE, 64) == []


@pytest.mark.parametrize("name", ["base_offset.json"])
def test_base_offset_as_measured(name):
    """The bytes that an H200 fetches rows 0 to 7 from, for the same field of a wgmma descriptor."""
    rows = json.loads((Path(__file__).parents[3] / "reports/silicon-h200" / name).read_text())["rows"]
    k_major = [row for row in rows if row["major"] == "k" and row["swizzle"] != "none"]
    assert len(k_major) > 100
    for row in k_major:
        mode = Swizzle.from_text(row["swizzle"])
        desc = SmemDescriptor(row["start"], 16, 8 * mode.row_bytes, mode, row["base_offset"])
        fetched = operand_byte_addresses(desc, "k", 16, DENSE, 8, 16)[:, 0]
        assert fetched.tolist() == row["row_0_to_7"], row


@pytest.mark.parametrize(
    ("start", "lbo", "row", "byte", "address"),
    [
        (96, 0x4000, 0, 31, 127),
        (96, 0x4000, 0, 32, 0x4000),
        (96, 0x4000, 3, 32, 0x4000 + 3 * 128 + (0 ^ 3) * 16),
        (112, 0x4000, 9, 16, 0x4000 + 1024 + 128 + (0 ^ 1) * 16),
        (112, 0x4000, 9, 15, 1024 + 128 + (7 ^ 1) * 16 + 15),
        (0x2000 + 112, 0x800, 2, 47, 0x800 + 2 * 128 + (1 ^ 2) * 16 + 15),
        (80, 0x4000, 7, 47, 7 * 128 + (7 ^ 7) * 16 + 15),
    ],
)
def test_absolute_address_of_the_second_chunk(start, lbo, row, byte, address):
    desc = SmemDescriptor(start, lbo, 1024, Swizzle.B128, lbo_mode=1)
    assert int(element_bit_address(desc, "k", 4, DENSE, row, 2 * byte)) == address * 8
    assert int(operand_byte_addresses(desc, "k", 4, DENSE, 16, 96)[row, byte]) == address


@pytest.mark.parametrize(("major", "width", "k"), [("row", 16, 16), ("k", 12, 16), ("mn", 4, 64), ("k", 4, 3)])
def test_what_is_no_operand_is_a_usage_error(major, width, k):
    with pytest.raises(ConfigError):
        operand_byte_addresses(SmemDescriptor(0, 0, 1024, Swizzle.B128), major, width, DENSE, 8, k)


@given(st.integers(1, 4), st.integers(1, 8))
@settings(derandomize=True, max_examples=20, deadline=None)
def test_six_bit_codes_unpack_from_their_bits(rows, groups):
    codes = np.arange(rows * groups * 4).reshape(rows, -1) * 37 % 64
    bits = (codes[..., None] >> np.arange(6)) & 1
    data = np.packbits(bits.reshape(rows, -1).astype(np.uint8), axis=1, bitorder="little")
    np.testing.assert_array_equal(unpack_elements(data, 6), codes)
