"""A finding: ``reports/findings/ID.yaml``.

Three things are kept apart: what was *observed* (facts of runs or texts), what was *concluded* from it (a claim), and
what the observation *cannot show*. A conclusion never changes an observation, and a re-check on the model never
settles what silicon does: the model was written from the same documents.

What re-checks a finding is a run of a probe (``bears_on``) or a question to NVIDIA's assembler (``assembles``). Where
the documents say what a run must give, it has an expectation; where nobody knows, answers, one for each outcome that
is foreseen, and what each would mean.

Status:

- ``observed``: seen, by somebody, once; nobody has explained or repeated it here.
- ``reproduced``: a recorded run on silicon shows it again.
- ``explained``: a known and documented cause accounts for all of it.
- ``refuted``: a recorded run on silicon contradicts the conclusion.
- ``open``: not decided; the finding says what would decide it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from umma_probe.record.expectations import Expectation
    from umma_probe.spec.sources import Ref


class Status(Enum):
    """How far a finding is; see the module."""

    OBSERVED = "observed"
    REPRODUCED = "reproduced"
    EXPLAINED = "explained"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True)
class Answer:
    """One way in which a run may come out whose outcome no document decides."""

    when: tuple[Expectation, ...]
    says: str
    """What it would mean for the finding."""
    settles: Status | None = None
    """The finding's status once silicon answers so; None if that settles nothing."""


@dataclass(frozen=True)
class Bearing:
    """One run that bears on the finding: it can be repeated, and its outcome is expected or one of ``answers``."""

    probe: str
    params: dict[str, Any]
    """Those that are given, by key."""
    policies: tuple[str, ...]
    expect: tuple[Expectation, ...]
    means: str
    """What it means for the finding that the expectation holds; empty where there are answers."""
    force: bool = False
    settles: Status | None = None
    """The finding's status once this holds on silicon; None if it settles nothing."""
    arch: str = ""
    """The only target that can run it; empty for any."""
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True)
class Assembly:
    """One question to the assembler, which is the witness itself: its answer needs no GPU."""

    ptx: str
    """With the registers of ``gpu.assemble.REGISTERS``."""
    arch: str
    accepted: bool
    says: str
    """Part of the message where it is refused."""
    means: str
    settles: Status | None = None
    """The finding's status once the assembler answers so; None if it settles nothing."""


@dataclass(frozen=True)
class Verification:
    """The last re-check that was written down."""

    date: str
    target: str
    holds: bool
    version: str
    """Of the tool."""


@dataclass(frozen=True)
class Finding:
    """One finding."""

    id: str
    title: str
    date: str
    """ISO date of the observation, or ``unknown``."""
    recorded: str
    """ISO date of the entry."""
    device: str
    origin: str
    """Who saw it, and what is left of it."""
    status: Status
    observed: tuple[str, ...]
    concluded: tuple[str, ...]
    cannot_show: tuple[str, ...]
    assessment: str
    """What we make of it, and why the status is what it is."""
    settled_by: str
    """The run or document that would decide it."""
    refs: tuple[Ref, ...]
    reports: tuple[str, ...]
    """Files under ``reports/``."""
    conflicts: tuple[str, ...]
    """Names of ``spec.shapes.SOURCE_CONFLICTS`` that it is about."""
    bears_on: tuple[Bearing, ...]
    assembles: tuple[Assembly, ...]
    last_verified: Verification | None
    path: Path

    @property
    def summary(self) -> str:
        """One line."""
        return f"{self.id}: {self.title} [{self.status.value}]"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        verified = self.last_verified
        return {
            "id": self.id,
            "title": self.title,
            "date": self.date,
            "recorded": self.recorded,
            "device": self.device,
            "origin": self.origin,
            "status": self.status.value,
            "observed": list(self.observed),
            "concluded": list(self.concluded),
            "cannot_show": list(self.cannot_show),
            "assessment": self.assessment,
            "settled_by": self.settled_by,
            "evidence": [str(ref) for ref in self.refs],
            "reports": list(self.reports),
            "conflicts": list(self.conflicts),
            "bears_on": [
                {
                    "probe": case.probe,
                    "params": case.params,
                    "policies": list(case.policies),
                    "expect": [str(entry) for entry in case.expect],
                    "means": case.means,
                    "arch": case.arch,
                    "answers": [{"when": list(map(str, answer.when)), "says": answer.says} for answer in case.answers],
                }
                for case in self.bears_on
            ],
            "assembles": [
                {"ptx": case.ptx, "arch": case.arch, "accepted": case.accepted, "means": case.means}
                for case in self.assembles
            ],
            "last_verified": None if verified is None else vars(verified),
        }
