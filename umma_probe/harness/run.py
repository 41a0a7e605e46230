"""Run one probe: parameters, target, compilation, launches, judgement, report.

What the kernel runs into on the device (a hang, a fault, something undefined or not modelled) is the report's verdict,
with the explanation among the checks. Only what keeps it from starting is an exception: a wrong parameter, no NVRTC.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from dataclasses import asdict
from functools import lru_cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe import __version__
from umma_probe.assets import checkout_dir
from umma_probe.backends.base import DEFAULT_TIMEOUT_S
from umma_probe.backends.target import DEFAULT_MODEL_ARCH, open_target
from umma_probe.errors import ConfigError, DeviceUnavailable, ExitCode, InternalError, UmmaProbeError
from umma_probe.gpu.nvrtc import nvrtc_version
from umma_probe.harness.manifest import ProbeContract, load_probe
from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Output, Outputs, load_suite
from umma_probe.record.schema import Check, Environment, Report, SanitizerFinding, Target, Timing, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umma_probe.backends.base import Device, LaunchOutcome, Note

EXIT_CODES = {
    Verdict.PASS: ExitCode.OK,
    Verdict.FAIL: ExitCode.DIFFERS,
    Verdict.UNDECIDED: ExitCode.UNDECIDED,
    Verdict.HANG: ExitCode.HANG,
    Verdict.FAULT: ExitCode.FAULT,
    Verdict.ERROR: ExitCode.INTERNAL,
}
_PACKAGES = ("numpy", "cuda-bindings", "nvidia-cuda-nvrtc")


def run_probe(
    name: str,
    params: Mapping[str, Any] | None = None,
    *,
    target: str = "auto",
    arch: str = "",
    policy: str = "eager",
    seed: int = 0,
    force: bool = False,
    timeout: float | None = DEFAULT_TIMEOUT_S,
    device: Device | None = None,
) -> Report:
    """Run a probe.

    :param params: options of its contract; the others have their defaults.
    :param policy: of the model: ``eager``, ``lazy`` or ``random:SEED``.
    :param force: run what the documents forbid.
    :param device: an open device to use again; then ``target``, ``arch`` and ``policy`` are its own.
    :raises ConfigError: unknown probe, a wrong or illegal parameter, a kernel that does not compile.
    :raises DeviceUnavailable: the target is not here.
    """
    contract = load_probe(name)
    values = contract.resolve(params or {})
    suite = load_suite(contract.name)
    # the rules come before the device: a wrong shape is a wrong command, on every machine
    early = suite.prepare(values, arch or (device.identity.arch if device else DEFAULT_MODEL_ARCH))
    _refuse(early, force)
    needs_tmem = "tmem" in contract.needs
    used = device or open_target(target, arch=arch, policy=policy, needs_tmem=needs_tmem)
    experiment = early
    if used.identity.arch != (arch or DEFAULT_MODEL_ARCH) and device is None:
        experiment = suite.prepare(values, used.identity.arch)
        _refuse(experiment, force)
    report = Report(
        command="run",
        probe=contract.name,
        title=contract.title,
        params=dict(experiment.params),
        target=_target(used),
        seed=seed,
        environment=environment(),
        notes=[f"forced: {problem}" for problem in experiment.problems],
    )
    _execute(report, contract, experiment, used, timeout)
    return report


def exit_code(report: Report) -> ExitCode:
    """What the command line answers with."""
    return EXIT_CODES[Verdict(report.verdict)]


def _refuse(experiment: Experiment, force: bool) -> None:
    if not experiment.problems or force:
        return
    first, *others = experiment.problems
    message = "".join(f"\n  also: {problem.message}" for problem in others)
    raise ConfigError(first.message + message, ref=str(first.ref), hint="--force runs it all the same")


def _execute(
    report: Report, contract: ProbeContract, experiment: Experiment, device: Device, timeout: float | None
) -> None:
    """Compile, launch and judge; fills the report."""
    source = contract.path.parent / contract.source
    options = [f"-D{key}={value}" for key, value in experiment.defines.items()]
    start = time.perf_counter()
    try:
        module = device.compile(source.read_text(encoding="utf-8"), str(source), options=options)
        report.timing = Timing(compile_s=round(time.perf_counter() - start, 4))
        start = time.perf_counter()
        outputs: list[Outputs] = []
        for plan in experiment.launches:
            outcome, output = _launch(device, module[plan.entry], plan, timeout)
            outputs.append(output)
            _add_notes(report, outcome, plan.label)
        report.timing.run_s = round(time.perf_counter() - start, 4)
    except (ConfigError, DeviceUnavailable, InternalError):
        raise
    except UmmaProbeError as error:
        report.timing.run_s = round(time.perf_counter() - start, 4)
        report.verdict = error.verdict
        report.checks.append(Check("execution", error.verdict, "the kernel finishes", error.title, error.render()))
        return
    _apply(report, experiment.judge(outputs))


def _launch(device: Device, kernel: Any, plan: LaunchPlan, timeout: float | None) -> tuple[LaunchOutcome, Outputs]:
    buffers: dict[str, Any] = {}
    arguments: list[Any] = []
    for argument in plan.args:
        match argument:
            case Input(values):
                arguments.append(device.array(values))
            case Output(name):
                buffers[name] = device.array(argument.initial())
                arguments.append(buffers[name])
            case _:
                arguments.append(argument)
    outcome = kernel.launch(
        grid=plan.grid,
        block=plan.block,
        cluster=plan.cluster,
        dynamic_smem=plan.dynamic_smem,
        args=arguments,
        timeout=timeout,
    )
    return outcome, {name: np.asarray(buffer.numpy()) for name, buffer in buffers.items()}


def _add_notes(report: Report, outcome: LaunchOutcome, label: str) -> None:
    """The sanitizer's words, once for all launches of the same code."""
    for notes, book in ((outcome.findings, report.sanitizer), (outcome.reviews, report.reviews)):
        known = {(entry.rule, entry.where) for entry in book}
        book.extend(_finding(note) for note in notes if (note.rule, note.where) not in known)


