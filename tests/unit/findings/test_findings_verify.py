"""Re-checking a finding with a stand-in for the probe, and writing the outcome down without touching the text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from umma_probe.assets import asset_dir
from umma_probe.errors import ConfigError, Deadlock, DeviceUnavailable
from umma_probe.findings.edit import write_verification
from umma_probe.findings.loader import FOLDER, load_finding
from umma_probe.findings.schema import Answer, Assembly, Bearing, Finding, Status, Verification
from umma_probe.findings.verify import verify
from umma_probe.gpu.assemble import Assembled
from umma_probe.record.expectations import expectations
from umma_probe.record.schema import Occupancy, Report, Target

NOTE = Verification("2027-01-02", 'NVIDIA "B200", sm_100a', True, "0.1.0")


class Probe:
    """Answers with what it was told to, and remembers what it was asked."""

    def __init__(self, columns: str = "0-63", kind: str = "model", error: Exception | None = None) -> None:
        self.columns, self.kind, self.error = columns, kind, error
        self.asked: list[tuple[str, dict[str, Any], str, str]] = []

    def __call__(
        self, name: str, params: dict[str, Any], *, target: str, arch: str, policy: str, force: bool
    ) -> Report:
        self.asked.append((name, params, target, policy))
        if self.error:
            raise self.error
        return Report("run", name, params, Target(self.kind, "chip", "sm_100a"), verdict="pass",
                      occupancy=Occupancy(written_columns=self.columns))  # fmt: skip


@pytest.fixture
def finding(tmp_path: Path) -> Finding:
    path = tmp_path / "four-warps.yaml"
    path.write_text((asset_dir(FOLDER) / "four-warps.yaml").read_text() + "# the last word\n")
    bearing = Bearing("tmem-layout", {"m": 128}, ("eager", "lazy"),
                      tuple(expectations({"verdict": "pass", "occupancy.written_columns": "0-63"})), "means",
                      settles=Status.REFUTED)  # fmt: skip
    return replace(load_finding(path), bears_on=(bearing,))


def test_the_model_holds_under_every_policy_and_settles_nothing(finding: Finding) -> None:
    probe = Probe()
    result = verify(finding, probe, target="model")
    assert probe.asked == [("tmem-layout", {"m": 128}, "model", policy) for policy in ("eager", "lazy")]
    assert (result.holds, result.word, result.status) == (True, "holds", finding.status)


def test_silicon_settles_and_runs_once(finding: Finding) -> None:
    probe = Probe(kind="cuda")
    result = verify(finding, probe, target="cuda:0")
    assert len(probe.asked) == 1
    assert (result.word, result.status) == ("holds", Status.REFUTED)


def test_a_change_says_what_was_found_and_settles_nothing(finding: Finding) -> None:
    result = verify(finding, Probe("0-31,36-47,52-63", "cuda"))
    assert (result.holds, result.word, result.status) == (False, "changed", finding.status)
    assert result.outcomes[0].broken == ("expected occupancy.written_columns 0-63, found 0-31,36-47,52-63",)


def test_outcomes_that_disagree_leave_the_status(finding: Finding) -> None:
    other = replace(finding.bears_on[0], settles=Status.REPRODUCED)
    result = verify(replace(finding, bears_on=(*finding.bears_on, other)), Probe(kind="cuda"))
    assert result.status is finding.status


def test_a_run_that_changed_keeps_the_others_from_settling(finding: Finding) -> None:
    failing = replace(finding.bears_on[0], expect=tuple(expectations({"verdict": "fail"})), settles=None)
    result = verify(replace(finding, bears_on=(*finding.bears_on, failing)), Probe(kind="cuda"))
    assert (result.outcomes[0].settles, result.status) == (Status.REFUTED, finding.status)


def test_a_kernel_that_does_not_finish_is_a_change(finding: Finding) -> None:
    result = verify(finding, Probe(error=Deadlock("warp 0 waits")), target="model")
    assert (result.word, result.outcomes[0].verdict) == ("changed", "hang")


@pytest.mark.parametrize("error", [DeviceUnavailable("no GPU"), ConfigError("M is 96")])
def test_what_cannot_run_is_no_outcome(finding: Finding, error: Exception) -> None:
    with pytest.raises(type(error)):
        verify(finding, Probe(error=error))


def test_without_runs_nothing_changed(finding: Finding) -> None:
    result = verify(replace(finding, bears_on=()), Probe())
    assert (result.word, result.holds) == ("no run", True)


# -------------------------------------------------------------------------------------------- questions, the assembler


def open_ended(finding: Finding, arch: str = "") -> Finding:
    answers = (
        Answer(tuple(expectations({"verdict": "undecided"})), "the model does not run it"),
        Answer(tuple(expectations({"occupancy.written_columns": "0-63"})), "it works", Status.EXPLAINED),
        Answer(tuple(expectations({"verdict": "pass"})), "it runs"),
    )
    return replace(finding, bears_on=(Bearing("tmem-layout", {}, ("eager",), (), "", arch=arch, answers=answers),))


def test_the_first_answer_that_fits_says_what_it_means(finding: Finding) -> None:
    (outcome,) = verify(open_ended(finding), Probe(kind="cuda")).outcomes
    assert (outcome.holds, outcome.means, outcome.settles) == (True, "it works", Status.EXPLAINED)
    (outcome,) = verify(open_ended(finding), Probe("0-31", "cuda")).outcomes
    assert (outcome.holds, outcome.means, outcome.settles) == (True, "it runs", None)
    (outcome,) = verify(open_ended(finding), Probe(kind="model")).outcomes
    assert (outcome.means, outcome.settles) == ("it works", None)


def test_an_outcome_that_nobody_foresaw_is_a_change(finding: Finding) -> None:
    (bearing,) = open_ended(finding).bears_on
    result = verify(replace(finding, bears_on=(replace(bearing, answers=bearing.answers[:1]),)), Probe())
    assert result.word == "changed"
    assert result.outcomes[0].broken == ("no foreseen outcome: verdict pass",)


def test_a_run_for_another_gpu_is_left_out_and_a_missing_gpu_is_not(finding: Finding) -> None:
    gone = Probe(error=DeviceUnavailable("GPU 0 is sm_100"))
    assert verify(open_ended(finding, "sm_103a"), gone, target="cuda:0").word == "no run"
    with pytest.raises(DeviceUnavailable):
        verify(open_ended(finding), gone, target="cuda:0")


@pytest.mark.parametrize(
    ("accepted", "says", "answer", "broken"),
    [
        (True, "", Assembled(True, "", "NVRTC 1"), ()),
        (False, "range", Assembled(False, "out of range", "NVRTC 1"), ()),
        (True, "", Assembled(False, "bad", "NVRTC 1"), ("expected accepted for sm_100a, found refused: bad",)),
        (False, "range", Assembled(False, "bad", "NVRTC 1"), ("expected refused for sm_100a, 'range', found refused: "
                                                              "bad",)),
    ],
)  # fmt: skip
def test_the_assembler_settles_its_own_questions(
    finding: Finding, accepted: bool, says: str, answer: Assembled, broken: tuple[str, ...]
) -> None:
    asked = Assembly("trap;", "sm_100a", accepted, says, "means", Status.EXPLAINED)
    found = replace(finding, status=Status.OPEN, bears_on=(), assembles=(asked,))
    result = verify(found, Probe(), target="model", assemble=lambda text, arch: answer)
    assert result.outcomes[0].broken == broken
    assert result.status is (Status.OPEN if broken else Status.EXPLAINED)
    assert result.target == "NVRTC 1, sm_100a"


# --------------------------------------------------------------------------------------------------------------- edit


def test_only_status_and_verification_change(finding: Finding) -> None:
    before = finding.path.read_text()
    read = load_finding(finding.path)
    write_verification(read, Status.REPRODUCED, NOTE)
    after = finding.path.read_text()
    line = 'last_verified: {date: 2027-01-02, target: "NVIDIA \\"B200\\", sm_100a", holds: true, version: "0.1.0"}'
    assert after.rstrip("\n") == before.replace("status: explained", "status: reproduced").rstrip("\n") + f"\n{line}"
    found = load_finding(finding.path)
    assert found == replace(read, status=Status.REPRODUCED, last_verified=NOTE)
    # a second time replaces the line
    write_verification(found, Status.OPEN, replace(NOTE, holds=False))
    assert finding.path.read_text() == after.replace("status: reproduced", "status: open").replace("true", "false")
    assert [path.name for path in finding.path.parent.iterdir()] == ["four-warps.yaml"]


def test_a_folder_that_cannot_be_written(finding: Finding, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(ConfigError, match=r"cannot write .*four-warps\.yaml: Permission denied"):
        write_verification(load_finding(finding.path), Status.OPEN, NOTE)
