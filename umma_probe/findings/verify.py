"""Re-runs what a finding rests on, and says whether each outcome is still the expected one.

Three witnesses. The *model* can only tell that it still behaves as recorded: it was written from the same documents.
*Silicon* may settle a finding: the run's ``settles`` says how. The *assembler* settles what is a question to it alone.
Whatever was not expected is for a person to judge. Nothing is written here; see ``edit``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from umma_probe.errors import ConfigError, DeviceUnavailable, UmmaProbeError
from umma_probe.gpu.assemble import assemble as ask_assembler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from umma_probe.findings.schema import Answer, Assembly, Bearing, Finding, Status
    from umma_probe.gpu.assemble import Assembled
    from umma_probe.record.schema import Report


class Runner(Protocol):
    """``harness.run.run_probe``, or a test's stand-in."""

    def __call__(
        self, name: str, params: dict[str, Any], *, target: str, arch: str, policy: str, force: bool
    ) -> Report:
        """Run a probe."""
        ...


class Assembler(Protocol):
    """``gpu.assemble.assemble``, or a test's stand-in."""

    def __call__(self, text: str, arch: str) -> Assembled:
        """Assemble PTX."""
        ...


class Witness(Enum):
    """What an outcome is from."""

    MODEL = "model"
    SILICON = "silicon"
    ASSEMBLER = "assembler"


@dataclass(frozen=True)
class Outcome:
    """One run, or one answer of the assembler."""

    label: str
    """Probe and parameters, or the PTX."""
    witness: Witness
    target: str
    holds: bool
    """As expected; where no document decides, as foreseen."""
    verdict: str
    """The report's; ``accepted`` or ``refused`` of the assembler."""
    expected: tuple[str, ...]
    broken: tuple[str, ...]
    """What was expected and what was found instead, for each expectation that does not hold."""
    means: str
    foretold: Status | None = None
    """The status that the finding has once silicon, or the assembler for its own questions, shows this."""

    @property
    def asked(self) -> bool:
        """Whether the assembler was asked; else a probe was run."""
        return self.witness is Witness.ASSEMBLER

    @property
    def settles(self) -> Status | None:
        """The status that this outcome gives the finding; the model gives none."""
        return self.foretold if self.holds and self.witness is not Witness.MODEL else None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "case": self.label,
            "witness": self.witness.value,
            "holds": self.holds,
            "verdict": self.verdict,
            "expected": list(self.expected),
            "broken": list(self.broken),
            "target": self.target,
            "means": self.means,
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
        """The status after these outcomes; one that nobody foresaw, or two that settle it differently, leave it."""
        found = {outcome.settles for outcome in self.outcomes} - {None}
        settled = next(iter(found)) if self.holds and len(found) == 1 else None
        return settled or self.finding.status

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
    assemble: Assembler = ask_assembler,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> Verified:
    """Re-run everything that bears on a finding. A GPU runs each case once, whatever its policies.

    :raises DeviceUnavailable: the target is not here.
    :raises ConfigError: a recorded case is not legal any more.
    """
    outcomes: list[Outcome] = []
    for outcome in _outcomes(finding, run, target, arch, assemble):
        outcomes.append(outcome)
        on_outcome(outcome)
    return Verified(finding, outcomes)


def _outcomes(finding: Finding, run: Runner, target: str, arch: str, assemble: Assembler) -> Iterator[Outcome]:
    for question in finding.assembles:
        yield _asked(finding, question, assemble)
    for bearing in finding.bears_on:
        for policy in bearing.policies:
            outcome = _run(finding, bearing, policy, run, target, arch)
            if outcome is None:
                break
            yield outcome
            if outcome.witness is Witness.SILICON:
                break


def _asked(finding: Finding, question: Assembly, assemble: Assembler) -> Outcome:
    try:
        answer = assemble(question.ptx, question.arch)
    except ConfigError as error:
        raise ConfigError(f"finding {finding.id}: {error.message}", hint=error.hint) from error
    expected = f"{'accepted' if question.accepted else 'refused'} for {question.arch}"
    if question.says:
        expected += f", '{question.says}'"
    found = "accepted" if answer.accepted else f"refused: {answer.message}"
    holds = answer.accepted == question.accepted and question.says in answer.message
    broken = () if holds else (f"expected {expected}, found {found}",)
    return Outcome(question.ptx, Witness.ASSEMBLER, f"{answer.assembler}, {question.arch}", holds,
                   found.partition(":")[0], (expected,), broken, question.means, question.settles)  # fmt: skip


def _run(finding: Finding, bearing: Bearing, policy: str, run: Runner, target: str, arch: str) -> Outcome | None:
    """One run; None where its only target is not here."""
    label = _label(bearing, policy)
    expected = tuple(map(str, bearing.expect)) or ("one of its answers",)
    try:
        report = run(bearing.probe, bearing.params, target=target, arch=bearing.arch or arch,
                     policy=policy, force=bearing.force)  # fmt: skip
    except DeviceUnavailable:
        if bearing.arch and target.startswith("cuda"):
            return None
        raise
    except ConfigError as error:
        raise ConfigError(f"finding {finding.id}: {error.message}", where=error.where, hint=error.hint) from error
    except UmmaProbeError as error:
        witness = Witness.SILICON if target.startswith("cuda") else Witness.MODEL
        return Outcome(label, witness, target, False, error.verdict, expected, (error.message,), "")
    witness = Witness.SILICON if report.target.kind == "cuda" else Witness.MODEL
    name = f"{report.target.name}, {report.target.arch}"
    data = report.to_json()
    broken: tuple[str, ...]
    if bearing.answers:
        answer = _answer(bearing, data)
        broken = () if answer else (f"no foreseen outcome: verdict {report.verdict}",)
        return Outcome(label, witness, name, not broken, report.verdict, expected, broken,
                       answer.says if answer else "", answer.settles if answer else None)  # fmt: skip
    broken = tuple(f"expected {entry}, found {entry.actual(data)}" for entry in bearing.expect if not entry.holds(data))
    return Outcome(label, witness, name, not broken, report.verdict, expected, broken, bearing.means, bearing.settles)


def _answer(bearing: Bearing, data: dict[str, Any]) -> Answer | None:
    return next((answer for answer in bearing.answers if all(entry.holds(data) for entry in answer.when)), None)


def _label(bearing: Bearing, policy: str) -> str:
    words = [f"{name.replace('_', '-')}={value}" for name, value in bearing.params.items()]
    if bearing.arch:
        words.append(f"arch={bearing.arch}")
    mark = [f"[{policy}]"] if policy != "eager" else []
    return " ".join([bearing.probe, *words, *mark])
