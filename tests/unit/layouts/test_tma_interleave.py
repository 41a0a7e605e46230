"""Interleaved tensor maps against what an H200 moved, chunk by chunk, and what its driver refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umma_probe.layouts.tma_box import Access, plan_box, swizzle_shared
from umma_probe.spec.tensor_map import Im2col, TensorMapFields, tensor_map_problems

RECORD = json.loads((Path(__file__).parents[3] / "reports/silicon-h200/tma_interleave.json").read_text())
CHUNK = 16


def name_of(case: dict[str, Any]) -> str:
    return "-".join((case["mode"], f"{len(case['global_dim'])}d", case["interleave"], case["swizzle"]))


def fields_of(case: dict[str, Any]) -> TensorMapFields:
    im2col = None
    if case["mode"] == "im2col":
        corners = (tuple(case["lower_corner"]), tuple(case["upper_corner"]))
        im2col = Im2col(*corners, case["channels_per_pixel"], case["pixels_per_column"])
    lists = (tuple(case.get(name, ())) for name in ("global_dim", "global_strides", "box_dim", "element_strides"))
    return TensorMapFields(case["dtype"], 0x10000, *lists, case["interleave"], case["swizzle"], im2col=im2col)


def moved(case: dict[str, Any]) -> tuple[Any, Any, Any]:
    """(chunk of shared memory, chunk of global memory, inside) of every chunk, in the order of the plan."""
    fields = fields_of(case)
    access = Access.IM2COL if fields.im2col else Access.TILE
    plan = plan_box(fields, access, case["coordinates"], case.get("offsets", ()))
    places = swizzle_shared(plan.place.ravel() * plan.unit, case["swizzle"]) // CHUNK
    return places, plan.source.ravel(), plan.inside.ravel()


@pytest.mark.parametrize("case", [c for c in RECORD["cases"] if c["mode"] != "store"], ids=name_of)
def test_loads(case: dict[str, Any]) -> None:
    assert not tensor_map_problems(fields_of(case))
    places, source, inside = moved(case)
    expected = [None] * len(places)
    for place, chunk, there in zip(places, source, inside, strict=True):
        expected[place] = int(chunk) if there else None
    assert expected == case["source"]


@pytest.mark.parametrize("case", [c for c in RECORD["cases"] if c["mode"] == "store"], ids=name_of)
def test_stores(case: dict[str, Any]) -> None:
    places, source, inside = moved(case)
    pairs = sorted(zip(source[inside].tolist(), places[inside].tolist(), strict=True))
    assert [list(pair) for pair in pairs] == case["written"]


def test_transaction_bytes() -> None:
    counted = [case for case in RECORD["cases"] if "tx_bytes" in case]
    assert len(counted) > 15
    for case in counted:
        fields = fields_of(case)
        access = Access.IM2COL if fields.im2col else Access.TILE
        plan = plan_box(fields, access, case["coordinates"], case.get("offsets", ()))
        assert plan.tx_bytes == case["tx_bytes"] == CHUNK * len(case["source"])


@pytest.mark.parametrize("case", RECORD["refused"], ids=name_of)
def test_what_the_driver_refused(case: dict[str, Any]) -> None:
    assert tensor_map_problems(fields_of(case))


def test_the_record_covers_ranks_modes_and_swizzles() -> None:
    seen = {(case["mode"], len(case["global_dim"])) for case in RECORD["cases"]}
    assert seen >= {("tile", 3), ("tile", 4), ("tile", 5), ("im2col", 3), ("im2col", 4), ("im2col", 5), ("store", 3)}
    assert {(case["interleave"], case["swizzle"]) for case in RECORD["cases"]} >= {
        ("16B", "none"), ("16B", "32B"), ("16B", "64B"), ("16B", "128B"), ("32B", "none"), ("32B", "32B"),
    }  # fmt: skip
    assert np.unique([case["dtype"] for case in RECORD["cases"]]).tolist() == ["u16", "u32", "u8"]
