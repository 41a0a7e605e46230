"""What every verb's report has in common: target, environment, the sanitizer's words, the verdict."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import asdict
from functools import lru_cache
from importlib import metadata
from typing import TYPE_CHECKING

from umma_probe import __version__
from umma_probe.assets import checkout_dir
from umma_probe.errors import DeviceUnavailable, ExitCode
from umma_probe.gpu.nvrtc import nvrtc_version
from umma_probe.record.schema import Check, Environment, Report, SanitizerFinding, Target, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.backends.base import Device, LaunchOutcome, Note
    from umma_probe.errors import UmmaProbeError

EXIT_CODES = {
    Verdict.PASS: ExitCode.OK,
    Verdict.FAIL: ExitCode.DIFFERS,
    Verdict.UNDECIDED: ExitCode.UNDECIDED,
    Verdict.HANG: ExitCode.HANG,
    Verdict.FAULT: ExitCode.FAULT,
    Verdict.ERROR: ExitCode.INTERNAL,
}
_PACKAGES = ("numpy", "cuda-bindings", "nvidia-cuda-nvrtc")


def exit_code(report: Report) -> ExitCode:
    """What the command line answers with."""
    return EXIT_CODES[Verdict(report.verdict)]


def add_notes(report: Report, outcome: LaunchOutcome) -> None:
    """The sanitizer's words, once for all launches of the same code."""
    for notes, book in ((outcome.findings, report.sanitizer), (outcome.reviews, report.reviews)):
        known = {(entry.rule, entry.where) for entry in book}
        book.extend(_finding(note) for note in notes if (note.rule, note.where) not in known)


def _finding(note: Note) -> SanitizerFinding:
    return SanitizerFinding(**asdict(note))


def fail_with(report: Report, error: UmmaProbeError) -> None:
    """The kernel ran into something: its verdict and its explanation."""
    report.verdict = error.verdict
    report.checks.append(Check("execution", error.verdict, "the kernel finishes", error.title, error.render()))


def settle(report: Report) -> None:
    """Add the sanitizer's check (model only) and take the worst check's verdict."""
    if report.target.kind == "model":
        report.checks.append(_sanitizer_check(report.sanitizer))
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


def _nvrtc() -> str:
    """Its version, or ``none``: a kernel that comes as PTX needs no compiler."""
    try:
        major, minor = nvrtc_version()
    except DeviceUnavailable:
        return "none"
    return f"{major}.{minor}"


def target_record(device: Device) -> Target:
    """What ran it."""
    identity = device.identity
    return Target(
        kind=identity.kind,
        name=identity.name,
        arch=identity.arch,
        nvrtc=_nvrtc(),
        driver=identity.driver,
        reason=identity.reason,
        policy=getattr(device, "policy", None),
        uuid=identity.versions.get("uuid"),
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
