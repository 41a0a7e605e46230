"""Probe contracts: ``probes/NAME.yaml`` says what a probe varies, shows and needs, and what each outcome would mean.

A contract is checked whole, and every fault of the file is told at once, with its line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import yaml

from umma_probe.assets import asset_dir
from umma_probe.errors import ConfigError, Where, unknown_name
from umma_probe.spec.sources import SOURCES, Evidence, Ref

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

OPTION_TYPES = ("int", "choice", "flag", "text")
NEEDS = ("tmem", "cluster", "wgmma")

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, which is ten times as fast, where PyYAML was built with it."""

Value = int | str | bool | None


@dataclass(frozen=True)
class ProbeOption:
    """One thing that a probe varies; on the command line ``--name``, in parameters with ``_`` for ``-``."""

    name: str
    type: str
    help: str
    default: Value = None
    choices: tuple[str, ...] = ()
    min: int | None = None
    max: int | None = None

    @property
    def key(self) -> str:
        """``a_type`` for ``a-type``."""
        return self.name.replace("-", "_")

    def convert(self, value: Any) -> Value:
        """The value as the option's type.

        :raises ConfigError: of another type, not one of the choices, out of range.
        """
        if value is None:
            return None
        match self.type:
            case "flag":
                if isinstance(value, bool):
                    return value
                raise ConfigError(f"{self.name} is {value!r}, must be true or false")
            case "int":
                return self._integer(value)
            case "choice" if str(value) not in self.choices:
                raise ConfigError(f"{self.name}: {unknown_name('value', str(value), self.choices)}")
        return str(value)

    def _integer(self, value: Any) -> int:
        try:
            number = int(value) if isinstance(value, int) and not isinstance(value, bool) else int(str(value), 0)
        except ValueError:
            raise ConfigError(f"{self.name} is {value!r}, must be an integer") from None
        low = number if self.min is None else self.min
        high = number if self.max is None else self.max
        if not low <= number <= high:
            raise ConfigError(f"{self.name} is {number}, must be {self._range()}")
        return number

    def _range(self) -> str:
        if self.max is None:
            return f"at least {self.min}"
        return f"at most {self.max}" if self.min is None else f"{self.min} to {self.max}"


@dataclass(frozen=True)
class Outcome:
    """A possible result and what it would mean."""

    when: str
    means: str


@dataclass(frozen=True)
class ProbeContract:
    """A probe as its YAML describes it."""

    name: str
    title: str
    shows: str
    source: str
    """The ``.cu`` file's name, beside the contract."""
    options: tuple[ProbeOption, ...]
    outcomes: tuple[Outcome, ...]
    needs: tuple[str, ...]
    refs: tuple[Ref, ...]
    path: Path = field(compare=False)

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Value]:
        """All parameters: the given ones converted, the others at their defaults.

        :param given: by key (``a_type``) or name (``a-type``).
        :raises ConfigError: an unknown parameter, or one that its option refuses.
        """
        by_key = {option.key: option for option in self.options}
        values: dict[str, Value] = {option.key: option.default for option in self.options}
        for name, value in given.items():
            key = name.replace("-", "_")
            if key not in by_key:
                raise ConfigError(
                    unknown_name(f"option of {self.name}", name, [option.name for option in self.options])
                )
            if value is not None:
                values[key] = by_key[key].convert(value)
        return values


def probe_names() -> list[str]:
    """All probes, sorted."""
    return sorted(path.stem.replace("_", "-") for path in asset_dir("probes").glob("*.yaml"))


@lru_cache(maxsize=64)
def load_probe(name: str) -> ProbeContract:
    """The contract of a probe, by name; ``_`` counts as ``-``.

    :raises ConfigError: no such probe (with the nearest names), or its contract is faulty.
    """
    wanted = name.replace("_", "-")
    if wanted not in (names := probe_names()):
        raise ConfigError(unknown_name("probe", name, names), hint="umma-probe list")
    return load_contract(asset_dir("probes") / f"{wanted.replace('-', '_')}.yaml")


def load_contract(path: Path) -> ProbeContract:
    """Read and check one contract.

    :raises ConfigError: with every fault and its line.
    """
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from error
    reader = _Reader(path)
    contract = reader.contract(root)
    if reader.faults or contract is None:
        lines = "\n".join(f"  {path.name}:{line}: {message}" for line, message in reader.faults)
        raise ConfigError(f"the contract has {len(reader.faults)} fault(s):\n{lines}", where=Where(str(path)))
    return contract


# what a mapping may hold: key -> needed
_TOP = {"name": True, "title": True, "shows": True, "source": True, "needs": False, "options": False,
        "outcomes": True, "refs": True}  # fmt: skip
_OPTION = {"name": True, "type": True, "help": True, "default": False, "choices": False, "min": False, "max": False}
_OUTCOME = {"when": True, "means": True}
_REF = {"source": True, "anchor": True, "evidence": False, "note": False}


