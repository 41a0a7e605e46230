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


def view_of(output: Output) -> View:
    """Colour only on a terminal, without ``NO_COLOR``, and never into a file."""
    terminal = output.file is None and sys.stdout.isatty()
    if not terminal:
        return View(colour=False, width=PLAIN_WIDTH)
    width = shutil.get_terminal_size((PLAIN_WIDTH, 40)).columns
    return View(colour=not os.environ.get("NO_COLOR"), width=max(width, _NARROWEST))
