"""Differences of reports, against hand-made pairs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from umma_probe.errors import RecordError
from umma_probe.report.diff import diff_documents, load_document

REPORT: dict[str, Any] = {
    "schema_version": 1,
    "command": "run",
    "probe": "tmem-layout",
    "params": {"m": 128, "n": 64},
    "target": {"kind": "model", "name": "CPU model", "arch": "sm_100a", "policy": "eager"},
    "seed": 0,
    "verdict": "pass",
    "checks": [{"name": "map", "verdict": "pass", "expected": "D", "actual": "D"}],
    "tmem": {
        "lanes": 128,
        "columns": 512,
        "cells": {"counts": {"right": 8192}, "rows": [{"lanes": "0-127", "runs": "R64 .448"}], "misplaced": []},
        "layout_expected": "D",
        "layout_recovered": "D",
        "words_sha256": ["aa", "bb"],
    },
    "occupancy": {"written_columns": "0-63", "zero_columns": ""},
    "metrics": {"cosine": 1.0, "max_ulp": 0.0},
    "timing": {"compile_s": 1.0, "run_s": 2.0},
    "environment": {"git": "abc"},
    "findings": [],
}


def _diff(folder: Path, b: Any, a: Any = REPORT, tolerance: float = 0.0) -> Any:
    for name, data in (("a", a), ("b", b)):
        (folder / f"{name}.json").write_text(json.dumps(data))
    return diff_documents(load_document(folder / "a.json"), load_document(folder / "b.json"), tolerance)


def _changed(**parts: Any) -> dict[str, Any]:
    """The report with changes, by path with ``__`` for dots."""
    data = copy.deepcopy(REPORT)
    for path, value in parts.items():
        *folders, last = path.split("__")
        place: Any = data
        for folder in folders:
            place = place[folder]
        place[last] = value
    return data


def _rows(found: Any) -> list[tuple[str, str, str]]:
    return [(row.key, row.a, row.b) for row in found]


def test_another_time_place_and_target_are_context(tmp_path: Path) -> None:
    other = _changed(timing__run_s=9.0, environment__git="def", target__kind="cuda", target__name="NVIDIA B200",
                     target__policy=None)  # fmt: skip
    (diff,) = _diff(tmp_path, other)
    assert diff.same
    assert ("target.name", "CPU model", "NVIDIA B200") in _rows(diff.context)
    assert ("environment.git", "abc", "def") in _rows(diff.context)


def test_outcome_and_experiment_count(tmp_path: Path) -> None:
    checks = [{"name": "map", "verdict": "fail", "expected": "D", "actual": "F"}, {"name": "new", "verdict": "pass"}]
    other = _changed(verdict="fail", params__n=128, occupancy__zero_columns="32-35", checks=checks)
    (diff,) = _diff(tmp_path, other)
    assert not diff.same
    assert _rows(diff.differences) == [
        ("params.n", "64", "128"),
        ("verdict", "pass", "fail"),
        ("checks.map.verdict", "pass", "fail"),
        ("checks.map.actual", "D", "F"),
        ("checks.new", "absent", "present"),
        ("occupancy.zero_columns", "empty", "32-35"),
    ]


def test_first_differing_cell_with_its_words(tmp_path: Path) -> None:
    cells = {
        "rows": [{"lanes": "0-1,3-127", "runs": "R64 .448"}, {"lanes": "2", "runs": "R32 04 R12 x1 R15 .448"}],
        "misplaced": [{"lane": 2, "column": 48, "expected": [2, 48], "actual": [2, 0], "words": ["0x00000001"]}],
    }
    (diff,) = _diff(tmp_path, _changed(tmem__cells=cells))
    cell = diff.first_cell
    assert (cell.lane, cell.column, cell.a, cell.b) == (2, 32, "right", "zero")
    assert (cell.cells, cell.columns, cell.lanes) == (5, "32-35,48", "2")
    # a cell that one report lists: its words are told
    cells["rows"][1]["runs"] = "R48 x1 R15 .448"
    (diff,) = _diff(tmp_path, _changed(tmem__cells=cells))
    cell = diff.first_cell
    assert (cell.lane, cell.column, cell.b, cell.a_words, cell.b_words) == (2, 48, "misplaced", [], ["0x00000001"])


def test_words_of_a_cell_that_both_list_and_words_that_none_lists(tmp_path: Path) -> None:
    def cells(word: str) -> dict[str, Any]:
        return {
            "rows": [{"lanes": "0-127", "runs": "?1 R63 .448"}],
            "misplaced": [{"lane": 5, "column": 0, "expected": None, "actual": None, "words": [word]}],
        }

    a, b = _changed(tmem__cells=cells("0x1")), _changed(tmem__cells=cells("0x2"))
    (diff,) = _diff(tmp_path, b, a)
    assert (diff.first_cell.lane, diff.first_cell.column, diff.first_cell.cells) == (5, 0, 1)
    (diff,) = _diff(tmp_path, _changed(tmem__words_sha256=["aa", "cc"]))
    assert _rows(diff.differences) == [("tmem.words_sha256", "aa, bb", "aa, cc")]
    assert "neither report lists" in diff.notes[0]


@pytest.mark.parametrize(
    ("cosine", "tolerance", "same"),
    [(0.999, 0.0, False), (0.999, 0.01, True), (0.98, 0.01, False), (float("nan"), 1.0, False)],
)
def test_metrics_within_a_tolerance(tmp_path: Path, cosine: float, tolerance: float, same: bool) -> None:
    (diff,) = _diff(tmp_path, _changed(metrics__cosine=cosine), tolerance=tolerance)
    assert diff.same is same


def test_the_sanitizer_is_compared_between_models_only(tmp_path: Path) -> None:
    finding = {"rule": "uninitialised-read", "message": "m", "where": "x.cu:1", "actor": "warp 0"}
    (diff,) = _diff(tmp_path, _changed(sanitizer=[finding]))
    assert _rows(diff.differences) == [("sanitizer", "no finding", "uninitialised-read at x.cu:1")]
    (diff,) = _diff(tmp_path, _changed(sanitizer=[finding], target__kind="cuda"))
    assert diff.same


def _sweep(**reports: Any) -> dict[str, Any]:
    cases = [{"group": "g", "label": label, "verdict": "hang", "report": report} for label, report in reports.items()]
    return {"schema_version": 1, "command": "sweep", "cases": cases}


def test_sweeps_case_by_case(tmp_path: Path) -> None:
    a = _sweep(one=REPORT, two=REPORT, three=None, four=REPORT)
    b = _sweep(one=REPORT, two=_changed(verdict="fail"), three=None, five=REPORT, four=None)
    diffs = _diff(tmp_path, b, a)
    assert [(diff.name, diff.same) for diff in diffs] == [
        ("g: one", True), ("g: two", False), ("g: four", False), ("g: three", True), ("g: five", False)
    ]  # fmt: skip
    by_name = {diff.name: _rows(diff.differences) for diff in diffs}
    assert by_name["g: four"] == [("verdict", "pass", "hang, without a report")]
    assert by_name["g: five"] == [("verdict", "no such case", "pass")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("not json", "no JSON"),
        ("[]", "must be an object"),
        ('{"schema_version": 99}', "schema_version is 99"),
        ('{"schema_version": 1}', "is missing"),
        ('{"command": "sweep", "schema_version": 9}', "schema_version is 9"),
        ('{"command": "sweep", "schema_version": 1}', "lacks 'cases'"),
        (json.dumps(_changed(verdict=3)), "verdict is 3"),
    ],
)
def test_files_that_are_no_report(tmp_path: Path, data: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(data)
    with pytest.raises(RecordError, match=message):
        load_document(path)


@pytest.mark.parametrize("runs", ["R64", "Rx .448", "Z64 .448", ""])
def test_damaged_cells(tmp_path: Path, runs: str) -> None:
    cells = {"rows": [{"lanes": "0-127", "runs": runs}], "misplaced": []}
    with pytest.raises(RecordError, match="tmem"):
        _diff(tmp_path, _changed(tmem__cells=cells))


def test_a_report_and_a_sweep_are_not_comparable(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be compared"):
        _diff(tmp_path, _sweep(one=REPORT))


def test_an_absent_file(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read"):
        load_document(tmp_path / "absent.json")
