"""The parts of a report that every format words the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.record.schema import Verdict

if TYPE_CHECKING:
    from umma_probe.record.schema import Report

MEANS = {
    Verdict.PASS: "everything is as documented",
    Verdict.FAIL: "something differs from what is documented",
    Verdict.UNDECIDED: "the documents or the model leave it open",
    Verdict.HANG: "the kernel did not finish",
    Verdict.FAULT: "the kernel faulted",
    Verdict.ERROR: "a bug of umma-probe",
}


def target_line(report: Report) -> str:
    """``CPU model, sm_100a, NVRTC 13.5, policy eager (chosen by auto: no CUDA driver)``."""
    target = report.target
    parts = [target.name, target.arch]
    if target.nvrtc:
        parts.append(f"NVRTC {target.nvrtc}")
    if target.driver:
        parts.append(f"driver {target.driver}")
    if target.policy:
        parts.append(f"policy {target.policy}")
    reason = f" (auto took the model: {target.reason})" if target.reason else ""
    return ", ".join(parts) + reason


def parameters(report: Report) -> list[tuple[str, str]]:
    """Name and value, those that are off or unset left out."""
    shown = [(name, value) for name, value in report.params.items() if value is not None and value is not False]
    return [(name.replace("_", "-"), "on" if value is True else str(value)) for name, value in shown]


def set_lines(report: Report) -> list[tuple[str, str]]:
    """Column sets by name, ``-`` for an empty one; ``written`` and ``missing`` last."""
    occupancy = report.occupancy
    if occupancy is None:
        return []
    rows = [
        ("expected", occupancy.expected_columns),
        ("unexpected", occupancy.unexpected_columns),
        ("zero", occupancy.zero_columns),
        ("written", occupancy.written_columns),
        ("missing", occupancy.missing_columns),
    ]
    return [(name, columns or "-") for name, columns in rows]


def timing_line(report: Report) -> str:
    """``compiled in 0.31 s, ran in 0.42 s``."""
    return f"compiled in {report.timing.compile_s:.2f} s, ran in {report.timing.run_s:.2f} s"
