"""The values of one entry's options, and the product of them.

An option has one value, a list of values, a range ``{from: 8, to: 256, step: 8}``, ``all`` (every choice, or both
states of a flag), or, for ``m`` and ``n``, ``legal``: with the (M, N) that the PTX ISA accepts for the case's ``kind``,
``cta-group``, ``ws`` and ``sparse``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError
from umma_probe.spec.shapes import legal_shapes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from umma_probe.harness.manifest import ProbeContract, ProbeOption

LEGAL = "legal"
_SHAPE = ("m", "n")
_RANGE = {"from", "to", "step"}
_MANY = 100_000


@dataclass(frozen=True)
class Axis:
    """One option and what it takes; ``values`` is None for ``legal``."""

    option: ProbeOption
    values: tuple[Any, ...] | None


def axis(option: ProbeOption, wanted: Any) -> Axis:
    """Read an option's values.

    :raises ConfigError: of a wrong form, a value that the option refuses, a value that stands twice.
    """
    if wanted == LEGAL and LEGAL not in option.choices:
        if option.key not in _SHAPE:
            raise ConfigError("is legal, which only m and n can be")
        return Axis(option, None)
    listed: list[Any]
    if isinstance(wanted, dict):
        listed = _range(wanted)
    elif wanted == "all" and option.type in ("choice", "flag"):
        listed = [False, True] if option.type == "flag" else list(option.choices)
    else:
        listed = wanted if isinstance(wanted, list) else [wanted]
    if not listed:
        raise ConfigError("is an empty list, must have a value")
    values = tuple(option.convert(value) for value in listed)
    for value in values:
        if values.count(value) > 1:
            raise ConfigError(f"{value} stands twice")
    return Axis(option, values)


def _range(wanted: dict[Any, Any]) -> list[int]:
    good = wanted.keys() == _RANGE and all(isinstance(v, int) and not isinstance(v, bool) for v in wanted.values())
    if not good or wanted["step"] < 1 or wanted["to"] < wanted["from"]:
        raise ConfigError(f"is {wanted!r}, must be {{from: 8, to: 256, step: 8}}")
    numbers = range(wanted["from"], wanted["to"] + 1, wanted["step"])
    if len(numbers) > _MANY:
        raise ConfigError(f"has {len(numbers)} values, must have at most {_MANY}")
    return list(numbers)


def product(contract: ProbeContract, axes: list[Axis]) -> Iterator[dict[str, Any]]:
    """The given options of each case, by key, the last option fastest; ``legal`` shapes innermost, M before N."""
    open_axes = [entry for entry in axes if entry.values is None]
    shape = [entry for entry in axes if entry.option.key in _SHAPE] if open_axes else []
    outer = [entry for entry in axes if entry not in shape]
    names = [entry.option.key for entry in axes]
    for values in itertools.product(*(entry.values or () for entry in outer)):
        given = dict(zip((entry.option.key for entry in outer), values, strict=True))
        for pair in _shapes(contract.resolve(given), shape) if shape else [{}]:
            both = {**given, **pair}
            yield {name: both[name] for name in names}


def _shapes(params: Mapping[str, Any], shape: list[Axis]) -> Iterator[dict[str, Any]]:
    """The legal shapes that the axes' own values (or the default of the one not given) leave."""
    allowed = {entry.option.key: entry.values for entry in shape}
    for name in _SHAPE:
        allowed.setdefault(name, (params.get(name),))
    legal = legal_shapes(
        params.get("kind") or "f16",
        int(params.get("cta_group") or 1),
        bool(params.get("ws")),
        bool(params.get("sparse")),
    )
    given = {entry.option.key for entry in shape}
    for pair in legal:
        named = dict(zip(_SHAPE, pair, strict=True))
        if all((values := allowed[name]) is None or value in values for name, value in named.items()):
            yield {name: value for name, value in named.items() if name in given}
