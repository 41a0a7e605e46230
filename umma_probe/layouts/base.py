"""The registry of layouts: each layout module adds its rows, with the documents they come from.

``layouts/`` holds what the *documents* say, element to place: closed formulas over NumPy index arrays.
The machine's own data path (place to element) is a separate derivation in ``model/mma/datapath.py``; the two are
compared by probes and tests, as two witnesses, so neither may import the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from umma_probe.registry import Registry

if TYPE_CHECKING:
    from umma_probe.spec.sources import Ref


@dataclass(frozen=True)
class LayoutInfo:
    """A layout's name, what it maps, and where that is written."""

    name: str
    summary: str
    refs: tuple[Ref, ...]


LAYOUTS: Registry[LayoutInfo] = Registry("layout")


def register_layout(name: str, summary: str, *refs: Ref) -> LayoutInfo:
    """Add a row; every layout cites at least one document."""
    return LAYOUTS.add(name, LayoutInfo(name, summary, refs))
