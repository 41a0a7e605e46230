"""The GPU self-test, a case a test; each runs in a process of its own."""

from __future__ import annotations

import pytest

from umma_probe.gpu.info import probe_environment
from umma_probe.gpu.selftest import run_isolated
from umma_probe.gpu.selftest_cases import CASES


@pytest.fixture(scope="module")
def _gpu() -> None:
    environment = probe_environment()
    if environment.no_gpu is not None:
        pytest.skip(environment.no_gpu.reason)
    if environment.gpus[0].compute_capability < (9, 0):
        pytest.skip(f"GPU 0 is {environment.gpus[0].arch}: the self-test needs sm_90 or later")


@pytest.mark.gpu
@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize("name", list(CASES))
def test_case(name: str) -> None:
    outcome = run_isolated(name)
    assert outcome["verdict"] == "pass", outcome["detail"]
