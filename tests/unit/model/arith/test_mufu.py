"""The function unit against what an H200 gave (``tests/vectors/function_unit_h200.jsonl.gz``), through PTX.

One line a form: the PTX, its inputs and outputs as ``width:hex hex ...``: random words, and numbers near 1. Driver
580.159.04, assembled by it for sm_90a.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TESTS = Path(__file__).parents[3]
sys.path.insert(0, str(TESTS / "unit" / "model" / "ops"))

from harness import run  # noqa: E402 - a neighbour, found through the line above

LINES = gzip.decompress((TESTS / "vectors" / "function_unit_h200.jsonl.gz").read_bytes()).decode().splitlines()
FORMS = {record["ptx"]: record for record in map(json.loads, LINES)}


def column(text: str) -> Any:
    width, values = text.split(":")
    return np.array([int(value, 16) for value in values.split()], {"16": np.uint16, "32": np.uint32}[width])


@pytest.mark.parametrize("ptx", FORMS)
def test_same_words_as_an_h200(ptx: str) -> None:
    a, expected = column(FORMS[ptx]["in"]["a"]), column(FORMS[ptx]["out"]["d"])
    actual = run(ptx, {"a": a}, {"d": f"b{8 * a.itemsize}"})["d"]
    assert expected.tolist() == actual.tolist()
