"""``configs/NAME.yaml``: what a sweep runs and what it expects.

    title: One look at every layout
    defaults: {policies: [eager], timeout: 30}         # for entries that do not say otherwise
    cases:
      - name: every layout                             # of the group in the report; usually the probe's name
        probe: tmem-layout
        options: {m: [64, 128], n: legal, swizzle: all}   # the product; see ``values``
        where: m == 64 or n % 16 == 0                  # which of them; see ``condition``
        policies: [eager, lazy, "random:1"]            # of the model; a GPU runs each case once
        seeds: [0, 1]
        expect: pass                                   # a verdict, or report keys: {occupancy.zero_columns: "32-35"}
        timeout: 30                                    # seconds for one case
        arch: sm_100a
        force: true                                    # run what the documents forbid
        question: Is N = 24 accepted?                  # nobody knows: no outcome is wrong,
        answers:                                       # if it is one of these
          - {when: {verdict: pass}, says: The shape works as documented.}

The whole file is checked before anything runs, down to what each probe says about each case's parameters, and all
faults are told at once, with their lines. A case that two entries have in common runs once.
"""  # fmt: skip

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError, UmmaProbeError, unknown_name
from umma_probe.harness.expected import read_expectations
from umma_probe.harness.located import Faults, Section, load_located
from umma_probe.harness.manifest import load_probe, probe_names
from umma_probe.harness.sweep.case import Answer, CaseSpec, SweepCase
from umma_probe.harness.sweep.condition import Condition
from umma_probe.harness.sweep.values import Axis, axis, product
from umma_probe.launch_values import DEFAULT_TIMEOUT_S
from umma_probe.model.asynchrony.async_engine import Policy
from umma_probe.record.expectations import Expectation
from umma_probe.spec.machine import ARCHS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import yaml

    from umma_probe.harness.manifest import ProbeContract

MAX_CASES = 200_000


@dataclass(frozen=True)
class Defaults:
    """What an entry has if it does not say otherwise."""

    policies: tuple[str, ...] = ("eager",)
    seeds: tuple[int, ...] = (0,)
    timeout_s: float = DEFAULT_TIMEOUT_S
    arch: str = ""
    force: bool = False


@dataclass(frozen=True)
class Entry:
    """One entry: a family of cases."""

    name: str
    contract: ProbeContract
    axes: tuple[Axis, ...]
    where: Condition | None
    settings: Defaults
    expect: tuple[Expectation, ...]
    question: str
    answers: tuple[Answer, ...]
    node: yaml.Node


@dataclass(frozen=True)
class SweepConfig:
    """A config, checked."""

    path: Path
    title: str
    entries: tuple[Entry, ...]
    faults: Faults
    """Still empty; takes what the probes say about the cases."""

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.stem

    def cases(self, *, policies: bool = True) -> list[SweepCase]:
        """All cases in the order of the file, each once.

        :param policies: false on a GPU, where a case runs once, whatever its policies.
        :raises ConfigError: with every entry that has no case or whose condition cannot be answered.
        """
        found: dict[str, SweepCase] = {}
        for entry in self.entries:
            try:
                cases = list(_expand(entry, policies))
            except ConfigError as error:
                self.faults.add(entry.node, f"{entry.name}: {error.message}")
                continue
            if not cases:
                self.faults.add(entry.node, f"{entry.name}: has no case (no legal shape, or 'where' leaves none)")
            for case in cases:
                found.setdefault(repr((case.spec, case.expect, case.question)), case)
            if len(found) > MAX_CASES:
                self.faults.add(entry.node, f"{entry.name}: more than {MAX_CASES} cases")
                break
        self.faults.raise_all()
        return list(found.values())


def load_config(path: Path) -> SweepConfig:
    """Read and check a config; the cases are not yet made.

    :raises ConfigError: with every fault and its line.
    """
    node, faults = load_located(path)
    top = Section(node, faults, "config")
    title = top.text("title")
    defaults = Defaults()
    if "defaults" in top:
        top.raw("defaults")
        section = Section(top.node_of("defaults"), faults, "defaults")
        defaults = _settings(section, defaults)
        section.finish()
    sections = top.sections("cases", required=True)
    if "cases" in top and not sections and not faults.messages:
        top.fault("cases", "is empty, must have an entry")
    entries = [entry for section in sections if (entry := _entry(section, defaults))]
    top.finish()
    named = tuple(_named_apart(entries, faults))
    faults.raise_all()
    return SweepConfig(path, title, named, faults)


def _named_apart(entries: list[Entry], faults: Faults) -> Iterable[Entry]:
    """Entries without a name are called as their probe, the second and later ones with a number."""
    taken = [entry.name for entry in entries if entry.name]
    for entry in entries:
        if taken.count(entry.name) > 1:
            faults.add(entry.node, f"name '{entry.name}' stands twice")
        name, number = entry.name or entry.contract.name, 1
        while not entry.name and name in taken:
            number += 1
            name = f"{entry.contract.name} {number}"
        taken += [] if entry.name else [name]
        yield replace(entry, name=name)


# ------------------------------------------------------------------------------------------------------------- entries


def _entry(section: Section, defaults: Defaults) -> Entry | None:
    probe = section.choice("probe", probe_names())
    try:
        contract = load_probe(probe) if probe in probe_names() else None
    except ConfigError as error:
        section.fault("probe", error.message)
        contract = None
    section.raw("options", {})
    where = section.text("where", "")
    question = section.text("question", "")
    settings = _settings(section, defaults)
    name = section.text("name", "")
    expect = _expect(section, question)
    answers = tuple(_answers(section, question))
    section.finish()
    if contract is None:
        return None
    axes = tuple(_axes(section, contract))
    condition = _condition(section, where, contract) if where else None
    return Entry(name, contract, axes, condition, settings, expect, question, answers, section.node)


