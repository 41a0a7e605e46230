"""Upper halves of a D of 16 bits: no document says whether an MMA clears them, so no verdict rests on them."""

import numpy as np
import pytest
from probe_runs import passes, run

from umma_probe.model.mma import tensor_core
from umma_probe.record.schema import Report

FORM = {"d_type": "f16", "n": 16}
WRITE = tensor_core._write


def noted(report: Report) -> str:
    return next(check.actual for check in report.checks if check.name == "upper-halves")


def keeping(call, index, slot, feed, columns, new) -> None:
    old = np.concatenate([call.launch.tmem.words[slot][lanes, columns] for lanes in feed.banks], axis=1)
    WRITE(call, index, slot, feed, columns, new & 0xFFFF | old & 0xFFFF0000)


def test_the_model_clears_them() -> None:
    report = run("idesc-map", kind="f16", a_type="f16", b_type="f16", **FORM)
    passes(report)
    assert noted(report) == "zero"


def test_a_machine_that_keeps_them_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_core, "_write", keeping)
    report = run("idesc-map", kind="f16", a_type="f16", b_type="f16", **FORM)
    passes(report)
    assert noted(report) == "not zero"


def test_lower_halves_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(call, index, slot, feed, columns, new) -> None:
        WRITE(call, index, slot, feed, columns, new ^ 1)

    monkeypatch.setattr(tensor_core, "_write", wrong)
    report = run("idesc-map", kind="f16", a_type="f16", b_type="f16", **FORM)
    assert next(check.verdict for check in report.checks if check.name == "bit-exact") == "fail"
