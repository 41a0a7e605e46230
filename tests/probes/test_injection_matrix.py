"""Plants every fault and asks for its cause. ``UMMA_PROBE_FULL=1`` runs all cases and prints the tally."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from injection_cases import CASES, CLEAN, Planted

from umma_probe.backends.model import ModelDevice
from umma_probe.harness.diagnosis.engine import causes
from umma_probe.harness.inject import FAULTS
from umma_probe.harness.run import run_probe
from umma_probe.record.schema import Report


def run(case: Planted) -> Report:
    return run_probe(case.probe, {**case.params, "inject": case.inject}, target="model", policy=case.policy)


def grade(case: Planted, report: Report) -> str:
    """``right``, ``wrong``, or ``undecided``: no cause named, or only as one of several."""
    if report.diagnosis is None or report.diagnosis.cause.startswith("unexplained"):
        return "undecided"
    if report.diagnosis.cause.split(":")[0] != case.cause:
        return "wrong"
    return "undecided" if report.diagnosis.confidence == "possible" else "right"


@pytest.mark.parametrize("case", [case for case in CASES if case.quick], ids=str)
def test_a_planted_fault_is_named(case: Planted) -> None:
    report = run(case)
    assert report.verdict != "pass"
    assert report.diagnosis is not None
    assert (grade(case, report), report.diagnosis.cause.split(":")[0]) == ("right", case.cause)
    assert report.diagnosis.evidence


@pytest.mark.parametrize(("probe", "params"), CLEAN, ids=str)
def test_a_clean_probe_is_silent(probe: str, params: dict[str, object]) -> None:
    report = run_probe(probe, params, target="model")
    assert report.verdict == "pass", [(c.name, c.actual, c.message) for c in report.checks if c.verdict != "pass"]
    assert report.diagnosis is None


@pytest.mark.parametrize("policy", ["lazy", "random:5"])
@pytest.mark.parametrize("probe", ["tmem-zero-pv", "qk-gemm", "pv-gemm", "tmem-all-lanes", "idesc-map"])
def test_probes_pass_under_every_policy(probe: str, policy: str) -> None:
    report = run_probe(probe, {}, target="model", policy=policy)
    assert report.verdict == "pass", [(c.name, c.actual, c.message) for c in report.checks if c.verdict != "pass"]


def test_the_historic_picture() -> None:
    for fill in ("zero", "sentinel"):
        params = {"hd": 64, "fill": fill, "inject": "operand-hole:512-575,768-831"}
        report = run_probe("tmem-zero-pv", params, target="model")
        assert report.occupancy is not None
        assert (report.occupancy.zero_columns, report.occupancy.missing_columns) == ("32-35,48-51", "")
        assert report.tmem is not None
        assert report.tmem.cells.counts["right"] == 56 * 128
        assert any("56 of 64 columns are right" in note for note in report.notes)
        assert report.diagnosis is not None
        assert report.diagnosis.cause.startswith("operand-hole: operand B has holes, elements 512-575,768-831")
        assert any("hold zero, not the sentinel: written, with zero" in line for line in report.diagnosis.evidence)
        if fill == "sentinel":
            assert "Columns 32-35,48-51 are written, with zero." in report.notes


def test_every_fault_and_every_cause_has_a_case() -> None:
    assert {case.inject.split(":")[0] for case in CASES} == set(FAULTS)
    assert set(causes()) - {"wrong-staging", "unexplained"} <= {case.cause for case in CASES}


@pytest.mark.skipif(not os.environ.get("UMMA_PROBE_FULL"), reason="minutes; UMMA_PROBE_FULL=1 runs it")
def test_the_whole_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    device = ModelDevice()
    grades: Counter[str] = Counter()
    faulty = []
    for case in CASES:
        device.policy = case.policy
        report = run_probe(case.probe, {**case.params, "inject": case.inject}, device=device)
        found = grade(case, report)
        grades[found] += 1
        if found != ("undecided" if case.ambiguous else "right"):
            faulty.append(f"{case}: {found}, {report.diagnosis.cause if report.diagnosis else report.verdict}")
    with capsys.disabled():
        named = len({case.cause for case in CASES})
        print(f"\n{named} causes, {len(CASES)} planted: " + ", ".join(f"{n} {grade}" for grade, n in grades.items()))
    assert not faulty, "\n".join(faulty)
    assert grades["wrong"] == 0
