"""Expected outcomes as data: ``occupancy.written_columns`` is ``0-63``, ``metrics.cosine`` is at least 0.9999.

A key is a path into a report's JSON, parts joined by dots; in a list of named things (``checks``) the next part is a
name. Keys are checked against the report's schema, so that a misspelt key is a fault of the file that has it, not an
expectation that never holds. For a key that a report lacks no rule holds, ``not`` included: a run that died shows
nothing.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from umma_probe.errors import ConfigError, unknown_name
from umma_probe.record.schema import Report, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Json = dict[str, Any]

RULES = ("min", "max", "not", "one_of", "contains")


class _Absent:
    def __str__(self) -> str:
        return "absent"


ABSENT = _Absent()


@dataclass(frozen=True)
class Expectation:
    """One rule about one key of a report."""

    key: str
    rule: str
    """``is`` or one of ``RULES``."""
    wanted: Any

    def holds(self, report: Json) -> bool:
        """Whether a report is so."""
        actual = look_up(report, self.key)
        if actual is ABSENT:
            return False
        match self.rule:
            case "not":
                return bool(actual != self.wanted)
            case "is":
                return bool(actual == self.wanted)
            case "one_of":
                return actual in self.wanted
            case "contains":
                return isinstance(actual, str | list) and self.wanted in actual
        if isinstance(actual, bool) or not isinstance(actual, int | float):
            return False
        return bool(actual >= self.wanted if self.rule == "min" else actual <= self.wanted)

    def actual(self, report: Json) -> str:
        """What the report has there, as text."""
        return shown(look_up(report, self.key))

    def __str__(self) -> str:
        words = {
            "is": "",
            "min": "at least ",
            "max": "at most ",
            "not": "not ",
            "one_of": "one of ",
            "contains": "has ",
        }
        return f"{self.key} {words[self.rule]}{shown(self.wanted)}"


def expectations(wanted: Mapping[str, Any]) -> list[Expectation]:
    """From key to value, or from key to a mapping of rules such as ``{min: 0.9, max: 1}``.

    :raises ConfigError: an unknown key, rule or verdict.
    """
    return [entry for key, value in wanted.items() for entry in expectation(str(key), value)]


def expectation(key: str, value: Any) -> list[Expectation]:
    """The rules about one key.

    :raises ConfigError: an unknown key, rule or verdict.
    """
    check_key(key)
    found = [_rule(key, str(rule), wanted) for rule, wanted in value.items()] if isinstance(value, dict) else [
        Expectation(key, "is", value)
    ]  # fmt: skip
    if not found:
        raise ConfigError(f"{key}: no rule is given, must have one of {', '.join(RULES)}")
    if key == "verdict":
        _check_verdicts(found)
    return found


def _rule(key: str, rule: str, wanted: Any) -> Expectation:
    if rule not in RULES:
        raise ConfigError(f"{key}: {unknown_name('rule', rule, RULES)}")
    number = isinstance(wanted, int | float) and not isinstance(wanted, bool)
    if rule in ("min", "max") and not number:
        raise ConfigError(f"{key}: {rule} is {wanted!r}, must be a number")
    if rule == "one_of" and not isinstance(wanted, list):
        raise ConfigError(f"{key}: one_of is {wanted!r}, must be a list")
    return Expectation(key, rule, wanted)


def _check_verdicts(found: Iterable[Expectation]) -> None:
    known = [verdict.value for verdict in Verdict]
    for entry in found:
        for word in entry.wanted if isinstance(entry.wanted, list) else [entry.wanted]:
            if word not in known:
                raise ConfigError(unknown_name("verdict", str(word), known))


def look_up(report: Json, key: str) -> Any:
    """The value at a key, or ``ABSENT``."""
    value: Any = report
    for part in key.split("."):
        if isinstance(value, list):
            value = next((item for item in value if isinstance(item, dict) and item.get("name") == part), ABSENT)
        elif isinstance(value, dict):
            value = value.get(part, ABSENT)
        else:
            return ABSENT
    return value


def check_key(key: str) -> None:
    """That a report can have such a key.

    :raises ConfigError: it cannot; the nearest names are given.
    """
    hint: Any = Report
    parts = key.split(".")
    while parts:
        part = parts.pop(0)
        hint = _strip_optional(hint)
        if is_dataclass(hint):
            hints = get_type_hints(hint)
            if part not in hints:
                raise ConfigError(f"key {key}: {unknown_name('part', part, hints)}")
            hint = hints[part]
        elif get_origin(hint) in (list, dict):
            hint = get_args(hint)[-1]
        elif hint is not Any:
            raise ConfigError(f"key {key}: nothing lies below '{key[: key.rindex('.' + part)]}'")


def shown(value: Any) -> str:
    """A value in a message; the empty text is visible."""
    if isinstance(value, list):
        return ", ".join(map(shown, value)) or "nothing"
    return "empty" if value == "" else str(value)


def _strip_optional(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        return next(option for option in get_args(hint) if option is not type(None))
    return hint
