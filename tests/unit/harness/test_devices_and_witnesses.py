"""One GPU against the others, and silicon against the model, with made-up devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import device_stubs
import pytest

from umma_probe.errors import ConfigError, ExitCode
from umma_probe.harness.ci import JobResult
from umma_probe.harness.sweep.config import load_config
from umma_probe.harness.sweep.devices import compare_devices
from umma_probe.harness.sweep.journal import CaseRecord
from umma_probe.harness.sweep.outcome import CaseResult, SweepResult
from umma_probe.harness.sweep.run import SweepPlan
from umma_probe.harness.sweep.targets import TargetPlan
from umma_probe.harness.sweep.witnesses import INCOMPARABLE, OTHER, SAME, compare
from umma_probe.report.job import summary

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
title: Three shapes
cases:
  - {probe: wgmma-layout, options: {n: [8, 16, 24]}}
"""


class Silent:
    def begin(self, total: int, known: int, target: TargetPlan) -> None:
        pass

    def finished(self, result: CaseResult) -> None:
        pass


def plan(folder: Path, gpus: int) -> SweepPlan:
    path = folder / "three.yaml"
    path.write_text(CONFIG)
    config = load_config(path)
    workers = tuple(f"cuda:{i}" for i in range(gpus))
    target = TargetPlan(workers, "cuda", "NVIDIA H200", "sm_90a", "13.5", "580", uuids=tuple("ABCD"[:gpus]))
    cases = config.cases(policies=False)
    return SweepPlan(config, target, cases, [case.spec.digest(target.key()) for case in cases])


def test_the_odd_one_of_three_gpus_is_named(tmp_path: Path) -> None:
    found = compare_devices(plan(tmp_path, 3), watcher=Silent(), state_dir=tmp_path, runner=device_stubs.run)
    assert [case.odd for case in found.cases] == [[], ["B"], ["B"]]
    assert found.odd == {"A": 0, "B": 2, "C": 0}
    assert found.exit_code is ExitCode.DIFFERS
    assert found.lines()[1].startswith("cuda:1 B: differs in 2 of 3 cases, 1 not as expected")
    assert found.to_json()["cases"][2]["verdicts"] == {"A": "pass", "B": "hang", "C": "pass"}


def test_two_gpus_that_differ_are_both_named(tmp_path: Path) -> None:
    found = compare_devices(plan(tmp_path, 2), watcher=Silent(), state_dir=tmp_path, runner=device_stubs.run)
    assert [case.odd for case in found.cases] == [[], ["A", "B"], ["A", "B"]]


def test_one_gpu_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 device to compare, must be at least 2"):
        compare_devices(plan(tmp_path, 1), watcher=Silent(), state_dir=tmp_path, runner=device_stubs.run)


# ---------------------------------------------------------------------- silicon and model
def swept(folder: Path, on_model: bool, outcomes: list[tuple[str, dict[str, str]]], **report: Any) -> SweepResult:
    made = plan(folder, 1)
    target = replace(made.target, kind="model", name="CPU model") if on_model else made.target
    results = []
    for case, (verdict, outputs) in zip(made.cases, outcomes, strict=True):
        facts = {"verdict": verdict, "outputs": outputs, "checks": [], **report}
        code = ExitCode.OK if verdict == "pass" else ExitCode.DIFFERS
        results.append(CaseResult(case, CaseRecord("d", verdict, code, report=facts)))
    return SweepResult("three", "Three shapes", target, results, {})


def test_bits_decide_and_undecided_is_no_witness(tmp_path: Path) -> None:
    silicon = swept(tmp_path, False, [("pass", {"d": "1"}), ("pass", {"d": "2"}), ("pass", {"d": "3"})])
    model = swept(tmp_path, True, [("pass", {"d": "1"}), ("pass", {"d": "9"}), ("undecided", {})])
    found = compare(silicon, model)
    assert [entry.bits for entry in found.testimonies] == [SAME, OTHER, INCOMPARABLE]
    assert [entry.agree for entry in found.testimonies] == [True, False, False]
    assert found.testimonies[1].differing == ["d"]
    job = JobResult([silicon], [found])
    assert job.exit_code is ExitCode.DIFFERS
    assert any("n=16: silicon pass, model pass, other bits" in line for line in job.failures())
    text = summary(job)
    assert text.startswith("# umma-probe: fail\n")
    assert "| wgmma-layout: n=16 | pass | pass | other bits | d |" in text


def test_a_probe_with_limits_may_leave_other_bits(tmp_path: Path) -> None:
    same = [("pass", {"d": "1"})] * 3
    silicon = swept(tmp_path, False, same, accuracy={"limit": "1e-3"})
    model = swept(tmp_path, True, [("pass", {"d": "2"}), *same[1:]], accuracy={"limit": "1e-3"})
    found = compare(silicon, model)
    assert not found.disagreeing
    assert JobResult([silicon], [found]).exit_code is ExitCode.OK
