"""Run one probe: parameters, target, compilation, launches, judgement, report.

What the kernel runs into on the device (a hang, a fault, something undefined or not modelled) is the report's verdict,
with the explanation among the checks. Only what keeps it from starting is an exception: a wrong parameter, no NVRTC.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.backends.target import DEFAULT_MODEL_ARCH, check_arch, open_target, required_arch
from umma_probe.errors import ConfigError, DeviceUnavailable, InternalError, UmmaProbeError
from umma_probe.harness import milestones
from umma_probe.harness.diagnosis.errors import diagnose_error
from umma_probe.harness.manifest import ProbeContract, load_probe
from umma_probe.harness.reporting import add_notes, environment, exit_code, fail_with, settle, target_record
from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Mapped, Output, Outputs, load_suite
from umma_probe.launch_values import DEFAULT_TIMEOUT_S
from umma_probe.record.schema import Report, Timing, Verdict

__all__ = ["exit_code", "run_probe"]

_POLICIES = ("eager", "lazy", "random:1")

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from umma_probe.backends.base import Device, LaunchOutcome, Module


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
    arch = arch or required_arch(contract.needs)
    if arch:
        check_arch(arch, contract.needs)
    # the rules come before the device: a wrong shape is a wrong command, on every machine
    early = suite.prepare(values, arch or (device.identity.arch if device else DEFAULT_MODEL_ARCH), seed)
    _refuse(early, force)
    used = device or open_target(target, arch=arch, policy=policy, needs=contract.needs)
    experiment = early
    if used.identity.arch != (arch or DEFAULT_MODEL_ARCH) and device is None:
        experiment = suite.prepare(values, used.identity.arch, seed)
        _refuse(experiment, force)
    report = Report(
        command="run",
        probe=contract.name,
        title=contract.title,
        params=dict(experiment.params),
        target=target_record(used),
        seed=seed,
        environment=environment(),
        notes=[f"forced: {problem}" for problem in experiment.problems],
        findings=list(experiment.findings),
    )
    _execute(report, contract, experiment, used, timeout)
    return report


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
    source = contract.path.parent / (experiment.source or contract.source)
    options = [f"-D{key}={value}" for key, value in experiment.defines.items()]
    start = time.perf_counter()
    try:
        module = device.compile(source.read_text(encoding="utf-8"), str(source), options=options)
        report.timing = Timing(compile_s=round(time.perf_counter() - start, 4))
        start = time.perf_counter()
        outputs: list[Outputs] = []
        for number, plan in enumerate(experiment.launches):
            outcome, output = _launch(device, module[plan.entry], plan, timeout)
            outputs.append(output)
            report.outputs.update(digests(plan.label or f"launch {number}", output))
            add_notes(report, outcome)
            if report.target.kind == "cuda":
                report.timing.kernel_s = (report.timing.kernel_s or 0.0) + outcome.seconds
        report.timing.run_s = round(time.perf_counter() - start, 4)
    except (ConfigError, DeviceUnavailable, InternalError):
        raise
    except UmmaProbeError as error:
        report.timing.run_s = round(time.perf_counter() - start, 4)
        if experiment.judge_fault is not None and error.verdict == Verdict.FAULT.value:
            _apply(report, experiment.judge_fault(error))
        else:
            fail_with(report, error)
            report.diagnosis = diagnose_error(error)
        return
    _apply(report, experiment.judge(outputs))
    if experiment.diagnose is not None and report.verdict == Verdict.FAIL.value:
        again = list(_again(experiment, device, module, timeout))
        report.diagnosis = experiment.diagnose(outputs, again, report.sanitizer)


def _again(
    experiment: Experiment, device: Device, module: Module, timeout: float | None
) -> Iterator[tuple[str, list[Outputs]]]:
    """The same launches once more: under the model's other policies, three times on a GPU."""
    policy = getattr(device, "policy", None)
    labels = [other for other in _POLICIES if other != policy] if policy else [f"repetition {i}" for i in (1, 2, 3)]
    try:
        for label in labels:
            if policy:
                device.policy = label  # type: ignore[attr-defined]  # the model's
            yield label, [_launch(device, module[plan.entry], plan, timeout)[1] for plan in experiment.launches]
    except UmmaProbeError:
        return  # it does not finish every time: what it left the first time must do
    finally:
        if policy:
            device.policy = policy  # type: ignore[attr-defined]


def _launch(device: Device, kernel: Any, plan: LaunchPlan, timeout: float | None) -> tuple[LaunchOutcome, Outputs]:
    buffers: dict[str, Any] = {}
    mapped: list[Any] = []  # a map holds an address only: the buffer must live as long as the launch
    arguments: list[Any] = []
    for argument in plan.args:
        match argument:
            case Input(values):
                arguments.append(device.array(values))
            case Output(name):
                buffers[name] = device.array(argument.initial())
                arguments.append(buffers[name])
            case Mapped(values, fields):
                mapped.append(device.array(values))
                arguments.append(device.tensor_map(mapped[-1], **fields))
            case _:
                arguments.append(argument)
    milestones.launch_begins()
    outcome = kernel.launch(
        grid=plan.grid,
        block=plan.block,
        cluster=plan.cluster,
        dynamic_smem=plan.dynamic_smem,
        args=arguments,
        timeout=timeout,
    )
    return outcome, {name: np.asarray(buffer.numpy()) for name, buffer in buffers.items()}


def digests(label: str, outputs: Outputs) -> dict[str, str]:
    """SHA-256 of the bytes of each output."""
    return {f"{label}: {name}": hashlib.sha256(array.tobytes()).hexdigest() for name, array in outputs.items()}


def _apply(report: Report, judgement: Judgement) -> None:
    """Take the judgement over; the verdict is the worst check's."""
    report.checks += judgement.checks
    report.tmem, report.occupancy, report.diagnosis = judgement.tmem, judgement.occupancy, judgement.diagnosis
    report.metrics = judgement.metrics
    report.findings += judgement.findings
    report.accuracy = judgement.accuracy
    report.notes += judgement.notes
    settle(report)
