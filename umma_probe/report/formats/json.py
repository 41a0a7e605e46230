"""JSON: the record itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.record.store import dumps

if TYPE_CHECKING:
    from umma_probe.record.schema import Report
    from umma_probe.report.formats import View


def render(report: Report, view: View) -> str:
    """One JSON object."""
    return dumps(report)
