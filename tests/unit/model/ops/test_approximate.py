"""Approximate functions: within the documented bound of the true value, and the documented special cases exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import run

INF, NAN = np.inf, np.nan
# PTX ISA, tables "special values": input to result
SPECIAL: dict[str, list[tuple[float, float]]] = {
    "ex2": [(-INF, 0.0), (-0.0, 1.0), (0.0, 1.0), (INF, INF), (NAN, NAN)],
    "lg2": [(-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, -INF), (1.0, 0.0), (INF, INF), (NAN, NAN)],
    "rcp": [(-INF, -0.0), (-0.0, -INF), (0.0, INF), (INF, 0.0), (NAN, NAN)],
    "sqrt": [(-INF, NAN), (-1.0, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (NAN, NAN)],
    "rsqrt": [(-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, INF), (INF, 0.0), (NAN, NAN)],
    "sin": [(-INF, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, NAN), (NAN, NAN)],
    "cos": [(-INF, NAN), (-0.0, 1.0), (0.0, 1.0), (INF, NAN), (NAN, NAN)],
}
TRUE: dict[str, Any] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": lambda a: 1 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
}


def words(values: Any) -> list[int]:
    canonical = np.where(np.isnan(values), np.uint32(0x7FFFFFFF).view(np.float32), values)
    return canonical.astype(np.float32).view(np.uint32).tolist()


@pytest.mark.parametrize("opcode", SPECIAL)
@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_special_values(opcode: str, ftz: str) -> None:
    inputs, results = (np.array(column, np.float32) for column in zip(*SPECIAL[opcode], strict=True))
    out = run(f"{opcode}.approx{ftz}.f32 %d, %a;", {"a": inputs}, {"d": "f32"})["d"]
    assert words(results) == out.view(np.uint32).tolist()


@pytest.mark.parametrize("opcode", TRUE)
def test_close_to_the_true_value(opcode: str) -> None:
    a = np.linspace(0.03125, 3.0, 500).astype(np.float32)
    out = run(f"{opcode}.approx.ftz.f32 %d, %a;", {"a": a}, {"d": "f32"})["d"]
    # sin and cos reduce their argument in f32, as silicon does
    # the documents bound lg2 absolutely, by 2^-22, between 0.5 and 2
    atol = {"sin": 2.0**-20.5, "cos": 2.0**-20.5, "lg2": 2.0**-22}.get(opcode, 2.0**-24)
    np.testing.assert_allclose(TRUE[opcode](a.astype(np.float64)), out, rtol=2.0**-23, atol=atol)


@pytest.mark.parametrize(
    ("opcode", "word", "silicon"),
    [("sin", 0xE6519BF7, 0x80000000), ("sin", 0x417D4EA4, 0xBDFCC2E6), ("cos", 0xBEFA9A87, 0x3F61F134),
     ("cos", 0x3EB6D3D0, 0x3F6FD9FB)],
)  # fmt: skip
def test_large_angles_are_reduced_as_an_h200_reduces_them(opcode: str, word: int, silicon: int) -> None:
    a = np.array([word], np.uint32).view(np.float32)
    out = run(f"{opcode}.approx.f32 %d, %a;", {"a": a}, {"d": "f32"})["d"]
    np.testing.assert_allclose(np.array([silicon], np.uint32).view(np.float32), out, atol=2.0**-21)


def test_ftz_flushes_inputs_and_results() -> None:
    a = np.array([-126.5, -127.0, -126.0], np.float32)
    out = run("ex2.approx.ftz.f32 %d, %a; ex2.approx.f32 %e, %a;", {"a": a}, {"d": "f32", "e": "f32"})
    assert out["d"].tolist() == [0.0, 0.0, 2.0**-126]
    np.testing.assert_allclose(2.0**-127, out["e"][1], atol=2.0**-149)  # the square of 2^-63.5
    tiny = np.array([2.0**-130, -(2.0**-130)], np.float32)
    assert run("rcp.approx.ftz.f32 %d, %a;", {"a": tiny}, {"d": "f32"})["d"].tolist() == [np.inf, -np.inf]


def test_division_by_a_huge_number() -> None:
    """For 2^126 < |b| < 2^128 ``div.approx`` gives 0, or NaN for an infinite a; ``div.full`` divides."""
    inputs = {"a": np.array([2.0**100, -1.0, np.inf], np.float32), "b": np.array([2.0**127] * 3, np.float32)}
    out = run("div.approx.f32 %d, %a, %b; div.full.f32 %e, %a, %b;", inputs, {"d": "f32", "e": "f32"})
    assert words(out["d"]) == words(np.array([0.0, -0.0, np.nan], np.float32))
    assert out["e"].tolist() == [2.0**-27, -(2.0**-127), np.inf]
