"""Integer instructions against Python integers, on any operands; edge operands are in test_measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from harness import run
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.errors import PtxSyntaxError

ROWS = 24


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def column(bits: int) -> st.SearchStrategy[list[int]]:
    edge = st.sampled_from([0, 1, 2, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1])
    return st.lists(st.integers(0, (1 << bits) - 1) | edge, min_size=ROWS, max_size=ROWS)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATIONS: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, bits: a + b,
    "sub": lambda a, b, bits: a - b,
    "mul.lo": lambda a, b, bits: a * b,
    "mul.hi": lambda a, b, bits: a * b >> bits,
    "min": lambda a, b, bits: min(a, b),
    "max": lambda a, b, bits: max(a, b),
    "div": lambda a, b, bits: truncated(a, b) if b else -1,
    "rem": lambda a, b, bits: a - b * truncated(a, b) if b else -1,
}


@pytest.mark.parametrize("type_", ["u16", "u32", "u64", "s16", "s32", "s64"])
@settings(derandomize=True, max_examples=5, deadline=None)
@given(data=st.data())
def test_two_operands(type_: str, data: st.DataObject) -> None:
    bits = int(type_[1:])
    a, b = data.draw(column(bits)), data.draw(column(bits))
    body = "\n".join(f"{name}.{type_} %d{i}, %a, %b;" for i, name in enumerate(OPERATIONS))
    arrays = {"a": np.array(a, f"u{bits // 8}"), "b": np.array(b, f"u{bits // 8}")}
    out = run(body, arrays, {f"d{i}": f"b{bits}" for i in range(len(OPERATIONS))})
    view = (lambda x: signed(x, bits)) if type_[0] == "s" else (lambda x: x)
    for i, (name, function) in enumerate(OPERATIONS.items()):
        zero_divisor = name in ("div", "rem") and bits == 16
        for x, y, actual in zip(a, b, out[f"d{i}"].tolist(), strict=True):
            if zero_divisor and y == 0:
                continue
            assert function(view(x), view(y), bits) & ((1 << bits) - 1) == actual, (name, x, y)


@settings(derandomize=True, max_examples=5, deadline=None)
@given(a=column(64), b=column(64))
def test_128_bit_addition_by_carries(a: list[int], b: list[int]) -> None:
    """Two 64-bit words, low and high: the pairs (a, b) and (b, a)."""
    body = "add.cc.u64 %lo, %a, %b; addc.u64 %hi, %b, %a; sub.cc.u64 %dlo, %a, %b; subc.u64 %dhi, %b, %a;"
    inputs = {"a": np.array(a, np.uint64), "b": np.array(b, np.uint64)}
    out = run(body, inputs, dict.fromkeys(("lo", "hi", "dlo", "dhi"), "u64"))
    mask = (1 << 128) - 1
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        first, second = x | y << 64, y | x << 64
        assert (first + second) & mask == int(out["lo"][i]) | int(out["hi"][i]) << 64
        assert (first - second) & mask == int(out["dlo"][i]) | int(out["dhi"][i]) << 64


def test_a_carry_runs_through_a_word_of_ones() -> None:
    """Three words: only the carry of the lowest makes the middle one overflow."""
    body = """not.b32 %n, %c; add.cc.u32 %d, %a, %b; addc.cc.u32 %e, %c, %n; addc.u32 %f, 0, 0;
    sub.cc.u32 %d, %a, %b; subc.cc.u32 %g, %c, %c; subc.u32 %h, 0, 0;"""
    inputs = {"a": np.array([0xFFFFFFFF, 1, 1], np.uint32), "b": np.array([1, 1, 2], np.uint32)}
    inputs["c"] = np.array([5, 6, 7], np.uint32)
    out = run(body, inputs, dict.fromkeys("ndefgh", "u32"))
    assert [out[name].tolist() for name in "efgh"] == [
        [0, 0xFFFFFFFF, 0xFFFFFFFF],
        [1, 0, 0],
        [0, 0, 0xFFFFFFFF],
        [0, 0, 0xFFFFFFFF],
    ]


def test_carry_is_kept_per_thread_and_across_other_instructions() -> None:
    body = "add.cc.u32 %d, %a, %a; mul.lo.u32 %d, %a, 3; addc.u32 %e, 0, 0; addc.u32 %f, 0, 0;"
    out = run(body, {"a": np.array([1, 0x80000000], np.uint32)}, {"d": "u32", "e": "u32", "f": "u32"})
    assert out["e"].tolist() == [0, 1]
    assert out["f"].tolist() == [0, 1]


@settings(derandomize=True, max_examples=8, deadline=None)
@given(a=column(32), b=column(32), c=column(32), table=st.integers(0, 255))
def test_lop3_is_its_truth_table(a: list[int], b: list[int], c: list[int], table: int) -> None:
    inputs = {name: np.array(values, np.uint32) for name, values in zip("abc", (a, b, c), strict=True)}
    out = run(f"lop3.b32 %d, %a, %b, %c, {table};", inputs, {"d": "b32"})["d"]
    for x, y, z, actual in zip(a, b, c, out.tolist(), strict=True):
        bits = ((x >> i & 1) << 2 | (y >> i & 1) << 1 | (z >> i & 1) for i in range(32))
        assert sum((table >> index & 1) << i for i, index in enumerate(bits)) == actual


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("add.s32 %d, %a;", "has 2 operands, must have 3"),
        ("lop3.b32 %d, %a, %a, %a, 256;", "immLut is 256"),
        ("add.s32 3, %a, %a;", "must be a register"),
        ("lop3.or.b32 %d, %a, %a, %a, 1, 0;", "must be d|p"),
    ],
)
def test_faults(body: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError, match=message):
        run(body, {"a": np.zeros(1, np.uint32)}, {"d": "b32"})
