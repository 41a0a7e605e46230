"""Who did what when: one row for each asynchronous operation of a launch.

Time counts events, issues and effects alike: an operation that was issued at 7 and took effect at 12 had five others
between. It is no measure of duration; what it shows is the order that the policy chose, and what was in flight at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from umma_probe.model.asynchrony.async_engine import AsyncOp
    from umma_probe.model.launch import Launch

COLUMNS = ("issued", "effect", "cta", "warp", "operation", "line", "instruction")


@dataclass
class TraceRow:
    """One operation."""

    issued: int
    effect: int | None
    """None while it is in flight."""
    cta: int
    """Linear index in the grid."""
    warp: int
    """In its CTA."""
    operation: str
    """As ``AsyncOp.kind``."""
    line: int
    """Of the PTX."""
    instruction: str

    def text(self) -> str:
        """Tab-separated, in the order of ``COLUMNS``; ``-`` for an effect that never came."""
        effect = "-" if self.effect is None else self.effect
        return "\t".join(
            map(str, (self.issued, effect, self.cta, self.warp, self.operation, self.line, self.instruction))
        )


class Trace:
    """Collects the rows of the launches that it is given to."""

    def __init__(self) -> None:
        self.rows: list[TraceRow] = []
        self._time = 0
        self._in_flight: dict[AsyncOp, TraceRow] = {}

    def attach(self, launch: Launch) -> None:
        """Record the operations of a launch from here on."""
        self._launch = launch
        launch.engine.trace = self._note

    def _note(self, event: str, op: AsyncOp) -> None:
        self._time += 1
        if event == "effect":
            self._in_flight.pop(op).effect = self._time
            return
        launch = self._launch
        where = launch.program.where(op.pc)
        row = TraceRow(self._time, None, launch.cta_index(op.cta), op.warp % launch.cta_warps, op.kind,
                       where.line, " ".join(where.source_line.split()))  # fmt: skip
        self._in_flight[op] = row
        self.rows.append(row)

    def text(self) -> str:
        """All rows under a line with the names of the columns."""
        return "\n".join(["\t".join(COLUMNS), *(row.text() for row in self.rows), ""])

    def timeline(self) -> str:
        """The rows as Trace Event Format (JSON), which Perfetto and chrome://tracing draw: a process for each CTA.

        An operation is a span from its issue to its effect; a microsecond there is one event here. One that never took
        effect ends with the trace, and says so.
        """
        end = self._time + 1
        events: list[dict[str, object]] = [
            {"ph": "M", "name": "process_name", "pid": cta, "args": {"name": f"CTA {cta}"}}
            for cta in sorted({row.cta for row in self.rows})
        ]
        for number, row in enumerate(self.rows):
            common = {"cat": row.operation, "name": row.operation, "id": number, "pid": row.cta, "tid": row.warp}
            about = {"line": row.line, "instruction": row.instruction, "warp": row.warp}
            if row.effect is None:
                about["effect"] = "never"
            events.append({"ph": "b", "ts": row.issued, "args": about, **common})
            events.append({"ph": "e", "ts": end if row.effect is None else row.effect, **common})
        return json.dumps({"traceEvents": events})
