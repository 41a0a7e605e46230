"""Floating instructions that sm_90 lacks (packed f32, mixed precision, three inputs), against Python's numbers."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from harness import run
from hypothesis import given, settings
from hypothesis import strategies as st

BITS = st.integers(0, 2**32 - 1)
EDGES = [0.0, -0.0, 1.0, -1.0, 1.5, 2.0**-149, -(2.0**-140), 2.0**-126, 3.4028234663852886e38, np.inf, -np.inf, np.nan]


def f32(words: Any) -> Any:
    return np.asarray(words, np.uint32).view(np.float32)


def grid(count: int) -> list[Any]:
    axes = np.meshgrid(*[np.array(EDGES, np.float32)] * count)
    return [axis.ravel().copy() for axis in axes]


def rounded(exact: Fraction, mode: str) -> float:
    """A finite rational as f32, in plain rational arithmetic."""
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = max((magnitude.numerator.bit_length() - magnitude.denominator.bit_length()), -126)
    while Fraction(2) ** exponent > magnitude and exponent > -126:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    unit = Fraction(2) ** (exponent - 23)
    whole, rest = divmod(magnitude / unit, 1)
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "rz": False,
        "rm": rest > 0 and exact < 0,
        "rp": rest > 0 and exact > 0,
    }[mode]
    value = (whole + up) * unit
    largest = Fraction(2) ** 128 - Fraction(2) ** 104
    if value > largest:
        stays = mode == "rz" or (mode == "rm" and exact > 0) or (mode == "rp" and exact < 0)
        value = largest if stays else Fraction(0)
        result = float(largest) if stays else float("inf")
    else:
        result = float(value)
    return result if exact > 0 else -result


def finite(word: int) -> Fraction | None:
    value = struct.unpack("<f", struct.pack("<I", word))[0]
    return Fraction(value) if np.isfinite(value) else None


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.lists(st.tuples(BITS, BITS, BITS), min_size=16, max_size=16), st.sampled_from(["rn", "rz", "rm", "rp"]))
def test_fma_rounds_the_exact_sum_once(rows: list[tuple[int, int, int]], mode: str) -> None:
    a, b, c = (f32(column) for column in zip(*rows, strict=True))
    c = np.where(np.arange(16) % 2 == 0, c, -(a.astype(np.float64) * b).astype(np.float32))
    actual = run(f"fma.{mode}.f32 %d, %a, %b, %c;", {"a": a, "b": b, "c": c}, {"d": "f32"})["d"]
    for x, y, z, result in zip(a, b, c, actual, strict=True):
        if np.isfinite([x, y, z]).all():
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            expected = rounded(exact, mode)
            assert (expected, exact != 0 and np.signbit(expected)) == (result, exact != 0 and np.signbit(result))


def test_fma_decides_a_tie_by_what_float64_would_lose() -> None:
    """(1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 is a tie of two f32; a c far below the last bit of float64 decides it."""
    a = np.full(3, 1 + 2.0**-12, np.float32)
    c = np.array([2.0**-80, -(2.0**-80), 0.0], np.float32)
    out = run("fma.rn.f32 %d, %a, %a, %c;", {"a": a, "c": c}, {"d": "f32"})["d"]
    assert out.tolist() == [1 + 2.0**-11 + 2.0**-23, 1 + 2.0**-11, 1 + 2.0**-11]


@pytest.mark.parametrize("opcode", ["add", "sub", "mul"])
@pytest.mark.parametrize("mode", ["", ".rn", ".rz", ".rm", ".rp"])
@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_packed_f32_is_two_f32(opcode: str, mode: str, ftz: str) -> None:
    a, b = grid(2)
    pairs = {"a": np.stack([a, b], 1).view(np.uint64)[:, 0], "b": np.stack([b, b], 1).view(np.uint64)[:, 0]}
    packed = run(f"{opcode}{mode}{ftz}.f32x2 %d, %a, %b;", pairs, {"d": "f32x2"})["d"].view(np.float32).reshape(-1, 2)
    body = f"{opcode}{mode}{ftz}.f32 %d, %a, %b; {opcode}{mode}{ftz}.f32 %e, %b, %b;"
    single = run(body, {"a": a, "b": b}, {"d": "f32", "e": "f32"})
    np.testing.assert_array_equal(single["d"].view(np.uint32), packed[:, 0].view(np.uint32))
    np.testing.assert_array_equal(single["e"].view(np.uint32), packed[:, 1].view(np.uint32))


def test_packed_f32_values() -> None:
    def word(low: float, high: float) -> int:
        return struct.unpack("<Q", struct.pack("<ff", low, high))[0]

    inputs = {"a": np.array([word(1.5, -2.0)], np.uint64), "b": np.array([word(2.0, 0.25)], np.uint64)}
    inputs["c"] = np.array([word(1.0, 8.0)], np.uint64)
    body = "add.f32x2 %d, %a, %b; mul.f32x2 %e, %a, %b; fma.rn.f32x2 %f, %a, %b, %c; sub.f32x2 %g, %a, %b;"
    out = run(body, inputs, dict.fromkeys("defg", "f32x2"))
    assert [int(out[name][0]) for name in "defg"] == [
        word(3.5, -1.75),
        word(3.0, -0.5),
        word(4.0, 7.5),
        word(-0.5, -2.25),
    ]


@pytest.mark.parametrize("opcode", ["min", "max"])
def test_three_inputs(opcode: str) -> None:
    a, b, c = grid(3)
    body = f"{opcode}.f32 %d, %a, %b, %c; {opcode}.NaN.f32 %e, %a, %b, %c; {opcode}.abs.f32 %f, %a, %b, %c;"
    out = run(body, {"a": a, "b": b, "c": c}, {"d": "f32", "e": "f32", "f": "f32"})
    rows = np.stack([a, b, c])
    pick, pick_nan = (np.nanmin, np.min) if opcode == "min" else (np.nanmax, np.max)
    with np.errstate(all="ignore"):
        some = ~np.isnan(rows).all(axis=0)
        np.testing.assert_array_equal(pick(rows[:, some], axis=0), out["d"][some])
        np.testing.assert_array_equal(pick_nan(rows, axis=0), out["e"])
        np.testing.assert_array_equal(pick(np.abs(rows[:, some]), axis=0), out["f"][some])
    assert set(out["d"][~some].view(np.uint32).tolist()) == {0x7FFFFFFF}
    # two zeros of opposite sign: -0 is the smaller one
    zeros = (rows == 0).all(axis=0)
    negative = np.signbit(rows[:, zeros])
    expected = negative.any(axis=0) if opcode == "min" else negative.all(axis=0)
    np.testing.assert_array_equal(expected, np.signbit(out["d"][zeros]))


@pytest.mark.parametrize(("type_", "dtype"), [("f16", np.float16), ("bf16", None)])
def test_mixed_precision(type_: str, dtype: Any) -> None:
    values = np.array([1.5, -2.25, 3.0, 0.0078125], np.float32)
    words = values.astype(dtype).view(np.uint16) if dtype else (values.view(np.uint32) >> 16).astype(np.uint16)
    c = np.array([2.0**-20, 1.0, -3.0, 1e30], np.float32)
    body = f"add.f32.{type_} %d, %a, %c; sub.f32.{type_} %e, %a, %c; fma.rn.f32.{type_} %f, %a, %a, %c;"
    out = run(body, {"a": words, "c": c}, {"d": "f32", "e": "f32", "f": "f32"})
    assert out["d"].tolist() == (values + c).tolist()
    assert out["e"].tolist() == (values - c).tolist()
    exact = [Fraction(float(v)) ** 2 + Fraction(float(x)) for v, x in zip(values, c, strict=True)]
    assert out["f"].tolist() == [rounded(x, "rn") for x in exact]
