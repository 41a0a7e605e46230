"""Reports: the contract's keys, the way to JSON and back, and what is refused."""

import json

import pytest

from umma_probe.errors import RecordError
from umma_probe.record.schema import (
    Cells,
    Check,
    Diagnosis,
    LaneRows,
    MisplacedCell,
    Occupancy,
    Report,
    Target,
    TmemRecord,
)
from umma_probe.record.store import dumps, load, loads

STABLE = {
    "schema_version", "command", "probe", "params", "target", "seed", "verdict", "checks", "tmem", "occupancy",
    "diagnosis", "metrics", "timing", "environment", "findings",
}  # fmt: skip
OCCUPANCY = {
    "expected_columns", "written_columns", "missing_columns", "unexpected_columns", "zero_columns", "expected_lanes",
    "written_lanes", "misplaced_cells",
}  # fmt: skip


def full_report() -> Report:
    cells = Cells({"right": 4}, [LaneRows("0-1", "R2 .1")], [MisplacedCell(1, 0, [1, 0], None, ["0x00000000"])])
    return Report(
        command="run",
        probe="tmem-layout",
        params={"m": 128, "ws": False, "swizzle": None},
        target=Target("model", "CPU model", "sm_100a", "13.5"),
        verdict="fail",
        checks=[Check("layout", "fail", "D", "F")],
        tmem=TmemRecord(2, 3, cells, "D", "F"),
        occupancy=Occupancy(expected_columns="0-1"),
        diagnosis=Diagnosis("why", "certain", ["because"]),
        metrics={"cosine": 1.0},
    )


def test_the_contract_s_keys_are_there() -> None:
    data = json.loads(dumps(full_report()))
    assert data.keys() >= STABLE
    assert data["occupancy"].keys() >= OCCUPANCY
    assert {"lanes", "columns", "cells"} <= data["tmem"].keys()
    assert {"kind", "name", "arch", "nvrtc"} <= data["target"].keys()
    assert {"cause", "confidence", "evidence"} <= data["diagnosis"].keys()
    assert next(iter(data)) == "schema_version"


def test_sections_that_a_probe_lacks_are_left_out() -> None:
    data = json.loads(dumps(Report("exec", "k", {}, Target("model", "m", "sm_100a"))))
    assert not {"tmem", "occupancy", "diagnosis"} & data.keys()


def test_round_trip() -> None:
    assert loads(dumps(full_report())) == full_report()


def test_keys_of_later_versions_are_ignored() -> None:
    data = json.loads(dumps(full_report())) | {"novelty": 1}
    assert loads(json.dumps(data)) == full_report()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 99}, "schema_version is 99, must be 1"),
        ({"probe": 3}, "probe is 3, must be a text"),
        ({"checks": [{"verdict": "pass"}]}, r"checks\[0\]: name is missing"),
        ({"occupancy": {"misplaced_cells": "many"}}, "misplaced_cells is 'many', must be an integer"),
        ({"seed": True}, "seed is True"),
        ({"metrics": []}, "metrics is .*, must be an object"),
    ],
)
def test_damage_is_named(change: dict[str, object], message: str) -> None:
    data = json.loads(dumps(full_report())) | change
    with pytest.raises(RecordError, match=message):
        loads(json.dumps(data))


def test_what_is_no_report_is_refused(tmp_path) -> None:
    for text, message in (("{", "no JSON"), ("[]", "must be an object"), ("{}", "no report: it has no schema_version")):
        with pytest.raises(RecordError, match=message):
            loads(text)
    with pytest.raises(RecordError, match="cannot be read"):
        load(tmp_path / "absent.json")
