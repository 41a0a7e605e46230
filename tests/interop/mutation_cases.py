"""What notices a fault of the model: kernels with known results, and probes.

``python tests/interop/mutation_cases.py [FOLDER ...]`` runs everything against every fault of ``model_mutations`` and
prints a Markdown table: the fault, and how many fail (which, where they are few). Each FOLDER holds launch cases of
other people's kernels, one a directory. A fault that nothing notices is a place where the model could be wrong unseen;
the exit code says so.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from model_mutations import MUTATIONS, planted
from umma_gemm import GEMMS, UNFENCED

from umma_probe.errors import UmmaProbeError
from umma_probe.harness.launch_case.report import exec_case
from umma_probe.harness.run import run_probe

POLICIES = ("eager", "lazy", "random:1")
TIMEOUT_S = 120

PROBES: list[tuple[str, dict[str, Any]]] = [
    *(("ldst-map", {"shape": shape, "num": 4}) for shape in ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")),
    *(("sf-map", {"kind": "mxf8f6f4", "scale-vec": "1", "sfa-id": i, "sfb-id": i}) for i in (0, 2)),
    ("sf-map", {"kind": "mxf4", "scale-vec": "2"}),
    ("sf-map", {"kind": "mxf4nvf4", "scale-vec": "4"}),
    ("cp-map", {}),
    ("fmha", {"hd": 64}),
]
"""Those that look at what the GEMMs do not use."""


@dataclass(frozen=True)
class Witness:
    """Something that runs on the model; ``complains`` tells whether anything is not as it should be."""

    name: str
    complains: Callable[[], bool]


def own_witnesses(folder: Path) -> Iterator[Witness]:
    """Kernels and probes that are part of this project; the cases are written to the folder."""
    for gemm in GEMMS:
        yield Witness(f"gemm_{gemm.name}", partial(_case_fails, gemm.write(folder), POLICIES, True))
    yield Witness(f"gemm_{UNFENCED.name}", partial(_mistake_unseen, UNFENCED.write(folder)))
    for probe, options in PROBES:
        name = " ".join([probe, *(f"--{key} {value}" for key, value in options.items())])
        yield Witness(name, partial(_probe_fails, probe, options))


def foreign_witnesses(folder: Path) -> Iterator[Witness]:
    """The launch cases in a folder."""
    for path in sorted(folder.glob("*/case.yaml")):
        yield Witness(path.parent.name, partial(_case_fails, path, POLICIES[:2], False))


def _case_fails(path: Path, policies: tuple[str, ...], strict: bool) -> bool:
    def verdict(policy: str) -> str:
        return exec_case(path, target="model", policy=policy, strict=strict, timeout=TIMEOUT_S)[0].verdict

    return any(verdict(policy) != "pass" for policy in policies)


def _mistake_unseen(path: Path) -> bool:
    report, _, _ = exec_case(path, target="model", strict=True, timeout=TIMEOUT_S)
    return "missing-proxy-fence" not in {entry.rule for entry in report.sanitizer}


def _probe_fails(probe: str, options: dict[str, Any]) -> bool:
    return run_probe(probe, options, target="model", timeout=TIMEOUT_S).verdict != "pass"


def complains(witness: Witness) -> bool:
    """Whether a witness notices; a model that breaks down is noticed, too."""
    try:
        return witness.complains()
    except (UmmaProbeError, ArithmeticError, AssertionError, LookupError, RuntimeWarning, ValueError):
        return True


def _seen_by(fault: str, witnesses: list[Witness]) -> list[str]:
    """Names of those who notice a fault, by its name: functions do not travel between processes."""
    with planted(next(known for known in MUTATIONS if known.name == fault)):
        return [witness.name for witness in witnesses if complains(witness)]


def _cell(seen: list[str], of: int) -> str:
    return f"{len(seen)} of {of}" + (f": {', '.join(seen)}" if 1 <= len(seen) <= 2 else "")


def main(folders: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        foreign = [witness for folder in folders for witness in foreign_witnesses(Path(folder))]
        own = list(own_witnesses(Path(name)))
        witnesses = foreign + own
        gemms = [witness for witness in own if witness.name.startswith("gemm_")]
        groups = {"foreign kernels": foreign, "GEMMs": gemms, "probes": [w for w in own if w not in gemms]}
        loud = [witness.name for witness in witnesses if complains(witness)]
        print(f"{len(MUTATIONS)} faults, {len(witnesses)} witnesses; without a fault {len(loud)} complain: {loud}\n")
        with multiprocessing.get_context("fork").Pool() as pool:
            rows = pool.map(partial(_seen_by, witnesses=witnesses), [fault.name for fault in MUTATIONS], chunksize=1)
    print("| fault of the model | " + " | ".join(groups) + " |\n" + "|---" * (1 + len(groups)) + "|")
    for fault, seen in zip(MUTATIONS, rows, strict=True):
        cells = [_cell([w.name for w in group if w.name in seen], len(group)) for group in groups.values()]
        print(f"| {fault.name}{'' if seen else ': **nobody**'} | {' | '.join(cells)} |")
    return int(bool(loud) or not all(rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
