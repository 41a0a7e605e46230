"""Text for a terminal: a picture of Tensor Memory, what it says in sentences, the checks, the verdict last."""

from __future__ import annotations

import io
from itertools import groupby
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from umma_probe.record.schema import CellState, Verdict
from umma_probe.record.tmem_use import UNWRITTEN
from umma_probe.report.accuracy import (
    MAP_LEGEND,
    TILE_HEADER,
    headline,
    map_lines,
    map_title,
    throughput,
    tile_rows,
    wrong_columns,
)
from umma_probe.report.picture import MEANINGS, picture, present_states, sentences, states_of
from umma_probe.report.summary import parameters, set_lines, target_line, timing_line
from umma_probe.report.tmem_use import (
    MOST_PICTURES,
    WRITER_HEADER,
    blocks_line,
    left_out,
    letters_of,
    role,
    use_picture,
    use_title,
    writer_row,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from umma_probe.record.accuracy import Accuracy
    from umma_probe.record.schema import Check, Report, SanitizerFinding, TmemRecord
    from umma_probe.record.tmem_use import TmemUse
    from umma_probe.report.formats import View
    from umma_probe.report.picture import Picture, States

# state -> (character, style)
CELLS = {
    CellState.RIGHT: ("█", "green"),
    CellState.MISSING: ("░", "bold red"),
    CellState.ZERO: ("0", "bold yellow"),
    CellState.MISPLACED: ("x", "bold magenta"),
    CellState.WRONG: ("?", "bold red"),
    CellState.UNEXPECTED: ("!", "bold red"),
    CellState.OPERAND: ("▒", "blue"),
    CellState.UNTOUCHED: ("·", "bright_black"),
}
ROLE_STYLES = {"mma": "green", "st": "cyan", "cp": "yellow", "shift": "magenta"}
_NOBODY = "·"
VERDICT_STYLES = {
    Verdict.PASS: "bold green",
    Verdict.FAIL: "bold red",
    Verdict.UNDECIDED: "bold yellow",
    Verdict.HANG: "bold magenta",
    Verdict.FAULT: "bold red",
    Verdict.ERROR: "bold red",
}
_MARKS = {Verdict.PASS: "✓", Verdict.FAIL: "✗", Verdict.UNDECIDED: "?"}
_GLUE = "\ue000"
"""A blank at which no line breaks (rich breaks at a no-break space too)."""
_LABEL = 8
_MOST_CHARS = 128
_MOST_TILES = 8


def render(report: Report, view: View) -> str:
    """Lines without trailing blanks; colour only if the view has it."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=view.width, force_terminal=view.colour, no_color=not view.colour, emoji=False,
                      color_system="standard" if view.colour else None, legacy_windows=False)  # fmt: skip
    for part in _parts(report, view):
        console.print(part, highlight=False, soft_wrap=isinstance(part, Text))
    lines = [line.rstrip().replace(_GLUE, " ") for line in buffer.getvalue().splitlines()]
    return "\n".join(line for line, before in zip(lines, ["x", *lines], strict=False) if line or before)


def _parts(report: Report, view: View) -> Iterator[RenderableType]:
    yield Text.assemble((report.probe, "bold"), (f"  {report.title}", "dim"))
    yield _head(report)
    yield Text("")
    if report.tmem is not None:
        states = states_of(report.tmem)
        drawn = picture(states, _picture_width(view))
        yield Group(*_lanes(drawn, lambda letter: CELLS[CellState(letter)]), Text(""), _below(drawn, _legend(states)))
        yield Text("")
        yield from (Text(f"  {line}") for line in sentences(states, fill=report.tmem.fill))
        yield from _layout_line(report.tmem)
        yield Text("")
    yield from _tmem_use(report, view)
    if report.checks:
        yield _check_table(report.checks)
    if report.accuracy is not None:
        yield from _accuracy(report, report.accuracy)
    yield from _messages(report)
    yield from (Text.assemble((f"{name} ", "dim"), columns) for name, columns in set_lines(report))
    verdict = Verdict(report.verdict)
    yield Text.assemble("verdict: ", (verdict.value, VERDICT_STYLES[verdict]))


def _head(report: Report) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=_LABEL, style="dim")
    table.add_column(overflow="fold")
    table.add_row("target", Text(target_line(report)))
    table.add_row("with", Text("  ".join(f"{name}{_GLUE}{value}" for name, value in parameters(report))))
    return table


def _picture_width(view: View) -> int:
    return min(_MOST_CHARS, view.width - 2 * _LABEL)


def _lanes(drawn: Picture, look: Callable[[str], tuple[str, str]]) -> Iterator[Text]:
    """A ruler and the rows; ``look`` is a letter's character and style."""
    yield Text.assemble((f"{'column':>{_LABEL}} ", "dim"), (drawn.ruler(), "dim"))
    for index, row in enumerate(drawn.rows):
        label = "lane 0-7" if index == 0 else drawn.lane_label(index)
        line = Text.assemble((f"{label:>{_LABEL}} ", "dim"))
        for letter, run in groupby(row):
            character, style = look(letter)
            line.append(character * len(list(run)), style)
        yield line


def _below(drawn: Picture, legend: Text) -> Padding:
    scale = f"one character is {drawn.lanes_per_row} lanes x {drawn.columns_per_char} column" + (
        "s" if drawn.columns_per_char > 1 else ""
    )
    return Padding(Group(legend, Text(scale, style="dim")), (0, 0, 0, _LABEL + 1))


def _legend(states: States) -> Text:
    legend = Text()
    for state in present_states(states):
        character, style = CELLS[state]
        legend.append(character, style)
        legend.append(f"{_GLUE}{MEANINGS[state].replace(' ', _GLUE)}   ", "dim")
    return legend


def _tmem_use(report: Report, view: View) -> Iterator[RenderableType]:
    for use in report.tmem_use[:MOST_PICTURES]:
        styles = {writer.letter: ROLE_STYLES[role(writer)] for writer in use.writers}
        yield Text.assemble(("Tensor Memory", "bold"), f" of {use_title(use)}", (f"  {blocks_line(use)}", "dim"))
        yield Text("")
        if not use.writers:
            continue
        drawn = use_picture(letters_of(use), _picture_width(view))
        yield from _lanes(drawn, lambda letter, styles=styles: _writer_look(letter, styles))  # type: ignore[misc]
        yield Text("")
        yield _below(drawn, Text(f"a letter is who wrote last; {_NOBODY} nobody", "dim"))
        yield _writers(use, styles)
    if rest := left_out(report.tmem_use):
        yield Text(rest, style="dim")


def _writer_look(letter: str, styles: dict[str, str]) -> tuple[str, str]:
    return (_NOBODY, "bright_black") if letter == UNWRITTEN else (letter, styles.get(letter, "default"))


def _writers(use: TmemUse, styles: dict[str, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1))
    for name in WRITER_HEADER:
        table.add_column(name, overflow="fold")
    for writer in use.writers:
        letter, *rest = writer_row(writer)
        table.add_row(Text(letter, style=styles[writer.letter]), *map(Text, rest))
    return table


def _layout_line(tmem: TmemRecord) -> Iterator[Text]:
    if tmem.layout_recovered:
        agrees = tmem.layout_recovered == tmem.layout_expected
        style = "green" if agrees else "red"
        yield Text.assemble(
            "  layout: documented ", (tmem.layout_expected or "-", "bold"), ", recovered ",
            (tmem.layout_recovered, f"bold {style}"),
        )  # fmt: skip


def _accuracy(report: Report, accuracy: Accuracy) -> Iterator[RenderableType]:
    """One line on a pass; else also where the wrong elements are."""
    yield from (Text(line) for line in (headline(report), throughput(report)) if line)
    if report.verdict == Verdict.PASS.value:
        return
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1))
    for name in TILE_HEADER:
        table.add_column(name, justify="right")
    for row in tile_rows(accuracy)[:_MOST_TILES]:
        table.add_row(*row)
    yield table
    if accuracy.error_map is not None:
        yield Text(map_title(accuracy.error_map), style="dim")
        yield from (Text(line, style="red" if index else "dim") for index, line in
                    enumerate(map_lines(accuracy.error_map)))  # fmt: skip
        yield Text(f"{'':>9}{MAP_LEGEND}; wrong columns {wrong_columns(accuracy.error_map)}", style="dim")
    yield Text("")


