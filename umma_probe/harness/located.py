"""YAML (and JSON, its subset) with places: every value knows its line, and every fault of a file is collected.

A reader takes the keys that it knows from a :class:`Section`; what is left over is unknown and is reported with the
nearest known names. Nothing is raised until :meth:`Faults.raise_all`, so that a user sees all mistakes of a file at
once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from umma_probe.errors import ConfigError, Where, unknown_name

T = TypeVar("T")
_MISSING = object()
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, which is ten times as fast, where PyYAML was built with it."""


@dataclass
class Faults:
    """The mistakes found in one file."""

    file: str
    lines: list[str] = field(default_factory=list)
    messages: list[tuple[int, int, str]] = field(default_factory=list)
    """(line, column, message), 1-based."""

    def add(self, node: yaml.Node | None, message: str) -> None:
        """Note a mistake at a node."""
        mark = None if node is None else node.start_mark
        self.messages.append((mark.line + 1, mark.column + 1, message) if mark else (1, 1, message))

    def where(self, node: yaml.Node) -> Where:
        """The place of a node, for what shows only later."""
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        return Where(self.file, line, column, self.lines[line - 1] if line <= len(self.lines) else "")

    def raise_all(self) -> None:
        """Raise if there is any mistake.

        :raises ConfigError: the first with its place, the others a line each.
        """
        if not self.messages:
            return
        (line, column, message), *others = sorted(self.messages)
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        more = "".join(f"\n  {self.file}:{n}: {m}" for n, _, m in others)
        raise ConfigError(message + more, where=Where(self.file, line, column, text))


def load_located(path: Path) -> tuple[yaml.Node, Faults]:
    """The root node of a file.

    :raises ConfigError: unreadable, or no YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot read {path}: {reason}") from error
    faults = Faults(str(path), text.splitlines())
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        message = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"no valid YAML: {message}", where=Where(str(path), line)) from error
    if node is None:
        raise ConfigError("the file is empty", where=Where(str(path), 1))
    return node, faults


def plain(node: yaml.Node) -> Any:
    """The plain value of a node.

    :raises ValueError: a value that YAML's own constructors refuse.
    """
    try:
        return yaml.constructor.SafeConstructor().construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


class Section:
    """A mapping of the file. Take what you know, then :meth:`finish`."""

    def __init__(self, node: yaml.Node, faults: Faults, name: str) -> None:
        self.node = node
        self.faults = faults
        self.name = name
        self._values: dict[str, yaml.Node] = {}
        self._known = {"about"}
        if not isinstance(node, yaml.MappingNode):
            faults.add(node, f"{name}: must be a mapping of keys to values")
            return
        for key, value in node.value:
            text = str(key.value)
            if text in self._values:
                faults.add(key, f"{name}: key '{text}' stands twice")
            self._values[text] = value
        self._keys = {str(key.value): key for key, _ in node.value}

    def __contains__(self, key: str) -> bool:
        """Whether it is there; a key that is asked for is one that may be."""
        self._known.add(key)
        return key in self._values

    def node_of(self, key: str) -> yaml.Node:
        """The value's node, or the section's own."""
        return self._values.get(key, self.node)

    def fault(self, key: str, message: str) -> None:
        """Note a mistake at a key."""
        self.faults.add(self.node_of(key), f"{self.name}.{key}: {message}")

    def raw(self, key: str, default: Any = _MISSING) -> Any:
        """The plain value; a fault if it is missing and has no default."""
        self._known.add(key)
        node = self._values.get(key)
        if node is None:
            if default is _MISSING:
                if isinstance(self.node, yaml.MappingNode):
                    self.faults.add(self.node, f"{self.name}: key '{key}' is missing")
                return None
            return default
        try:
            value = plain(node)
        except ValueError as error:
            self.fault(key, str(error))
            return None
        if value is None and default is _MISSING:
            self.fault(key, "has no value, must have one")
        return default if value is None and default is not _MISSING else value

    def text(self, key: str, default: Any = _MISSING) -> str:
        """A string."""
        value = self.raw(key, default)
        if value is not None and not isinstance(value, str):
            self.fault(key, f"is {value!r}, must be text")
            return ""
        return value or ""

    def integer(self, key: str, default: Any = _MISSING, low: int | None = 0) -> int:
        """An integer of at least ``low``."""
        value = self.raw(key, default)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or (low is not None and value < low):
            self.fault(key, f"is {value!r}, must be an integer" + ("" if low is None else f" of at least {low}"))
            return 0
        return value

    def number(self, key: str, default: Any = _MISSING) -> float:
        """A number."""
        value = self.raw(key, default)
        if value is None:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fault(key, f"is {value!r}, must be a number")
            return 0.0
        return float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        value = self.raw(key, default)
        if not isinstance(value, bool):
            self.fault(key, f"is {value!r}, must be true or false")
            return default
        return value

    def integers(
        self, key: str, default: Any = _MISSING, length: tuple[int, int] | None = None, low: int = 0
    ) -> list[int]:
        """A list of integers, each at least ``low``."""
        value = self.raw(key, default)
        if value is None:
            return []
        good = isinstance(value, list) and all(
            isinstance(item, int) and not isinstance(item, bool) and item >= low for item in value
        )
        if not good:
            self.fault(key, f"is {value!r}, must be a list of integers of at least {low}")
            return []
        if length is not None and not length[0] <= len(value) <= length[1]:
            wanted = str(length[0]) if length[0] == length[1] else f"{length[0]} to {length[1]}"
            self.fault(key, f"has {len(value)} entries, must have {wanted}")
        return list(value)

    def texts(self, key: str, default: Any = _MISSING) -> list[str]:
        """A list of strings."""
        value = self.raw(key, default)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fault(key, f"is {value!r}, must be a list of texts")
            return []
        return list(value)

    def choice(self, key: str, known: Any, default: Any = _MISSING) -> str:
        """One of the known words."""
        value = self.raw(key, default)
        if value is None:
            return ""
        if isinstance(value, list | dict) or value not in known:
            self.fault(key, unknown_name(key, str(value), known))
        return str(value)

    def sections(self, key: str, *, required: bool = False) -> list[Section]:
        """A list of mappings."""
        self._known.add(key)
        node = self._values.get(key)
        if node is None:
            if required:
                self.faults.add(self.node, f"{self.name}: key '{key}' is missing")
            return []
        if not isinstance(node, yaml.SequenceNode):
            self.fault(key, "must be a list")
            return []
        return [Section(item, self.faults, f"{key}[{i}]") for i, item in enumerate(node.value)]

    def finish(self) -> None:
        """Report the keys that nobody took."""
        for key in self._values:
            if key not in self._known:
                self.faults.add(self._keys[key], f"{self.name}: " + unknown_name("key", key, self._known))
