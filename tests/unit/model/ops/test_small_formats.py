"""Conversions to and from the 8-, 6- and 4-bit formats, against ml_dtypes and hand-made vectors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness import run

FORMATS: dict[str, Any] = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
NAN_CODE = {"e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x7}


def samples() -> Any:
    rng = np.random.default_rng(5)
    moderate = rng.standard_normal(400) * 2.0 ** rng.integers(-14, 14, 400)
    # halves between neighbours, where ties are decided
    ties = np.arange(-64, 64) / 32.0
    edges = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        1e30,
        -1e30,
        447.0,
        464.0,
        465.0,
        57344.0,
        61440.0,
        2.0**-9,
        2.0**-10,
        2.0**-149,
    ]
    return np.concatenate([moderate, ties, edges]).astype(np.float32)


def expected_codes(values: Any, name: str) -> Any:
    dtype = FORMATS[name]
    largest = float(ml_dtypes.finfo(dtype).max)
    return np.clip(values, -largest, largest).astype(dtype).view(np.uint8)


def packed(upper: Any, lower: Any, name: str) -> Any:
    shift = 4 if name == "e2m1" else 8
    return (upper.astype(np.uint32) << shift) | lower


@pytest.mark.parametrize("name", FORMATS)
def test_from_two_f32_the_first_on_top(name: str) -> None:
    a = samples()
    b = a[::-1].copy()
    width = "b8" if name == "e2m1" else "b16"
    out = run(f"cvt.rn.satfinite.{name}x2.f32 %d, %a, %b;", {"a": a, "b": b}, {"d": width})["d"]
    np.testing.assert_array_equal(packed(expected_codes(a, name), expected_codes(b, name), name), out)


@pytest.mark.parametrize("name", FORMATS)
def test_nan_and_relu(name: str) -> None:
    width = "b8" if name == "e2m1" else "b16"
    inputs = {"a": np.array([np.nan], np.float32), "b": np.array([-1.0], np.float32)}
    body = f"cvt.rn.satfinite.{name}x2.f32 %d, %a, %b; cvt.rn.satfinite.relu.{name}x2.f32 %e, %a, %b;"
    out = run(body, inputs, {"d": width, "e": width})
    nan = np.array([NAN_CODE[name]])
    assert out["d"].tolist() == packed(nan, expected_codes(inputs["b"], name), name).tolist()
    assert out["e"].tolist() == packed(nan, np.array([0]), name).tolist()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("half", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_from_packed_halves(name: str, half: str, dtype: Any) -> None:
    halves = samples().astype(np.float32).clip(-65504, 65504).astype(dtype)
    words = halves.view(np.uint16)[: len(halves) // 2 * 2].view(np.uint32)
    width = "b8" if name == "e2m1" else "b16"
    out = run(f"cvt.rn.satfinite.{name}x2.{half}x2 %d, %a;", {"a": words}, {"d": width})["d"]
    pairs = halves[: len(words) * 2].astype(np.float32).reshape(-1, 2)
    expected = packed(expected_codes(pairs[:, 1], name), expected_codes(pairs[:, 0], name), name)
    np.testing.assert_array_equal(expected, out)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("half", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_every_code_to_packed_halves(name: str, half: str, dtype: Any) -> None:
    bits = ml_dtypes.finfo(FORMATS[name]).bits
    codes = np.arange(1 << bits, dtype=np.uint8)
    source = packed(codes, codes[::-1], name).astype(np.uint8 if name == "e2m1" else np.uint16)
    body = f"cvt.rn.{half}x2.{name}x2 %d, %a; cvt.rn.relu.{half}x2.{name}x2 %e, %a;"
    out = run(body, {"a": source}, {"d": "b32", "e": "b32"})
    values = codes.view(FORMATS[name]).astype(np.float32)
    words = np.where(np.isnan(values), 0x7FFF, values.astype(dtype).view(np.uint16)).astype(np.uint32)
    np.testing.assert_array_equal(words << 16 | words[::-1], out["d"])
    words = np.where(values <= 0, 0, words).astype(np.uint32)
    np.testing.assert_array_equal(words << 16 | words[::-1], out["e"])


def test_an_infinite_e5m2_to_bf16x2_can_be_clamped() -> None:
    """Inf, NaN, -Inf, the largest number."""
    source = {"a": np.array([0x7C7E, 0xFC7B], np.uint16)}
    body = "cvt.rn.satfinite.bf16x2.e5m2x2 %d, %a; cvt.rn.satfinite.relu.bf16x2.e5m2x2 %e, %a;"
    out = run(body, source, {"d": "b32", "e": "b32"})
    assert [hex(word) for word in out["d"].tolist()] == ["0x7f7f7fff", "0xff7f4760"]
    assert [hex(word) for word in out["e"].tolist()] == ["0x7f7f7fff", "0x4760"]


# value, then the codes of rz, rz.satfinite, rp, rp.satfinite: the exponent field, one more if .rp lost a bit
UE8M0 = [
    (1.0, 127, 127, 127, 127),
    (1.5, 127, 127, 128, 128),
    (-1.5, 127, 127, 128, 128),
    (0.0, 0, 0, 0, 0),
    (2.0**-127, 0, 0, 0, 0),
    (1.5 * 2.0**-127, 0, 0, 1, 1),
    (2.0**-126, 1, 1, 1, 1),
    (3.4028234663852886e38, 254, 254, 255, 254),
    (np.inf, 255, 254, 255, 254),
    (np.nan, 255, 255, 255, 255),
]


def test_ue8m0() -> None:
    values = np.array([row[0] for row in UE8M0], np.float32)
    forms = ["rz", "rz.satfinite", "rp", "rp.satfinite"]
    body = "\n".join(f"cvt.{form}.ue8m0x2.f32 %d{i}, %a, 0f3F800000;" for i, form in enumerate(forms))
    out = run(body, {"a": values}, {f"d{i}": "b16" for i in range(4)})
    for i in range(4):
        assert out[f"d{i}"].tolist() == [row[1 + i] << 8 | 127 for row in UE8M0]


def test_ue8m0_from_and_to_bf16x2() -> None:
    codes = np.arange(256, dtype=np.uint16)
    out = run("cvt.rn.bf16x2.ue8m0x2 %d, %a;", {"a": codes | (codes[::-1] << 8)}, {"d": "b32"})["d"]
    exact = [2.0 ** (code - 127) for code in range(255)]
    low = (out & 0xFFFF).astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float64)
    assert low[:255].tolist() == exact
    assert int(out[255] & 0xFFFF) == 0x7FFF
    assert (out >> 16).tolist() == (out & 0xFFFF)[::-1].tolist()
    back = run("cvt.rz.ue8m0x2.bf16x2 %d, %a;", {"a": out}, {"d": "b16"})["d"]
    assert back.tolist() == (codes | (codes[::-1] << 8)).tolist()


def test_bf16x2_has_the_first_source_on_top() -> None:
    inputs = {"a": np.array([1.0], np.float32), "b": np.array([-2.0], np.float32)}
    body = "cvt.rn.bf16x2.f32 %d, %a, %b; cvt.rn.f16x2.f32 %e, %a, %b;"
    out = run(body, inputs, {"d": "b32", "e": "b32"})
    assert (int(out["d"][0]), int(out["e"][0])) == (0x3F80C000, 0x3C00C000)


def test_f16_in_a_wide_register() -> None:
    """ptxas takes a 32-bit destination; the upper half is zero."""
    out = run("mov.b32 %d, -1; cvt.rn.f16.f32 %d, %a;", {"a": np.array([-1.5], np.float32)}, {"d": "b32"})
    assert out["d"].tolist() == [0xBE00]


def test_integer_results_extend_to_the_register() -> None:
    body = "cvt.s8.s32 %d, %a; cvt.u8.s32 %e, %a; cvt.s32.s8 %f, %a;"
    out = run(body, {"a": np.array([0x1FF, 0x7F], np.uint32)}, {"d": "s32", "e": "u32", "f": "s32"})
    assert [out[name].tolist() for name in "def"] == [[-1, 127], [255, 127], [-1, 127]]
