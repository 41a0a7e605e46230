"""Functions for a child process, as bad as the test wants."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from umma_probe.errors import DeviceError, Where
from umma_probe.harness import milestones


def double(values: np.ndarray, *, timeout: float | None) -> tuple[np.ndarray, float | None, int]:
    print("on stdout of the child")
    return 2 * values, timeout, os.getpid()


def fault(*, timeout: float | None) -> None:
    raise DeviceError("illegal address", where=Where("k.ptx", 3), hint="look there", ref="a document")


def bug(*, timeout: float | None) -> None:
    raise ZeroDivisionError("by zero")


def die(*, timeout: float | None) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(*, timeout: float | None) -> None:
    milestones.launch_begins()
    time.sleep(600)


def three_launches(*, timeout: float | None) -> str:
    for _ in range(3):
        milestones.launch_begins()
        time.sleep(0.3)
    return "done"
