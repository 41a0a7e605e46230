"""The engine with real worker processes and a stub for the probe: whatever a case does, the others are not touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sweep_stubs

from umma_probe.errors import ConfigError, InternalError
from umma_probe.harness.sweep.case import CaseSpec
from umma_probe.harness.sweep.engine import Engine
from umma_probe.harness.sweep.journal import CaseRecord, Journal

HERE = Path(__file__).parent


@dataclass
class Bench:
    """Runs cases that are given as acts; the digest of case 3 is ``c3``."""

    folder: Path
    told: list[CaseRecord] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def path(self) -> Path:
        return self.folder / "journal.jsonl"

    def jobs(self, acts: list[str]) -> list[tuple[CaseSpec, str]]:
        timeout = {"hang": 0.0}
        return [
            (CaseSpec("stub", {"id": i, "act": act, "log": str(self.log)}, timeout_s=timeout.get(act, 60)), f"c{i}")
            for i, act in enumerate(acts)
        ]

    def run(self, acts: list[str], workers: int = 2, targets: tuple[str, ...] = ("model",)) -> dict[str, CaseRecord]:
        """Run what the journal does not have, as a sweep does; returns what the journal has then."""
        journal = Journal(self.path)
        try:
            known = journal.records()
            todo = [job for job in self.jobs(acts) if job[1] not in known]
            Engine(journal, targets, workers, sweep_stubs.run, grace_s=0.1).run(todo, self.told.append)
            return journal.records()
        finally:
            journal.close()

    def runs(self) -> list[int]:
        """The ids of all cases that ran, in order."""
        return [int(word) for word in self.log.read_text().split()] if self.log.exists() else []


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_one_bad_case_costs_itself_alone(bench: Bench) -> None:
    acts = ["pass", "segfault", "exit", "raise", "hang", "fault", "usage", "not modelled", "fail", "kill", "pass"]
    records = bench.run(acts)
    found = {digest: (record.verdict, record.exit_code) for digest, record in records.items()}
    assert found == {
        "c0": ("pass", 0), "c1": ("error", 70), "c2": ("error", 70), "c3": ("error", 70), "c4": ("hang", 5),
        "c5": ("fault", 6), "c6": ("error", 2), "c7": ("undecided", 4), "c8": ("fail", 1), "c9": ("error", 70),
        "c10": ("pass", 0),
    }  # fmt: skip
    assert "SIGSEGV" in records["c1"].message
    assert "status 7" in records["c2"].message
    assert "ZeroDivisionError: by zero" in records["c3"].message
    assert "not finished after 0 s" in records["c4"].message
    assert "SIGKILL" in records["c9"].message
    # told once each, and nothing ran twice but the case that was killed from outside
    assert sorted(record.digest for record in bench.told) == sorted(records)
    assert sorted(bench.runs()) == sorted([*range(11), 9])


def test_a_worker_killed_from_outside_costs_nothing(bench: Bench) -> None:
    records = bench.run(["pass", "kill once", "pass"], workers=1)
    assert [record.verdict for record in records.values()] == ["pass"] * 3


def test_one_worker_runs_all_cases_in_order(bench: Bench) -> None:
    records = bench.run(["pass"] * 5, workers=1)
    assert bench.runs() == [0, 1, 2, 3, 4]
    assert len({record.report["metrics"]["worker"] for record in records.values() if record.report}) == 1


def test_on_a_gpu_a_fault_costs_the_worker(bench: Bench) -> None:
    records = bench.run(["pass", "fault", "pass"], workers=1, targets=("cuda:0",))
    workers = {record.report["metrics"]["worker"] for record in records.values() if record.report}
    assert len(workers) == 2
    assert [record.verdict for record in records.values()] == ["pass", "fault", "pass"]


def test_what_a_case_prints_does_not_reach_stdout(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.run(["print"])
    out, err = capfd.readouterr()
    assert out == ""
    assert "kernel printf" in err
    assert "raw printf" in err


def test_killing_the_parent_loses_nothing_and_runs_nothing_twice(bench: Bench) -> None:
    """The third case kills the process of the sweep, with two results stored; the next run does only the rest."""
    script = (
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "from pathlib import Path\n"
        "import test_sweep_engine as t\n"
        "if __name__ == '__main__':\n"
        f"    t.Bench(Path({str(bench.folder)!r})).run(['pass', 'pass', 'kill parent once', 'pass'], workers=1)\n"
    )
    file = bench.folder / "killed.py"
    file.write_text(script)
    done = subprocess.run([sys.executable, file], env={**os.environ, "PYTHONPATH": str(HERE)}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert bench.runs() == [0, 1, 2]
    records = bench.run(["pass", "pass", "kill parent once", "pass"], workers=1)
    # the interrupted case ran again, no finished one did
    assert bench.runs() == [0, 1, 2, 2, 3]
    assert [record.verdict for record in records.values()] == ["pass"] * 4


def test_workers_that_cannot_start_end_the_sweep(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    here_only = types.ModuleType("here_only")
    monkeypatch.setitem(sys.modules, "here_only", here_only)
    exec("def run(case, target): ...", vars(here_only))
    journal = Journal(bench.path)
    with pytest.raises(InternalError, match="3 worker processes in a row ended with status 1"):
        Engine(journal, ("model",), 1, here_only.run, 0.1).run(bench.jobs(["pass"]), bench.told.append)
    journal.close()
    assert "No module named 'here_only'" in capfd.readouterr().err
    assert bench.told == []


# ------------------------------------------------------------------------------------------------------------- journal


def _record(digest: str, verdict: str = "pass") -> CaseRecord:
    return CaseRecord(digest, verdict, 0, report={"verdict": verdict, "title": "ü\n"})


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = Journal(path)
    journal.append(_record("a"))
    whole = path.read_bytes()
    for cut in range(2, len(whole) - 1):  # what a kill at any byte of the second line leaves, and others go on
        path.write_bytes(whole + whole.replace(b'"a"', b'"b"')[:cut])
        journal.append(_record("c"))
        assert set(journal.records()) - {"b"} == {"a", "c"}, cut
    journal.close()


def test_records_survive_unchanged_and_the_first_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.append(_record("a"))
    journal.append(_record("a", "fail"))
    assert journal.records() == {"a": _record("a")}
    assert not journal.is_done("s")
    journal.mark_done("s")
    assert journal.is_done("s")
    assert not journal.is_done("other")
    journal.clear()
    assert (journal.records(), journal.is_done("s")) == ({}, False)
    journal.close()


def test_a_journal_is_used_by_one_sweep_at_a_time(tmp_path: Path) -> None:
    first = Journal(tmp_path / "j.jsonl")
    with pytest.raises(ConfigError, match="another sweep is running"):
        Journal(tmp_path / "j.jsonl", patience_s=0.0)
    first.close()
    Journal(tmp_path / "j.jsonl", patience_s=0.0).close()


def test_foreign_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text('{"format":1,"digest":"x"}\n[1]\n{"format":99,"digest":"y","verdict":"pass","exit_code":0}\nnull\n')
    journal = Journal(path)
    assert journal.records() == {}
    journal.close()
