"""Planted faults and an endless kernel in a sweep: each costs its own case, the GPU and the sweep go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import planted
import pytest

from umma_probe.gpu.info import probe_environment
from umma_probe.harness.sweep.case import CaseSpec
from umma_probe.harness.sweep.engine import Engine
from umma_probe.harness.sweep.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path

    from umma_probe.harness.sweep.journal import CaseRecord

VERDICTS = {"good": "pass", "address": "fault", "misaligned": "fault", "trap": "fault", "forever": "hang",
            "past_shared": "fault"}  # fmt: skip


@pytest.mark.gpu
def test_every_fault_costs_its_own_case(tmp_path: Path) -> None:
    environment = probe_environment()
    if environment.no_gpu is not None:
        pytest.skip(environment.no_gpu.reason)
    # every bad kernel stands between good ones
    order = [name for bad in planted.KERNELS[1:] for name in ("good", bad)] + ["good"]
    jobs = [(CaseSpec("planted", {"kernel": name, "number": i}, timeout_s=2.0), f"{i}") for i, name in enumerate(order)]
    found: dict[str, CaseRecord] = {}
    journal = Journal(tmp_path / "journal")
    try:
        engine = Engine(journal, ["cuda:0"], 1, planted.run)
        engine.run(jobs, lambda record: found.update({record.digest: record}))
    finally:
        journal.close()
    assert [found[f"{i}"].verdict for i in range(len(order))] == [VERDICTS[name] for name in order]
    text = {name: str(found[f"{i}"].report) for i, name in enumerate(order)}
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in text["address"]
    assert "not finished after 2 s" in text["forever"]
