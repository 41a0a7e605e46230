"""Rich renderables to text: in colour on a terminal, plain everywhere else."""

from __future__ import annotations

import io
import shutil
import sys
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from umma_probe.cli.console import may_colour

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from umma_probe.spec.sources import Ref


def render(*parts: RenderableType) -> str:
    """The parts below each other. Colour needs a terminal that takes it; lines are never padded."""
    coloured = sys.stdout.isatty() and may_colour()
    width = shutil.get_terminal_size((120, 40)).columns if sys.stdout.isatty() else 120
    buffer = io.StringIO()
    console = Console(file=buffer, width=max(width, 60), force_terminal=coloured, no_color=not coloured, emoji=False)
    for part in parts:
        console.print(part, highlight=False)
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    kept = [line for line, before in zip(lines, ["", *lines], strict=False) if line or before]
    return "\n".join(kept)


def heading(title: str, detail: str = "") -> Text:
    """A bold title and what it is about."""
    return Text.assemble((title, "bold"), ("  " + detail if detail else "", "dim"))


def grid(header: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> Table:
    """A small table; every cell is text as it stands, in a narrow window on several lines: nothing is cut off."""
    table = Table(
        title=title or None, title_justify="left", title_style="bold", header_style="bold", box=box.SIMPLE_HEAD
    )
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    return table


def sources(refs: Iterable[Ref]) -> Group:
    """``Sources`` and each reference once."""
    return Group(
        Text("Sources", style="bold"),
        *(Padding(Text(f"· {ref}", style="dim"), (0, 0, 0, 2)) for ref in dict.fromkeys(refs)),
    )


def span(first: int, last: int) -> str:
    """``5`` or ``0-31``."""
    return str(first) if first == last else f"{first}-{last}"


def counted(number: int, noun: str) -> str:
    """``1 column``, ``2 columns``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
