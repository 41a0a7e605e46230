"""How near a numerical result is to its reference: the report section of ``fmha``."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class TileAccuracy:
    """One query tile of one head."""

    batch: int
    head: int
    rows: str
    """Query rows, such as ``0-127``."""
    cosine: float
    max_abs_error: float
    max_ulp: int
    limit_used: float
    """The largest error as a share of its limit."""
    wrong: int
    """Elements beyond the limit."""


@dataclass
class StageAccuracy:
    """One intermediate value of the kernel."""

    name: str
    verdict: str
    """``pass`` or ``fail``."""
    elements: int
    max_abs_error: float
    limit_used: float
    wrong: int
    first_wrong: list[int] = field(default_factory=list)
    """Index of the first wrong element; empty if there is none."""


@dataclass
class ErrorMap:
    """Which elements of one tile of O are wrong: blocks of rows by columns, each a letter.

    ``.`` right, ``x`` wrong, ``0`` wrong and zero, ``n`` NaN where a number belongs; a block shows its worst element.
    """

    batch: int
    head: int
    first_row: int
    rows_per_line: int
    columns_per_char: int
    lines: list[str] = field(default_factory=list)


@dataclass
class Accuracy:
    """All of it."""

    limit: str
    """The limit of an element, in words."""
    tiles: list[TileAccuracy] = field(default_factory=list)
    column_max_abs_error: list[float] = field(default_factory=list)
    """Per column of O, over all rows."""
    column_cosine: list[float] = field(default_factory=list)
    ulp_histogram: dict[str, int] = field(default_factory=dict)
    """Distance in units of the last place of the element type: number of elements."""
    stages: list[StageAccuracy] = field(default_factory=list)
    error_map: ErrorMap | None = None
