"""``umma-probe sweep``: exit codes, formats, resumption; the probe is a stand-in that the case's options steer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree

import pytest

from umma_probe.cli.main import run
from umma_probe.gpu.info import Absent
from umma_probe.harness.sweep import run as sweep_run
from umma_probe.harness.sweep.case import CaseSpec
from umma_probe.harness.sweep.journal import Journal
from umma_probe.harness.sweep.worker import Job, Runner, outcome
from umma_probe.record.schema import Occupancy, Report, Target

Cli = Callable[..., tuple[int, str, str]]

VERDICTS = {8: "pass", 16: "fail", 24: "undecided", 32: "hang", 40: "fault", 48: "error"}
"""What the stand-in answers for N."""


def answer(case: CaseSpec, target: str) -> Report:
    verdict = VERDICTS[case.params["n"]]
    return Report("run", case.probe, dict(case.params), Target(target, "stub", "sm_100a"), verdict=verdict,
                  occupancy=Occupancy(zero_columns="32-35"))  # fmt: skip


class Serial:
    """The engine without processes; can be interrupted after so many cases."""

    ran: ClassVar[list[str]] = []
    patience = 1000

    def __init__(self, journal: Journal, targets: object, jobs: int, runner: Runner, grace_s: float) -> None:
        self.journal, self.runner = journal, answer

    def run(self, jobs: list[Job], on_finish: Callable[..., None]) -> None:
        for done, (spec, digest) in enumerate(jobs):
            if done == Serial.patience:
                raise KeyboardInterrupt
            record = outcome(spec, digest, self.runner, "model")
            Serial.ran.append(f"n={spec.params['n']}")
            self.journal.append(record)
            on_finish(record)


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setattr(sweep_run, "Engine", Serial)
    monkeypatch.setattr(Serial, "ran", [])
    monkeypatch.setattr(Serial, "patience", 1000)

    def call(config: str, *options: str) -> tuple[int, str, str]:
        path = tmp_path / "c.yaml"
        path.write_text(config)
        with pytest.raises(SystemExit) as left:
            run(["sweep", str(path), "--target", "model", "--state", str(tmp_path / "state"), *options])
        out, err = capsys.readouterr()
        return int(str(left.value.code)), out, err

    return call


def _config(n: object, more: str = "") -> str:
    return f"title: A title\ncases:\n  - {{probe: tmem-layout, options: {{n: {n}}}{more}}}\n"


@pytest.mark.parametrize(
    ("n", "code"),
    [([8], 0), ([8, 16], 1), ([24, 8], 4), ([24, 32], 5), ([32, 40, 24], 6), ([40, 48], 70), ([16, 40, 48, 24], 1)],
)
def test_exit_code_is_1_for_any_failure_else_the_worst(cli: Cli, n: list[int], code: int) -> None:
    assert cli(_config(n))[0] == code


@pytest.mark.parametrize(
    ("n", "expect", "code"),
    [
        (16, "fail", 0),
        (40, "fault", 0),
        (8, "fault", 1),
        (16, '{verdict: fail, occupancy.zero_columns: "32-35"}', 0),
        (16, '{verdict: fail, occupancy.zero_columns: ""}', 1),
    ],
)
def test_what_is_expected_is_no_failure(cli: Cli, n: int, expect: str, code: int) -> None:
    assert cli(_config(n, f", expect: {expect}"))[0] == code


def test_text(cli: Cli) -> None:
    code, out, err = cli(_config([8, 16]))
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == "c  A title"
    assert lines[-1] == "fail: 2 cases, 1 pass, 1 fail"
    assert [line.split()[:4] for line in lines if "n=" in line] == [
        ["tmem-layout", "n=8", "pass", "pass"], ["tmem-layout", "n=16", "pass", "fail"]
    ]  # fmt: skip
    assert "fail: tmem-layout: n=16" in err


def test_json_has_every_report(cli: Cli) -> None:
    code, out, _ = cli(_config([8, 16]), "--json")
    data = json.loads(out)
    assert (code, data["exit_code"], data["verdict"], data["total"]) == (1, 1, "fail", 2)
    assert data["counts"] == {"pass": 1, "fail": 1}
    assert [(case["label"], case["ok"], case["report"]["verdict"]) for case in data["cases"]] == [
        ("n=8", True, "pass"), ("n=16", False, "fail")
    ]  # fmt: skip
    assert (data["target"]["kind"], data["target"]["arch"]) == ("model", "sm_100a")


def test_junit(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "report.xml"
    code, out, _ = cli(_config([8, 16, 24, 40]), "--format", "junit", "-o", str(file))
    assert (code, out) == (1, "")
    root = ElementTree.parse(file).getroot()
    counts = {name: root.get(name) for name in ("tests", "failures", "skipped", "errors")}
    assert counts == {"tests": "4", "failures": "1", "skipped": "1", "errors": "1"}
    assert [[child.tag for child in case] for case in root.iter("testcase")] == [
        [],
        ["failure"],
        ["skipped"],
        ["error"],
    ]


@pytest.mark.parametrize("format_", ["markdown", "html"])
def test_documents_have_every_case(cli: Cli, format_: str) -> None:
    _, out, _ = cli(_config([8, 16]), "--format", format_)
    assert "c: fail" in out
    assert out.count("n=16") == 2  # among those not as expected, and among all
    assert out.count("n=8") == 1


QUESTION = """\
title: t
cases:
  - probe: tmem-layout
    options: {n: [8, 16, 40]}
    question: Does it work?
    answers:
      - {when: {verdict: pass}, says: It does.}
      - {when: {verdict: fail, occupancy.zero_columns: 32-35}, says: It leaves zeros.}
