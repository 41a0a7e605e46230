"""A sweep on the terminal: the progress bar on stderr, the tables on stdout."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from umma_probe.cli.console import may_colour
from umma_probe.cli.rendering import counted, heading, render
from umma_probe.report.sweep.words import (
    CASE_HEADER,
    GROUP_HEADER,
    case_row,
    group_rows,
    question_lines,
    question_note,
    target_line,
    verdict_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from umma_probe.harness.sweep.outcome import CaseResult, SweepResult
    from umma_probe.harness.sweep.targets import TargetPlan

_ALL_ROWS = 48
"""So many cases are listed one by one; of more, only those that are not as expected."""


def sweep_text(result: SweepResult) -> str:
    """The whole result."""
    parts: list[RenderableType] = [heading(result.name, result.title), Text(target_line(result), style="dim"), Text("")]
    bad = [entry for entry in result.results if not entry.ok]
    if len(result.results) <= _ALL_ROWS:
        parts.append(_table(CASE_HEADER, map(case_row, result.results)))
    else:
        parts.append(_table(GROUP_HEADER, group_rows(result)))
        if bad:
            parts += [Text("Not as expected", style="bold"), _table(CASE_HEADER, map(case_row, bad))]
    if note := question_note(result):
        parts += [Text(note, style="dim"), Text("")]
    for question, cases, text in question_lines(result):
        parts += [Text(question, style="bold"), Text(f"  {cases}"), Text(f"  {text}", style="cyan")]
    parts.append(Text(verdict_line(result), style="bold green" if result.verdict == "pass" else "bold red"))
    return render(*parts)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Cells as they stand; long ones wrap."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


class SweepProgress:
    """A bar with the time left, on a terminal; else a line at the beginning and one for each case out of line."""

    def __init__(self) -> None:
        terminal = sys.stderr.isatty()
        console = Console(stderr=True, no_color=not may_colour(), highlight=False)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not terminal,
            transient=True,
        )
        self._task = self._bar.add_task("sweep", total=None)
        self._bad = 0

    def __enter__(self) -> SweepProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, total: int, known: int, target: TargetPlan) -> None:
        """See ``Watcher``."""
        if known:
            self._say(f"{known} of {counted(total, 'case')} known from an earlier run")
        if target.reason:
            self._say(f"on the CPU model: {target.reason}")
        # the known ones are no part of the bar: they would spoil the estimate
        self._bar.reset(self._task, total=total - known)

    def finished(self, result: CaseResult) -> None:
        """See ``Watcher``."""
        if not result.ok:
            self._bad += 1
            self._say(f"{result.state}: {result.name}: {result.detail}")
        mark = f", {self._bad} not as expected" if self._bad else ""
        self._bar.update(self._task, advance=1, description=f"sweep{mark}")

    def _say(self, text: str) -> None:
        self._bar.console.print(Text(text), soft_wrap=True)
