"""The worker process: takes cases, runs them one after another, writes each result to the journal, then says so.

A worker ends with its parent, however that ends. Ctrl-C is the parent's business. What a case prints goes to stderr,
since stdout carries the sweep's result and nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from functools import lru_cache
from multiprocessing import connection, parent_process
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
_PR_SET_PDEATHSIG = 1
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)
    _die_with_parent()
    threading.Thread(target=_end_with_parent, daemon=True).start()
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


def _die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies: a thread of ours cannot run while C code holds the GIL."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_with_parent() -> None:
    """The same where there is no such call, and for a parent that was gone before it."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
