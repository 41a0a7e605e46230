"""JSON: every case with its whole report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from umma_probe.harness.sweep.outcome import SweepResult


def render(result: SweepResult) -> str:
    """One object."""
    return json.dumps(result.to_json(), indent=1, ensure_ascii=False)
