"""Numbers with their nouns, as checks print them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """``no cell``, ``1 cell``, ``12 cells``."""
    return f"{int(number) or 'no'} {noun}{'' if number in (0, 1) else 's'}"
