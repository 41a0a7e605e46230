"""Expected outcomes: every rule on a hand-written report, and the faults a file can have."""

from __future__ import annotations

import pytest

from umma_probe.errors import ConfigError
from umma_probe.record.expectations import check_key, expectations

REPORT = {
    "verdict": "fail",
    "occupancy": {"written_columns": "0-63", "missing_columns": "", "misplaced_cells": 3},
    "checks": [{"name": "sentinel", "verdict": "pass"}, {"name": "map", "verdict": "fail"}],
    "metrics": {"cosine": 0.931},
    "diagnosis": {"cause": "operand hole", "evidence": ["a", "b"]},
}


@pytest.mark.parametrize(
    ("key", "wanted", "holds"),
    [
        ("verdict", "fail", True),
        ("verdict", "pass", False),
        ("occupancy.written_columns", "0-63", True),
        ("occupancy.written_columns", "0-31,36-47,52-63", False),
        ("occupancy.missing_columns", "", True),
        ("occupancy.missing_columns", {"not": ""}, False),
        ("checks.map.verdict", "fail", True),
        ("checks.sentinel.verdict", "fail", False),
        ("metrics.cosine", {"min": 0.9, "max": 0.94}, True),
        ("metrics.cosine", {"min": 0.999}, False),
        ("metrics.max_ulp", {"max": 1}, False),
        ("diagnosis.cause", {"contains": "hole"}, True),
        ("diagnosis.cause", {"one_of": ["race", "operand hole"]}, True),
        ("tmem.layout_recovered", {"not": "D"}, False),
        ("tmem.layout_recovered", {"contains": "D"}, False),
    ],
)
def test_rules(key: str, wanted: object, holds: bool) -> None:
    assert all(entry.holds(REPORT) for entry in expectations({key: wanted})) is holds


@pytest.mark.parametrize(
    ("key", "wanted", "message"),
    [
        ("occupancy.writen_columns", "0-63", "did you mean written_columns"),
        ("ocupancy.zero_columns", "", "did you mean occupancy"),
        ("verdict", "passed", "did you mean pass"),
        ("verdict", {"one_of": ["pass", "fial"]}, "did you mean fail"),
        ("verdict.deep", "pass", "nothing lies below 'verdict'"),
        ("metrics.cosine", {"mni": 1}, "did you mean min"),
        ("metrics.cosine", {"min": "x"}, "must be a number"),
        ("verdict", {}, "no rule is given"),
    ],
)
def test_faults(key: str, wanted: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        expectations({key: wanted})


@pytest.mark.parametrize("key", ["params.m", "checks.anything.verdict", "metrics.anything", "diagnosis.evidence"])
def test_open_ended_keys(key: str) -> None:
    check_key(key)


def test_actual_tells_empty_from_absent() -> None:
    (empty,) = expectations({"occupancy.missing_columns": "0-3"})
    (absent,) = expectations({"tmem.layout_recovered": "D"})
    assert (empty.actual(REPORT), absent.actual(REPORT)) == ("empty", "absent")
    assert str(empty) == "occupancy.missing_columns 0-3"
