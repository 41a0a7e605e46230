"""tcgen05.ld, ld.red and st through kernels: who carries which cell, packing, address rules, findings.

The cells of a warp's partition are coded ``lane << 16 | column``. The expected cell of (thread, register) is CuTe's
formula, written out here (its tables are in ``test_datapath``).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensor_kernels import ALLOC, DEALLOC, run

from umma_probe.errors import (
    DeviceError,
    IllegalProgram,
    NotModelled,
    PtxSyntaxError,
    UmmaProbeError,
    UndefinedBehavior,
)
from umma_probe.model.ops.tcgen05_ld_red import reduction

Array = Any
VECTORS = Path(__file__).parents[3] / "vectors"
SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}  # registers of .x1
WIDTHS = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 2}  # columns of .x1


def cell(shape: str, t: Array, r: Array, split: int) -> tuple[Array, Array]:
    """(lane, column) of a thread's register."""
    match shape:
        case "32x32b":
            return t + 0 * r, r + 0 * t
        case "16x64b":
            return t // 4 + 8 * (t & 1) + 0 * r, (t >> 1 & 1) + 2 * r
        case "16x128b":
            return t // 4 + 8 * (r & 1), (t & 3) + 4 * (r >> 1)
        case "16x256b":
            return t // 4 + 8 * (r >> 1 & 1), 2 * (t & 3) + (r & 1) + 8 * (r >> 2)
    return t % 16 + 0 * r, r + split * (t // 16)


def vector(count: int, first: int = 0) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


# every cell of the warp's 32 lanes and 128 columns, 64 columns at a time
FILL = (
    "shl.b32 %x, %warp, 21; add.u32 %z, %base, %x;\n"
    "and.b32 %y, %tid, 31; shl.b32 %y, %y, 16; add.u32 %x, %x, %y;\n"
    + "".join(
        "".join(f"add.u32 %r{i}, %x, {half + i};\n" for i in range(64))
        + f"tcgen05.st.sync.aligned.32x32b.x64.b32 [%z+{half}], {vector(64)};\n"
        for half in (0, 64)
    )
    + "tcgen05.wait::st.sync.aligned;\n"
)


def split_operand(shape: str, split: int) -> str:
    return f", {split}" if shape == "16x32bx2" else ""


LOADS = [  # those that fit the coded columns; the others are in test_datapath
    (shape, num, pack)
    for shape in SHAPES
    for num in (1, 4, 16, 32)
    for pack in (False, True)
    if WIDTHS[shape] * num * (1 + pack) <= 120
]


@pytest.mark.parametrize(("shape", "num", "pack"), LOADS)
def test_loads(shape: str, num: int, pack: bool):
    count, half, first = SHAPES[shape] * num, 0 if shape == "32x32b" else 16, 3
    t, r = np.meshgrid(np.arange(32), np.arange(count), indexing="xy")
    lane, column = cell(shape, t, r, num)
    ran = run(
        FILL + f"add.u32 %z, %z, {half << 16 | first};\n"
        f"tcgen05.ld.sync.aligned.{shape}.x{num}{'.pack::16b' if pack else ''}.b32 {vector(count)}, "
        f"[%z]{split_operand(shape, num * (1 + pack))};\n"
        "tcgen05.wait::ld.sync.aligned;\n" + "".join(f"OUT({i}, %r{i})\n" for i in range(count)),
        columns=128,
    )
    for warp in range(4):
        code = (32 * warp + half + lane) << 16
        if pack:
            expected = (code + first + 2 * column & 0xFFFF) | (first + 2 * column + 1) << 16
        else:
            expected = code + first + column
        assert (ran.results[0, :count, 32 * warp : 32 * warp + 32] == expected).all()
    assert not ran.rules
    assert not ran.reviews


SPLIT_STORE = (
    "shl.b32 %x, %warp, 21; add.u32 %z, %base, %x; add.u32 %z, %z, {address}; mov.u32 %r0, %tid; mov.u32 %r1, %tid;\n"
    "tcgen05.st.sync.aligned.16x32bx2.x2.b32 [%z], {split}, {{%r0, %r1}};\ntcgen05.wait::st.sync.aligned;\n"
    "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {{%r2, %r3}}, [%z], {split};\ntcgen05.wait::ld.sync.aligned;\n"
)


@pytest.mark.parametrize(
    ("lane", "split", "second"),
    [(0, 16 << 16, (16, 8)), (0, (16 << 16) + 3, (16, 11)), (16, -(16 << 16), (0, 8)), (16, (-16 << 16) - 5, (0, 3)),
     (0, -8, (0, 0)), (16, -3, (16, 5))],
)  # fmt: skip
def test_the_second_half_is_at_the_sum_of_two_addresses(lane: int, split: int, second: tuple[int, int]):
    ran = run(SPLIT_STORE.format(address=lane << 16 | 8, split=split))
    image = ran.launch.tmem_snapshots[0]
    expected = np.full((128, 512), -1)
    for warp in range(4):
        for first, places in ((0, (lane, 8)), (16, second)):
            lanes, column = 32 * warp + places[0] + np.arange(16), places[1]
            expected[lanes, column : column + 2] = (32 * warp + first + np.arange(16))[:, None]
    assert (image.written == (expected >= 0)).all()
    assert (image.words[image.written] == expected[image.written]).all()
    assert not ran.rules
    assert not ran.reviews


@pytest.mark.parametrize(
    ("split", "error", "text"),
    [(8 << 16, DeviceError, "lane % 32 must be 0 or 16"), (32 << 16, UndefinedBehavior, "partition|this warp reaches"),
     (-9, DeviceError, "lane % 32 must be|outside Tensor Memory"), (505, DeviceError, "outside Tensor Memory")],
)  # fmt: skip
def test_a_second_half_out_of_reach(split: int, error: type[UmmaProbeError], text: str):
    with pytest.raises(error, match=text):
        run(SPLIT_STORE.format(address=8, split=split))


@pytest.mark.parametrize("unpack", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_stores(shape: str, unpack: bool):
    num, split, first = 4, 9, 5
    count, half = SHAPES[shape] * num, 0 if shape == "32x32b" else 16
    ran = run(
        f"shl.b32 %x, %warp, 21; add.u32 %z, %base, %x; add.u32 %z, %z, {half << 16 | first}; shl.b32 %y, %tid, 16;\n"
        + "".join(f"add.u32 %r{i}, %y, {0x100 + i};\n" for i in range(count))
        + f"tcgen05.st.sync.aligned.{shape}.x{num}{'.unpack::16b' if unpack else ''}.b32 "
        f"[%z]{split_operand(shape, split)}, {vector(count)};\ntcgen05.wait::st.sync.aligned;\n",
        columns=128,
    )
    image = ran.launch.tmem_snapshots[0]
    cells, written = image.words, image.written
    expected = np.full((128, 512), -1, np.int64)
    t, r = np.meshgrid(np.arange(32), np.arange(count), indexing="xy")
    for warp in range(4):
        value = (32 * warp + t) << 16 | (0x100 + r)
        if unpack and shape == "16x32bx2":
            lane, column = t % 16, 2 * r + split * (t // 16)
        else:
            lane, column = cell(shape, t, r, split)
            column = column * (1 + unpack)
        lane = 32 * warp + half + lane
        expected[lane, first + column] = value & 0xFFFF if unpack else value
        if unpack:
            expected[lane, first + 1 + column] = value >> 16
    assert (written == (expected >= 0)).all()
    assert (cells[written] == expected[written]).all()


def test_lane_field_zero_works_from_every_warp():
    """The hardware takes the partition from the warp; DeepGEMM's epilogues rely on it."""
    body = FILL + "tcgen05.ld.sync.aligned.32x32b.x1.b32 %r0, [%base];\ntcgen05.wait::ld.sync.aligned;\nOUT(0, %r0)\n"
    assert (run(body, columns=128).results[0, 0] == np.arange(128) << 16).all()


LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%z];\n"


def test_lane_field_bits_above_the_lanes_are_ignored():
    """The odd CTA of learn-cuda's pairs loads from lanes 128 to 255."""
    body = FILL + "shl.b32 %z, %warp, 21;\nadd.u32 %z, %z, %base;\nadd.u32 %z, %z, 0x800000;\n" + LD
    ran = run(body + "tcgen05.wait::ld.sync.aligned;\nOUT(0, %r0)\n", columns=128)
    assert (ran.results[0, 0] == np.arange(128) << 16).all()
    assert "tmem-lane-field" in ran.reviews


@pytest.mark.parametrize(("body", "error", "text", "warp"), [
    ("add.u32 %z, %base, 0x200000;\n" + LD, UndefinedBehavior, "has lane 32; this warp reaches lanes 0 to 31", 0),
    ("add.u32 %z, %base, 0x100000;\n" + LD, DeviceError, "has lane 16; lane % 32 must be 0", 0),
    ("add.u32 %z, %base, 0x80000;\n" + LD.replace("32x32b", "16x64b"), DeviceError, "must be 0 or 16", 0),
    ("add.u32 %z, %base, 64;\n" + LD, DeviceError, "column 64, which is not allocated", 0),
    ("add.u32 %z, %base, 62;\n" + LD.replace("x1", "x4").replace("{%r0}", vector(4)), DeviceError, "column 64", 0),
    ("add.u32 %z, %base, 512;\n" + LD, DeviceError, "outside Tensor Memory", 0),
    ("add.u32 %z, %base, 0;\nsetp.eq.u32 %q1, %tid, 70;\n@%q1 " + LD, UndefinedBehavior, "1 of 32 lanes", 2),
    ("and.b32 %z, %tid, 1;\nadd.u32 %z, %base, %z;\n" + LD, UndefinedBehavior, "differs between the threads", 0),
    ("add.u32 %z, %base, 64;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%z], {%r0};\n", DeviceError, "st touches", 0),
])  # fmt: skip
def test_address_rules(body: str, error: type[UmmaProbeError], text: str, warp: int):
    with pytest.raises(error, match=text) as caught:
        run("mov.u32 %r0, 0;\n" + body)
    assert caught.value.where is not None
    assert "tcgen05." in caught.value.where.source_line
    assert f"CTA 0, warp {warp}" in caught.value.where.actor


def test_halves_apart_need_no_columns_between_them():
    body = ALLOC.format(columns=32) + "mov.u32 %r9, %base;\nbar.sync 0;\n" + ALLOC.format(columns=32) + "bar.sync 0;\n"
    body += ALLOC.format(columns=32) + "bar.sync 0;\n"
    middle = "add.u32 %x, %r9, 32;\n@%pw tcgen05.dealloc.cta_group::1.sync.aligned.b32 %x, 32;\nbar.sync 0;\n"
    body += middle + "mov.u32 %r0, %tid;\ntcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r9], 64, {%r0};\n"
    ran = run(body, alloc=False)
    written = ran.launch.tmem_snapshots[0].written
    assert written[:16, [0, 64]].all()
    assert written.sum() == 4 * 32


def test_reading_what_nobody_wrote_is_a_finding():
    ran = run("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0, %r1}, [%base];\ntcgen05.wait::ld.sync.aligned;\n")
    ((rule, _), finding) = next(iter(ran.launch.findings.items()))
    assert rule == "uninitialised-tmem"
    assert "tcgen05.ld reads lane 0, column 0 of CTA 0" in finding.message
    assert "64 cells" in finding.message
    assert "kernel.ptx:" in finding.where


@pytest.mark.parametrize(("written", "rules", "reviews"), [
    ((0,), set(), {"idle-lanes"}), ((16,), set(), {"idle-lanes"}), ((0, 16), set(), set()),
    ((), {"uninitialised-tmem"}, set()),
])  # fmt: skip
def test_the_lanes_beside_a_64_row_accumulator_are_for_review(
    written: tuple[int, ...], rules: set[str], reviews: set[str]
):
    """A load of 32 lanes cannot leave them out; what it gives for them nobody needs."""
    stores = "".join(f"add.u32 %z, %base, {half << 16};\ntcgen05.st.sync.aligned.16x64b.x1.b32 [%z], {{%r0}};\n"
                     for half in written)  # fmt: skip
    load = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0, %r1}, [%base];\ntcgen05.wait::ld.sync.aligned;\nOUT(0, %r1)\n"
    ran = run("mov.u32 %r0, 7;\n" + stores + "tcgen05.wait::st.sync.aligned;\n" + load)
    assert (ran.rules, ran.reviews & {"idle-lanes"}) == (rules, reviews)
    lanes = ran.results[0, 0].reshape(4, 2, 16)
    assert all((lanes[:, half // 16] == 7).all() for half in written)


def test_freed_columns_are_forgotten():
    body = FILL + DEALLOC.format(columns=128) + "bar.sync 0;\n" + ALLOC.format(columns=128)
    ran = run(
        body + "tcgen05.ld.sync.aligned.32x32b.x1.b32 %r0, [%base];\ntcgen05.wait::ld.sync.aligned;\n", columns=128
    )
    assert ran.rules == {"uninitialised-tmem"}


@pytest.mark.parametrize(("line", "error"), [
    (f"tcgen05.ld.sync.aligned.16x256b.x64.b32 {vector(128)}, [%base];", PtxSyntaxError),
    (f"tcgen05.ld.sync.aligned.32x32b.x4.b32 {vector(3)}, [%base];", PtxSyntaxError),
    (f"tcgen05.ld.sync.aligned.16x32bx2.x4.b32 {vector(4)}, [%base];", PtxSyntaxError),
    (f"tcgen05.ld.sync.aligned.16x32bx2.x4.b32 {vector(4)}, [%base], %x;", PtxSyntaxError),
    (f"tcgen05.ld.sync.aligned.32x32b.x3.b32 {vector(3)}, [%base];", NotModelled),
    (f"tcgen05.ld.red.sync.aligned.32x32b.x1.min.u32 {vector(1)}, %x, [%base];", PtxSyntaxError),
    (f"tcgen05.ld.red.sync.aligned.32x32b.x2.min.abs.u32 {vector(2)}, %x, [%base];", PtxSyntaxError),
    (f"tcgen05.ld.red.sync.aligned.16x32bx2.x2.min.u32 {vector(2)}, %x, [%base], 2;", NotModelled),
])  # fmt: skip
def test_refused_before_the_first_thread_runs(line: str, error: type[UmmaProbeError]):
    with pytest.raises(error) as caught:
        run(line)
    assert caught.value.where is not None
    assert line in caught.value.where.source_line


# ---------------------------------------------------------------------- ld.red
def test_load_with_reduction():
    body = FILL + (
        f"tcgen05.ld.red.sync.aligned.32x32b.x4.max.u32 {vector(4)}, %r9, [%z+3];\n"
        f"tcgen05.ld.red.sync.aligned.32x32b.x4.min.s32 {vector(4, 4)}, %r10, [%z+7];\n"
        "tcgen05.wait::ld.sync.aligned;\nOUT(0, %r0) OUT(1, %r3) OUT(2, %r9) OUT(3, %r7) OUT(4, %r10)\n"
    ).replace("[%z+3]", "[%base+3]").replace("[%z+7]", "[%base+7]")  # fmt: skip
    ran = run(body, columns=128, arch="sm_103a")
    lane = np.arange(128) << 16
    assert (ran.results[0, :5] == np.stack([lane + 3, lane + 6, lane + 6, lane + 10, lane + 7])).all()
    with pytest.raises(IllegalProgram, match="red on sm_100a"):
        run(body, columns=128)


NAN, INF = 0x7FC00000, 0x7F800000


@pytest.mark.parametrize(("words", "op", "flags", "expected"), [
    ((0x3F800000, 0xC0000000, 0x40400000), "max", "", 0x40400000),
    ((0x3F800000, 0xC0000000, 0x40400000), "min", "", 0xC0000000),
    ((0x3F800000, 0xC0000000), "max", "abs", 0x40000000),
    ((0x00000000, 0x80000000), "min", "", 0x80000000),
    ((0x80000000, 0x00000000), "max", "", 0x00000000),
    ((NAN, 0x3F800000), "max", "", 0x3F800000),
    ((NAN, 0x3F800000), "min", "", 0x3F800000),
    ((NAN, 0x3F800000), "min", "NaN", 0x7FFFFFFF),
    ((0xFFC00000, NAN), "max", "", 0x7FFFFFFF),
    ((INF, 0x3F800000), "max", "", INF),
    ((0xFF800000, 0x3F800000), "min", "NaN", 0xFF800000),
    ((0x00000001, 0x80000001), "min", "abs", 0x00000001),
])  # fmt: skip
def test_floating_point_reductions(words: tuple[int, ...], op: str, flags: str, expected: int):
    column = np.array(words, np.uint32)[:, None]
    assert reduction(column, op == "max", "f32", "abs" in flags, "NaN" in flags) == [expected]


def test_cute_lists_the_reducing_load():
    with gzip.open(VECTORS / "ldst_maps.json.gz", "rt", encoding="utf-8") as file:
        cases = [case for case in json.load(file)["cases"] if "ld.red" in case["ptx"]]
    assert {case["ptx"].split(".")[5] for case in cases} == {"32x32b"}
