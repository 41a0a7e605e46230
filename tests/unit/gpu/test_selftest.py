from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from fake_cuda import B200, FakeDriver, FakeKernel, Status

from umma_probe.errors import ExitCode
from umma_probe.gpu import selftest
from umma_probe.gpu.device import GpuDevice
from umma_probe.gpu.selftest_cases import CASES

REPORT = Path(__file__).parents[3] / "reports" / "gpu-path-h200.json"


def test_the_stored_report_is_of_these_cases_and_they_passed() -> None:
    report = json.loads(REPORT.read_text())
    assert report["gpu"]["name"] == "NVIDIA H200"
    assert {case["name"] for case in report["cases"]} <= set(CASES)
    assert {case["verdict"] for case in report["cases"]} == {report["verdict"]} == {"pass"}


def test_a_wrong_result_fails_the_case() -> None:
    """The stand-in never computes, so the output keeps its input: every case that compares must notice."""
    kernel = FakeKernel(parameters=[(0, 8), (8, 8), (16, 4), (20, 4)])
    device = GpuDevice(0, FakeDriver(B200, kernels={"axpy": kernel}))
    with pytest.raises(selftest.Mismatch, match=r"expected 4\.0, actual 1\.0"):
        CASES["vector"].run(device)


def test_a_fault_that_does_not_come_fails_the_case() -> None:
    device = GpuDevice(0, FakeDriver(B200, kernels={"bad": FakeKernel(parameters=[(0, 8)])}))
    with pytest.raises(selftest.Mismatch, match="no DeviceError was raised"):
        CASES["fault-address"].run(device)


def test_a_fault_of_another_name_fails_the_case() -> None:
    driver = FakeDriver(B200, kernels={"bad": FakeKernel(parameters=[(0, 8)])})
    driver.event_statuses = [Status.CUDA_ERROR_ILLEGAL_ADDRESS]
    with pytest.raises(selftest.Mismatch, match=r"lacks .*MISALIGNED"):
        CASES["fault-misaligned"].run(GpuDevice(0, driver))


def test_without_a_gpu_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", FakeDriver())
    assert selftest.main([]) == ExitCode.ENVIRONMENT
    assert "no GPU is visible" in capsys.readouterr().err
