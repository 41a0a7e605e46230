"""A wrong layout table is not believed: the machine is the other witness, and the shift between them is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from probe_runs import failed, run

from umma_probe.harness.suites import tmem_layout as suite
from umma_probe.layouts.tmem_accumulator import accumulator_map


@pytest.mark.parametrize(("by", "where"), [(1, "1 column before"), (3, "3 columns before")])
def test_a_map_that_is_columns_off(monkeypatch: pytest.MonkeyPatch, by: int, where: str) -> None:
    def shifted(*args: object, **options: object) -> object:
        right = accumulator_map(*args, **options)  # type: ignore[arg-type]
        return replace(right, column=right.column + by)

    monkeypatch.setattr(suite, "accumulator_map", shifted)
    report = run("tmem-layout", m=128, n=64)
    assert report.verdict == "fail"
    assert failed(report) >= {"missing", "misplaced", "unexpected"}
    assert report.diagnosis is not None
    assert report.diagnosis.cause == f"D as a whole lies {where} its documented place"
    assert report.occupancy is not None
    assert report.occupancy.missing_columns == ("64" if by == 1 else "64-66")


def test_a_map_of_another_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    def mirrored(*args: object, **options: object) -> object:
        right = accumulator_map(*args, **options)  # type: ignore[arg-type]
        return replace(right, column=right.column[:, ::-1])

    monkeypatch.setattr(suite, "accumulator_map", mirrored)
    report = run("tmem-layout", m=128, n=64)
    assert report.verdict == "fail"
    assert report.diagnosis is not None
    assert "as a whole" not in report.diagnosis.cause
