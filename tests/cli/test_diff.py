"""``umma-probe diff``: exit codes and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from umma_probe.cli.main import run

REPORT = {
    "schema_version": 1, "command": "run", "probe": "p", "params": {}, "seed": 0, "verdict": "pass",
    "target": {"kind": "model", "name": "CPU model", "arch": "sm_100a"}, "metrics": {"cosine": 0.5},
    "tmem": {"lanes": 128, "columns": 512, "cells": {"rows": [{"lanes": "0-127", "runs": "R64 .448"}]}},
}  # fmt: skip
HOLES = {"rows": [{"lanes": "0-127", "runs": "R32 04 R28 .448"}]}
OTHER = {
    **REPORT,
    "verdict": "fail",
    "metrics": {"cosine": 0.4},
    "tmem": {"lanes": 128, "columns": 512, "cells": HOLES},
}


def _diff(tmp_path: Path, capsys: pytest.CaptureFixture[str], b: object, *options: str) -> tuple[int, str, str]:
    (tmp_path / "a.json").write_text(json.dumps(REPORT))
    (tmp_path / "b.json").write_text(b if isinstance(b, str) else json.dumps(b))
    with pytest.raises(SystemExit) as left:
        run(["diff", str(tmp_path / "a.json"), str(tmp_path / "b.json"), *options])
    out, err = capsys.readouterr()
    return int(str(left.value.code)), out, err


def test_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _diff(tmp_path, capsys, REPORT)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "the same"


def test_different(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _diff(tmp_path, capsys, OTHER)
    assert code == 1
    assert "first differing cell: lane 0, column 32: A right, B zero" in out
    assert "512 cells differ: columns 32-35, lanes 0-127" in out
    assert out.splitlines()[-1] == "they differ"


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _diff(tmp_path, capsys, OTHER, "--json", "--tolerance", "0.5")
    data = json.loads(out)
    assert (code, data["same"]) == (1, False)
    assert data["differences"] == [{"key": "verdict", "a": "pass", "b": "fail"}]
    assert data["first_cell"]["column"] == 32


def test_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _diff(tmp_path, capsys, "{")
    assert (code, out) == (2, "")
    assert "b.json: no JSON" in err
