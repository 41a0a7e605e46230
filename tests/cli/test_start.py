"""What only tells of probes and options answers at once: it imports neither NumPy nor the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "cuda", "umma_probe.model", "umma_probe.gpu")
PROGRAM = f"""
import sys
from umma_probe.cli.main import run
try:
    run(sys.argv[1:])
finally:
    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize("line", ["--help", "run --help", "list"])
def test_no_heavy_import(line: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *line.split()], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")
