"""Two reports of the same experiment: what differs, and the first cell of Tensor Memory that does.

- What the run was for (command, probe, parameters) and what came out (verdict, checks, cells, column sets, metrics,
  diagnosis) are compared. Where and when it ran (target, timing, environment) is context: comparing the model with
  silicon is what this is for. The sanitizer is the model's alone and is compared between two runs of the model.
- Cells are compared by what they turned out to be, lane by lane; the words are known for those that a report lists. If
  all states agree and the words' digests do not, the words differ where no report lists them, and that is said.
- Two sweeps are compared case by case, under the names of their cases.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import RecordError
from umma_probe.record.expectations import ABSENT, look_up, shown
from umma_probe.record.schema import SCHEMA_VERSION, CellState, Report
from umma_probe.record.sets import format_set
from umma_probe.record.store import loads
from umma_probe.report.picture import states_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from umma_probe.record.schema import TmemRecord
    from umma_probe.report.picture import States

Json = dict[str, Any]

_SAME_EXPERIMENT = ("command", "probe", "seed")
_OUTCOME = ("verdict", "tmem.layout_expected", "tmem.layout_recovered", "diagnosis.cause")
_CONTEXT = ("target.kind", "target.name", "target.arch", "target.driver", "target.nvrtc", "target.policy",
            "environment.git")  # fmt: skip
_STATES = {state.value: state.name.lower() for state in CellState}


@dataclass(frozen=True)
class Difference:
    """One key that the two have different values for."""

    key: str
    a: str
    b: str


@dataclass(frozen=True)
class CellDifference:
    """The first cell, by lane and then column, that turned out differently."""

    lane: int
    column: int
    a: str
    b: str
    a_words: list[str]
    """Empty if the report does not list the cell."""
    b_words: list[str]
    cells: int
    """How many differ."""
    lanes: str
    columns: str


@dataclass
class ReportDiff:
    """What two reports differ in."""

    name: str = ""
    """Of the case, in a sweep."""
    differences: list[Difference] = field(default_factory=list)
    first_cell: CellDifference | None = None
    context: list[Difference] = field(default_factory=list)
    """Differences that are no finding: another target, another commit."""
    notes: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether nothing differs but the context."""
        return not self.differences and self.first_cell is None

    def to_json(self) -> Json:
        """Plain data."""
        return {"same": self.same, **asdict(self)}


# ----------------------------------------------------------------------------------------------------------- documents


@dataclass(frozen=True)
class Document:
    """A file with one report, or with a sweep's."""

    path: str
    reports: Mapping[str, Report]
    """By the case's name; one report has the empty name."""
    states: Mapping[str, str]
    """Of cases without a report, their verdict."""
    sweep: bool


