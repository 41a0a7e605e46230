"""A broken rule as data: what is wrong, and which document says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from umma_probe.spec.sources import Ref


@dataclass(frozen=True)
class Problem:
    """One broken rule: ``message`` reads ``<field> is <actual>, must be <rule>``."""

    field: str
    message: str
    ref: Ref
    contradicted: Ref | None = None
    """Kernels known to work that break the documented rule: their instruction executes, and is for review."""

    def __str__(self) -> str:
        return f"{self.message} ({self.ref})"

    def to_json(self) -> dict[str, str]:
        """For reports: field, message, source."""
        return {"field": self.field, "message": self.message, "source": str(self.ref)}