def _finding(note: Note) -> SanitizerFinding:
    return SanitizerFinding(**asdict(note))


def _apply(report: Report, judgement: Judgement) -> None:
    """Take the judgement over; the verdict is the worst check's."""
    report.checks += judgement.checks
    if report.target.kind == "model":
        report.checks.append(_sanitizer_check(report.sanitizer))
    report.tmem, report.occupancy, report.diagnosis = judgement.tmem, judgement.occupancy, judgement.diagnosis
    report.metrics, report.findings = judgement.metrics, judgement.findings
    report.notes += judgement.notes
    verdicts = {check.verdict for check in report.checks}
    for verdict in (Verdict.FAIL, Verdict.UNDECIDED):
        if verdict.value in verdicts:
            report.verdict = verdict.value
            return


def _sanitizer_check(findings: Sequence[SanitizerFinding]) -> Check:
    message = "; ".join(f"{entry.rule}: {entry.message} ({entry.where})" for entry in findings)
    verdict = Verdict.FAIL if findings else Verdict.PASS
    return Check("sanitizer", verdict.value, "no finding", f"{len(findings) or 'no'} finding"
                 + ("s" if len(findings) > 1 else ""), message)  # fmt: skip


def _target(device: Device) -> Target:
    identity = device.identity
    major, minor = nvrtc_version()
    return Target(
        kind=identity.kind,
        name=identity.name,
        arch=identity.arch,
        nvrtc=f"{major}.{minor}",
        driver=identity.driver,
        reason=identity.reason,
        policy=getattr(device, "policy", None),
    )


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Versions, commit and machine; looked up once a process."""
    versions = {"umma-probe": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return Environment(versions, _git_commit(), f"{platform.system()} {platform.machine()}")


def _git_commit() -> str:
    """The checkout's commit; empty outside one, or without git."""
    top = checkout_dir()
    if top is None or not (top / ".git").exists():
        return ""
    command = ["git", "-C", str(top), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
