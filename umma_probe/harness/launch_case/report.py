"""A launch case as a report: the same keys, checks and verdicts as a probe's."""

from __future__ import annotations

import time
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.backends.model import ModelDevice
from umma_probe.backends.target import open_target
from umma_probe.errors import ConfigError, DeviceUnavailable, InternalError, UmmaProbeError, Where
from umma_probe.harness.launch_case.run import CaseResult, run_case
from umma_probe.harness.launch_case.schema import load_case
from umma_probe.harness.launch_case.tmem_use import tmem_use
from umma_probe.harness.reporting import add_notes, environment, fail_with, settle, target_record
from umma_probe.model.launch import SNAPSHOTS
from umma_probe.record.schema import Check, Report, Target, Timing, Verdict
from umma_probe.spec.sources import Evidence, Ref

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from umma_probe.backends.base import Device, TmemSnapshot
    from umma_probe.harness.launch_case.schema import LaunchCase
    from umma_probe.model.trace import Trace


TOLERATED = {
    "missing-proxy-fence": Ref(
        "cutlass", "examples/cute/tutorial/blackwell/01_mma_sm100.cu", Evidence.KERNEL,
        "stores the operands, __syncthreads(), tcgen05.mma, and no fence.proxy.async; it runs on B200",
    ),
}  # fmt: skip
"""What the PTX ISA forbids, but kernels known to work do: rule, and one of them. For review, unless strict."""

UNUSED_READS = {
    "uninitialised-read": Ref(
        "deepgemm", "impls/sm100_bf16_gemm.cuh (BLOCK_M = 64), impls/sm100_fp8_fp4_gemm_1d1d.cuh", Evidence.KERNEL,
        "reads a whole 128-row block of which fewer rows were loaded, and drops the rest of the result",
    ),
}  # fmt: skip
"""Reads of memory that nobody wrote, and a kernel that does so. For review where outputs were compared and all are
right: what was read, a pattern that stands for anything, did not reach them."""


def exec_case(
    path: Path, *, target: str = "auto", arch: str = "", policy: str = "eager", timeout: float | None = None,
    strict: bool = False, trace: Trace | None = None, jobs: int = 1,
) -> tuple[Report, CaseResult | None, Device]:  # fmt: skip
    """Run the case of a file.

    :param strict: every word of the sanitizer is a failure, those of ``TOLERATED`` too.
    :param trace: collects what the model's asynchronous operations do.
    :param jobs: up to so many processes of the model; the result is the same.
    :return: the report, what the kernel left (None if it did not finish), and the device.
    :raises ConfigError: the file, an option or the source is wrong; nothing ran.
    :raises DeviceUnavailable: the target is not here.
    """
    case = load_case(path)
    wanted = arch or case.arch
    device = open_target(target, arch=wanted, policy=policy, needs=needs_of(wanted))
    if trace is not None:
        _attach(device, trace)
    if jobs != 1:
        _allow(device, jobs)
    report = empty_report(case, target_record(device))
    start = time.perf_counter()
    try:
        result = run_case(device, case, timeout=timeout)
    except ConfigError as error:
        error.where = error.where or Where(str(path))
        raise
    except (DeviceUnavailable, InternalError):
        raise
    except UmmaProbeError as error:
        report.timing = Timing(run_s=round(time.perf_counter() - start, 4))
        fail_with(report, error)
        _show_tmem(report, device, prod(case.grid))
        return report, None, device
    report.timing = Timing(round(result.compile_s, 4), round(result.outcome.seconds, 4))
    report.checks += result.checks
    if not result.checks:
        report.checks.append(
            Check(
                "execution",
                Verdict.PASS.value,
                "the kernel finishes",
                "it did",
                "nothing to compare: the case has no expect; --save-outputs DIR keeps the buffers",
            )
        )
    add_notes(report, result.outcome)
    _show_tmem(report, device, prod(case.grid))
    if not strict:
        _tolerate(report, TOLERATED)
        if result.checks and all(check.verdict == Verdict.PASS.value for check in result.checks):
            _tolerate(report, UNUSED_READS)
    settle(report)
    return report, result, device


