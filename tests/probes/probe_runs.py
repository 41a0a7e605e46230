"""Running a probe on the model, and what its report says."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from umma_probe.assets import asset_dir
from umma_probe.harness import manifest
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


@contextmanager
def edited_kernel(old: str, new: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The probes' sources with ``old``, which stands in them once, replaced."""
    copy = folder / "probes"
    shutil.copytree(asset_dir("probes"), copy)
    touched = 0
    for path in copy.glob("*.cu*"):
        text = path.read_text()
        touched += text.count(old)
        path.write_text(text.replace(old, new))
    assert touched == 1, f"{old} stands there {touched} times"
    monkeypatch.setattr(manifest, "asset_dir", lambda kind: copy)
    manifest.load_probe.cache_clear()
    try:
        yield
    finally:
        manifest.load_probe.cache_clear()
