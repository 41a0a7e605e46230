"""A GEMM in every accumulator layout, swizzle and source of A, against NumPy, under every policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from umma_gemm import GEMMS, UNFENCED, Gemm

from umma_probe.harness.launch_case.report import exec_case
from umma_probe.model.trace import Trace

POLICIES = ("eager", "lazy", "random:1")


@pytest.mark.parametrize("gemm", GEMMS, ids=lambda gemm: gemm.name)
def test_every_word(gemm: Gemm, tmp_path: Path) -> None:
    path = gemm.write(tmp_path)
    for policy in POLICIES:
        report, _, _ = exec_case(path, target="model", policy=policy, strict=True)
        assert [c for c in report.checks if c.verdict != "pass"] == [], policy
        assert {entry.rule for entry in report.reviews} <= {"idle-lanes"}, policy  # 64 rows: a load of all 128 lanes


def test_a_missing_proxy_fence_is_found(tmp_path: Path) -> None:
    report, _, _ = exec_case(UNFENCED.write(tmp_path), target="model", strict=True)
    assert {entry.rule for entry in report.sanitizer} == {"missing-proxy-fence"}


@pytest.mark.parametrize("gemm", [Gemm(), Gemm(mma_m=256, cta_group=2)], ids=lambda gemm: gemm.name)
@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_several_processes_leave_what_one_leaves(gemm: Gemm, policy: str, tmp_path: Path) -> None:
    path = gemm.write(tmp_path, (4, 2))
    runs = [exec_case(path, target="model", policy=policy, strict=True, jobs=jobs) for jobs in (1, 2, 4)]
    reports, results, devices = zip(*runs, strict=True)
    assert [device.alone for device in devices] == ["", "", ""]
    assert results[0] is not None
    for report, result, device in zip(reports, results, devices, strict=True):
        assert report.verdict == "pass"
        assert (report.checks, report.sanitizer, report.reviews) == (
            reports[0].checks, reports[0].sanitizer, reports[0].reviews)  # fmt: skip
        assert all((result.outputs[name] == data).all() for name, data in results[0].outputs.items())
        for cta, snapshot in devices[0].tmem_all().items():
            assert (device.tmem(cta).words == snapshot.words).all()
            assert (device.tmem(cta).writer == snapshot.writer).all()


def test_what_the_sanitizer_says_does_not_depend_on_processes(tmp_path: Path) -> None:
    path = UNFENCED.write(tmp_path)
    (one, _, _), (many, _, device) = (exec_case(path, target="model", strict=True, jobs=jobs) for jobs in (1, 4))
    assert many.sanitizer == one.sanitizer != []
    assert device.alone == "the sanitizer reports missing-proxy-fence"


def test_a_trace_does_not_depend_on_processes(tmp_path: Path) -> None:
    path = Gemm().write(tmp_path)
    traces = [Trace(), Trace()]
    for jobs, trace in zip((1, 4), traces, strict=True):
        exec_case(path, target="model", trace=trace, jobs=jobs)
    assert traces[0].text() == traces[1].text()
