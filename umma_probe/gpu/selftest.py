"""Whether the path to the GPU works, on this machine, now.

Each case runs in a process of its own, because a fault or a hang costs the context.
``python -m umma_probe.gpu.selftest -o FILE`` writes the outcome as JSON; the exit code is 0 if every case passed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from umma_probe import __version__
from umma_probe.errors import DeviceUnavailable, ExitCode, UmmaProbeError
from umma_probe.gpu.device import GpuDevice
from umma_probe.gpu.info import Driver, Nvrtc, probe_environment
from umma_probe.gpu.selftest_cases import CASES, Mismatch

SCHEMA_VERSION = 1
_CASE_LIMIT_S = 120


def run_case(name: str, ordinal: int = 0) -> dict[str, Any]:
    """Run one case in this process: its name, what it is about, ``pass`` or ``fail``, and what was seen."""
    case = CASES[name]
    try:
        verdict, detail = "pass", case.run(GpuDevice(ordinal))
    except Mismatch as mismatch:
        verdict, detail = "fail", str(mismatch)
    except DeviceUnavailable:
        raise
    except UmmaProbeError as error:
        verdict, detail = "fail", error.render()
    return {"name": name, "about": case.about, "verdict": verdict, "detail": detail}


def run_isolated(name: str, ordinal: int = 0) -> dict[str, Any]:
    """Run one case in a process of its own, and say how long the process took."""
    command = [sys.executable, "-m", "umma_probe.gpu.selftest", "--case", name, "--device", str(ordinal)]
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_CASE_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        detail = f"the process did not end within {_CASE_LIMIT_S} s"
        return {"name": name, "about": CASES[name].about, "verdict": "fail", "detail": detail}
    try:
        outcome: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        detail = f"exit code {done.returncode}: {done.stderr.strip()[-500:]}"
        outcome = {"name": name, "about": CASES[name].about, "verdict": "fail", "detail": detail}
    return outcome | {"process_s": round(time.monotonic() - start, 2)}


def selftest(ordinal: int = 0) -> dict[str, Any]:
    """All cases, and what they ran on.

    :raises DeviceUnavailable: no GPU of that number, or one without clusters.
    """
    environment = probe_environment()
    if environment.no_gpu is not None:
        raise DeviceUnavailable(environment.no_gpu.reason, hint=environment.no_gpu.fix)
    if ordinal >= len(environment.gpus):
        raise DeviceUnavailable(f"GPU {ordinal} does not exist: the driver sees {len(environment.gpus)}")
    gpu = environment.gpus[ordinal]
    if gpu.compute_capability < (9, 0):
        raise DeviceUnavailable(f"GPU {ordinal} is {gpu.arch}; the self-test needs clusters and TMA: sm_90 or later")
    if not isinstance(environment.driver, Driver) or not isinstance(environment.nvrtc, Nvrtc):
        raise DeviceUnavailable("the self-test needs a driver and NVRTC", hint="umma-probe doctor")
    cases = [run_isolated(name, ordinal) for name in CASES]
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "python -m umma_probe.gpu.selftest",
        "umma_probe": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "gpu": {"name": gpu.name, "arch": gpu.arch, "sm_count": gpu.sm_count, "memory_bytes": gpu.memory_bytes},
        "driver": {"version": environment.driver.version, "cuda": _dotted(environment.driver.cuda_version)},
        "nvrtc": _dotted(environment.nvrtc.version),
        "libraries": environment.libraries | {"python": environment.python},
        "verdict": "pass" if all(case["verdict"] == "pass" for case in cases) else "fail",
        "cases": cases,
    }


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m umma_probe.gpu.selftest", description="Test the path to the GPU.")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="which GPU")
    parser.add_argument("--case", choices=list(CASES), help="run this one, in this process")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead of stdout")
    options = parser.parse_args(argv)
    try:
        outcome = run_case(options.case, options.device) if options.case else selftest(options.device)
    except UmmaProbeError as error:
        print(error.render(), file=sys.stderr)
        return error.exit_code
    text = json.dumps(outcome, indent=2)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    return ExitCode.OK if outcome["verdict"] == "pass" else ExitCode.DIFFERS


if __name__ == "__main__":
    sys.exit(main())
