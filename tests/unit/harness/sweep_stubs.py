"""Runners for the sweep's tests: fast, and as bad as the test wants, told by the case's own parameters.

``log`` is a file to which each run appends its case's ``id``, so that a test can count what really ran.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from umma_probe.errors import ConfigError, DeviceError, NotModelled
from umma_probe.harness.sweep.case import CaseSpec
from umma_probe.record.schema import Report, Target


def run(case: CaseSpec, target: str) -> Report:
    number, log = case.params["id"], Path(case.params["log"])
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{number}\n")
    match case.params.get("act", "pass"):
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "kill once" if log.read_text().split().count(str(number)) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        case "kill parent once" if log.read_text().split().count(str(number)) == 1:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        case "hang":
            time.sleep(60)
        case "raise":
            raise ZeroDivisionError("by zero")
        case "fault":
            raise DeviceError("illegal address")
        case "usage":
            raise ConfigError("M is 96")
        case "not modelled":
            raise NotModelled("tcgen05.mma .sp")
        case "print":
            print("kernel printf")
            os.write(1, b"raw printf\n")
        case "fail":
            return _report(case, target, "fail")
    return _report(case, target, "pass")


def _report(case: CaseSpec, target: str, verdict: str) -> Report:
    return Report("run", case.probe, dict(case.params), Target(target.partition(":")[0], "stub", "sm_100a"),
                  verdict=verdict, metrics={"worker": float(os.getpid())})  # fmt: skip
