"""Run a config: targets, cases, journal, engine, result."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from umma_probe.backends.target import required_arch
from umma_probe.harness.reporting import environment
from umma_probe.harness.sweep.config import load_config, preflight, with_arch
from umma_probe.harness.sweep.engine import Engine
from umma_probe.harness.sweep.journal import CaseRecord, Journal, default_state_dir
from umma_probe.harness.sweep.outcome import CaseResult, SweepResult
from umma_probe.harness.sweep.targets import TargetPlan, plan_targets
from umma_probe.harness.sweep.worker import Runner, run_case
from umma_probe.harness.worker_process import GRACE_S

if TYPE_CHECKING:
    from pathlib import Path

    from umma_probe.harness.sweep.case import SweepCase
    from umma_probe.harness.sweep.config import SweepConfig


class Watcher(Protocol):
    """Is told how the sweep goes; for a progress bar."""

    def begin(self, total: int, known: int, target: TargetPlan) -> None:
        """``known`` of ``total`` cases are results of an interrupted run."""
        ...

    def finished(self, result: CaseResult) -> None:
        """One more case is done."""
        ...


@dataclass(frozen=True)
class SweepPlan:
    """Everything that is decided before anything runs."""

    config: SweepConfig
    target: TargetPlan
    cases: list[SweepCase]
    digests: list[str]
    """Identity of each case."""

    @property
    def identity(self) -> str:
        """Of the sweep as a whole."""
        return hashlib.sha256("\n".join(sorted(set(self.digests))).encode()).hexdigest()

    @property
    def journal_name(self) -> str:
        """One journal for each config and target."""
        place = hashlib.sha256(str(self.config.path.resolve()).encode()).hexdigest()[:10]
        target = f"{self.target.name}-{self.target.arch}"
        return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{self.config.name}-{target}-{place}") + ".jsonl"


def plan_sweep(path: Path, *, target: str = "auto", arch: str = "") -> SweepPlan:
    """Read and check everything; nothing runs.

    :raises ConfigError: the config is wrong, with every fault.
    :raises DeviceUnavailable: the target is not here.
    """
    config = load_config(path)
    needs = {need for entry in config.entries for need in entry.contract.needs}
    devices = plan_targets(target, arch, needs=needs)
    only = arch or ("" if "tmem" in needs else required_arch(needs))
    cases = with_arch(config.cases(policies=devices.on_model), only)
    preflight(config, cases)
    key = devices.key()
    return SweepPlan(config, devices, cases, [case.spec.digest(key) for case in cases])


def run_sweep(
    plan: SweepPlan,
    *,
    watcher: Watcher,
    jobs: int | None = None,
    state_dir: Path | None = None,
    resume: bool | None = None,
    runner: Runner = run_case,
    grace_s: float = GRACE_S,
) -> SweepResult:
    """Run what has no result yet.

    :param resume: True takes every stored result, False none; None goes on with an interrupted sweep and starts a
        finished one afresh.
    :raises ConfigError: the journal cannot be used.
    """
    journal = Journal((state_dir or default_state_dir()) / plan.journal_name)
    try:
        wanted = set(plan.digests)
        records = {key: record for key, record in journal.records().items() if key in wanted}
        if resume is False or (resume is None and journal.is_done(plan.identity)):
            records.clear()
        if not records:  # and what the tool or the probes of another day left is of no more use
            journal.clear()
        by_digest = {digest: case for case, digest in zip(plan.cases, plan.digests, strict=True)}
        todo = [(case.spec, digest) for digest, case in by_digest.items() if digest not in records]
        watcher.begin(len(by_digest), len(by_digest) - len(todo), plan.target)

        def finished(record: CaseRecord) -> None:
            records[record.digest] = record
            watcher.finished(CaseResult(by_digest[record.digest], record))

        Engine(journal, plan.target.workers, jobs or plan.target.jobs, runner, grace_s).run(todo, finished)
        journal.mark_done(plan.identity)
    finally:
        journal.close()
    results = [CaseResult(case, records[digest]) for case, digest in zip(plan.cases, plan.digests, strict=True)]
    return SweepResult(plan.config.name, plan.config.title, plan.target, results, _environment())


def _environment() -> dict[str, Any]:
    return asdict(environment())
