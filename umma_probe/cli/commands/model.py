"""``umma-probe model ops``: the instructions that the model has, and how well each is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from umma_probe.cli.output import Output, format_options
from umma_probe.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.harness.fidelity import InstructionRow, MissingInstruction

_HEADER = ("instruction", "evidence", "detail")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """The CPU model."""


@command.command("ops")
@click.option("--missing", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE.ptx",
              help="Instead: the instructions of this file that the model refuses.")  # fmt: skip
@click.option("--evidence", type=click.Choice(("measured", "documented", "approximate", "assumed")),
              help="Only these.")  # fmt: skip
@format_options("text", "json")
def ops(missing: Path | None, evidence: str | None, output: Output) -> int:
    """Every instruction pattern with its evidence: measured on silicon, documented, approximate, assumed.

    With --missing the exit code is 4 if the file has instructions that the model lacks, else 2 if it has illegal ones.
    """
    from umma_probe.harness.fidelity import instruction_rows, missing_instructions

    if missing is not None:
        try:
            text = missing.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{missing}: {error}") from error
        lacking = missing_instructions(text, str(missing))
        output.emit({"command": "model ops", "file": str(missing), "missing": [row.to_json() for row in lacking]},
                    text=lambda: _missing_text(lacking))  # fmt: skip
        if any(row.reason == "not modelled" for row in lacking):
            return ExitCode.UNDECIDED
        return ExitCode.USAGE if lacking else ExitCode.OK
    rows = [row for row in instruction_rows() if evidence in (None, row.evidence)]
    counts = {word: sum(row.evidence == word for row in rows) for word in dict.fromkeys(row.evidence for row in rows)}
    output.emit({"command": "model ops", "counts": counts, "instructions": [row.to_json() for row in rows]},
                text=lambda: _text(rows, counts))  # fmt: skip
    return ExitCode.OK


def _text(rows: Sequence[InstructionRow], counts: dict[str, int]) -> str:
    from rich.table import Table
    from rich.text import Text

    from umma_probe.cli.rendering import render

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in _HEADER:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(Text(row.pattern), Text(row.evidence), Text(row.detail))
    total = ", ".join(f"{number} {word}" for word, number in counts.items())
    return render(table, Text(f"{len(rows)} instructions: {total}"))


def _missing_text(rows: Sequence[MissingInstruction]) -> str:
    if not rows:
        return "the model has every instruction of this file"
    return "\n".join(_missing_line(row) for row in rows)


def _missing_line(row: MissingInstruction) -> str:
    place = f"{row.count} times, first in line {row.line}" if row.count > 1 else f"line {row.line}"
    reason = "" if row.reason == "not modelled" else f"{row.reason}: "
    hint = f"\n  hint: {row.hint}" if row.hint else ""
    return f"{row.text or 'the kernel'}  ({place}): {reason}{row.message}{hint}"
