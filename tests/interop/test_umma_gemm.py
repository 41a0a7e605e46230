"""A GEMM in every accumulator layout, swizzle and source of A, against NumPy, under every policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from umma_gemm import GEMMS, UNFENCED, Gemm

from umma_probe.harness.launch_case.report import exec_case

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
