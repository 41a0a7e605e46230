"""stdout carries the result and nothing else: one helper for every calculator's formats."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from umma_probe.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

F = TypeVar("F", bound="Callable[..., Any]")


def format_options(*formats: str) -> Callable[[F], F]:
    """``--format``, ``--json`` (short for ``--format json``) and ``-o FILE``; the command gets ``output: Output``."""

    def decorate(function: F) -> F:
        def wrapper(*args: Any, format_: str, json_: bool, output_file: str | None, **kwargs: Any) -> Any:
            output = Output("json" if json_ else format_, output_file)
            return function(*args, output=output, **kwargs)

        wrapper.__name__, wrapper.__doc__ = function.__name__, function.__doc__
        wrapper.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        for option in (
            click.option("-o", "--output", "output_file", metavar="FILE", help="Write there instead of stdout."),
            click.option("--json", "json_", is_flag=True, help="Short for --format json."),
            click.option("--format", "format_", type=click.Choice(formats), default=formats[0], show_default=True),
        ):
            wrapper = option(wrapper)
        return wrapper  # type: ignore[return-value]

    return decorate


class Output:
    """Where the result goes and in which format."""

    def __init__(self, format_: str, file: str | None = None) -> None:
        self.format = format_
        self.file = file

    def write(self, text: str) -> None:
        """Write the whole result; a file never gets terminal colours.

        :raises ConfigError: it cannot be written.
        :raises BrokenPipeError: the reader of stdout went away.
        """
        if self.file is None:
            try:
                click.echo(text.rstrip("\n"))
            except BrokenPipeError:
                raise
            except OSError as error:
                raise ConfigError(f"cannot write to stdout: {error.strerror}") from error
            return
        try:
            Path(self.file).write_text(click.unstyle(text).rstrip("\n") + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--output: cannot write {self.file}: {error.strerror}") from error

    def emit(
        self,
        document: Any,
        *,
        text: Callable[[], str],
        table: Callable[[], tuple[Sequence[str], Iterable[Sequence[Any]]]] | None = None,
    ) -> None:
        """Write ``document`` as JSON, ``table`` (header, rows) as CSV, or ``text()``."""
        if self.format == "json":
            self.write(json.dumps(document))
        elif self.format == "csv" and table is not None:
            header, rows = table()
            buffer = io.StringIO()
            writer = csv.writer(buffer, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)
            self.write(buffer.getvalue())
        else:
            self.write(text())
