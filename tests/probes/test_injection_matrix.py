"""Plants every fault and asks for its cause. ``UMMA_PROBE_FULL=1`` runs all cases and prints the tally."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import pytest
from injection_cases import ALL, CASES, CLEAN, F16, IDESC, LAYOUT, PV, QK, ZERO, Planted

from umma_probe.backends.model import ModelDevice
from umma_probe.harness.diagnosis.engine import causes
from umma_probe.harness.inject import FAULTS
from umma_probe.harness.run import run_probe
from umma_probe.model.mma import tensor_core
from umma_probe.model.mma.mma_call import MmaCall
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


def test_the_registers_of_a_missing_pack_are_other_ones() -> None:
    """The planted loads read 32 columns in steps of 64: D's upper halves are never seen by that readback."""
    report = run(Planted(IDESC, "readback:2,pack=off", "readback-pack", F16))
    checks = {check.name: check for check in report.checks}
    assert (checks["readback"].verdict, checks["missing"].verdict, checks["float64"].verdict) == (
        "fail",
        "pass",
        "pass",
    )
    assert "16x128b.x8.pack::16b" in checks["readback"].expected
    assert report.diagnosis is not None
    assert "readbacks 0 (32x32b.x32) and 1 (16x256b.x4) show every cell as documented" in report.diagnosis.evidence


@pytest.mark.parametrize("field", ["negate-a", "negate-b"])
def test_negated_operands_are_one_cause(field: str) -> None:
    report = run(Planted(QK, f"wrong-idesc:{field}", "wrong-idesc", {"rows": 64, "keys": 16, "hd": 16}))
    assert report.diagnosis is not None
    assert report.diagnosis.cause == (
        "wrong-idesc: negate-a or negate-b: the product's sign; no values can tell them apart"
    )
    assert report.diagnosis.confidence == "certain"
    assert "0x04042490 or 0x04044490 in place of 0x04040490" in report.diagnosis.evidence[0]


def skip_columns(monkeypatch: pytest.MonkeyPatch, skipped: Sequence[int], lanes: slice = slice(None)) -> None:
    """A tensor core that does not write D to these columns: what was once claimed of the hardware."""
    write = tensor_core._write

    def write_some(call: MmaCall, index: int, slot: int, *rest: object) -> None:
        words = call.launch.tmem.words[slot]
        before = words.copy()
        write(call, index, slot, *rest)  # type: ignore[arg-type]
        words[lanes, skipped] = before[lanes, skipped]

    monkeypatch.setattr(tensor_core, "_write", write_some)


CLAIMED = [32, 33, 34, 35, 48, 49, 50, 51]


@pytest.mark.parametrize(
    ("probe", "params"),
    [(ZERO, {"keys": 32}), (ZERO, {"keys": 32, "fill": "sentinel"}), (ALL, {}), (PV, {"keys": 32}), (IDESC, F16)],
    ids=str,
)
def test_hardware_that_skips_columns(probe: str, params: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    skip_columns(monkeypatch, CLAIMED)
    report = run_probe(probe, params, target="model")
    assert report.occupancy is not None
    if params.get("fill") == "sentinel" or probe != ZERO:
        assert (report.occupancy.missing_columns, report.occupancy.zero_columns) == ("32-35,48-51", "")
    assert report.diagnosis is not None
    name, _, rest = report.diagnosis.cause.partition(": ")
    assert (name, report.diagnosis.confidence) == ("not-written", "observed")
    assert rest.startswith("columns 32-35,48-51 of D in all of its lanes")
    assert "1024 cells names its own lane and column" in report.diagnosis.evidence[0]
    assert any("agree in every register" in line for line in report.diagnosis.evidence)
    assert "hole" not in report.diagnosis.cause


def test_the_layout_probe_sees_skipped_columns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_columns(monkeypatch, CLAIMED)
    report = run_probe(LAYOUT, F16, target="model")
    assert report.diagnosis is not None
    assert report.diagnosis.cause == "cells of D were not written: columns 32-35,48-51 of D in all of its lanes"
    assert report.diagnosis.confidence == "observed"


def test_hardware_that_skips_cells_of_some_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_columns(monkeypatch, [5], slice(64, 96))
    report = run_probe(ALL, {}, target="model")
    assert report.diagnosis is not None
    assert report.diagnosis.cause.startswith("not-written: column 5 of D in lanes 64-95 hold")


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
