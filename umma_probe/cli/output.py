"""stdout carries the result and nothing else: one helper for every calculator's formats."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
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
            output = Output("json" if json_ else format_, None if output_file == "-" else output_file)
            if output.file is not None:
                check_writable("--output", Path(output.file))  # before anything runs for it
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


def check_writable(option: str, path: Path, *, folder: bool = False) -> None:
    """See to it before a run that its result will have a place: a file in a folder that is there, or a folder.

    :param folder: a folder is asked for; it need not be there, nor need those above it.
    :raises ConfigError: there is none, or it may not be written.
    """
    problem = _folder_problem(path) if folder else _file_problem(path)
    if problem:
        raise ConfigError(f"{option}: cannot write {path}: {problem}", hint="nothing has run")


def _file_problem(path: Path) -> str:
    try:
        if path.is_dir():
            return "it is a directory, must be a file"
        if not path.parent.is_dir():
            return f"there is no directory {path.parent}"
        return "" if os.access(path if path.exists() else path.parent, os.W_OK) else "permission denied"
    except (OSError, ValueError) as error:  # a name that is too long, or holds a NUL
        return getattr(error, "strerror", None) or str(error)


def _folder_problem(path: Path) -> str:
    try:
        nearest = next(place for place in (path, *path.absolute().parents) if place.exists())
        if not nearest.is_dir():
            return f"{nearest} is a file, must be a directory"
        return "" if os.access(nearest, os.W_OK | os.X_OK) else f"permission denied for {nearest}"
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)


def discard_stdout() -> None:
    """Nobody reads on, or there is no room: let what is still buffered go nowhere, without a word at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stdout that is no file has nothing to flush at exit
        return


class Output:
    """Where the result goes and in which format."""

    def __init__(self, format_: str, file: str | None = None) -> None:
        self.format = format_
        self.file = file

    def write(self, text: str) -> None:
        """Write the whole result; a file never gets terminal colours.

        A reader of stdout that goes away has seen enough; the exit code still says how it went.

        :raises ConfigError: it cannot be written.
        """
        if self.file is None:
            try:
                click.echo(text.rstrip("\n"))
            except BrokenPipeError:
                discard_stdout()
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
