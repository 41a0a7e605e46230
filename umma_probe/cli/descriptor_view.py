"""How the descriptor calculators show a word: its fields one by one, what is wrong with it, what is worth knowing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from umma_probe.cli.rendering import grid, span
from umma_probe.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from umma_probe.bits import BitLayout
    from umma_probe.spec.problems import Problem

FIELD_HEADER = ("field", "bits", "code", "meaning")


class HexInteger(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """``1024``, ``0x400`` or ``0b101``."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Any base that Python reads."""
        if isinstance(value, int):
            return value
        try:
            return int(str(value), 0)
        except ValueError:
            self.fail(f"'{value}' is not an integer such as 1024, or 0x400 in hexadecimal", param, ctx)


class Word(int):
    """A descriptor as it was given; ``reading`` says how, where it could have been read otherwise."""

    reading: str = ""


class RawWord(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """A word of ``bits`` bits: ``0x8100490``.

    Documents and debuggers write words in hexadecimal, Python and JSON in decimal. Without a prefix a word is read only
    if one of the two is left: letters or a leading zero make it hexadecimal; what is too long for that is decimal.
    """

    name = "word"

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Word:
        """Read it.

        :raises ConfigError: it is no word, or it could mean two.
        """
        if isinstance(value, Word):
            return value
        text = str(value).replace("_", "").lower()
        if text.startswith(("0x", "0b")):
            return Word(self._number(text, 0, value))
        as_hex = self._number(text, 16, value)
        decimal = int(text) if text.isascii() and text.isdecimal() else None
        if decimal is None or (text.startswith("0") and len(text) > 1):
            return self._read(as_hex, "hexadecimal", value)
        if as_hex == decimal:
            return Word(decimal)
        if as_hex >> self.bits:
            return self._read(decimal, "decimal", value)
        raise ConfigError(
            f"word is '{value}': {as_hex:#x} if that is hexadecimal, {decimal:#x} if it is decimal",
            hint=f"write {as_hex:#x} or {decimal:#x}",
        )

    def _number(self, text: str, base: int, value: Any) -> int:
        try:
            if text.isascii() and text.isalnum():
                return int(text, base)
        except ValueError:
            pass
        raise ConfigError(f"word is '{value}', must be {self.bits} bits such as 0x8100490")

    def _read(self, number: int, base: str, value: Any) -> Word:
        word = Word(number)
        word.reading = f"'{value}' was read as {base}: {number:#x}"
        return word


def reading_note(word: int) -> tuple[str, ...]:
    """What to say of how a word was read, if anything."""
    return (word.reading,) if isinstance(word, Word) and word.reading else ()


def field_rows(layout: BitLayout, word: int, meanings: Mapping[str, str]) -> list[tuple[str, str, int, str]]:
    """One row a field, low bits first; reserved bits that are set come last."""
    rows = [
        (field.name, span(field.low, field.high), field.get(word), meanings.get(field.name, ""))
        for field in layout.fields
    ]
    if reserved := word & layout.reserved_mask:
        bits = ",".join(str(bit) for bit in range(layout.width) if reserved >> bit & 1)
        rows.append(("reserved", bits, 1, "must be 0"))
    return rows


def field_table(rows: Sequence[tuple[str, str, int, str]]) -> RenderableType:
    """The rows of ``field_rows`` as a table."""
    return grid(FIELD_HEADER, [(name, bits, f"{code:#x}", meaning) for name, bits, code, meaning in rows])


def problem_list(problems: Sequence[Problem]) -> RenderableType:
    """Each broken rule with its source, or one line that there is none."""
    if not problems:
        return Text("No problems.", style="green")
    lines: list[RenderableType] = [Text("Problems", style="bold red")]
    for problem in problems:
        lines.append(Padding(Text(f"✗ {problem.message}"), (0, 0, 0, 2)))
        lines.append(Padding(Text(str(problem.ref), style="dim"), (0, 0, 0, 4)))
    return Group(*lines)


def note_list(notes: Sequence[str]) -> RenderableType:
    """What the sources leave open about this word; empty for nothing."""
    if not notes:
        return Text("")
    return Group(Text("Notes", style="bold"), *(Padding(Text(f"· {note}"), (0, 0, 0, 2)) for note in notes))


def changed_by_force(requested: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Names of the requested values in whose place the word holds another; an undefined code is not a change."""
    return [name for name, value in requested.items() if stored.get(name, 0) not in (value, None)]
