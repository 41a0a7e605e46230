"""The files that a CUDA source can pull in, found textually.

The compile cache needs to know whether anything that NVRTC would read has changed, without running NVRTC. So every
``#include "x"``, ``#include <x>`` and ``__has_include`` is followed, conditional or not: reading too many files costs
a cache miss, reading too few would serve a stale kernel. A name that resolves to nothing is kept too, so that a
header that appears later changes the answer. An ``#include MACRO`` cannot be followed: ``opaque`` says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAMED = re.compile(r"""(?:^[ \t]*\#[ \t]*include|__has_include[ \t]*\()[ \t]*(["<])([^">\n]+)[">]""", re.MULTILINE)
_COMPUTED = re.compile(r"""^[ \t]*\#[ \t]*include(?:[ \t]+|(?=\\))(?!["<\s])""", re.MULTILINE)


@dataclass
class IncludeClosure:
    """Everything reachable from one source."""

    files: dict[Path, bytes] = field(default_factory=dict)
    """Content of every file found, in the order of discovery."""
    missing: list[str] = field(default_factory=list)
    """Names that resolve to no file, each once."""
    opaque: bool = False
    """Some include is computed by a macro, so the closure may be incomplete."""


def include_closure(source: str, directory: Path, include_dirs: Sequence[Path]) -> IncludeClosure:
    """Follow the includes of ``source``, which lies (or would lie) in ``directory``.

    Quoted names are looked up beside the including file first, then in ``include_dirs`` in order; unreadable files
    count as missing.
    """
    closure = IncludeClosure()
    pending = [(source, directory)]
    while pending:
        text, beside = pending.pop()
        closure.opaque |= _COMPUTED.search(text) is not None
        for quoted, name in _includes(text):
            found = _resolve(name, [beside, *include_dirs] if quoted else include_dirs)
            if found is None:
                if name not in closure.missing:
                    closure.missing.append(name)
            elif found[0] not in closure.files:
                path, content = found
                closure.files[path] = content
                pending.append((content.decode("utf-8", "replace"), path.parent))
    return closure


def _includes(text: str) -> Iterator[tuple[bool, str]]:
    for match in _NAMED.finditer(text):
        yield match[1] == '"', match[2].strip()


def _resolve(name: str, directories: Sequence[Path]) -> tuple[Path, bytes] | None:
    for directory in directories:
        path = Path(directory) / name
        try:
            return path.resolve(), path.read_bytes()
        except OSError:
            continue
    return None
