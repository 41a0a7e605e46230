"""``umma-probe diff A B``: two reports, or two sweeps: what differs, and the first differing cell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from umma_probe.cli.output import Output, format_options
from umma_probe.cli.rendering import counted, grid, heading, render
from umma_probe.errors import ExitCode
from umma_probe.report.diff import Document, ReportDiff, diff_documents, load_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from umma_probe.report.diff import CellDifference

_LISTED = 20
"""So many differing cases of a sweep are shown whole."""


@click.command(epilog="Exit code: 0 the same, 1 something differs, 2 a file is no report.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="REL",
    help="Relative difference of metrics that counts as none.",
)
@format_options("text", "json")
def command(a: Path, b: Path, tolerance: float, output: Output) -> int:
    """What two JSON reports differ in: a run on the model and one on silicon, before and after a change.

    Target, timing and environment are shown, but do not count.
    """
    documents = load_document(a), load_document(b)
    diffs = diff_documents(*documents, tolerance)
    same = all(diff.same for diff in diffs)
    output.emit(_json(documents, diffs, same), text=lambda: _text(documents, diffs, same))
    return ExitCode.OK if same else ExitCode.DIFFERS


def _json(documents: tuple[Document, Document], diffs: list[ReportDiff], same: bool) -> dict[str, object]:
    left, right = documents
    head: dict[str, object] = {"command": "diff", "a": left.path, "b": right.path, "same": same}
    if not left.sweep:
        return {**head, **diffs[0].to_json()}
    return {**head, "cases": len(diffs), "differing": [diff.to_json() for diff in diffs if not diff.same]}


def _text(documents: tuple[Document, Document], diffs: list[ReportDiff], same: bool) -> str:
    left, right = documents
    parts: list[RenderableType] = [heading("umma-probe diff"), Text(f"A  {left.path}"), Text(f"B  {right.path}")]
    differing = [diff for diff in diffs if not diff.same]
    if left.sweep:
        parts.append(Text(f"{len(differing)} of {counted(len(diffs), 'case')} differ"))
        for diff in differing[:_LISTED]:
            parts += [Text(""), Text(diff.name, style="bold"), *_parts(diff)]
        if len(differing) > _LISTED:
            names = [diff.name for diff in differing[_LISTED:]]
            parts += [Text(f"and {counted(len(names), 'more case')}: {'; '.join(names)}")]
    else:
        parts += _parts(diffs[0])
    parts.append(Text("the same" if same else "they differ", style="bold green" if same else "bold red"))
    return render(*parts)


def _parts(diff: ReportDiff) -> Iterator[RenderableType]:
    if diff.context:
        yield grid(("not counted", "A", "B"), ((row.key, row.a, row.b) for row in diff.context))
    if diff.differences:
        yield grid(("differs", "A", "B"), ((row.key, row.a, row.b) for row in diff.differences))
    if diff.first_cell is not None:
        yield _cell(diff.first_cell)
    for note in diff.notes:
        yield Text(note)


def _cell(cell: CellDifference) -> Text:
    sides = [f"{name} {state}" + (f" ({', '.join(words)})" if words else "")
             for name, state, words in (("A", cell.a, cell.a_words), ("B", cell.b, cell.b_words))]  # fmt: skip
    return Text(
        f"first differing cell: lane {cell.lane}, column {cell.column}: {', '.join(sides)}\n"
        f"{counted(cell.cells, 'cell')} differ: columns {cell.columns}, lanes {cell.lanes}"
    )
