"""What a sweep found: each case against what was expected of it, and all of it in one result with one exit code.

The exit code is 0 if every case came out as expected, 1 if one ran and came out otherwise, else that of the worst that
kept a case from running to its end. An open question is answered by any outcome that it foresees. On the model the
answer is what the model assumes, and it is called so: it settles nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ExitCode
from umma_probe.record.expectations import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umma_probe.harness.sweep.case import Answer, SweepCase
    from umma_probe.harness.sweep.journal import CaseRecord
    from umma_probe.harness.sweep.targets import TargetPlan

SCHEMA_VERSION = 1
_WORST_FIRST = (ExitCode.INTERNAL, ExitCode.ENVIRONMENT, ExitCode.USAGE, ExitCode.FAULT, ExitCode.HANG,
                ExitCode.UNDECIDED)  # fmt: skip


@dataclass(frozen=True)
class CaseResult:
    """One row."""

    case: SweepCase
    record: CaseRecord

    @property
    def name(self) -> str:
        """``tmem-layout m=64 n=128``; unique within a config."""
        return f"{self.case.group}: {self.case.label}"

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The report, or as much of one as a case without a report has."""
        return self.record.report or {"verdict": self.record.verdict}

    @cached_property
    def answer(self) -> Answer | None:
        """Of a question: the first outcome that fits."""
        for answer in self.case.answers:
            if all(entry.holds(self.facts) for entry in answer.when):
                return answer
        return None

    @property
    def ok(self) -> bool:
        """As expected; for a question, as foreseen."""
        if self.case.question:
            return self.answer is not None
        return all(entry.holds(self.facts) for entry in self.case.expect)

    @property
    def code(self) -> ExitCode:
        """Its share of the exit code."""
        if self.ok:
            return ExitCode.OK
        code = ExitCode(self.record.exit_code)
        return ExitCode.DIFFERS if code == ExitCode.OK else code

    @property
    def state(self) -> str:
        """One word for a table: ``pass`` if as expected, ``answered`` for a question, else what happened."""
        if self.case.question:
            return "answered" if self.ok else "unforeseen"
        if self.ok:
            return "pass"
        return self.record.verdict if self.record.verdict != "pass" else "fail"

    @property
    def detail(self) -> str:
        """Why it is not as expected, in one line; for a question, its answer."""
        if self.answer is not None:
            return self.answer.says
        if self.record.message:
            return self.record.message.splitlines()[0]
        if self.ok:
            return ""
        diagnosis = self.facts.get("diagnosis") or {}
        reasons = [f"{entry.key} is {entry.actual(self.facts)}, must be {str(entry).removeprefix(entry.key + ' ')}"
                   for entry in self.case.expect if not entry.holds(self.facts)]  # fmt: skip
        failed = [f"{check['name']}: {check['actual']}, expected {check['expected']}"
                  for check in self.facts.get("checks", []) if check["verdict"] != "pass"]  # fmt: skip
        if self.case.question:
            reasons = [f"no foreseen outcome: verdict {self.record.verdict}"]
        return diagnosis.get("cause") or "; ".join(failed[:2]) or "; ".join(reasons)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        spec = self.case.spec
        data = {
            "group": self.case.group,
            "label": self.case.label,
            "probe": spec.probe,
            "params": spec.params,
            "policy": spec.policy,
            "seed": spec.seed,
            "state": self.state,
            "ok": self.ok,
            "expected": [str(entry) for entry in self.case.expect],
            "verdict": self.record.verdict,
            "detail": self.detail,
            "message": self.record.message,
            "seconds": self.record.seconds,
            "report": self.record.report,
        }
        if self.case.question:
            data["question"] = self.case.question
            data["answer"] = self.answer.says if self.answer else None
        return data


@dataclass(frozen=True)
class SweepResult:
    """All rows in the order of the config."""

    name: str
    title: str
    target: TargetPlan
    results: Sequence[CaseResult]
    environment: Mapping[str, Any]

    @property
    def exit_code(self) -> ExitCode:
        """See the module."""
        codes = {result.code for result in self.results}
        if ExitCode.DIFFERS in codes:
            return ExitCode.DIFFERS
        return next((code for code in _WORST_FIRST if code in codes), ExitCode.OK)

    @property
    def verdict(self) -> str:
        """The worst row's, ``pass`` if every row is as expected."""
        order = ("pass", "fail", "undecided", "hang", "fault", "error")
        bad = [result.record.verdict for result in self.results if not result.ok]
        return max((verdict if verdict != "pass" else "fail" for verdict in bad), key=order.index, default="pass")

    @property
    def counts(self) -> dict[str, int]:
        """State to number of rows."""
        return dict(Counter(result.state for result in self.results))

    def groups(self) -> dict[str, list[CaseResult]]:
        """Rows by entry, in order."""
        found: dict[str, list[CaseResult]] = {}
        for result in self.results:
            found.setdefault(result.case.group, []).append(result)
        return found

    def questions(self) -> list[tuple[str, list[CaseResult]]]:
        """Each question with its rows."""
        found: dict[str, list[CaseResult]] = {}
        for result in self.results:
            if result.case.question:
                found.setdefault(result.case.question, []).append(result)
        return list(found.items())

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        target = {
            key: value for key, value in asdict(self.target).items() if key != "workers" and value not in (None, ())
        }
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "sweep",
            "name": self.name,
            "title": self.title,
            "target": target,
            "verdict": self.verdict,
            "exit_code": int(self.exit_code),
            "total": len(self.results),
            "counts": self.counts,
            "cases": [result.to_json() for result in self.results],
            "environment": dict(self.environment),
        }


def answer_word(target: TargetPlan) -> str:
    """Where an answer is from."""
    return "on the model" if target.on_model else "on silicon"


def expected_text(result: CaseResult) -> str:
    """What was expected, for a table."""
    if result.case.question:
        return "any of its answers"
    verdicts = [entry for entry in result.case.expect if entry.key == "verdict" and entry.rule == "is"]
    if len(verdicts) == len(result.case.expect) == 1:
        return shown(verdicts[0].wanted)
    return "; ".join(map(str, result.case.expect))
