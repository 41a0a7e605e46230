"""Which instruction wrote which cell: what every format says of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from umma_probe.record.lane_rows import unpack
from umma_probe.record.sets import parse_set
from umma_probe.record.tmem_use import UNWRITTEN
from umma_probe.report.picture import downsample

if TYPE_CHECKING:
    from umma_probe.record.lane_rows import Letters
    from umma_probe.record.tmem_use import TmemUse, Writer
    from umma_probe.report.picture import Picture

MOST_PICTURES = 4
"""So many groups of CTAs are drawn."""
MOST_RUNS = 8
"""So many runs of CTAs that look the same are named."""
ROLES = ("mma", "st", "cp", "shift")
"""Second word of the instruction, by which a picture colours."""
WRITER_HEADER = ("", "instruction", "line", "lanes", "columns")


def letters_of(use: TmemUse) -> Letters:
    """The letter of every cell, (lanes, columns)."""
    return unpack(use.rows, use.lanes, use.columns, UNWRITTEN)


def use_picture(letters: Letters, width: int) -> Picture:
    """The written columns, at most ``width`` characters wide; a block shows who wrote most of it."""

    def most(lanes: slice, columns: slice) -> str:
        written = Counter(letters[lanes, columns].reshape(-1).tolist())
        del written[UNWRITTEN]
        return str(written.most_common(1)[0][0]) if written else UNWRITTEN

    return downsample((letters != UNWRITTEN).any(axis=0), len(letters), width, most)


def use_title(use: TmemUse) -> str:
    """``Tensor Memory of CTA 0``, or of those that look the same."""
    count, runs = len(parse_set(use.ctas)), use.ctas.split(",")
    if count == 1:
        return f"CTA {use.ctas}"
    named = ",".join(runs[:MOST_RUNS])
    rest = f" and {count - len(parse_set(named))} more" if len(runs) > MOST_RUNS else ""
    return f"CTAs {named}{rest}, which look the same"


def blocks_line(use: TmemUse) -> str:
    """What was allocated, each block once."""
    blocks = [
        f"columns {block}" + (f" ({times} times)" if times > 1 else "") for block, times in Counter(use.blocks).items()
    ]
    return f"allocated: {'; '.join(blocks)}" + ("" if use.writers else "; nothing was written")


def left_out(uses: list[TmemUse]) -> str:
    """A line on what is not drawn; empty if everything is."""
    rest = uses[MOST_PICTURES:]
    return f"{sum(len(parse_set(use.ctas)) for use in rest)} more CTAs look different; JSON has them" if rest else ""


def role(writer: Writer) -> str:
    """One of ``ROLES``; ``st`` for what is none."""
    words = writer.instruction.split(".")
    return next((word for word in ROLES if word in words[1:2]), "st")


def writer_row(writer: Writer) -> tuple[str, str, str, str, str]:
    """As ``WRITER_HEADER``."""
    place = f"{writer.source} (PTX {writer.line})" if writer.source else f"PTX {writer.line}"
    return writer.letter, writer.instruction, place, writer.lanes, writer.columns
