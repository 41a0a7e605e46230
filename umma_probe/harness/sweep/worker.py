"""The work of a sweep's worker process: takes cases, runs them one after another, writes each result, then says so."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from umma_probe.errors import InternalError, UmmaProbeError
from umma_probe.harness.sweep.case import CaseSpec
from umma_probe.harness.sweep.journal import CaseRecord, JournalWriter, internal_record
from umma_probe.record.schema import Report

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from umma_probe.backends.base import Device

Runner = Callable[[CaseSpec, str], Report]
"""Runs a case on a target. A function of a module, so that it can be told to another process by name."""

READY = "ready"
STARTED = "started"
Job = tuple[CaseSpec, str]
"""A case and its digest."""


class Inherited(Protocol):
    """A file descriptor that came with the process."""

    def detach(self) -> int:
        """The descriptor."""
        ...


def run_case(case: CaseSpec, target: str) -> Report:
    """The runner of real sweeps. A GPU stays open from case to case: a context costs more than a probe."""
    from umma_probe.harness.manifest import load_probe
    from umma_probe.harness.run import run_probe

    needs = load_probe(case.probe).needs
    return run_probe(
        case.probe,
        case.params,
        target=target,
        arch=case.arch,
        policy=case.policy,
        seed=case.seed,
        force=case.force,
        timeout=case.timeout_s,
        device=None if target in ("model", "auto") else _gpu(target, case.arch, needs),
    )


@lru_cache(maxsize=4)
def _gpu(target: str, arch: str, needs: tuple[str, ...]) -> Device:
    """An open GPU; the engine replaces the whole process when its context is lost."""
    from umma_probe.backends.target import open_target

    return open_target(target, arch=arch, needs=needs)


def work(channel: Connection, journal: Inherited, runner: Runner, target: str) -> None:
    """Run what comes through the channel until it closes."""
    writer = JournalWriter(journal.detach())
    channel.send(READY)
    while True:
        try:
            job: Job | None = channel.recv()
        except EOFError:
            return
        if job is None:
            return
        channel.send(STARTED)
        record = outcome(*job, runner, target)
        writer.append(record)
        channel.send(record)


def outcome(case: CaseSpec, digest: str, runner: Runner, target: str) -> CaseRecord:
    """Run one case; whatever it raises is its outcome."""
    start = time.perf_counter()
    try:
        report = runner(case, target)
    except InternalError as error:
        return internal_record(digest, error.render(), _since(start))
    except UmmaProbeError as error:
        return CaseRecord(digest, error.verdict, error.exit_code, error.render(), _since(start))
    except Exception as error:  # a bug in one case must not stop the others
        place = "".join(traceback.format_exception(error)[-2:]).strip()
        return internal_record(digest, f"{type(error).__name__}: {error}\n{place}", _since(start))
    from umma_probe.harness.reporting import exit_code

    return CaseRecord(digest, report.verdict, exit_code(report), "", _since(start), report.to_json())


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 4)
