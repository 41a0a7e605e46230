"""The report: what ``run``, ``fmha`` and ``exec`` write, and what every format and ``diff`` read.

The keys are stable: more may be added, none is renamed or given another meaning while ``SCHEMA_VERSION`` stays. In
``occupancy`` and ``tmem`` *missing* means that a cell still holds the sentinel put there before the MMA, *zero* that it
was written, with zero. Column and lane sets are texts such as ``0-31,36-47`` (``record.sets``), absolute.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any

from umma_probe.record.accuracy import Accuracy
from umma_probe.record.lane_rows import LaneRows
from umma_probe.record.tmem_use import TmemUse

SCHEMA_VERSION = 1


class Verdict(Enum):
    """How a run came out, best first."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"
    HANG = "hang"
    FAULT = "fault"
    ERROR = "error"


class CellState(Enum):
    """What one cell of Tensor Memory turned out to be; the value is its letter in :attr:`TmemRecord.cells`."""

    RIGHT = "R"
    """The expected element."""
    MISSING = "m"
    """An element was expected, the sentinel is still there."""
    ZERO = "0"
    """An element was expected, zero was written."""
    MISPLACED = "x"
    """Another element of D."""
    WRONG = "?"
    """Neither the sentinel, nor zero, nor any element of D."""
    UNEXPECTED = "!"
    """No element belongs here, yet the sentinel is gone."""
    OPERAND = "a"
    """An operand that the probe itself put there, unchanged."""
    UNTOUCHED = "."
    """Nothing belongs here, and the sentinel is still there."""


@dataclass
class Target:
    """What ran the kernel."""

    kind: str
    """``model`` or ``cuda``."""
    name: str
    arch: str
    nvrtc: str = ""
    driver: str | None = None
    reason: str = ""
    """Why ``auto`` chose the model; empty otherwise."""
    policy: str | None = None
    """Of the model: when operations in flight take effect."""
    uuid: str | None = None
    """Of the GPU."""


@dataclass
class Check:
    """One question that the probe asked."""

    name: str
    verdict: str
    expected: str = ""
    actual: str = ""
    message: str = ""


@dataclass
class MisplacedCell:
    """An element that lies where another one (or none) belongs."""

    lane: int
    column: int
    expected: list[int] | None
    """(m, n); None if no element belongs there."""
    actual: list[int] | None
    """(m, n) found; None if the value is no element's."""
    words: list[str]
    """The words found, one a pass."""


@dataclass
class Cells:
    """Every cell's state: letters are those of :class:`CellState`."""

    counts: dict[str, int] = field(default_factory=dict)
    """State's name in lower case to number of cells."""
    rows: list[LaneRows] = field(default_factory=list)
    misplaced: list[MisplacedCell] = field(default_factory=list)
    """The first of them, by lane and column; ``counts`` has the number of all."""


@dataclass
class TmemRecord:
    """The dump of Tensor Memory."""

    lanes: int
    columns: int
    cells: Cells
    layout_expected: str = ""
    """Letter of the documented layout, with ``+16`` for the upper half of the lanes."""
    layout_recovered: str = ""
    """The documented layout that the dump equals, or ``none``."""
    words_sha256: list[str] = field(default_factory=list)
    """Of the words of each pass, lane by lane, little-endian."""
    fill: str = "sentinel"
    """What the cells held before the MMA: ``sentinel``, ``zero`` or ``stale``."""


@dataclass
class Occupancy:
    """Sets of columns and lanes."""

    expected_columns: str = ""
    written_columns: str = ""
    missing_columns: str = ""
    unexpected_columns: str = ""
    zero_columns: str = ""
    expected_lanes: str = ""
    written_lanes: str = ""
    misplaced_cells: int = 0
    wrong_cells: int = 0


@dataclass
class Diagnosis:
    """The cause of a failure, with what speaks for it."""

    cause: str
    confidence: str
    """``certain``, ``likely``, ``possible``, or ``observed``: it is seen, what brought it about is not known."""
    evidence: list[str] = field(default_factory=list)


@dataclass
class SanitizerFinding:
    """Something a correct kernel would not do, which did not stop the model."""

    rule: str
    message: str
    where: str
    actor: str
    count: int = 1


@dataclass
class Timing:
    """Wall time in seconds."""

    compile_s: float = 0.0
    run_s: float = 0.0
    kernel_s: float | None = None
    """On a GPU: between two events around the launches."""


@dataclass
class Environment:
    """Where and with what it ran."""

    versions: dict[str, str] = field(default_factory=dict)
    git: str = ""
    host: str = ""


@dataclass
class Report:
    """One run of one probe, kernel or case."""

    command: str
    probe: str
    params: dict[str, Any]
    target: Target
    seed: int = 0
    verdict: str = Verdict.PASS.value
    checks: list[Check] = field(default_factory=list)
    tmem: TmemRecord | None = None
    """Of a probe: every cell beside what is expected there."""
    tmem_use: list[TmemUse] = field(default_factory=list)
    """Of any other kernel, on the model: which instruction wrote which cell."""
    occupancy: Occupancy | None = None
    diagnosis: Diagnosis | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    accuracy: Accuracy | None = None
    timing: Timing = field(default_factory=Timing)
    environment: Environment = field(default_factory=Environment)
    findings: list[str] = field(default_factory=list)
    """Ids of the recorded findings that this run bears on."""
    title: str = ""
    sanitizer: list[SanitizerFinding] = field(default_factory=list)
    reviews: list[SanitizerFinding] = field(default_factory=list)
    """Legal, but worth a second look."""
    notes: list[str] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each buffer that the kernel wrote, by launch and name. Equal digests on two targets: the same bits."""
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        """Plain data; sections that a probe does not have are left out."""
        data = asdict(self)
        ordered = {"schema_version": data.pop("schema_version"), **data}
        return {key: value for key, value in ordered.items() if value is not None or key not in _OPTIONAL}


_OPTIONAL = tuple(entry.name for entry in fields(Report) if entry.default is None)
