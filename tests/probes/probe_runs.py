"""Running a probe on the model, and what its report says."""

from umma_probe.harness.run import run_probe
from umma_probe.record.schema import Report

POLICIES = ("eager", "lazy", "random:7")


def run(probe: str, *, policy: str = "eager", force: bool = False, arch: str = "", **params: object) -> Report:
    return run_probe(probe, params, target="model", policy=policy, force=force, arch=arch)


def failed(report: Report) -> set[str]:
    """Names of the checks that failed."""
    return {check.name for check in report.checks if check.verdict == "fail"}


def passes(report: Report) -> None:
    assert report.verdict == "pass", [(c.name, c.actual, c.message) for c in report.checks if c.verdict != "pass"]
