"""Where the text goes: whether it may have colour, and how wide it may be."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from umma_probe.report.formats import View

if TYPE_CHECKING:
    from umma_probe.cli.output import Output

PLAIN_WIDTH = 120
_NARROWEST = 60


def may_colour() -> bool:
    """Whether a terminal may be given colour: not with ``NO_COLOR`` (https://no-color.org), nor a dumb one."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")


def view_of(output: Output) -> View:
    """Colour only on a terminal that takes it, and never into a file."""
    terminal = output.file is None and sys.stdout.isatty()
    if not terminal:
        return View(colour=False, width=PLAIN_WIDTH)
    width = shutil.get_terminal_size((PLAIN_WIDTH, 40)).columns
    return View(colour=may_colour(), width=max(width, _NARROWEST))
