"""Markdown: the entries, what is not as expected, the questions, then every case."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from collections.abc import Iterable, Iterator, Sequence

    from umma_probe.harness.sweep.outcome import SweepResult


def render(result: SweepResult) -> str:
    """A document."""
    return "\n".join(_lines(result))


def _lines(result: SweepResult) -> Iterator[str]:
    yield f"# {result.name}: {result.verdict}\n\n{result.title}\n"
    yield f"- target: {target_line(result)}\n- {verdict_line(result)}\n"
    yield from _table(GROUP_HEADER, group_rows(result))
    if bad := [entry for entry in result.results if not entry.ok]:
        yield "\n## Not as expected\n"
        yield from _table(CASE_HEADER, map(case_row, bad))
    if questions := question_lines(result):
        yield f"\n## Open questions\n\n{question_note(result)}\n"
        yield from _table(("question", "case", "outcome"), questions)
    yield "\n## All cases\n"
    yield from _table(CASE_HEADER, map(case_row, result.results))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _row(header)
    yield "|" + "---|" * len(header)
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"
