"""Markdown: for issues and notes. The picture is a code block, so that it survives any renderer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.record.schema import CellState
from umma_probe.report.accuracy import MAP_LEGEND, TILE_HEADER, headline, map_lines, map_title, throughput, tile_rows
from umma_probe.report.picture import MEANINGS, picture, present_states, sentences, states_of
from umma_probe.report.summary import parameters, set_lines, target_line, timing_line
from umma_probe.report.tmem_use import (
    MOST_PICTURES,
    WRITER_HEADER,
    blocks_line,
    left_out,
    letters_of,
    use_picture,
    use_title,
    writer_row,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from umma_probe.record.accuracy import Accuracy
    from umma_probe.record.schema import Report, TmemRecord
    from umma_probe.report.formats import View
    from umma_probe.report.picture import Picture

_WIDTH = 96
_CHARACTERS = {CellState.RIGHT: "#", CellState.MISSING: "-"}
"""In ASCII, where the record's letter would say little."""


def render(report: Report, view: View) -> str:
    """A document with one heading for each part."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield f"# {report.probe}: {report.verdict}"
    yield f"\n{report.title}\n"
    yield f"- target: {target_line(report)}"
    yield f"- {timing_line(report)}"
    yield f"- parameters: {', '.join(f'`{name}={value}`' for name, value in parameters(report))}"
    if report.tmem is not None:
        yield from _tmem(report.tmem)
    yield from _tmem_use(report)
    if report.occupancy is not None:
        yield "\n| columns | |\n|---|---|"
        yield from (f"| {name} | {_cell(columns)} |" for name, columns in set_lines(report))
    yield "\n## Checks\n\n| check | verdict | expected | actual | |\n|---|---|---|---|---|"
    yield from (
        _row((check.name, check.verdict, check.expected, check.actual, check.message)) for check in report.checks
    )
    if report.accuracy is not None:
        yield from _accuracy(report, report.accuracy)
    if report.diagnosis is not None:
        yield f"\n## Cause\n\n{report.diagnosis.cause} ({report.diagnosis.confidence})\n"
        yield from (f"- {line}" for line in report.diagnosis.evidence)
    notes = [*report.notes, *(f"review: {entry.message} at {entry.where}" for entry in report.reviews)]
    if notes:
        yield "\n## Notes\n"
        yield from (f"- {note}" for note in notes)
    yield f"\n**verdict: {report.verdict}**"


def _accuracy(report: Report, accuracy: Accuracy) -> Iterator[str]:
    yield f"\n## Accuracy\n\n{headline(report)}\n\nLimit: {accuracy.limit}\n"
    if rate := throughput(report):
        yield f"{rate}\n"
    yield _row(TILE_HEADER)
    yield "|---" * len(TILE_HEADER) + "|"
    yield from (_row(row) for row in tile_rows(accuracy))
    if accuracy.error_map is not None:
        yield f"\n{map_title(accuracy.error_map)}\n\n```"
        yield from map_lines(accuracy.error_map)
        yield f"```\n\n{MAP_LEGEND}"


def _tmem(tmem: TmemRecord) -> Iterator[str]:
    states = states_of(tmem)
    yield "\n## Tensor Memory\n"
    yield from _code(picture(states, _WIDTH), lambda letter: character(CellState(letter)))
    yield ", ".join(f"`{character(state)}` {MEANINGS[state]}" for state in present_states(states)) + "\n"
    yield from (f"- {line}" for line in sentences(states, fill=tmem.fill))
    if tmem.layout_recovered:
        yield f"- layout: documented {tmem.layout_expected}, recovered {tmem.layout_recovered}"


def _code(drawn: Picture, look: Callable[[str], str]) -> Iterator[str]:
    yield "```"
    yield f"{'column':>8} {drawn.ruler()}"
    for index, row in enumerate(drawn.rows):
        yield f"{drawn.lane_label(index):>8} " + "".join(map(look, row))
    yield "```\n"


def _tmem_use(report: Report) -> Iterator[str]:
    for use in report.tmem_use[:MOST_PICTURES]:
        yield f"\n## Tensor Memory of {use_title(use)}\n\n{blocks_line(use)}"
        if not use.writers:
            continue
        yield "\nA letter is who wrote last.\n"
        yield from _code(use_picture(letters_of(use), _WIDTH), str)
        yield _row(WRITER_HEADER)
        yield "|" + "---|" * len(WRITER_HEADER)
        yield from (_row(writer_row(writer)) for writer in use.writers)
    if rest := left_out(report.tmem_use):
        yield f"\n{rest}"


def character(state: CellState) -> str:
    """One ASCII character."""
    return _CHARACTERS.get(state, state.value)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")