def _settings(section: Section, defaults: Defaults) -> Defaults:
    policies = tuple(section.texts("policies", list(defaults.policies)))
    for policy in policies if "policies" in section else ():
        try:
            Policy.parse(policy)
        except ConfigError as error:
            section.fault("policies", error.message)
    timeout = section.number("timeout", defaults.timeout_s)
    if timeout <= 0 and "timeout" in section:
        section.fault("timeout", f"is {timeout:g}, must be more than 0 seconds")
    arch = section.choice("arch", [*ARCHS, ""], defaults.arch)
    settings = Defaults(policies, tuple(section.integers("seeds", list(defaults.seeds))), timeout, arch,
                        section.flag("force", defaults.force))  # fmt: skip
    for key, values in (("policies", settings.policies), ("seeds", settings.seeds)):
        if not values and key in section:
            section.fault(key, "is empty, must have an entry")
    return settings


def _axes(section: Section, contract: ProbeContract) -> Iterable[Axis]:
    options = {option.key: option for option in contract.options}
    if "options" not in section:
        return
    mapping = Section(section.node_of("options"), section.faults, f"{section.name}.options")
    if getattr(mapping.node, "id", "") != "mapping":
        return
    for key_node, _ in mapping.node.value:
        name = str(getattr(key_node, "value", ""))
        option = options.get(name.replace("-", "_"))
        if option is None:
            known = [option.name for option in contract.options]
            section.faults.add(key_node, f"{mapping.name}: {unknown_name(f'option of {contract.name}', name, known)}")
            continue
        try:
            yield axis(option, mapping.raw(name))
        except ConfigError as error:
            text = error.message.removeprefix(f"{option.name}: ").removeprefix(f"{option.name} ")
            mapping.fault(name, text)


def _condition(section: Section, text: str, contract: ProbeContract) -> Condition | None:
    try:
        return Condition(text, [option.key for option in contract.options])
    except ConfigError as error:
        section.fault("where", error.message)
        return None


def _expect(section: Section, question: str) -> tuple[Expectation, ...]:
    """A verdict or report keys; a question has none, since no outcome is wrong."""
    wanted = section.raw("expect", None if question else "pass")
    if question and wanted is not None:
        section.fault("expect", "stands beside a question; say what each outcome means under 'answers'")
        return ()
    if wanted is None:
        return ()
    return tuple(read_expectations(section, "expect", wanted if isinstance(wanted, dict) else {"verdict": wanted}))


def _answers(section: Section, question: str) -> Iterable[Answer]:
    entries = section.sections("answers", required=bool(question))
    if entries and not question:
        section.fault("answers", "stands without a question")
    for entry in entries:
        wanted = entry.raw("when")
        says = entry.text("says")
        entry.finish()
        if isinstance(wanted, dict):
            yield Answer(tuple(read_expectations(entry, "when", wanted)), says)
        elif wanted is not None:
            entry.fault("when", "must be a mapping of report keys")


# -------------------------------------------------------------------------------------------------------------- cases


def _expand(entry: Entry, with_policies: bool) -> Iterable[SweepCase]:
    settings = entry.settings
    for given in product(entry.contract, list(entry.axes)):
        params = entry.contract.resolve(given)
        if entry.where is not None and not entry.where.holds(params):
            continue
        for policy in settings.policies if with_policies else settings.policies[:1]:
            for seed in settings.seeds:
                spec = CaseSpec(entry.contract.name, params, policy, seed, settings.arch, settings.force,
                                settings.timeout_s)  # fmt: skip
                label = case_label(given, policy if with_policies else "", seed)
                yield SweepCase(spec, label, entry.name, entry.expect, entry.question, entry.answers)


def case_label(given: Mapping[str, Any], policy: str = "", seed: int = 0) -> str:
    """``m=64 n=128 ws [lazy]``: what tells a case from its neighbours."""
    words = []
    for key, value in given.items():
        name = key.replace("_", "-")
        if isinstance(value, bool):
            words += [name] if value else []
        else:
            words.append(f"{name}={value}")
    marks = [policy] if policy not in ("", "eager") else []
    marks += [f"seed {seed}"] if seed else []
    return " ".join([*words, *([f"[{', '.join(marks)}]"] if marks else [])]) or "defaults"


def with_arch(cases: Iterable[SweepCase], arch: str) -> list[SweepCase]:
    """The cases with an architecture where they have none of their own."""
    return [replace(case, spec=replace(case.spec, arch=case.spec.arch or arch)) for case in cases]


def preflight(config: SweepConfig, cases: Iterable[SweepCase]) -> None:
    """Ask each probe about each case's parameters, before anything runs.

    :raises ConfigError: with every case that is illegal and not forced, and with every set of parameters that makes no
        experiment.
    """
    from umma_probe.backends.target import DEFAULT_MODEL_ARCH, required_arch
    from umma_probe.harness.suite import load_suite

    nodes = {entry.name: entry.node for entry in config.entries}
    for case in cases:
        try:
            suite = load_suite(case.spec.probe)
            arch = case.spec.arch or required_arch(load_probe(case.spec.probe).needs) or DEFAULT_MODEL_ARCH
            experiment = suite.prepare(case.spec.params, arch)
        except UmmaProbeError as error:
            config.faults.add(nodes[case.group], f"{case.group}: {case.label}: {error.message}")
            continue
        if experiment.problems and not case.spec.force:
            message = "; ".join(problem.message for problem in experiment.problems)
            config.faults.add(nodes[case.group], f"{case.group}: {case.label}: {message}")
    config.faults.raise_all()
