"""Re-runs what a finding rests on, and says whether each outcome is still the expected one.

A run of the model can only tell that the model still behaves as recorded. On silicon an expected outcome may settle a
finding: the run's ``settles`` says how. Whatever was not expected is for a person to judge. Nothing is written here;
see ``edit``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from umma_probe.errors import ConfigError, DeviceUnavailable, UmmaProbeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umma_probe.findings.schema import Bearing, Finding, Status
    from umma_probe.record.expectations import Expectation
    from umma_probe.record.schema import Report


class Runner(Protocol):
    """``harness.run.run_probe``, or a test's stand-in."""

    def __call__(
        self, name: str, params: dict[str, Any], *, target: str, arch: str, policy: str, force: bool
    ) -> Report:
        """Run a probe."""
        ...


@dataclass(frozen=True)
class Outcome:
    """One run."""

    bearing: Bearing
    policy: str
    holds: bool
    verdict: str
    broken: tuple[str, ...]
    """What was expected and what was found instead, for each expectation that does not hold."""
    target: str
    on_silicon: bool

    @property
    def label(self) -> str:
        """Probe and parameters."""
        words = [f"{name.replace('_', '-')}={value}" for name, value in self.bearing.params.items()]
        mark = [f"[{self.policy}]"] if self.policy != "eager" else []
        return " ".join([self.bearing.probe, *words, *mark])

    @property
    def settles(self) -> Status | None:
        """The status that this outcome gives the finding; only silicon can."""
        return self.bearing.settles if self.on_silicon and self.holds else None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "case": self.label,
            "holds": self.holds,
            "verdict": self.verdict,
            "expected": [str(entry) for entry in self.bearing.expect],
            "broken": list(self.broken),
            "target": self.target,
            "means": self.bearing.means,
            "settles": self.settles.value if self.settles else None,
        }


@dataclass(frozen=True)
class Verified:
    """A finding with all its outcomes."""

    finding: Finding
    outcomes: Sequence[Outcome]

    @property
    def holds(self) -> bool:
        """Whether every run came out as recorded; true where nothing can be run."""
        return all(outcome.holds for outcome in self.outcomes)

    @property
    def word(self) -> str:
        """``holds``, ``changed``, or ``no run`` where nothing can be run."""
        if not self.outcomes:
            return "no run"
        return "holds" if self.holds else "changed"

    @property
    def status(self) -> Status:
        """The status after these outcomes; runs that settle it differently leave it as it is."""
        found = {outcome.settles for outcome in self.outcomes} - {None}
        return next(iter(found)) or self.finding.status if len(found) == 1 else self.finding.status

    @property
    def target(self) -> str:
        """What the runs ran on."""
        return ", ".join(dict.fromkeys(outcome.target for outcome in self.outcomes))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "id": self.finding.id,
            "title": self.finding.title,
            "status": self.finding.status.value,
            "status_after": self.status.value,
            "result": self.word,
            "outcomes": [outcome.to_json() for outcome in self.outcomes],
        }


def verify(
    finding: Finding,
    run: Runner,
    *,
    target: str = "auto",
    arch: str = "",
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> Verified:
    """Re-run everything that bears on a finding. A GPU runs each case once, whatever its policies.

    :raises DeviceUnavailable: the target is not here.
    :raises ConfigError: a recorded case is not legal any more.
    """
    outcomes: list[Outcome] = []
    for bearing in finding.bears_on:
        for policy in bearing.policies:
            outcome = _run(finding, bearing, policy, run, target, arch)
            outcomes.append(outcome)
            on_outcome(outcome)
            if outcome.on_silicon:
                break
    return Verified(finding, outcomes)


def _run(finding: Finding, bearing: Bearing, policy: str, run: Runner, target: str, arch: str) -> Outcome:
    try:
        report = run(bearing.probe, bearing.params, target=target, arch=arch, policy=policy, force=bearing.force)
    except DeviceUnavailable:
        raise
    except ConfigError as error:
        raise ConfigError(f"finding {finding.id}: {error.message}", where=error.where, hint=error.hint) from error
    except UmmaProbeError as error:
        return Outcome(bearing, policy, False, error.verdict, (error.message,), target, target.startswith("cuda"))
    data = report.to_json()
    broken = tuple(_broken(entry, data) for entry in bearing.expect if not entry.holds(data))
    name = f"{report.target.name}, {report.target.arch}"
    return Outcome(bearing, policy, not broken, report.verdict, broken, name, report.target.kind == "cuda")


def _broken(entry: Expectation, data: dict[str, Any]) -> str:
    return f"expected {entry}, found {entry.actual(data)}"
