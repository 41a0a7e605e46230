"""Runners of made-up devices, told to workers by name: GPU 1 gives other bits in one case, and hangs in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.errors import DeviceTimeout
from umma_probe.record.schema import Report, Target

if TYPE_CHECKING:
    from umma_probe.harness.sweep.case import CaseSpec


def run(case: CaseSpec, target: str) -> Report:
    kind = target.partition(":")[0]
    report = Report("run", case.probe, dict(case.params), Target(kind, "stub", "sm_90a"))
    n = case.params["n"]
    bits = "other" if target == "cuda:1" and n == 16 else "usual"
    if target == "cuda:1" and n == 24:
        raise DeviceTimeout("kernel 'wgmma': not finished after 1 s")
    report.outputs = {"row pass: d": f"{bits} {n}"}
    return report
