"""mma.sync against NumPy, with the fragments written out as the PTX ISA gives them, element by element."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness import run

from umma_probe.errors import NotModelled, PtxSyntaxError, UndefinedBehavior
from umma_probe.spec.warp_mma import WARP_MMAS

TYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8, "f32": np.float32, "s32": np.int32,
    "f64": np.float64,
}  # fmt: skip


def a_place(lane: int, i: int, bits: int, rows: int) -> tuple[int, int]:
    """(row, k) of element i of A in a lane."""
    g, t, per = lane >> 2, lane % 4, max(32 // bits, 1)
    low = (i // per) % 2 == 0 or rows == 8
    part = i // (per * rows // 8)
    return g if low else g + 8, t * per + i % per + 4 * per * part


def b_place(lane: int, i: int, bits: int) -> tuple[int, int]:
    """(n, k) of element i of B in a lane."""
    per = max(32 // bits, 1)
    return lane >> 2, lane % 4 * per + i % per + 4 * per * (i // per)


def c_place(lane: int, i: int) -> tuple[int, int]:
    """(row, column) of element i of C and D in a lane."""
    return (lane >> 2) + 8 * (i >= 2), lane % 4 * 2 + (i & 1)


def pack(matrix: np.ndarray, place: Any, count: int) -> np.ndarray:
    """(32, registers): the registers of each lane, low bits first."""
    values = np.array([[matrix[place(lane, i)] for i in range(count)] for lane in range(32)], matrix.dtype)
    return values.view(register(matrix.dtype))


def register(dtype: Any) -> Any:
    """The word of one register of a fragment."""
    return np.uint64 if np.dtype(dtype) == np.float64 else np.uint32


def multiply(shape: str, d: str, a: str, b: str, c: str, seed: int = 0, options: str = "", limit: int = 6):
    """(expected, actual) as (m, n) arrays."""
    row = next(r for r in WARP_MMAS if r.shape == shape and a in r.operands)
    random = np.random.default_rng(seed)
    low = 0 if a == "u8" else -limit
    A = random.integers(low, limit + 1, (row.m, row.k)).astype(TYPES[a])
    B = random.integers(0 if b == "u8" else -limit, limit + 1, (row.n, row.k)).astype(TYPES[b])
    C = random.integers(-20, 21, (row.m, row.n)).astype(TYPES[c])
    bits = row.element_bits
    parts = {
        "a": pack(A, lambda lane, i: a_place(lane, i, bits, row.m), row.m * row.k // 32),
        "b": pack(B, lambda lane, i: b_place(lane, i, bits), row.n * row.k // 32),
        "c": pack(C, c_place, row.m * row.n // 32),
    }
    inputs = {f"{n}{i}": column for n, words in parts.items() for i, column in enumerate(words.T)}
    word = register(TYPES[d])
    registers = row.m * row.n * TYPES[d]().itemsize // (32 * word().itemsize)
    names = {n: ", ".join(f"%{n}{i}" for i in range(words.shape[1])) for n, words in parts.items()}
    names["d"] = ", ".join(f"%d{i}" for i in range(registers))
    body = f"mma.sync.aligned.{shape}.row.col{options}.{d}.{a}.{b}.{c} {{{names['d']}}}, {{{names['a']}}}, " \
           f"{{{names['b']}}}, {{{names['c']}}};"  # fmt: skip
    out = run(body, inputs, {f"d{i}": f"b{word().itemsize * 8}" for i in range(registers)})
    words = np.stack([np.asarray(out[f"d{i}"]).view(word) for i in range(registers)], axis=1)
    elements = np.ascontiguousarray(words).view(TYPES[d])
    actual = np.empty((row.m, row.n))
    for lane in range(32):
        for i in range(elements.shape[1]):
            actual[c_place(lane, i)] = elements[lane, i]
    return A.astype(float) @ B.astype(float).T + C.astype(float), actual


CASES = [
    (row.shape, acc, a, row.operands[(i + row.mixed) % len(row.operands)])
    for row in WARP_MMAS
    for acc in row.accumulators
    for i, a in enumerate(row.operands)
]


@pytest.mark.parametrize(("shape", "acc", "a", "b"), CASES)
def test_products_of_small_integers(shape: str, acc: str, a: str, b: str) -> None:
    expected, actual = multiply(shape, acc, a, b, acc)
    assert np.array_equal(expected, actual)


def bits(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32).view(np.uint32)


def test_fp8_is_two_f16_products_and_then_an_addition() -> None:
    """k = 0, 1 of each four first, then k = 2, 3; C last, rounded to nearest. One fused sum would give other words."""
    line = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%d0, %d1, %d2, %d3}, {%a, %z, %z, %z}, {%b, %z}, " \
           "{%c, %c, %c, %c};"  # fmt: skip
    one, small = 0x38, 0x01  # 1 and 2^-9
    # only lane 0 and its column have elements: D[0, 0] = a0 b0 + a1 b1 + a2 b2 + a3 b3 + c
    a = np.zeros(32, np.uint32)
    a[0] = one | small << 8 | one << 16 | small << 24
    words = {"a": a, "b": a, "z": np.zeros(32, np.uint32), "c": np.repeat(bits(2.0**24), 32)}
    out = run(line, words, {f"d{i}": "f32" for i in range(4)})
    # 2 + 2^-17 is exact in the f16 products; then 2^24 + 2 + 2^-17 is rounded to nearest: a step of 2 up
    assert out["d0"][0] == 2.0**24 + 2
    words["c"] = np.repeat(bits(-(2.0**24)), 32)
    a[0] = one | one << 8 | one << 16  # 3 - 2^24 is exact; 2^24 + 3 is a tie to even
    assert run(line, words, {f"d{i}": "f32" for i in range(4)})["d0"][0] == 3 - 2.0**24
    words["c"] = np.repeat(bits(2.0**24), 32)
    assert run(line, words, {f"d{i}": "f32" for i in range(4)})["d0"][0] == 2.0**24 + 4


def test_f64_is_one_fma_after_the_other() -> None:
    """The order shows in what is lost: 1 is absorbed by 2^60 or comes after it is gone."""
    line = "mma.sync.aligned.m8n8k4.row.col{}.f64.f64.f64.f64 {{%d0, %d1}}, {{%a}}, {{%b}}, {{%c, %c}};"
    lanes = {"a": np.zeros(32), "b": np.zeros(32), "c": np.zeros(32)}
    for values, expected in (([1.0, 2.0**60, -(2.0**60), 0.0], 0.0), ([2.0**60, -(2.0**60), 1.0, 0.0], 1.0)):
        lanes["a"][:4], lanes["b"][:4] = values, 1.0
        out = run(line.format(""), {k: v.view(np.uint64) for k, v in lanes.items()}, {"d0": "b64", "d1": "b64"})
        assert out["d0"].view(np.float64)[0] == expected
    lanes["a"][:4], lanes["b"][:4] = [1.0, 2.0**-60, 0.0, 0.0], 1.0
    inputs = {k: v.view(np.uint64) for k, v in lanes.items()}
    up = run(line.format(".rp"), inputs, {"d0": "b64", "d1": "b64"})["d0"].view(np.float64)[0]
    assert up == 1 + 2.0**-52


def test_integers_wrap_or_saturate() -> None:
    inputs = {f"{n}{i}": np.full(32, 0x7F7F7F7F, np.uint32) for n, k in (("a", 4), ("b", 2)) for i in range(k)}
    inputs |= {f"c{i}": np.full(32, 0x7FFFFFFF, np.uint32) for i in range(4)}
    line = "mma.sync.aligned.m16n8k32.row.col{}.s32.s8.s8.s32 {{%d0, %d1, %d2, %d3}}, {{%a0, %a1, %a2, %a3}}, " \
           "{{%b0, %b1}}, {{%c0, %c1, %c2, %c3}};"  # fmt: skip
    outputs = {f"d{i}": "b32" for i in range(4)}
    wrapped = (0x7FFFFFFF + 32 * 127 * 127) & 0xFFFFFFFF
    for option, value in (("", wrapped), (".satfinite", 0x7FFFFFFF)):
        out = run(line.format(option), inputs, outputs)
        assert (np.asarray(out["d0"], np.uint32) == value).all()


BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
GOOD = "{%d0, %d1, %d2, %d3}, {%a, %a, %a, %a}, {%a, %a}, {%a, %a, %a, %a};"
OUTPUTS = {f"d{i}": "b32" for i in range(4)}
WORD = {"a": np.zeros(32, np.uint32)}


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (BF16 + GOOD.replace("{%a, %a},", "{%a, %a, %a},"), PtxSyntaxError, "B has 3 registers, must have 2"),
        (BF16.replace("f32.bf16.bf16.f32", "f16.bf16.bf16.f16") + GOOD, PtxSyntaxError, "must both be f32"),
        (BF16.replace("bf16.bf16.f32", "f16.f16.f16") + GOOD, PtxSyntaxError, "D is f32 and C is f16"),
        (BF16.replace("col", "col.satfinite") + GOOD, PtxSyntaxError, "satfinite"),
        (BF16.replace("bf16.bf16", "bf16.f16") + GOOD, NotModelled, "m16n8k16 of bf16 and f16"),
        ("@%p " + BF16 + GOOD, UndefinedBehavior, "all 32 must"),
    ],
)
def test_what_is_refused(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        run(text, {**WORD, "p": np.arange(32) < 16}, OUTPUTS)
