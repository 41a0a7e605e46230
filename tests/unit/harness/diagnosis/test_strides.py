"""The sieve of strides and start addresses: it keeps the right value and drops fields that do not matter."""

from __future__ import annotations

import pytest

from umma_probe.harness.diagnosis.strides import likely_values
from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.passes import gemm_passes
from umma_probe.harness.gemm.predict import expected_image, predict
from umma_probe.harness.gemm.registers import load
from umma_probe.harness.gemm.trial import Seen, Trial
from umma_probe.harness.inject import inject

BASE = 1024


def trial(fault: str, **params: object) -> Trial:
    case = GemmCase.of(**{"m": 64, "n": 24, "k": 32, **params})
    clean = case.recipe()
    planted = inject(clean, fault)
    seen = []
    for codes in gemm_passes(case.m, case.n, clean.tile_k, clean.tiles, (case.a_type, case.b_type, case.d_type)):
        image = expected_image(clean, codes, BASE)
        words = predict(planted, codes, None, image, "sm_100a")
        seen.append(Seen(codes, "sentinel", tuple(load(words, one) for one in clean.readings), image))
    return Trial(clean, None, "sm_100a", seen)


@pytest.mark.parametrize(
    ("fault", "params", "name", "field", "value"),
    [
        ("wrong-stride:sbo,768", {}, "b", "sbo", 768),
        ("wrong-stride:a,sbo,528", {"kind": "tf32", "k": 16}, "a", "sbo", 528),
        ("wrong-stride:a,lbo,512", {"swizzle": "none"}, "a", "lbo", 512),
        ("wrong-start:48", {"kind": "f8f6f4", "k": 64}, "b", "smem", None),
        ("k-panel-stride:0", {}, "b", "step", 0),
    ],
)
def test_the_planted_value_passes(
    fault: str, params: dict[str, object], name: str, field: str, value: int | None
) -> None:
    made = trial(fault, **params)
    wanted = made.clean.b.smem + 48 if value is None else value
    found = likely_values(made, name, field)
    assert wanted in found
    assert len(found) < 8


def test_a_field_that_does_not_matter_has_no_likely_value() -> None:
    """The leading byte offset of a swizzled K-major operand is not used: 16384 values would do, and none is a cause."""
    made = trial("wrong-stride:sbo,768")
    assert likely_values(made, "a", "lbo") == likely_values(made, "b", "lbo") == []
