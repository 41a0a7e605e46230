"""Reads ``reports/findings/*.yaml`` into the registry; every fault of a file is told at once, with its line."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from umma_probe.assets import asset_dir, checkout_dir
from umma_probe.errors import ConfigError, unknown_name
from umma_probe.findings.schema import Answer, Assembly, Bearing, Finding, Status, Verification
from umma_probe.harness.expected import read_expectations
from umma_probe.harness.located import Section, load_located
from umma_probe.harness.manifest import load_probe, probe_names
from umma_probe.model.asynchrony.async_engine import Policy
from umma_probe.registry import Registry
from umma_probe.spec.machine import ARCHS
from umma_probe.spec.shapes import SOURCE_CONFLICTS
from umma_probe.spec.sources import SOURCES, Evidence, Ref

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from umma_probe.record.expectations import Expectation

FOLDER = "reports/findings"
UNKNOWN_DATE = "unknown"
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@lru_cache(maxsize=1)
def findings() -> Registry[Finding]:
    """All findings by id, in the order of their files' names.

    :raises ConfigError: a file is faulty.
    """
    registry: Registry[Finding] = Registry("finding")
    for path in sorted(asset_dir(FOLDER).glob("*.yaml")):
        registry.add(path.stem, load_finding(path))
    return registry


def load_finding(path: Path) -> Finding:
    """Read and check one file.

    :raises ConfigError: with every fault and its line.
    """
    node, faults = load_located(path)
    top = Section(node, faults, "finding")
    found = Finding(
        id=_identity(top, path),
        title=top.text("title"),
        date=_date(top, "date", allow_unknown=True),
        recorded=_date(top, "recorded"),
        device=top.text("device"),
        origin=top.text("origin"),
        status=_status(top, "status") or Status.OPEN,
        observed=tuple(_statements(top, "observed")),
        concluded=tuple(top.texts("concluded", [])),
        cannot_show=tuple(_statements(top, "cannot_show")),
        assessment=top.text("assessment"),
        settled_by=top.text("settled_by"),
        refs=tuple(_refs(top)),
        reports=tuple(top.texts("reports", [])),
        conflicts=tuple(top.texts("conflicts", [])),
        bears_on=tuple(_bearings(top)),
        assembles=tuple(_assembles(top)),
        last_verified=_verification(top),
        path=path,
    )
    _check_links(top, found)
    top.finish()
    faults.raise_all()
    return found


# --------------------------------------------------------------------------------------------------------------- parts


def _identity(top: Section, path: Path) -> str:
    name = top.text("id")
    if name and not _ID.fullmatch(name):
        top.fault("id", f"is '{name}', must be lower-case words joined by '-'")
    elif name and name != path.stem:
        top.fault("id", f"is '{name}', must be '{path.stem}' as the file")
    return name


def _date(section: Section, key: str, *, allow_unknown: bool = False) -> str:
    value = section.raw(key)
    if isinstance(value, date):
        return value.isoformat()
    if value is not None and not (allow_unknown and value == UNKNOWN_DATE):
        rule = "an ISO date" + (f" or {UNKNOWN_DATE}" if allow_unknown else "")
        section.fault(key, f"is {value!r}, must be {rule}")
    return str(value or "")


def _status(section: Section, key: str, *, required: bool = True) -> Status | None:
    known = [status.value for status in Status]
    if key not in section and not required:
        return None
    name = section.choice(key, known)
    return Status(name) if name in known else None


def _statements(section: Section, key: str) -> list[str]:
    found = section.texts(key)
    if not found and key in section and isinstance(section.raw(key), list):
        section.fault(key, "is empty, must have an entry")
    return found


def _refs(top: Section) -> Iterator[Ref]:
    levels = [level.value for level in Evidence]
    for entry in top.sections("evidence"):
        source = entry.choice("source", list(SOURCES))
        anchor = entry.text("anchor")
        level = entry.choice("evidence", levels, Evidence.DOCUMENTED.value)
        note = entry.text("note", "")
        entry.finish()
        if source in SOURCES and level in levels:
            yield Ref(source, anchor, Evidence(level), note)


def _verification(top: Section) -> Verification | None:
    if "last_verified" not in top:
        return None
    top.raw("last_verified")
    section = Section(top.node_of("last_verified"), top.faults, "last_verified")
    found = Verification(_date(section, "date"), section.text("target"), section.flag("holds"), section.text("version"))
    section.finish()
    return found


def _check_links(top: Section, finding: Finding) -> None:
    """That everything a finding points at exists."""
    known = [conflict.name for conflict in SOURCE_CONFLICTS]
    for name in finding.conflicts:
        if name not in known:
            top.fault("conflicts", unknown_name("conflict", name, known))
    top_dir = checkout_dir()  # a wheel has the findings, not the reports that they name
    for name in finding.reports:
        if top_dir and not (top_dir / "reports" / name).is_file():
            top.fault("reports", f"there is no reports/{name}")
    if not (finding.refs or finding.reports):
        top.faults.add(top.node, "finding: neither 'evidence' nor 'reports' has an entry")


# ------------------------------------------------------------------------------------------------------------ bearings


def _bearings(top: Section) -> Iterator[Bearing]:
    for section in top.sections("bears_on"):
        probe = section.choice("probe", probe_names())
        params = _params(section, probe)
        policies = tuple(section.texts("policies", ["eager"]))
        for policy in policies:
            try:
                Policy.parse(policy)
            except ConfigError as error:
                section.fault("policies", error.message)
        open_ended = "answers" in section
        answers = tuple(_answers(section))
        expect = () if open_ended else tuple(_expect(section, "expect"))
        means = "" if open_ended else section.text("means")
        arch = section.choice("arch", [*ARCHS, ""], "")
        force = section.flag("force")
        settles = None if open_ended else _status(section, "settles", required=False)
        section.finish()
        yield Bearing(probe, params, policies, expect, means, force, settles, arch, answers)


def _answers(section: Section) -> Iterator[Answer]:
    """Where nobody knows: the foreseen outcomes; the first that fits is the answer."""
    for entry in section.sections("answers"):
        when, says = tuple(_expect(entry, "when")), entry.text("says")
        settles = _status(entry, "settles", required=False)
        entry.finish()
        yield Answer(when, says, settles)


def _assembles(top: Section) -> Iterator[Assembly]:
    for section in top.sections("assembles"):
        ptx = section.text("ptx")
        arch = section.choice("arch", list(ARCHS), "sm_100a")
        answer = section.choice("expect", ["accepted", "refused"])
        says = section.text("says", "")
        means = section.text("means")
        settles = _status(section, "settles", required=False)
        if says and answer == "accepted":
            section.fault("says", "is given, must be left out where the assembler accepts")
        section.finish()
        yield Assembly(ptx, arch, answer == "accepted", says, means, settles)


def _params(section: Section, probe: str) -> dict[str, Any]:
    given = section.raw("params", {})
    if not isinstance(given, dict):
        section.fault("params", "must be a mapping of options")
        return {}
    if probe in probe_names():
        try:
            load_probe(probe).resolve(given)
        except ConfigError as error:
            section.fault("params", error.message)
    return {str(key).replace("-", "_"): value for key, value in given.items()}


def _expect(section: Section, key: str) -> list[Expectation]:
    wanted = section.raw(key)
    if not isinstance(wanted, dict) or not wanted:
        if wanted is not None:
            section.fault(key, "must be a mapping of report keys")
        return []
    return read_expectations(section, key, wanted)
