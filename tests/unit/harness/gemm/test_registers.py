"""Registers of readbacks that pack, and of loads whose packing is not what the reader believes, by CuTe's fragments."""

from __future__ import annotations

import numpy as np
import pytest

from umma_probe.harness.gemm.recipe import Reading
from umma_probe.harness.gemm.registers import load
from umma_probe.harness.readback import Readback
from umma_probe.layouts.tmem_ldst import parse

WORDS = (np.arange(128, dtype=np.uint32)[:, None] << np.uint32(9) | np.arange(512, dtype=np.uint32)[None]) * np.uint32(
    0x00010001
)


def reading(spec: str, **fields: object) -> Reading:
    return Reading(Readback(parse(spec)), **fields)  # type: ignore[arg-type]


def test_a_load_that_packs_holds_two_columns() -> None:
    """32x32b: thread t has lane t, register r columns 2r and 2r + 1 of the instruction's 64."""
    registers = load(WORDS, reading("32x32b.x32.pack::16b"))
    assert registers.shape == (8, 4, 32, 32)
    low, high = WORDS[3 * 32 + 7, 2 * 64 + 2 * 5], WORDS[3 * 32 + 7, 2 * 64 + 2 * 5 + 1]
    assert registers[2, 3, 7, 5] == low & 0xFFFF | (high & 0xFFFF) << 16


def test_a_missing_pack_leaves_whole_columns_in_the_registers() -> None:
    """The addresses step by 64 columns all the same, so register r of instruction i is column 64i + r."""
    registers = load(WORDS, reading("32x32b.x32.pack::16b", pack_mistaken=True))
    for i in range(8):
        assert np.array_equal(registers[i].reshape(128, 32), WORDS[:, 64 * i : 64 * i + 32])


def test_a_pack_that_is_not_asked_for_reaches_twice_as_far() -> None:
    """Steps of 32 columns, 64 read by each: the last begins at 448, or it would leave Tensor Memory."""
    registers = load(WORDS, reading("32x32b.x32", pack_mistaken=True))
    assert registers.shape == (16, 4, 32, 32)
    for i, first in [(0, 0), (3, 96), (14, 448), (15, 448)]:
        columns = WORDS[:, first : first + 64] & 0xFFFF
        assert np.array_equal(registers[i].reshape(128, 32), columns[:, ::2] | columns[:, 1::2] << 16)


@pytest.mark.parametrize("spec", ["16x64b.x16", "16x128b.x8", "16x256b.x4"])
def test_shapes_of_16_lanes_pack_the_columns_of_their_fragment(spec: str) -> None:
    """Thread 0 register 0 is lane 0, columns 0 and 1; thread 31 the last lane of the half."""
    registers = load(WORDS, reading(spec + ".pack::16b"))
    assert registers[0, 0, 0, 0] == WORDS[0, 0] & 0xFFFF | (WORDS[0, 1] & 0xFFFF) << 16
    last = registers[-1, 3, 31, -1]
    assert last == WORDS[127, 510] & 0xFFFF | (WORDS[127, 511] & 0xFFFF) << 16
