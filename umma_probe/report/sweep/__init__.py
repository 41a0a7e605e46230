"""A sweep's result as a document: one module for each format, with ``render(result) -> str``; imported when used.

``text`` needs a terminal's width and colours and lives with the command.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from umma_probe.harness.sweep.outcome import SweepResult

FORMATS = ("json", "markdown", "html", "junit")


def render(result: SweepResult, format_: str) -> str:
    """The whole result as text of one of ``FORMATS``."""
    module: Any = importlib.import_module(f"umma_probe.report.sweep.{format_}")
    return str(module.render(result))
