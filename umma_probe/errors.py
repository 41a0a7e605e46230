"""The exception tree and the exit codes of the command line.

A wrong *result* is a verdict, not an exception. Everything here means that no result could be had.
Each class knows its exit code; the message is made of five parts, so that every error says
what is wrong, where, what was expected and what to do next.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class ExitCode(IntEnum):
    """What a script may rely on."""

    OK = 0
    DIFFERS = 1
    USAGE = 2
    ENVIRONMENT = 3
    UNDECIDED = 4
    HANG = 5
    FAULT = 6
    INTERNAL = 70
    INTERRUPTED = 130


@dataclass(frozen=True)
class Where:
    """A place: file, line and column (1-based, 0 = unknown), and who was there."""

    file: str = ""
    line: int = 0
    column: int = 0
    source_line: str = ""
    """The text of that line, for a caret."""
    actor: str = ""
    """For instance ``CTA 0, warp 2, lane 5``."""

    def __str__(self) -> str:
        place = self.file
        if self.line:
            place = f"{place or '<text>'}:{self.line}" + (f":{self.column}" if self.column else "")
        return ", ".join(part for part in (place, self.actor) if part)

    def caret(self) -> str:
        """The source line and a caret under the column; empty if the line is unknown."""
        if not self.source_line:
            return ""
        text = self.source_line.expandtabs(4)
        column = len(self.source_line[: max(self.column - 1, 0)].expandtabs(4))
        return f"  {text}\n  {' ' * column}^"


class UmmaProbeError(Exception):
    """Root of the tree.

    :param message: ``<op or key>: <field> is <actual>, must be <rule>``.
    :param where: the place, if there is one.
    :param hint: what to do next.
    :param ref: the document that states the rule, ready to print.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL
    verdict: ClassVar[str] = "error"
    title: ClassVar[str] = "error"

    def __init__(self, message: str, *, where: Where | None = None, hint: str = "", ref: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.ref = ref

    def render(self) -> str:
        """All parts, one a line; no traceback, no markup."""
        lines = [f"{self.title}: {self.message}"]
        if self.where is not None and str(self.where):
            lines.append(f"  at {self.where}")
            if caret := self.where.caret():
                lines.append(caret)
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.ref:
            lines.append(f"  source: {self.ref}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


class ConfigError(UmmaProbeError):
    """The command, a config or a case file is wrong; nothing ran."""

    exit_code = ExitCode.USAGE
    title = "usage error"


class LaunchShapeError(ConfigError):
    """A launch asks for more than the device or the kernel allows."""

    def __init__(self, what: str, problems: Sequence[tuple[str, str]]) -> None:
        """Take the problems, each as (parameter of ``launch``, sentence)."""
        super().__init__(f"{what}: " + "; ".join(sentence for _, sentence in problems))
        self.parameter = problems[0][0]
        """The parameter of ``launch`` that the first problem lies with."""


class PtxSyntaxError(ConfigError):
    """The PTX text cannot be parsed."""

    title = "PTX syntax error"


class CompileError(ConfigError):
    """NVRTC refused the source; the message carries its log."""

    title = "compile error"


class RecordError(ConfigError):
    """A stored report is damaged, or of an unknown version."""

    title = "report error"


class IllegalProgram(UmmaProbeError):
    """The specification forbids what the program does; the silicon would fault."""

    exit_code = ExitCode.FAULT
    verdict = "fault"
    title = "illegal program"


class UndefinedBehavior(UmmaProbeError):
    """The specification leaves the outcome open, so the model gives none."""

    exit_code = ExitCode.UNDECIDED
    verdict = "undecided"
    title = "undefined behaviour"


class NotModelled(UmmaProbeError):
    """Valid PTX that the model lacks. Raised before the first thread runs, where that can be known."""

    exit_code = ExitCode.UNDECIDED
    verdict = "undecided"
    title = "not modelled"


class Deadlock(UmmaProbeError):
    """No warp can go on, or none makes progress; the message lists who waits on what."""

    exit_code = ExitCode.HANG
    verdict = "hang"
    title = "deadlock"


class DeviceUnavailable(UmmaProbeError):
    """The environment lacks something: GPU, driver, NVRTC, architecture."""

    exit_code = ExitCode.ENVIRONMENT
    title = "not available"


class DeviceError(UmmaProbeError):
    """The GPU (or the model in its place) faulted: illegal address or instruction, misaligned, trap."""

    exit_code = ExitCode.FAULT
    verdict = "fault"
    title = "device fault"


class DeviceTimeout(DeviceError):
    """The watchdog ended a kernel that did not finish."""

    exit_code = ExitCode.HANG
    verdict = "hang"
    title = "timeout"


class InternalError(UmmaProbeError):
    """A bug of ours."""

    title = "internal error"


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """``unknown <what> 'name'`` with the nearest known names."""
    names = sorted(known)
    if not names:
        return f"unknown {what} '{name}'; there is none"
    # also names around it: 'k' in the mangled '_Z1kPf'
    near = (
        get_close_matches(name, names, n=3)
        or get_close_matches(name.lower(), names, n=3)
        or [known for known in names if name and name in known][:3]
    )
    if near:
        return f"unknown {what} '{name}'; did you mean {', '.join(near)}?"
    return f"unknown {what} '{name}'; known: {', '.join(names)}"