def needs_of(arch: str) -> tuple[str, ...]:
    """What a device must have to run a case for ``arch``."""
    return ("tmem",) if arch.startswith(("sm_10", "sm_11")) else ()


def empty_report(case: LaunchCase, target: Target) -> Report:
    """A report of a case that nothing is known of yet."""
    return Report(
        command="exec",
        probe=case.name,
        title=f"kernel {case.entry} of {case.source.name}",
        params=_parameters(case),
        target=target,
        environment=environment(),
    )


def _attach(device: Device, trace: Trace) -> None:
    if not isinstance(device, ModelDevice):
        raise ConfigError(f"--trace: {device.identity.name} does not show its operations", hint="--target model")
    device.trace = trace


def _allow(device: Device, jobs: int) -> None:
    if not isinstance(device, ModelDevice):
        raise ConfigError(f"--jobs: {device.identity.name} runs a kernel as it likes", hint="--target model")
    device.jobs = jobs


def _show_tmem(report: Report, device: Device, ctas: int) -> None:
    """Which instruction wrote which cell; a kernel that failed shows what it had written until then."""
    if isinstance(device, ModelDevice) and device.launched:
        report.tmem_use = tmem_use(device.tmem_all())
        if report.tmem_use and ctas > SNAPSHOTS:
            report.notes.append(f"Tensor Memory is kept of CTAs 0-{SNAPSHOTS - 1} alone, of {ctas}.")


def _tolerate(report: Report, tolerated: Mapping[str, Ref]) -> None:
    """Move what is only for review out of the sanitizer's findings."""
    for entry in report.sanitizer:
        if entry.rule in tolerated:
            why = f"{entry.message}. Not counted as a failure (--strict does): {tolerated[entry.rule]}"
            report.reviews.append(replace(entry, message=why))
    report.sanitizer = [entry for entry in report.sanitizer if entry.rule not in tolerated]


def _parameters(case: LaunchCase) -> dict[str, object]:
    return {
        "source": case.source.name,
        "entry": case.entry,
        "grid": "x".join(map(str, case.grid)),
        "block": "x".join(map(str, case.block)),
        "cluster": "x".join(map(str, case.cluster or (1, 1, 1))),
        "dynamic_smem": case.dynamic_smem,
        "cooperative": case.cooperative,
    }


def save_outputs(folder: Path, case: LaunchCase, result: CaseResult) -> None:
    """Write every buffer's final bytes as ``NAME.bin``.

    :raises ConfigError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for spec in case.buffers:
            result.outputs[spec.name].tofile(folder / f"{spec.name}.bin")
    except OSError as error:
        raise ConfigError(f"--save-outputs: cannot write {folder}: {error.strerror or error}") from error


def save_tmem(file: Path, device: Device) -> None:
    """Write Tensor Memory of every recorded CTA: ``words``, ``written``, ``writer_line`` (CTA, lane, column), ``cta``.

    ``cta`` are the CTAs' numbers, ``writer_line`` the PTX line of the instruction that wrote a cell last, 0 for none.

    :raises ConfigError: the target does not show it, or the file cannot be written.
    """
    snapshots = device.tmem_all()
    numbers = sorted(snapshots)
    try:
        with file.open("wb") as handle:  # a name is taken as it is; NumPy would add an ending
            np.savez_compressed(
                handle,
                cta=np.array(numbers),
                words=np.stack([snapshots[n].words for n in numbers]),
                written=np.stack([snapshots[n].written for n in numbers]),
                writer_line=np.stack([_writer_lines(snapshots[n]) for n in numbers]),
            )
    except OSError as error:
        raise ConfigError(f"--dump-tmem: cannot write {file}: {error.strerror or error}") from error


def _writer_lines(snapshot: TmemSnapshot) -> NDArray[np.int32]:
    lines = np.array([0, *(writer.line for writer in snapshot.writers)], np.int32)
    return lines[snapshot.writer + 1]


def save_trace(file: Path, trace: Trace) -> None:
    """Write the rows, tab-separated, or a timeline where the name ends in ``.json``.

    A kernel that failed has those up to its end.

    :raises ConfigError: the file cannot be written.
    """
    try:
        file.write_text(trace.timeline() if file.suffix == ".json" else trace.text(), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--trace: cannot write {file}: {error.strerror or error}") from error
