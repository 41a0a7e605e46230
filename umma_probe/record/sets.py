"""Sets of columns or lanes as text: ``0-31,36-47``; the empty set is the empty string."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterable


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Maximal runs (first, last), both inclusive, ascending."""
    runs: list[tuple[int, int]] = []
    for number in sorted({int(number) for number in numbers}):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def format_set(numbers: Iterable[int]) -> str:
    """The text of a set of integers that are not negative."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges(numbers))


def named_set(noun: str, numbers: Iterable[int]) -> str:
    """``column 3``, ``columns 0-31,36-47``, ``no column``."""
    members = sorted({int(number) for number in numbers})
    if not members:
        return f"no {noun}"
    return f"{noun}{'' if len(members) == 1 else 's'} {format_set(members)}"


def parse_set(text: str) -> list[int]:
    """The members, ascending.

    :raises RecordError: not of that form.
    """
    members: list[int] = []
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise RecordError(f"set is '{text}', must be like 0-31,36-47")
        members.extend(range(int(first), int(last or first) + 1))
    return sorted(set(members))