def load_document(path: Path) -> Document:
    """Read a report or a sweep's result.

    :raises RecordError: unreadable, damaged, of another version, or neither of the two.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RecordError(f"{path}: cannot be read ({reason})") from error
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, dict) and data.get("command") == "sweep":
        return _sweep_document(str(path), data)
    return Document(str(path), {"": loads(text, str(path))}, {}, False)


def _sweep_document(path: str, data: Json) -> Document:
    if data.get("schema_version") != SCHEMA_VERSION:
        raise RecordError(f"{path}: schema_version is {data.get('schema_version')!r}, must be {SCHEMA_VERSION}")
    reports: dict[str, Report] = {}
    states: dict[str, str] = {}
    try:
        for case in data["cases"]:
            name = f"{case['group']}: {case['label']}"
            if case["report"] is None:
                states[name] = str(case["verdict"])
            else:
                reports[name] = loads(json.dumps(case["report"]), f"{path}: {name}")
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path}: a case of the sweep lacks {error}") from error
    return Document(path, reports, states, True)


def diff_documents(a: Document, b: Document, tolerance: float = 0.0) -> list[ReportDiff]:
    """Report against report, or each case of two sweeps, in the order of A; only-in-one is a difference.

    :raises RecordError: a report against a sweep.
    """
    if a.sweep != b.sweep:
        kinds = {True: "a sweep", False: "a report"}
        raise RecordError(f"{a.path} is {kinds[a.sweep]}, {b.path} is {kinds[b.sweep]}: they cannot be compared")
    names = dict.fromkeys([*a.reports, *a.states, *b.reports, *b.states])
    found = []
    for name in names:
        if name in a.reports and name in b.reports:
            diff = diff_reports(a.reports[name], b.reports[name], tolerance)
        else:
            states = [_bare_state(document, name) for document in (a, b)]
            diff = ReportDiff(differences=[Difference("verdict", *states)] if states[0] != states[1] else [])
        diff.name = name
        found.append(diff)
    return found


def _bare_state(document: Document, name: str) -> str:
    if name in document.reports:
        return document.reports[name].verdict
    return f"{document.states[name]}, without a report" if name in document.states else "no such case"


# ------------------------------------------------------------------------------------------------------------- reports


def diff_reports(a: Report, b: Report, tolerance: float = 0.0) -> ReportDiff:
    """Compare two reports.

    :param tolerance: relative, for metrics: ``|a - b| <= tolerance * max(|a|, |b|)`` is the same.
    """
    left, right = a.to_json(), b.to_json()
    diff = ReportDiff()
    diff.differences += _keys(left, right, _SAME_EXPERIMENT)
    diff.differences += _keys(left, right, [f"params.{name}" for name in dict.fromkeys([*a.params, *b.params])])
    diff.differences += _keys(left, right, _OUTCOME)
    diff.differences += _checks(a, b)
    sets = [key for data in (left, right) for key in data.get("occupancy", {})]
    diff.differences += _keys(left, right, [f"occupancy.{name}" for name in dict.fromkeys(sets)])
    diff.differences += _metrics(a.metrics, b.metrics, tolerance)
    if a.target.kind == b.target.kind == "model":
        diff.differences += _sanitizer(a, b)
    diff.context += _keys(left, right, _CONTEXT)
    _tmem(diff, a.tmem, b.tmem)
    return diff


def _keys(a: Json, b: Json, keys: tuple[str, ...] | list[str]) -> Iterator[Difference]:
    for key in keys:
        left, right = look_up(a, key), look_up(b, key)
        if left != right or (left is ABSENT) != (right is ABSENT):
            yield Difference(key, shown(left), shown(right))


def _checks(a: Report, b: Report) -> Iterator[Difference]:
    left, right = ({check.name: check for check in report.checks} for report in (a, b))
    for name in dict.fromkeys([*left, *right]):
        if name not in left or name not in right:
            # the sanitizer is the model's alone
            if name != "sanitizer" or a.target.kind == b.target.kind:
                yield Difference(f"checks.{name}", *("present" if name in side else "absent" for side in (left, right)))
            continue
        for part in ("verdict", "expected", "actual"):
            values = getattr(left[name], part), getattr(right[name], part)
            if values[0] != values[1]:
                yield Difference(f"checks.{name}.{part}", *map(shown, values))


def _metrics(a: Mapping[str, float], b: Mapping[str, float], tolerance: float) -> Iterator[Difference]:
    for name in dict.fromkeys([*a, *b]):
        left, right = a.get(name), b.get(name)
        if left is None or right is None:
            yield Difference(f"metrics.{name}", *("absent" if v is None else f"{v:.9g}" for v in (left, right)))
        elif not _close(left, right, tolerance):
            yield Difference(f"metrics.{name}", f"{left:.9g}", f"{right:.9g}")


def _close(a: float, b: float, tolerance: float) -> bool:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return True
    return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= tolerance * max(abs(a), abs(b))


def _sanitizer(a: Report, b: Report) -> Iterator[Difference]:
    left, right = ({f"{entry.rule} at {entry.where}" for entry in report.sanitizer} for report in (a, b))
    if left != right:
        yield Difference("sanitizer", *(", ".join(sorted(side)) or "no finding" for side in (left, right)))


# -------------------------------------------------------------------------------------------------------------- cells


def _tmem(diff: ReportDiff, a: TmemRecord | None, b: TmemRecord | None) -> None:
    if a is None or b is None:
        if a is not b:
            diff.differences.append(Difference("tmem", *("absent" if side is None else "present" for side in (a, b))))
        return
    if (a.lanes, a.columns) != (b.lanes, b.columns):
        sizes = (f"{side.lanes} lanes x {side.columns} columns" for side in (a, b))
        diff.differences.append(Difference("tmem", *sizes))
        return
    diff.first_cell = _first_cell(a, b)
    if diff.first_cell is None and a.words_sha256 != b.words_sha256:
        diff.differences.append(Difference("tmem.words_sha256", *(_short(side.words_sha256) for side in (a, b))))
        diff.notes.append("all cells are in the same states, but words differ that neither report lists")


def _short(digests: list[str]) -> str:
    return ", ".join(digest[:12] for digest in digests) or "none"


def _first_cell(a: TmemRecord, b: TmemRecord) -> CellDifference | None:
    left, right = _states(a), _states(b)
    words = [{(cell.lane, cell.column): cell.words for cell in side.cells.misplaced} for side in (a, b)]
    differs = left != right
    for cell in words[0].keys() & words[1].keys():
        differs[cell] |= words[0][cell] != words[1][cell]
    if not differs.any():
        return None
    lane, column = (int(index) for index in np.argwhere(differs)[0])
    return CellDifference(
        lane,
        column,
        _STATES[str(left[lane, column])],
        _STATES[str(right[lane, column])],
        words[0].get((lane, column), []),
        words[1].get((lane, column), []),
        int(differs.sum()),
        format_set(np.flatnonzero(differs.any(axis=1))),
        format_set(np.flatnonzero(differs.any(axis=0))),
    )


def _states(tmem: TmemRecord) -> States:
    """The letter of each cell.

    :raises RecordError: the runs do not cover the dump.
    """
    try:
        states = states_of(tmem)
    except (ValueError, IndexError) as error:
        raise RecordError(f"tmem.cells: a row cannot be read ({error})") from error
    if unknown := sorted(set(np.unique(states).tolist()) - set(_STATES)):
        raise RecordError(f"tmem.cells: state is '{unknown[0]}', must be one of {' '.join(_STATES)}")
    return states
