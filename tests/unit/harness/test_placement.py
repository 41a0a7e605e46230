"""Operand placement: the PTX ISA's worked numbers, no overlap, and the struct that the kernel gets."""

import struct

import pytest

from umma_probe.harness.placement import default_swizzle, place_operand
from umma_probe.spec.descriptors import Swizzle


def test_k_major_swizzled() -> None:
    placed = place_operand("f16", "bf16", 128, 4, "k", Swizzle.B128)
    # eight rows of 128 bytes are 1024 bytes; four MMAs of 32 bytes fill one swizzle row
    assert (placed.sbo, placed.panel, placed.size) == (1024, 128 * 128, 128 * 128)


def test_k_major_without_swizzle_has_two_strides() -> None:
    placed = place_operand("tf32", "tf32", 64, 1, "k", Swizzle.NONE)
    assert (placed.sbo, placed.lbo) == (128, 1024)
    assert placed.size == 64 * 32


def test_mn_major_swaps_the_roles_without_swizzle() -> None:
    swizzled = place_operand("f16", "bf16", 128, 1, "mn", Swizzle.B128)
    assert (swizzled.lbo, swizzled.sbo, swizzled.size) == (2048, 1024, 128 * 16 * 2)
    plain = place_operand("f16", "bf16", 128, 1, "mn", Swizzle.NONE)
    assert (plain.lbo, plain.sbo) == (128, 256)


def test_mn_major_tf32_has_atoms_of_four_rows() -> None:
    placed = place_operand("tf32", "tf32", 64, 1, "mn", default_swizzle("tf32", "mn"))
    assert (placed.sbo, placed.lbo, placed.size) == (512, 1024, 64 * 8 * 4)


@pytest.mark.parametrize("rows", [8, 24, 64, 256])
@pytest.mark.parametrize("swizzle", list(Swizzle))
def test_every_operand_starts_on_a_pattern(rows: int, swizzle: Swizzle) -> None:
    for major in ("k", "mn"):
        placed = place_operand("f8f6f4", "e4m3", rows, 3, major, swizzle)
        assert placed.size % 1024 == 0
        assert placed.size >= rows * 32 * 3


def test_struct_is_what_the_kernel_declares() -> None:
    placed = place_operand("f16", "bf16", 128, 1, "k", Swizzle.B128)
    data = placed.struct(2048)
    assert len(data) == 40
    desc, smem, rows, tile_k, lbo, sbo, panel, phase, unused = struct.unpack("<Q8I", data)
    assert (smem, rows, tile_k, lbo, sbo, panel, phase, unused) == (2048, 128, 16, 16, 1024, 16384, 0, 0)
    # SBO in 16-byte units at bit 32, the constant at bit 46, 128B swizzle (2) at bit 61
    assert desc == (1 << 16) | (64 << 32) | (1 << 46) | (2 << 61)
