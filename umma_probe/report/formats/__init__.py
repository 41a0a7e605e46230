"""Report formats: one module each, with ``render(report, view) -> str``; imported when used."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from umma_probe.record.schema import Report

FORMATS = ("text", "json", "markdown", "html", "junit")


@dataclass(frozen=True)
class View:
    """Where the result will be read."""

    colour: bool = False
    width: int = 100
    """Characters, for text."""


def render(report: Report, format_: str, view: View | None = None) -> str:
    """The whole report as text of that format.

    :raises ConfigError: unknown format.
    """
    if format_ not in FORMATS:
        raise ConfigError(unknown_name("format", format_, FORMATS))
    module: Any = importlib.import_module(f"umma_probe.report.formats.{format_}")
    return str(module.render(report, view or View()))