"""


def test_questions_are_answered_and_surprises_told(cli: Cli) -> None:
    code, out, _ = cli(QUESTION, "--json")
    data = json.loads(out)
    assert [(case["state"], case["answer"]) for case in data["cases"]] == [
        ("answered", "It does."), ("answered", "It leaves zeros."), ("unforeseen", None)
    ]  # fmt: skip
    assert code == 6
    code, out, _ = cli(QUESTION.replace(", 40", ""), "--fresh")
    assert code == 0
    assert "on the model: It leaves zeros." in out
    assert "only a run on silicon settles a question" in out


def test_an_interrupted_sweep_goes_on_and_reports_the_same(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _config([8, 16, 24, 32])
    _, whole, _ = cli(config, "--format", "markdown")
    Serial.ran.clear()
    monkeypatch.setattr(Serial, "patience", 2)
    code, out, err = cli(config, "--format", "markdown")
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted"
    monkeypatch.setattr(Serial, "patience", 1000)
    code, out, err = cli(config, "--format", "markdown")
    assert "2 of 4 cases known from an earlier run" in err
    assert Serial.ran == ["n=8", "n=16", "n=24", "n=32"]
    assert out == whole


def test_a_finished_sweep_starts_afresh_unless_resumed(cli: Cli) -> None:
    config = _config([8, 16])
    for options, ran in (((), 2), ((), 4), (("--resume",), 4), (("--fresh",), 6)):
        cli(config, *options)
        assert len(Serial.ran) == ran, options


def test_what_changed_runs_again(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli(_config([8, 16]))
    cli(_config([8, 16, 24]), "--resume")  # one more case
    assert Serial.ran == ["n=8", "n=16", "n=24"]
    monkeypatch.setattr("umma_probe.harness.sweep.case.tool_digest", lambda: "another version")
    cli(_config([8, 16, 24]), "--resume")
    assert Serial.ran[3:] == ["n=8", "n=16", "n=24"]
    cli(_config([8, 16, 24]), "--resume", "--arch", "sm_103a")
    assert Serial.ran[6:] == ["n=8", "n=16", "n=24"]


def test_results_of_another_day_are_dropped(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli(_config([8, 16]))
    monkeypatch.setattr("umma_probe.harness.sweep.case.tool_digest", lambda: "another version")
    cli(_config([8]))
    (journal,) = (tmp_path / "state").iterdir()
    assert journal.read_text().count('"digest"') == 1


def test_dry_run_runs_nothing(cli: Cli) -> None:
    code, out, _ = cli(_config([8, 16]), "--dry-run")
    assert (code, Serial.ran) == (0, [])
    assert out.splitlines() == ["tmem-layout: n=8", "tmem-layout: n=16", "2 cases"]


def test_a_wrong_config_runs_nothing(cli: Cli) -> None:
    code, out, err = cli(_config([8, 12, 20]))
    assert (code, out, Serial.ran) == (2, "", [])
    assert "n=12" in err
    assert "n=20" in err
    assert "c.yaml:3" in err


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["sweep", "smokee"], 2, "did you mean smoke.yaml"),
        (["sweep", "absent/smoke.yaml"], 2, "there is no file absent/smoke.yaml"),
        (["sweep", "smoke", "--target", "gpu"], 2, "must be auto, model"),
        (["sweep", "smoke", "--target", "cuda:0,cuda:0"], 3, "no CUDA driver"),
        (["sweep", "smoke", "--arch", "sm_90a"], 3, "no Tensor Memory"),
    ],
)
def test_before_anything_runs(
    args: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from umma_probe.harness.sweep import targets

    absent = Absent("no CUDA driver", "install one")
    here = replace(targets.probe_environment(), driver=absent, gpus=(), no_gpu=absent)
    monkeypatch.setattr(targets, "probe_environment", lambda: here)
    with pytest.raises(SystemExit) as left:
        run(args)
    assert left.value.code == code
    assert message in capsys.readouterr().err
