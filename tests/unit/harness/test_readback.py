"""Raw registers to cells, against the fragment formulas of CuTe written out here once more."""

import numpy as np
import pytest

from umma_probe.errors import ConfigError
from umma_probe.harness.readback import Readback, parse_readbacks, readbacks_of
from umma_probe.layouts.tmem_ldst import parse

# thread t, register r -> lane, column, relative to the base of one instruction (CuTe, copy_traits_sm100.hpp)
FRAGMENTS = {
    "32x32b": lambda t, r, num: (t, r),
    "16x64b": lambda t, r, num: (t // 4 + 8 * (t & 1), ((t >> 1) & 1) + 2 * r),
    "16x128b": lambda t, r, num: (t // 4 + 8 * (r & 1), (t & 3) + 4 * (r >> 1)),
    "16x256b": lambda t, r, num: (t // 4 + 8 * ((r >> 1) & 1), 2 * (t & 3) + (r & 1) + 8 * (r >> 2)),
    "16x32bx2": lambda t, r, num: (t % 16, r + num * (t // 16)),
}
TMEM = np.arange(128 * 512, dtype=np.uint32).reshape(128, 512)


@pytest.mark.parametrize(
    ("spec", "columns"),
    [("32x32b.x32", 32), ("32x32b.x1", 1), ("16x64b.x8", 16), ("16x128b.x4", 16), ("16x256b.x4", 32),
     ("16x256b.x32", 256), ("16x32bx2.x16", 32)],
)  # fmt: skip
def test_words_come_back_to_their_cells(spec: str, columns: int) -> None:
    readback, _ = parse_readbacks(f"{spec},{spec}")
    shape, num = spec.split(".x")
    lanes = 32 if shape == "32x32b" else 16
    halves = 32 // lanes
    assert readback.dump_shape[:3] == (512 // columns * halves, 4, 32)
    dump = np.zeros(readback.dump_shape, np.uint32)
    for instruction, warp, thread, register in np.ndindex(*readback.dump_shape):
        lane, column = FRAGMENTS[shape](thread, register, int(num))
        lane += 32 * warp + lanes * (instruction % halves)
        dump[instruction, warp, thread, register] = TMEM[lane, column + instruction // halves * columns]
    assert (readback.words(dump) == TMEM).all()


@pytest.mark.parametrize("spec", ["32x32b.x16", "16x64b.x8", "16x128b.x8", "16x256b.x2", "16x32bx2.x8"])
def test_packed_registers_come_back_as_low_halves(spec: str) -> None:
    """A register holds columns 2c and 2c + 1 of the fragment's column c; 16x32bx2 is split at twice NUM."""
    readback = Readback(parse(spec + ".pack::16b"))
    shape, num = spec.split(".x")
    lanes, registers = (32 if shape == "32x32b" else 16), readback.spec.registers
    columns = 2 * 32 * registers // lanes
    assert readback.dump_shape == (512 // columns * 32 // lanes, 4, 32, registers)
    dump = np.zeros(readback.dump_shape, np.uint32)
    for instruction, warp, thread, register in np.ndindex(*readback.dump_shape):
        lane, column = FRAGMENTS[shape](thread, register, int(num))
        lane += 32 * warp + lanes * (instruction % (32 // lanes))
        first = instruction // (32 // lanes) * columns
        low, high = TMEM[lane, first + 2 * column] & 0xFFFF, TMEM[lane, first + 2 * column + 1] & 0xFFFF
        dump[instruction, warp, thread, register] = low | high << 16
    assert (readback.words(dump) == TMEM & 0xFFFF).all()
    assert readback.mask == 0xFFFF


def test_only_a_d_of_16_bits_has_a_packed_readback() -> None:
    assert [str(one) for one in readbacks_of("32x32b.x32,16x256b.x4", "f32")] == ["32x32b.x32", "16x256b.x4"]
    assert str(readbacks_of("32x32b.x32,16x256b.x4", "f16")[2]) == "16x128b.x8.pack::16b"


def test_one_shape_is_the_second() -> None:
    first, second = parse_readbacks("16x64b.x16")
    assert (str(first), str(second)) == ("32x32b.x32", "16x64b.x16")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("32x32b.x8.pack::16b", "without pack"),
        ("16x256b.x64", "registers is 256"),
        ("a,b,c", "one or two"),
        ("16x257b.x1", "16x256b"),
    ],
)
def test_what_is_no_readback_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_readbacks(text)
