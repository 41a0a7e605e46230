"""Result words from outside: measured on a B200, and computed by an independent model."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from arith_reference import dot as reference_dot

from umma_probe.model.arith import DotProduct, mma

VECTORS = Path(__file__).parents[3] / "vectors"
B200 = json.loads((VECTORS / "b200_words.json").read_text())["vectors"]
MMA_SIM = json.loads(gzip.decompress((VECTORS / "mmasim_words.json.gz").read_bytes()))["kinds"]


@pytest.mark.parametrize("row", B200, ids=lambda row: row["name"])
def test_words_measured_on_a_b200(row):
    case = DotProduct(
        kind=row["kind"],
        a=tuple(row["a"]),
        b=tuple(row["b"]),
        c=row["c"],
        a_type=row["a_format"],
        b_type=row["b_format"],
        d_type=row["d_format"],
        saturate=row.get("saturate", False),
        scale_a=tuple(row.get("scale_a", ())),
        scale_b=tuple(row.get("scale_b", ())),
        scale_type=row.get("scale_format"),
        scale_vec=row.get("scale_vec"),
    )
    assert f"{row['expected']:#010x}" == f"{case.word():#010x}"


@pytest.mark.parametrize("row", [row for row in B200 if row["kind"] != "i8"], ids=lambda row: row["name"])
def test_the_reference_of_these_tests_gives_the_measured_words(row):
    shift = 16 if row["a_format"] == "bf16" else 0
    actual = reference_dot(
        row["kind"],
        [word >> shift for word in row["a"]],
        [word >> shift for word in row["b"]],
        row["c"],
        a_type=row["a_format"],
        b_type=row["b_format"],
        d_type=row["d_format"],
        scale_a=row.get("scale_a"),
        scale_b=row.get("scale_b"),
        scale_type=row.get("scale_format", ""),
    )
    assert f"{row['expected']:#010x}" == f"{actual:#010x}"


@pytest.mark.parametrize("name", MMA_SIM)
def test_words_of_an_independent_model(name):
    table = MMA_SIM[name]
    scaled = table["scale"] is not None
    wrong = []
    for index, row in enumerate(table["rows"]):
        actual = mma(
            name.split("_")[0],
            np.array([row["a"]], dtype=np.uint32),
            np.array([row["b"]], dtype=np.uint32),
            np.array([[row["c"]]], dtype=np.uint32),
            a_type=table["a"],
            b_type=table["b"],
            d_type=table["c_and_d"],
            scale_a=np.array([row["scale_a"]], dtype=np.uint8) if scaled else None,
            scale_b=np.array([row["scale_b"]], dtype=np.uint8) if scaled else None,
            scale_type=table["scale"],
        )[0, 0]
        if actual != row["d"]:
            wrong.append((index, row["set"], f"expected {row['d']:#x}, actual {actual:#x}"))
    assert len(table["rows"]) == 100
    assert not wrong
