"""Every case on every GPU of a host: which one differs from the others.

The bring-up question for a whole board. GPUs of one kind with one driver run the same cubins on the same operands, so
verdict and outputs must be the same on all. With three or more the odd one out is named; of two, both are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError, ExitCode
from umma_probe.harness.sweep.engine import Engine
from umma_probe.harness.sweep.journal import CaseRecord, Journal, default_state_dir
from umma_probe.harness.sweep.outcome import CaseResult
from umma_probe.harness.sweep.worker import Runner, run_case
from umma_probe.harness.worker_process import GRACE_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from umma_probe.harness.sweep.case import SweepCase
    from umma_probe.harness.sweep.run import SweepPlan, Watcher
    from umma_probe.harness.sweep.targets import TargetPlan


@dataclass(frozen=True)
class DeviceCase:
    """One case on all devices."""

    case: SweepCase
    results: Mapping[str, CaseResult]
    """By UUID."""

    @property
    def name(self) -> str:
        """As in a sweep."""
        return next(iter(self.results.values())).name

    def _trace(self, uuid: str) -> str:
        result = self.results[uuid]
        return repr((result.record.verdict, sorted((result.facts.get("outputs") or {}).items())))

    @property
    def odd(self) -> list[str]:
        """UUIDs of the devices that differ from most; all of them where no trace has a majority."""
        traces = {uuid: self._trace(uuid) for uuid in self.results}
        (usual, count), *others = Counter(traces.values()).most_common()
        if not others:
            return []
        majority = 2 * count > len(traces)
        return [uuid for uuid, trace in traces.items() if not majority or trace != usual]

    @property
    def ok(self) -> bool:
        """The same on all devices, and as expected."""
        return not self.odd and all(result.ok for result in self.results.values())


@dataclass(frozen=True)
class DeviceComparison:
    """All cases on all devices."""

    name: str
    target: TargetPlan
    cases: Sequence[DeviceCase]

    @property
    def odd(self) -> dict[str, int]:
        """UUID to the number of cases in which that device differs."""
        counts = dict.fromkeys(self.target.uuids, 0)
        for case in self.cases:
            for uuid in case.odd:
                counts[uuid] += 1
        return counts

    @property
    def exit_code(self) -> ExitCode:
        """0 if all devices did the same, as expected."""
        return ExitCode.OK if all(case.ok for case in self.cases) else ExitCode.DIFFERS

    def lines(self) -> list[str]:
        """In words: one line a device, then the cases that are not the same everywhere."""
        found = []
        for worker, uuid in zip(self.target.workers, self.target.uuids, strict=True):
            bad = sum(not case.results[uuid].ok for case in self.cases)
            differs = f"differs in {self.odd[uuid]} of {len(self.cases)} cases" if self.odd[uuid] else "as the others"
            found.append(f"{worker} {uuid}: {differs}" + (f", {bad} not as expected" if bad else ""))
        found += [f"{case.name}: differs on {', '.join(case.odd)}" for case in self.cases if case.odd]
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "schema_version": 1,
            "command": "sweep",
            "name": self.name,
            "target": {"name": self.target.name, "arch": self.target.arch, "driver": self.target.driver},
            "verdict": "pass" if self.exit_code is ExitCode.OK else "fail",
            "devices": [{"target": worker, "uuid": uuid, "differs_in": self.odd[uuid]}
                        for worker, uuid in zip(self.target.workers, self.target.uuids, strict=True)],
            "cases": [{"case": case.name, "odd": case.odd,
                       "verdicts": {uuid: result.record.verdict for uuid, result in case.results.items()}}
                      for case in self.cases],
        }  # fmt: skip


def compare_devices(
    plan: SweepPlan,
    *,
    watcher: Watcher,
    state_dir: Path | None = None,
    runner: Runner = run_case,
    grace_s: float = GRACE_S,
) -> DeviceComparison:
    """Run every case once on each device; nothing is taken from earlier runs.

    :raises ConfigError: there are not at least two devices.
    """
    workers = plan.target.workers
    if len(workers) < 2:
        raise ConfigError(f"there is {len(workers)} device to compare, must be at least 2", hint="--target cuda:all")
    jobs, pins, places = [], {}, {}
    for worker, uuid in zip(workers, plan.target.uuids, strict=True):
        for case, digest in zip(plan.cases, plan.digests, strict=True):
            job = f"{digest}-{uuid}"
            jobs.append((case.spec, job))
            pins[job], places[job] = worker, (case, uuid)
    records: dict[str, CaseRecord] = {}
    watcher.begin(len(jobs), 0, plan.target)

    def finished(record: CaseRecord) -> None:
        records[record.digest] = record
        watcher.finished(CaseResult(places[record.digest][0], record))

    journal = Journal((state_dir or default_state_dir()) / f"devices-{plan.journal_name}")
    try:
        journal.clear()
        Engine(journal, workers, len(workers), runner, grace_s, pins).run(jobs, finished)
    finally:
        journal.close()
    cases = [
        DeviceCase(case, {uuid: CaseResult(case, records[f"{digest}-{uuid}"]) for uuid in plan.target.uuids})
        for case, digest in zip(plan.cases, plan.digests, strict=True)
    ]
    return DeviceComparison(plan.config.name, plan.target, cases)
