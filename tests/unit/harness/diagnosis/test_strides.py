"""The sieve of strides and start addresses: it keeps the right value and drops fields that do not matter."""

from __future__ import annotations

import pytest
from planted_trials import planted_trial

from umma_probe.harness.diagnosis.strides import likely_values


@pytest.mark.parametrize(
    ("fault", "params", "name", "field", "value"),
    [
        ("wrong-stride:sbo,768", {}, "b", "sbo", 768),
        ("wrong-stride:a,sbo,528", {"kind": "tf32", "k": 16}, "a", "sbo", 528),
        ("wrong-stride:a,lbo,512", {"swizzle": "none"}, "a", "lbo", 512),
        ("wrong-start:48", {"kind": "f8f6f4", "k": 64}, "b", "smem", None),
        ("wrong-start:a,256", {"n": 56, "kind": "f8f6f4", "d_type": "f16"}, "a", "smem", 256),  # some of D is infinite
        ("k-panel-stride:0", {}, "b", "step", 0),
    ],
)
def test_the_planted_value_passes(
    fault: str, params: dict[str, object], name: str, field: str, value: int | None
) -> None:
    made = planted_trial(fault, **params)
    wanted = made.clean.b.smem + 48 if value is None else value
    found = likely_values(made, name, field)
    assert wanted in found
    assert len(found) < 8


def test_a_field_that_does_not_matter_has_no_likely_value() -> None:
    """The leading byte offset of a swizzled K-major operand is not used: 16384 values would do, and none is a cause."""
    made = planted_trial("wrong-stride:sbo,768")
    assert likely_values(made, "a", "lbo") == likely_values(made, "b", "lbo") == []
