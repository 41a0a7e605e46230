"""The zero-column mask against the PTX ISA's four examples and hand-made patterns."""

from __future__ import annotations

import numpy as np
import pytest
from bench import bench, get_d, mma_call, stage, words_of

from umma_probe.errors import DeviceError, IllegalProgram
from umma_probe.model.mma.mma_call import MmaForm
from umma_probe.model.mma.tensor_core import execute
from umma_probe.model.mma.zero_column_mask import decode_mask

NONE = (0, 0, 0, 0)


def word(
    *,
    start: tuple[int, ...] = NONE,
    first: tuple[int, ...] = NONE,
    enable: int = 1,
    skip: int = 0,
    use: int = 0,
    shift: int = 0,
) -> int:
    """The descriptor; ``start`` and ``first`` are of sub-mask 0, 1, 2, 3."""
    value = sum(s << 8 * i for i, s in enumerate(start)) + sum(f << 32 + i for i, f in enumerate(first))
    return value | enable << 39 | skip << 40 | use << 48 | shift << 56


def cyclic(text: str, width: int) -> list[bool]:
    """A mask as the PTX ISA prints it, least significant bit last; the printed end repeats."""
    return [text[-1 - i] == "1" for i in range(width)]


# the PTX ISA's examples: (M, descriptor, printed sub-masks, lowest bits last)
EXAMPLES = [
    (128, word(enable=0, skip=4, use=3), ["0" * 14]),
    (128, word(skip=2, use=3), ["11100001110000"]),
    (64, word(first=(1, 0), skip=2, use=3), ["11100001110000111", "0000111000011" + "10000"]),
    (32, word(start=(0, 1, 2, 1), first=(1, 1, 0, 0), skip=2, use=3, shift=2),
     ["00001110000111", "0000111000011", "111000011100", "1110000111000"]),
]  # fmt: skip


@pytest.mark.parametrize(("m", "descriptor", "printed"), EXAMPLES)
def test_examples_of_the_ptx_isa(m: int, descriptor: int, printed: list[str]):
    n = 128
    zero, shift = decode_mask(descriptor, m, n, 16)
    width = n // len(printed)
    for i, text in enumerate(printed):
        shown = zero[i * width : i * width + len(text)].tolist()
        assert shown == cyclic(text, len(text))
    assert shift == descriptor >> 56


def test_pattern_goes_on_to_the_end():
    zero, _ = decode_mask(word(skip=4, use=10), 128, 256, 0)
    assert zero.tolist() == [i % 16 >= 11 for i in range(256)]
    zero, _ = decode_mask(word(start=(3, 0, 0, 0), first=(1, 0, 0, 0), skip=4, use=10), 128, 64, 0)
    assert zero.tolist() == [(i + 3) % 16 < 5 for i in range(64)]


def test_start_count_stops_short_of_the_first_run():
    zero, _ = decode_mask(word(start=(200, 0, 0, 0), skip=2, use=3), 128, 64, 0)
    assert zero.tolist() == [(i + 3) % 7 >= 4 for i in range(64)]


@pytest.mark.parametrize(("descriptor", "m", "limit", "text"), [
    (1 << 36, 128, 0, "reserved bits"),
    (1 << 62, 128, 0, "reserved bits"),
    (word(shift=33), 128, 32, "shift is 33, must be at most 32"),
    (word(shift=17), 32, 32, "shift is 17, must be at most 16"),
    (word(shift=9), 64, 8, "shift is 9, must be at most 8"),
])  # fmt: skip
def test_illegal_masks(descriptor: int, m: int, limit: int, text: str):
    with pytest.raises(IllegalProgram, match=text):
        decode_mask(descriptor, m, 64, limit)


def test_a_shifted_and_masked_mma():
    """A shift of 2 uses columns 2 to N + 1 of B, as the PTX ISA says: rows behind the N that a plain MMA reads."""
    launch = bench()
    n, shift = 64, 2
    b = np.zeros((n + 8, 8))
    b[:, 0] = np.arange(n + 8)
    place_a = stage(launch, 0, 0, words_of(np.ones((128, 8)), "tf32"), "tf32")
    place_b = stage(launch, 0, 0x4000, words_of(b, "tf32"), "tf32")
    zero, _ = decode_mask(word(skip=2, use=3), 128, n, 8)
    idesc = {"a_type": "tf32", "b_type": "tf32", "m": 128, "n": n, "max_shift": 8}
    more = {"zero_columns": zero, "b_shift": shift}
    execute(mma_call(launch, MmaForm("tf32", ws=True), idesc, a=place_a, b=place_b, **more))
    d = get_d(launch, "D", 128, n)[0].view(np.float32)
    assert (d == np.where(np.arange(n) % 7 >= 4, 0, np.arange(n) + shift)).all()
    last = place_b + (launch.shared_limit - n * 32 - 0x4000 >> 4)
    with pytest.raises(DeviceError, match="B reads shared address"):
        execute(mma_call(launch, MmaForm("tf32", ws=True), idesc, a=place_a, b=last, **more))
