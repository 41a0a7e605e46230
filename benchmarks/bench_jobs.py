"""What several processes give one launch: ``python benchmarks/bench_jobs.py``.

Each line is one grid: seconds in one process, then how many times faster with more. A GEMM spends its time in the
tensor core, which runs CTA by CTA; a kernel of plain arithmetic runs all CTAs of a process in one NumPy call, so
cutting its grid up gives less. Read nothing into columns with more processes than the machine has cores.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "interop"))

from interop_case import CaseFile, small_integers
from umma_gemm import Gemm

from umma_probe.harness.launch_case.report import exec_case

JOBS = (2, 4, 8)
REPEATS = 3
ARITHMETIC = """
extern "C" __global__ void arithmetic(float* c, unsigned rounds) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = c[i];
#pragma unroll 1
  for (unsigned n = 0; n < rounds; ++n) {
#pragma unroll
    for (unsigned step = 0; step < 64; ++step) x = x * 0.5f + 1.0f;
  }
  c[i] = x;
}
"""


def arithmetic(folder: Path, ctas: int) -> Path:
    case = CaseFile(
        folder / f"arithmetic_{ctas}", "arithmetic", ARITHMETIC, "arithmetic", (ctas, 1, 1), 128, suffix="cu"
    )
    case.buffer("c", "f32", small_integers(1, (ctas * 128,)))
    case.pointer("c")
    case.scalar(500, "u32")
    return case.write()


def seconds(case: Path, jobs: int) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        report, result, device = exec_case(case, target="model", jobs=jobs, timeout=600)
        assert report.verdict == "pass", report.checks
        assert result is not None
        assert not device.alone, device.alone  # type: ignore[attr-defined]
        best = min(best, result.outcome.seconds)
    return best


def main() -> None:
    print(f"{os.cpu_count()} cores")
    print(f"{'grid':34}{'CTAs':>6}{'s':>9}" + "".join(f"{f'{jobs} processes':>14}" for jobs in JOBS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pair = Gemm(mma_m=256, cta_group=2, k=3072)
        gemms = ((Gemm(), (2, 2)), (Gemm(), (8, 8)), (Gemm(k=3072), (2, 2)), (Gemm(k=3072), (4, 4)), (pair, (4, 4)))
        cases = [
            (f"GEMM {gemm.name}", gemm.write(folder / str(n), tiles), tiles[0] * tiles[1])
            for n, (gemm, tiles) in enumerate(gemms)
        ]
        cases += [("arithmetic, 128 threads", arithmetic(folder, ctas), ctas) for ctas in (4, 64)]
        for label, case, ctas in cases:
            alone = seconds(case, 1)
            print(f"{label:34}{ctas:6}{alone:9.3f}" + "".join(f"{alone / seconds(case, jobs):14.2f}" for jobs in JOBS))


if __name__ == "__main__":
    main()