class _Reader:
    """Walks the YAML nodes, which know their lines, and collects faults."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[tuple[int, str]] = []

    def contract(self, root: yaml.Node | None) -> ProbeContract | None:
        if root is None:
            self.faults.append((1, "the file is empty"))
            return None
        top = self._mapping(root, "the contract", _TOP)
        options = tuple(filter(None, (self._option(node) for node in self._items(top.get("options"), "options"))))
        outcomes = tuple(filter(None, (self._outcome(node) for node in self._items(top.get("outcomes"), "outcomes"))))
        refs = tuple(filter(None, (self._ref(node) for node in self._items(top.get("refs"), "refs"))))
        needs = tuple(self._need(node) for node in self._items(top.get("needs"), "needs"))
        texts = {key: self._text(top.get(key), key) for key in ("name", "title", "shows", "source")}
        if texts["name"].replace("-", "_") != self.path.stem and "name" in top:
            self._fault(
                top["name"], f"name is '{texts['name']}', must be '{self.path.stem.replace('_', '-')}' as the file"
            )
        if "source" in top and not (self.path.parent / texts["source"]).is_file():
            self._fault(top["source"], f"source is '{texts['source']}', which is not beside the contract")
        self._unique(options)
        if self.faults:
            return None
        return ProbeContract(**texts, options=options, outcomes=outcomes, needs=needs, refs=refs, path=self.path)

    def _unique(self, options: tuple[ProbeOption, ...]) -> None:
        names = [option.name for option in options]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.faults.append((1, f"option '{name}' is given twice"))

    def _option(self, node: yaml.Node) -> ProbeOption | None:
        parts = self._mapping(node, "an option", _OPTION)
        if not {"name", "type", "help"} <= parts.keys():
            return None
        kind = self._text(parts["type"], "type")
        if kind not in OPTION_TYPES:
            self._fault(parts["type"], unknown_name("option type", kind, OPTION_TYPES))
            return None
        choices = tuple(self._text(item, "choices") for item in self._items(parts.get("choices"), "choices"))
        if bool(choices) != (kind == "choice"):
            self._fault(node, f"option of type {kind} {'lacks' if kind == 'choice' else 'has'} choices")
        option = ProbeOption(
            name=self._text(parts["name"], "name"),
            type=kind,
            help=self._text(parts["help"], "help"),
            default=False if kind == "flag" and "default" not in parts else self._scalar(parts.get("default")),
            choices=choices,
            min=self._number(parts.get("min")),
            max=self._number(parts.get("max")),
        )
        try:
            option.convert(option.default)
        except ConfigError as error:
            self._fault(parts.get("default", node), f"default of {error.message}")
        return option

    def _outcome(self, node: yaml.Node) -> Outcome | None:
        parts = self._mapping(node, "an outcome", _OUTCOME)
        return Outcome(**{key: self._text(part, key) for key, part in parts.items()}) if len(parts) == 2 else None

    def _ref(self, node: yaml.Node) -> Ref | None:
        parts = {key: self._text(part, key) for key, part in self._mapping(node, "a ref", _REF).items()}
        levels = [level.value for level in Evidence]
        level = parts.get("evidence", Evidence.DOCUMENTED.value)
        for what, name, known in (("source", parts.get("source", ""), list(SOURCES)), ("evidence", level, levels)):
            if name not in known:
                self._fault(node, unknown_name(what, name, known))
                return None
        return Ref(parts["source"], parts.get("anchor", ""), Evidence(level), parts.get("note", ""))

    def _need(self, node: yaml.Node) -> str:
        name = self._text(node, "needs")
        if name not in NEEDS:
            self._fault(node, unknown_name("need", name, NEEDS))
        return name

    # ------------------------------------------------------------------------------------------------ nodes
    def _fault(self, node: yaml.Node, message: str) -> None:
        self.faults.append((node.start_mark.line + 1, message))

    def _mapping(self, node: yaml.Node, what: str, known: Mapping[str, bool]) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            self._fault(node, f"{what} is no mapping, must have the keys {', '.join(known)}")
            return {}
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if key.value not in known:
                self._fault(key, unknown_name(f"key of {what}", str(key.value), known))
            elif key.value in found:
                self._fault(key, f"{key.value} is given twice")
            else:
                found[key.value] = value
        for key, needed in known.items():
            if needed and key not in found:
                self._fault(node, f"{what} lacks {key}")
        return found

    def _items(self, node: yaml.Node | None, what: str) -> Iterator[yaml.Node]:
        if node is None:
            return
        if isinstance(node, yaml.SequenceNode):
            yield from node.value
        else:
            self._fault(node, f"{what} is no list")

    def _text(self, node: yaml.Node | None, what: str) -> str:
        if node is None:
            return ""
        if not isinstance(node, yaml.ScalarNode):
            self._fault(node, f"{what} is no text")
            return ""
        return str(node.value)

    def _scalar(self, node: yaml.Node | None) -> Value:
        if node is None:
            return None
        value = yaml.SafeLoader("").construct_object(node)
        if isinstance(value, int | str | bool):
            return value
        self._fault(node, "default is no number, text or truth value")
        return None

    def _number(self, node: yaml.Node | None) -> int | None:
        value = self._scalar(node)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        assert node is not None
        self._fault(node, f"{value!r} is no integer")
        return None
