"""Which instruction wrote which cell of Tensor Memory last: the picture of a kernel that brings no expectation of its
own.

A letter stands for an instruction, in the order of the program: ``A`` ... ``Z``, ``a`` ... ``z``; ``+`` for any further
one, ``.`` for a cell that nothing wrote since its columns were allocated. CTAs that look the same share a picture.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from string import ascii_lowercase, ascii_uppercase

from umma_probe.record.lane_rows import LaneRows

UNWRITTEN = "."
OTHERS = "+"
LETTERS = ascii_uppercase + ascii_lowercase


@dataclass
class Writer:
    """An instruction, and what it wrote last in these CTAs."""

    letter: str
    instruction: str
    """With its modifiers."""
    line: int
    """Of the PTX."""
    source: str
    """``kernel.cu:12``; empty where the PTX does not tell."""
    cells: int
    lanes: str
    columns: str


@dataclass
class TmemUse:
    """Tensor Memory of CTAs that look the same, when they exited or when the kernel failed."""

    ctas: str
    """Their linear indices, as a set."""
    lanes: int
    columns: int
    blocks: list[str] = field(default_factory=list)
    """Every allocation that there was, as a set of columns."""
    rows: list[LaneRows] = field(default_factory=list)
    """The letter of every cell, as in ``Cells``."""
    writers: list[Writer] = field(default_factory=list)


def letter(index: int) -> str:
    """Of the writer with that index; -1 is nobody."""
    if index < 0:
        return UNWRITTEN
    return LETTERS[index] if index < len(LETTERS) else OTHERS
