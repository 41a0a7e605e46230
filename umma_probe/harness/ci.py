"""A bring-up job: the environment, sweeps, the model beside them, and a folder of results. The same in and out of CI.

On a GPU every config runs twice, on the GPU and on the model, and the two are compared case by case. The job passes if
every case is as expected, and model and silicon agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from umma_probe.errors import DeviceUnavailable, ExitCode
from umma_probe.gpu.info import Absent, probe_environment
from umma_probe.harness.sweep.run import plan_sweep, run_sweep
from umma_probe.harness.sweep.witnesses import Comparison, compare

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from umma_probe.harness.sweep.outcome import SweepResult
    from umma_probe.harness.sweep.run import SweepPlan, Watcher

_WORST_FIRST = (ExitCode.DIFFERS, ExitCode.INTERNAL, ExitCode.ENVIRONMENT, ExitCode.USAGE, ExitCode.FAULT,
                ExitCode.HANG, ExitCode.UNDECIDED)  # fmt: skip


@dataclass(frozen=True)
class JobResult:
    """Everything that ran."""

    sweeps: Sequence[SweepResult]
    comparisons: Sequence[Comparison]

    @property
    def exit_code(self) -> ExitCode:
        """1 if anything differs, else the worst that kept a case from running to its end."""
        codes = {sweep.exit_code for sweep in self.sweeps}
        if any(comparison.disagreeing for comparison in self.comparisons):
            codes.add(ExitCode.DIFFERS)
        return next((code for code in _WORST_FIRST if code in codes), ExitCode.OK)

    @property
    def verdict(self) -> str:
        """``pass`` or ``fail``."""
        return "pass" if self.exit_code is ExitCode.OK else "fail"

    def failures(self) -> list[str]:
        """What is not as it should be, a line each."""
        found = [f"{sweep.name}: {entry.name}: {entry.state}: {entry.detail}"
                 for sweep in self.sweeps for entry in sweep.results if not entry.ok]  # fmt: skip
        for comparison in self.comparisons:
            for entry in comparison.disagreeing:
                said = f"silicon {entry.silicon.record.verdict}, model {entry.model.record.verdict}, {entry.bits}"
                found.append(f"{comparison.name}: {entry.silicon.name}: {said}")
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain data, without the cases' reports (they lie beside)."""
        return {
            "schema_version": 1,
            "command": "ci",
            "verdict": self.verdict,
            "exit_code": int(self.exit_code),
            "failures": self.failures(),
            "sweeps": [{"name": sweep.name, "verdict": sweep.verdict, "counts": sweep.counts} for sweep in self.sweeps],
            "comparisons": [{"config": entry.name, "cases": len(entry.testimonies), "counts": entry.counts,
                             "disagreeing": len(entry.disagreeing)} for entry in self.comparisons],
        }  # fmt: skip


def plan_job(configs: Sequence[Path], *, target: str, arch: str, require: str) -> list[SweepPlan]:
    """Check everything; nothing runs.

    :param require: an architecture that a GPU of this machine must have; empty for none.
    :raises ConfigError: a config is wrong.
    :raises DeviceUnavailable: the target is not here, or no GPU runs code for ``require``.
    """
    if require:
        found = probe_environment().first_gpu(require)
        if isinstance(found, Absent):
            raise DeviceUnavailable(f"{require} is required: {found.reason}", hint=found.fix)
    return [plan_sweep(path, target=target, arch=arch) for path in configs]


def run_job(
    plans: Sequence[SweepPlan], *, watcher: Watcher, state_dir: Path, jobs: int | None = None, beside: bool = True
) -> JobResult:
    """Run the sweeps, on a GPU each on the model too.

    :param state_dir: where the journals lie; an interrupted job goes on.
    :param beside: false leaves the model out.
    """
    sweeps, comparisons = [], []
    for plan in plans:
        result = run_sweep(plan, watcher=watcher, jobs=jobs, state_dir=state_dir)
        sweeps.append(result)
        if plan.target.on_model or not beside:
            continue
        modelled = plan_sweep(plan.config.path, target="model", arch=plan.target.arch)
        comparisons.append(compare(result, run_sweep(modelled, watcher=watcher, jobs=jobs, state_dir=state_dir)))
    return JobResult(sweeps, comparisons)
