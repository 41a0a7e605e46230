"""Every exact element-wise instruction against what an H200 gave (``tests/vectors/alu_h200.jsonl.gz``).

One line a form: the PTX, its inputs and outputs as ``width:hex hex ...``, one value a thread. The kernels were
assembled for sm_90a by ptxas 13.0 and run on an H200 with driver 13.0; rows are edge values (zeros, subnormals, Inf,
NaN, MININT, large shifts) and random ones. Approximate functions are not among them, nor NaN inputs of
``cvt.rna.tf32``.
"""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import run

VECTORS = Path(__file__).parents[3] / "vectors" / "alu_h200.jsonl.gz"
BATCH = 40
WORDS = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@cache
def families() -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in gzip.decompress(VECTORS.read_bytes()).decode().splitlines():
        record = json.loads(line)
        groups.setdefault(record["ptx"].split(".")[0], []).append(record)
    return groups


def column(text: str) -> Any:
    width, values = text.split(":")
    return np.array([int(value, 16) for value in values.split()], WORDS[int(width)])


def renamed(ptx: str, prefix: str) -> str:
    return re.sub(r"%(\w+)", rf"%{prefix}\1", ptx)


def batches(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Records with equally many rows, so that they fit one kernel."""
    by_rows: dict[int, list[dict[str, Any]]] = {}
    for record in records:
        rows = len(next(iter(record["in"].values())).split())
        by_rows.setdefault(rows, []).append(record)
    return [group[i : i + BATCH] for group in by_rows.values() for i in range(0, len(group), BATCH)]


@pytest.mark.parametrize("family", sorted(families()))
def test_same_words_as_an_h200(family: str) -> None:
    wrong: list[str] = []
    for batch in batches(families()[family]):
        inputs: dict[str, Any] = {}
        outputs: dict[str, str] = {}
        for number, record in enumerate(batch):
            inputs |= {f"c{number}_{name}": column(text) for name, text in record["in"].items()}
            for name, text in record["out"].items():
                width = text.split(":")[0]
                outputs[f"c{number}_{name}"] = "pred" if width == "1" else f"b{width}"
        body = "\n".join(renamed(record["ptx"], f"c{number}_") for number, record in enumerate(batch))
        outcome = run(body, inputs, outputs)
        for number, record in enumerate(batch):
            for name, text in record["out"].items():
                expected, actual = column(text), outcome[f"c{number}_{name}"]
                for row in np.flatnonzero(expected != actual)[:2]:
                    sources = [f"{int(column(t)[row]):#x}" for t in record["in"].values()]
                    values = f"expected {int(expected[row]):#x}, actual {int(actual[row]):#x}"
                    wrong.append(f"{record['ptx']} {name} of {' '.join(sources)}: {values}")
    assert not wrong, "\n".join(wrong[:20])


def test_every_family_is_there() -> None:
    assert sum(map(len, families().values())) > 1000
    assert {"add", "fma", "cvt", "setp", "set", "shf", "bfe", "prmt", "div", "min", "lop3"} <= set(families())
