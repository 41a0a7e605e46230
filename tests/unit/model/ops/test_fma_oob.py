"""``fma.rn.oob``: the words of an H200 for factors that are the NaN of TMA's fill, and ordinary fma for the rest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from harness import run

from umma_probe.errors import NotModelled

FILL = 0x7FF7
ROWS = np.array(
    json.loads((Path(__file__).parents[4] / "reports/silicon-h200/fma_oob.json").read_text())["rows"], np.uint16
)


@pytest.mark.parametrize(("form", "column"), [("f16", 3), ("relu.f16", 4), ("bf16", 5), ("relu.bf16", 6)])
def test_words_of_an_h200(form: str, column: int) -> None:
    inputs = {name: ROWS[:, at].copy() for at, name in enumerate("abc")}
    found = run(f"fma.rn.oob.{form} %d, %a, %b, %c;", inputs, {"d": "b16"})["d"]
    np.testing.assert_array_equal(found, ROWS[:, column])


def test_the_record_has_what_is_zero_and_what_is_not() -> None:
    zero = (ROWS[:, 3] == 0).mean()
    assert 0.3 < zero < 0.95
    assert {FILL, 0xFFF7, 0x7FF8} <= set(ROWS[:, 0].tolist())


def test_each_half_of_a_pair_on_its_own() -> None:
    one, two, minus = 0x3C00, 0x4000, 0xC000
    a = np.array([one << 16 | FILL, FILL << 16 | two, two << 16 | two], np.uint32)
    b = np.array([two << 16 | one, one << 16 | minus, minus << 16 | one], np.uint32)
    c = np.array([one << 16 | one, one << 16 | one, one << 16 | one], np.uint32)
    out = run("fma.rn.oob.f16x2 %d, %a, %b, %c; fma.rn.oob.relu.f16x2 %e, %a, %b, %c;", {"a": a, "b": b, "c": c},
              {"d": "b32", "e": "b32"})  # fmt: skip
    half = [[(word >> shift) & 0xFFFF for shift in (16, 0)] for word in out["d"].tolist()]
    values = np.array(half, np.uint16).view(np.float16)
    assert values.tolist() == [[3, 0], [0, -3], [-3, 3]]
    rectified = [[(word >> shift) & 0xFFFF for shift in (16, 0)] for word in out["e"].tolist()]
    assert np.array(rectified, np.uint16).view(np.float16).tolist() == [[3, 0], [0, 0], [0, 3]]


def test_oob_has_no_ftz() -> None:
    with pytest.raises(NotModelled, match="ftz"):
        run("fma.rn.ftz.oob.f16 %d, %a, %a, %a;", {"a": np.zeros(1, np.uint16)}, {"d": "b16"})
