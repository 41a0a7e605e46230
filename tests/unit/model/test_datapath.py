"""The machine's data path (place to element) against the tables that NVIDIA's CuTe gives (element to place)."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umma_probe.errors import IllegalProgram
from umma_probe.model.mma.datapath import access_box, lane_feed
from umma_probe.model.ops.tcgen05_cp import SHAPES, source_rows

VECTORS = Path(__file__).parents[2] / "vectors"


@cache
def golden(name: str) -> list[dict[str, Any]]:
    with gzip.open(VECTORS / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        cases: list[dict[str, Any]] = json.load(file)["cases"]
    return cases


def expand(case: dict[str, Any], what: str, rows: int, columns: int, axes: str) -> np.ndarray:
    parts = [case[f"{what}_{axis}"] for axis in axes]
    first = np.zeros(rows, np.int64) if parts[0] == 0 else np.array(parts[0])
    second = np.zeros(columns, np.int64) if parts[1] == 0 else np.array(parts[1])
    return first[:, None] + second[None, :]


def is_accumulator(case: dict[str, Any]) -> bool:
    """One value a column, of an instruction that exists (2 CTAs with M = 64 do not), not the duplicated A."""
    if case["section"] == "atom":
        return "SPARSE" not in case["op"] or case["cta_group"] == 1 or case["mma_m"] == 256
    return (
        case["storage_type"] in ("u32", "s32")
        and case["alloc_mode"] in ("Interleaved", "ws")
        and (case["cta_group"], case["mma_m"]) != (2, 64)
    )


def test_accumulators_agree_with_cute():
    seen = set()
    for case in golden("tmem_c_layouts"):
        if not is_accumulator(case):
            continue
        rows, n = case["m_per_cta"], case["n"]
        ws = case.get("alloc_mode") == "ws"
        banked = rows < 128 and (ws or case["cta_group"] == 2)
        feed = lane_feed(rows, banked, 0)
        width = n // feed.segments
        lane, column = (expand(case, what, rows, n, "mn") for what in ("lane", "col"))
        expected = np.full((128, width), -1)
        expected[lane, column] = np.arange(rows * n).reshape(rows, n)
        actual = np.full((128, width), -1)
        actual[feed.lanes] = feed.rows[:, None] * n + feed.segment[:, None] * width + np.arange(width)
        assert (actual == expected).all(), (case.get("op"), case.get("frag"), rows, n)
        for segment, lanes in enumerate(feed.banks):
            at = np.arange(128)[lanes]
            assert (actual[at, 0] == np.arange(rows) * n + segment * width).all()
        seen.add((rows, banked))
    assert seen == {(128, False), (64, False), (64, True), (32, True)}


def test_operand_a_agrees_with_cute():
    """Row to lanes: the copies of a CTA pair with M = 128 are the two banks."""
    seen = set()
    for case in golden("tmem_a_layouts"):
        if case["section"] != "atom" and not case["used_by_ts_atoms"]:
            continue
        rows, k = case["m_per_cta"], case["k"]
        duplicated = case["cta_group"] == 2 and rows == 64
        feed = lane_feed(rows, duplicated, 0)
        lane = expand(case, "lane", 128 if duplicated and len(case["lane_m"]) == 128 else rows, k, "mk")
        for bank, lanes in enumerate(feed.banks):
            first = bank * rows if len(lane) > rows else 0
            offset = 0 if len(lane) > rows else bank * rows
            assert (lane[first : first + rows, 0] + offset == np.arange(128)[lanes]).all()
        seen.add((case["cta_group"], rows))
    assert seen == {(1, 64), (1, 128), (2, 64), (2, 128)}


def test_loads_and_stores_agree_with_cute():
    assert len(golden("ldst_maps")) > 80
    for case in golden("ldst_maps"):
        words = case["ptx"].split(".")
        shape = next(w for w in words if w[0].isdigit())
        packed = "pack::16b" in case["ptx"]
        box = access_box(shape, case["repeat"], max(case["imm_half_split"], 0), packed)
        assert box.registers == case["regs"]
        lane, column = (expand(case, what, 32, box.registers, "tr").T for what in ("lane", "col"))
        assert (box.lane == lane + case["base"][0]).all(), case["ptx"]
        assert (box.column == column + case["base"][1]).all(), case["ptx"]
        assert case["half1"] == ([0, 1, 0] if packed else [0, 0, 16])
        touched = {c for area in box.areas for c in range(area.first_column, area.end_column)}
        assert touched == set(np.unique(column)) | (set(np.unique(column + 1)) if packed else set())


def test_copies_agree_with_cute():
    for case in golden("cp_maps"):
        words = case["ptx"].split(".")[2:]
        shape = words[1]
        multicast = words[2] if len(words) > 2 else None
        rows, width = SHAPES[shape, multicast]
        lanes, sources = source_rows(shape, multicast, 0)
        expected = np.array(case["expanded"])
        order = np.lexsort((expected[:, 1], expected[:, 0]))
        lane, column, row, bit = expected[order].T
        if shape == "4x256b":
            row = row // 32  # CuTe numbers the four rows 0, 32, 64, 96 here
        assert (lane == np.repeat(lanes, width)).all()
        assert (column == np.tile(np.arange(width), len(lanes))).all()
        assert (row == np.repeat(sources, width)).all()
        assert (bit == np.tile(32 * np.arange(width), len(lanes))).all()
        assert rows == sources.max() + 1


@pytest.mark.parametrize(("rows", "banked", "lane"), [(128, False, 16), (64, True, 16), (64, False, 8), (32, True, 32)])
def test_refuses_a_lane_that_does_not_suit(rows: int, banked: bool, lane: int):
    with pytest.raises(IllegalProgram, match=f"lane {lane}"):
        lane_feed(rows, banked, lane)


def test_upper_half_of_the_lanes():
    feed = lane_feed(64, False, 16)
    assert feed.lanes.tolist() == [32 * p + 16 + i for p in range(4) for i in range(16)]
    assert feed.rows.tolist() == list(range(64))