def _check_table(checks: list[Check]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1))
    table.add_column("", width=1)
    for name in ("check", "expected", "actual"):
        table.add_column(name, overflow="fold")
    for check in checks:
        verdict = Verdict(check.verdict)
        mark = Text(_MARKS.get(verdict, "✗"), style=VERDICT_STYLES[verdict])
        table.add_row(mark, Text(check.name), Text(check.expected), Text(check.actual))
    return table


def _messages(report: Report) -> Iterator[RenderableType]:
    for check in report.checks:
        if check.message:
            yield Text.assemble((f"{check.name}: ", VERDICT_STYLES[Verdict(check.verdict)]), check.message)
    if report.tmem is not None and report.tmem.cells.misplaced:
        yield from _misplaced(report.tmem)
    if report.diagnosis is not None:
        diagnosis = report.diagnosis
        yield Text.assemble(("cause: ", "bold"), diagnosis.cause, (f" ({diagnosis.confidence})", "dim"))
        yield from (Padding(Text(f"· {line}"), (0, 0, 0, 2)) for line in diagnosis.evidence)
    yield from (_note("review", entry) for entry in report.reviews)
    yield from (Text.assemble(("note: ", "dim"), note) for note in report.notes)
    yield Text(timing_line(report), style="dim")
    yield Text("")


def _note(kind: str, entry: SanitizerFinding) -> Text:
    times = f" ({entry.count} times)" if entry.count > 1 else ""
    return Text.assemble((f"{kind}: ", "yellow"), f"{entry.message} at {entry.where}{times}")


def _misplaced(tmem: TmemRecord, limit: int = 5) -> Iterator[Text]:
    for cell in tmem.cells.misplaced[:limit]:
        found = "no element" if cell.actual is None else f"({cell.actual[0]}, {cell.actual[1]})"
        wanted = "nothing" if cell.expected is None else f"({cell.expected[0]}, {cell.expected[1]})"
        words = ", ".join(cell.words)
        yield Text(f"  lane {cell.lane}, column {cell.column}: expected {wanted}, found {found} [{words}]")
