"""Named CTA barriers, warp barriers and the cluster barrier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from umma_probe.model.strands import Strand


@dataclass(eq=False)
class NamedBarrier:
    """One of the 16 barriers of a CTA: complete when ``expected`` threads have arrived."""

    name: str
    expected: int = 0
    arrived: int = 0
    waiting: list[Strand] = field(default_factory=list)
    reduction: list[bool] = field(default_factory=list)
    generation: int = 0
    result: object = None
    """The result of the last completed reduction (``bar.red``)."""

    def describe(self) -> str:
        """How many are missing."""
        return f"{self.name}: {self.arrived} of {self.expected} threads have arrived"
