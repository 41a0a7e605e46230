"""Probe contracts: ``probes/NAME.yaml`` says what a probe varies, shows and needs, and what each outcome would mean.

A contract is checked whole, and every fault of the file is told at once, with its line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from umma_probe.assets import asset_dir
from umma_probe.errors import ConfigError, unknown_name
from umma_probe.harness.located import Section, load_located
from umma_probe.spec.sources import SOURCES, Evidence, Ref

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OPTION_TYPES = ("int", "choice", "flag", "text")
NEEDS = ("tmem", "cluster", "wgmma")

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
    node, faults = load_located(path)
    top = Section(node, faults, "contract")
    name, source = top.text("name"), top.text("source")
    if name and name.replace("-", "_") != path.stem:
        top.fault("name", f"is '{name}', must be '{path.stem.replace('_', '-')}' as the file")
    if source and not (path.parent / source).is_file():
        top.fault("source", f"is '{source}', which is not beside the contract")
    contract = ProbeContract(
        name=name,
        title=top.text("title"),
        shows=top.text("shows"),
        source=source,
        options=tuple(filter(None, map(_option, top.sections("options")))),
        outcomes=tuple(map(_outcome, top.sections("outcomes", required=True))),
        needs=_needs(top),
        refs=tuple(filter(None, map(_ref, top.sections("refs", required=True)))),
        path=path,
    )
    names = [option.name for option in contract.options]
    for twice in sorted({name for name in names if names.count(name) > 1}):
        top.fault("options", f"'{twice}' is given twice")
    top.finish()
    faults.raise_all()
    return contract


def _needs(top: Section) -> tuple[str, ...]:
    needs = top.texts("needs", [])
    for need in needs:
        if need not in NEEDS:
            top.fault("needs", unknown_name("need", need, NEEDS))
    return tuple(needs)


def _option(section: Section) -> ProbeOption | None:
    name, kind, about = section.text("name"), section.choice("type", OPTION_TYPES), section.text("help")
    choices = tuple(map(str, section.raw("choices", []) or ()))
    default = section.raw("default", False if kind == "flag" else None)
    low, high = _bound(section, "min"), _bound(section, "max")
    section.finish()
    if not name or kind not in OPTION_TYPES:
        return None
    if bool(choices) != (kind == "choice"):
        section.fault("choices", f"option of type {kind} {'lacks' if kind == 'choice' else 'has'} choices")
    if not isinstance(default, int | str | bool | None):
        section.fault("default", f"is {default!r}, must be a number, a text or a truth value")
        return None
    option = ProbeOption(name, kind, about, default, choices, low, high)
    try:
        option.convert(default)
    except ConfigError as error:
        section.fault("default", error.message)
    return option


def _bound(section: Section, key: str) -> int | None:
    return section.integer(key, low=None) if key in section else section.raw(key, None)


def _outcome(section: Section) -> Outcome:
    outcome = Outcome(section.text("when"), section.text("means"))
    section.finish()
    return outcome


def _ref(section: Section) -> Ref | None:
    source, anchor = section.choice("source", list(SOURCES)), section.text("anchor")
    level = section.choice("evidence", [level.value for level in Evidence], Evidence.DOCUMENTED.value)
    note = section.text("note", "")
    section.finish()
    return (
        Ref(source, anchor, Evidence(level), note)
        if source in SOURCES and level in {known.value for known in Evidence}
        else None
    )
