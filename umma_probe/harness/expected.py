"""What a config or a finding expects of a report, read from its file with the place of every fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError
from umma_probe.record.expectations import Expectation, expectation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umma_probe.harness.located import Section


def read_expectations(section: Section, key: str, wanted: Mapping[str, Any]) -> list[Expectation]:
    """Report keys to values or rules; faults are noted at the section's key."""
    found: list[Expectation] = []
    for name, value in wanted.items():
        try:
            found += expectation(str(name), value)
        except ConfigError as error:
            section.fault(key, error.message)
    return found
