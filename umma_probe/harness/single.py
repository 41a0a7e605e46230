"""What a single command runs: on the model in this process, on a GPU in one of its own (``isolation``).

So a kernel that faults or never ends is a verdict with its exit code, never the end or the silence of the command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umma_probe.backends.target import choose_target, required_arch
from umma_probe.errors import ConfigError, DeviceTimeout, DeviceUnavailable
from umma_probe.gpu.info import Driver, Nvrtc, probe_environment
from umma_probe.harness import run
from umma_probe.harness.isolation import call_isolated
from umma_probe.harness.launch_case import report as cases
from umma_probe.harness.launch_case.schema import load_case
from umma_probe.harness.manifest import load_probe
from umma_probe.harness.reporting import environment, fail_with
from umma_probe.launch_values import DEFAULT_TIMEOUT_S
from umma_probe.record.schema import Report, Target

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from umma_probe.backends.base import Device
    from umma_probe.harness.launch_case.run import CaseResult


def run_probe(
    name: str,
    params: Mapping[str, Any] | None = None,
    *,
    target: str = "auto",
    arch: str = "",
    timeout: float | None = DEFAULT_TIMEOUT_S,
    **options: Any,
) -> Report:
    """As ``harness.run.run_probe``."""
    contract = load_probe(name)
    values = contract.resolve(params or {})
    chosen = choose_target(target, arch=arch, needs=contract.needs)
    if not isinstance(chosen, int):
        return run.run_probe(name, values, target=target, arch=arch, timeout=timeout, **options)
    record = gpu_record(chosen, arch or required_arch(contract.needs))
    try:
        return call_isolated(
            run.run_probe, name, values, target=f"cuda:{chosen}", arch=arch, timeout=timeout, **options
        )
    except DeviceTimeout as error:
        report = Report("run", contract.name, dict(values), record, title=contract.title,
                        seed=options.get("seed", 0), environment=environment())  # fmt: skip
        fail_with(report, error)
        return report


def exec_case(
    path: Path,
    *,
    target: str = "auto",
    arch: str = "",
    timeout: float | None = DEFAULT_TIMEOUT_S,
    strict: bool = False,
    model_only: Mapping[str, bool] | None = None,
    **options: Any,
) -> tuple[Report, CaseResult | None, Device | None]:
    """As ``harness.launch_case.report.exec_case``; the device stays in its process and is None for a GPU.

    :param model_only: options that only the model has, and whether each was given.
    :param options: of the model: ``policy``, ``trace``, ``jobs``.
    :raises ConfigError: one of ``model_only`` was given, and a GPU runs the case.
    """
    case = load_case(path)
    wanted = arch or case.arch
    chosen = choose_target(target, arch=wanted, needs=cases.needs_of(wanted))
    if not isinstance(chosen, int):
        return cases.exec_case(path, target=target, arch=arch, timeout=timeout, strict=strict, **options)
    record = gpu_record(chosen, wanted)
    for option in (name for name, given in (model_only or {}).items() if given):
        raise ConfigError(f"{option}: {record.name} has no such thing, must be the model", hint="--target model")
    try:
        report, result = call_isolated(
            _exec_there, path, target=f"cuda:{chosen}", arch=arch, timeout=timeout, strict=strict
        )
    except DeviceTimeout as error:
        report, result = cases.empty_report(case, record), None
        fail_with(report, error)
    return report, result, None


def _exec_there(
    path: Path, *, target: str, arch: str, timeout: float | None, strict: bool
) -> tuple[Report, CaseResult | None]:
    """In the child: a device cannot travel."""
    report, result, _ = cases.exec_case(path, target=target, arch=arch, timeout=timeout, strict=strict)
    return report, result


def gpu_record(ordinal: int, arch: str) -> Target:
    """What a report says of a GPU, without opening it.

    :raises DeviceUnavailable: it is not here.
    """
    here = probe_environment()
    if here.no_gpu is not None:
        raise DeviceUnavailable(here.no_gpu.reason, hint=here.no_gpu.fix)
    if ordinal >= len(here.gpus):
        raise DeviceUnavailable(
            f"GPU {ordinal} does not exist: the driver sees {len(here.gpus)}", hint="umma-probe doctor"
        )
    gpu = here.gpus[ordinal]
    return Target(
        kind="cuda",
        name=f"GPU {gpu.index}: {gpu.name}",
        arch=arch or gpu.native_arch,
        nvrtc=".".join(map(str, here.nvrtc.version)) if isinstance(here.nvrtc, Nvrtc) else "none",
        driver=here.driver.version if isinstance(here.driver, Driver) else None,
        uuid=gpu.uuid,
    )
