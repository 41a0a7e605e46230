"""NVRTC's log turned into one explained error.

Two tools write it. The C++ front end names a source line (``k.cu(4): error: ...``) and prints a caret. The assembler
names a line of the PTX (``ptxas ..., line 33; error : ...``), which nobody wrote; the ``.loc`` directives above that
line lead back to the source, so the error can name both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from umma_probe.errors import CompileError, Where

_FRONT_END = re.compile(
    r"^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>[^\n]+)", re.MULTILINE
)
_ASSEMBLER = re.compile(r"^ptxas [^\n]*?, line (?P<line>\d+); error\s*: (?P<text>[^\n]+)", re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_WRONG_TARGET = re.compile(r"not supported on \.target|requires? \.target")
_HOST_CODE = re.compile(r'identifier "(?:cuda|cu)[A-Z]|"std" has no member "(?:vector|cout|string|unique_ptr)')
_WITHOUT_HOST = (
    "NVRTC compiles device code alone: put host code between #ifndef __CUDACC_RTC__ and #endif, "
    "or give the PTX of nvcc -ptx -lineinfo -arch=sm_100a as source"
)


@dataclass(frozen=True)
class _Fault:
    text: str
    where: Where


def compile_error(log: str, *, source: str, name: str, arch: str, ptx: str = "") -> CompileError:
    """The error for a failed compilation.

    :param ptx: what the front end made before the assembler refused it; empty if it never got so far.
    """
    faults = _front_end_faults(log, source, name) or _assembler_faults(log, ptx, source, name)
    log = log.rstrip("\x00\n ")
    if not faults:
        return CompileError(f"{name} does not compile for {arch}\n{_indent(log)}", where=Where(name))
    first = faults[0]
    # one fault is told whole by its place and caret; more, and the notes between them, need the log
    rest = f" (the first of {len(faults)})\n{_indent(log)}" if len(faults) > 1 or "detected during" in log else ""
    return CompileError(
        f"{name} does not compile for {arch}: {first.text}{rest}",
        where=first.where,
        hint=_hint(first.text, arch),
    )


def _front_end_faults(log: str, source: str, name: str) -> list[_Fault]:
    faults = []
    for match in _FRONT_END.finditer(log):
        line = int(match["line"])
        text = _source_line(match["file"], line, source, name)
        faults.append(_Fault(match["text"], Where(match["file"], line, _caret_column(log, match.end(), text), text)))
    return faults


def _caret_column(log: str, start: int, source_line: str) -> int:
    """The 1-based column under NVRTC's caret; it prints the line re-indented, then the caret. 0 if there is none."""
    shown, caret = ([*log[start:].split("\n")[1:3], "", ""])[:2]
    if caret.strip() != "^" or shown.strip() != source_line.strip():
        return 0
    shift = (len(shown) - len(shown.lstrip())) - (len(source_line) - len(source_line.lstrip()))
    return max(caret.index("^") - shift, 0) + 1


def _assembler_faults(log: str, ptx: str, source: str, name: str) -> list[_Fault]:
    lines = ptx.split("\n")
    files = {int(number): path for number, path in _FILE.findall(ptx)}
    faults = []
    for match in _ASSEMBLER.finditer(log):
        ptx_line = int(match["line"])
        statement = lines[ptx_line - 1].strip() if 0 < ptx_line <= len(lines) else ""
        text = f"{match['text'].strip()}, in the PTX '{statement}'" if statement else match["text"].strip()
        faults.append(_Fault(text, _origin(lines[:ptx_line], files, source, name)))
    return faults


def _origin(lines: list[str], files: dict[int, str], source: str, name: str) -> Where:
    for text in reversed(lines):
        if match := _LOC.match(text):
            number, line, column = (int(group) for group in match.groups())
            file = files.get(number, name)
            file = name if Path(file).name == Path(name).name else file
            return Where(file, line, column, _source_line(file, line, source, name))
    return Where(name)


def _source_line(file: str, line: int, source: str, name: str) -> str:
    try:
        text = source if file == name else Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    lines = text.split("\n")
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _hint(text: str, arch: str) -> str:
    if _WRONG_TARGET.search(text):
        if not arch.endswith(("a", "f")):
            return f"tcgen05 and wgmma exist on architecture-specific targets only: use {arch}a"
        return "this architecture lacks the instruction; tcgen05 needs sm_100a, sm_103a, sm_107a or sm_110a"
    if "open source file" in text:
        return "add the header's directory (the CUDA toolkit's, for its own) to include_dirs; " + _WITHOUT_HOST
    if _HOST_CODE.search(text):
        return _WITHOUT_HOST
    return ""


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))
