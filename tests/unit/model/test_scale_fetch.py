"""Block-scaled MMAs: scale factors in Tensor Memory, against NumPy; their places against CuTe's table."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import bench, get_d, lanes_of, mma_call, put_a, put_cells, put_d, small, stage, words_of

from umma_probe.errors import DeviceError, UndefinedBehavior
from umma_probe.model.mma.mma_call import MmaForm, checked_idesc
from umma_probe.model.mma.tensor_core import execute
from umma_probe.spec.idesc import encode_idesc

Array = Any
VECTORS = Path(__file__).parents[2] / "vectors"
LAYOUTS = {(128, 1): "D", (256, 2): "A", (128, 2): "B"}
K = {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
SFA, SFB = 256, 320
SCALES = {"1X": 1, "2X": 2, "4X": 4}


def scale_words(rng: np.random.Generator, shape: tuple[int, int], scale_type: str) -> tuple[Array, Array]:
    """(bytes, values): powers of two from 1/4 to 4, and for UE4M3 also 1.5 and 3."""
    exponents = rng.integers(-2, 3, shape)
    if scale_type == "ue8m0":
        return (exponents + 127).astype(np.uint8), np.ldexp(1.0, exponents)
    odd = rng.integers(0, 2, shape)
    return (exponents + 7 << 3 | odd * 4).astype(np.uint8), np.ldexp(1 + odd / 2, exponents)


def put_scales(launch: Any, cta: int, scales: Array, column: int, sf_id: int, *, split: bool = False,
               partitions: Any = range(4)) -> None:  # fmt: skip
    """Scale (i, s) at lane i % 32 of each partition, column i / 32, byte sf_id + s."""
    words = launch.tmem.words[cta].view(np.uint8).reshape(128, 512, 4)
    rows = len(scales) // (2 if split else 1)
    for p in partitions:
        mine = scales[rows * (p // 2) :][:rows] if split else scales
        for i, row in enumerate(mine):
            words[32 * p + i % 32, column + i // 32, sf_id : sf_id + len(row)] = row
            launch.tmem.written[cta, 32 * p + i % 32, column + i // 32] = True


def run_case(
    kind: str,
    m: int,
    n: int,
    cta_group: int,
    vector: str,
    scale_type: str,
    *,
    a_type: str = "e2m1",
    b_type: str = "e2m1",
    sf_ids: tuple[int, int] = (0, 0),
    tmem_a: bool = False,
) -> tuple[Array, Array, Any]:
    rng = np.random.default_rng(m + n)
    k, count = K[kind], SCALES[vector]
    launch = bench(ctas=cta_group)
    layout = LAYOUTS[m, cta_group]
    a, b = small(rng, (m, k), a_type), small(rng, (n, k), b_type)
    padded = {t: kind == "mxf8f6f4" and t in ("e2m1", "e2m3", "e3m2") for t in (a_type, b_type)}
    sfa, sfa_values = scale_words(rng, (m, count), scale_type)
    sfb, sfb_values = scale_words(rng, (n, count), scale_type)
    old = rng.integers(-8, 9, (m, n)).astype(np.float32)
    rows, share = m // cta_group, n // cta_group
    place_a = 200
    if tmem_a:
        put_a(launch, layout, words_of(a, a_type), a_type, kind, 200)
    for cta in range(cta_group):
        mine, theirs = words_of(a, a_type)[cta * rows :][:rows], words_of(b, b_type)[cta * share :][:share]
        if not tmem_a:
            place_a = stage(launch, cta, 0, mine, a_type, padded=padded[a_type])
        place_b = stage(launch, cta, 0x8000, theirs, b_type, padded=padded[b_type], swizzle="128B")
        put_scales(launch, cta, sfa[cta * rows :][:rows], SFA, sf_ids[0])
        put_scales(launch, cta, sfb, SFB, sf_ids[1], split=layout == "B")
    put_d(launch, layout, old.view(np.uint32))
    idesc = {"a_type": a_type, "b_type": b_type, "m": m, "n": n, "scale_type": scale_type,
             "sfa_id": sf_ids[0], "sfb_id": sf_ids[1]}  # fmt: skip
    form = MmaForm(kind, cta_group, scale_vector=vector, a_in_tmem=tmem_a)
    execute(mma_call(launch, form, idesc, a=place_a, b=place_b, accumulate=True,
                     scale_a=SFA | sf_ids[0] << 30, scale_b=SFB))  # fmt: skip
    block = k // count
    expected = (a * np.repeat(sfa_values, block, 1)) @ (b * np.repeat(sfb_values, block, 1)).T + old
    return expected, get_d(launch, layout, m, n)[0].view(np.float32), launch


@pytest.mark.parametrize(("kind", "vector", "scale_type", "sf_ids"), [
    *(("mxf8f6f4", "1X", "ue8m0", (i, 3 - i)) for i in range(4)),
    *(("mxf4", "2X", "ue8m0", ids) for ids in ((0, 0), (2, 0), (0, 2))),
    ("mxf4nvf4", "2X", "ue8m0", (2, 2)),
    ("mxf4nvf4", "4X", "ue8m0", (0, 0)),
    ("mxf4nvf4", "4X", "ue4m3", (0, 0)),
])  # fmt: skip
@pytest.mark.parametrize(
    ("m", "cta_group", "n"), [(128, 1, 8), (128, 1, 136), (128, 1, 256), (256, 2, 192), (128, 2, 96)]
)
def test_block_scaling(
    kind: str, vector: str, scale_type: str, sf_ids: tuple[int, int], m: int, cta_group: int, n: int
):
    expected, actual, launch = run_case(kind, m, n, cta_group, vector, scale_type, sf_ids=sf_ids)
    assert (actual == expected).all()
    assert not launch.findings


@pytest.mark.parametrize("types", [("e4m3", "e5m2"), ("e2m3", "e3m2"), ("e2m1", "e4m3"), ("e5m2", "e2m1")])
@pytest.mark.parametrize("tmem_a", [False, True])
def test_mixed_types(types: tuple[str, str], tmem_a: bool):
    for m, cta_group in LAYOUTS:
        expected, actual, _ = run_case("mxf8f6f4", m, 64, cta_group, "1X", "ue8m0", a_type=types[0], b_type=types[1],
                                       tmem_a=tmem_a)  # fmt: skip
        assert (actual == expected).all()


def test_4_bit_a_in_tensor_memory():
    for m, cta_group in LAYOUTS:
        expected, actual, _ = run_case("mxf4nvf4", m, 64, cta_group, "4X", "ue4m3", tmem_a=True)
        assert (actual == expected).all()


def golden() -> list[dict[str, Any]]:
    with gzip.open(VECTORS / "sf_layouts.json.gz", "rt", encoding="utf-8") as file:
        return [case for case in json.load(file)["cases"] if case["section"] == "mma"]


def expand(case: dict[str, Any], what: str) -> Array:
    """(mn, copies, scales)."""
    parts = [case.get(f"{what}_{axis}", 0) for axis in ("mn", "rep", "sf")]
    sizes = (case["mn"], case["rep"], case["sf_in_tile"])
    lists = [np.zeros(n, np.int64) if p == 0 else np.array(p) for p, n in zip(parts, sizes, strict=True)]
    return lists[0][:, None, None] + lists[1][None, :, None] + lists[2][None, None, :]


def test_places_agree_with_cute():
    """Every scale as CuTe places it, one row or column at a time made different from all others."""
    seen = set()
    for case in golden():
        kind = case["op"].split("MMA_")[1].split("_")[0].lower()
        vector = {1: "1X", 2: "2X", 4: "4X"}[case["sf_per_mma"]]
        kind = "mxf4nvf4" if vector == "4X" else kind
        if case["cta_group"] == 2 or case["sf_per_mma"] > case["sf_in_tile"]:
            continue
        launch = bench()
        count, is_a, mn = case["sf_per_mma"], case["operand"] == "SFA", case["mn"]
        lane, column, byte = (expand(case, what) for what in ("lane", "col", "byte"))
        cells = launch.tmem.words[0].view(np.uint8).reshape(128, 512, 4)
        cells[:, :64] = 127
        exponents = np.arange(mn)[:, None] * 7 % 64 + np.arange(case["sf_in_tile"])[None, :] % 4
        cells[lane, 32 + column, byte] = np.broadcast_to((100 + exponents)[:, None, :], lane.shape)
        launch.tmem.written[0, :, :64] = True
        k = K[kind]
        ones = np.zeros((256, k))
        ones[:, 0] = 1
        dense = kind != "mxf8f6f4"
        words = words_of(ones, "e2m1" if dense else "e4m3")
        place_a = stage(launch, 0, 0, words[:128], "e2m1" if dense else "e4m3")
        n = 64 if is_a else mn
        place_b = stage(launch, 0, 0x8000, words[:n], "e2m1" if dense else "e4m3")
        type_ = "e2m1" if dense else "e4m3"
        for block, taddr in enumerate(case["kblock_tmem_addr"]):
            address = (int(taddr, 16) + 32) & 0xFFFF_FFFF
            sf_id = address >> 30
            idesc = {"a_type": type_, "b_type": type_, "m": 128, "n": n, "scale_type": "ue8m0",
                     "sfa_id": sf_id if is_a else 0, "sfb_id": 0 if is_a else sf_id}  # fmt: skip
            call = mma_call(launch, MmaForm(kind, scale_vector=vector), idesc, a=place_a, b=place_b, d=128,
                            scale_a=address if is_a else 0, scale_b=0 if is_a else address)  # fmt: skip
            execute(call)
            d = get_d(launch, "D", 128, n, 128)[0].view(np.float32)
            # only k = 0 counts, so the first scale of the block shows
            expected = np.ldexp(1.0, exponents[:, block * count] - 27)
            assert ((d[:, 0] if is_a else d[0, :]) == expected).all(), (case["op"], case["operand"])
        seen.add((kind, case["operand"]))
    assert {kind for kind, _ in seen} >= {"mxf8f6f4", "mxf4"}


def test_each_partition_reads_its_own_copy():
    launch = bench()
    ones = words_of(np.ones((128, 32)), "e4m3")
    place_a, place_b = stage(launch, 0, 0, ones, "e4m3"), stage(launch, 0, 0x4000, ones[:64], "e4m3")
    for p in range(4):
        put_scales(launch, 0, np.full((64, 1), 127 + p, np.uint8), SFB, 0, partitions=[p])
    put_scales(launch, 0, np.full((128, 1), 127, np.uint8), SFA, 0)
    idesc = {"a_type": "e4m3", "b_type": "e4m3", "m": 128, "n": 64}
    execute(
        mma_call(launch, MmaForm("mxf8f6f4", scale_vector="1X"), idesc, a=place_a, b=place_b, scale_a=SFA, scale_b=SFB)
    )
    d = get_d(launch, "D", 128, 64)[0].view(np.float32)
    assert (d == 32 * np.repeat([1, 2, 4, 8], 32)[:, None]).all()


def call_with(launch: Any, **more: Any) -> Any:
    ones = words_of(np.ones((128, 32)), "e4m3")
    place_a, place_b = stage(launch, 0, 0, ones, "e4m3"), stage(launch, 0, 0x4000, ones[:64], "e4m3")
    idesc = {"a_type": "e4m3", "b_type": "e4m3", "m": 128, "n": 64} | more.pop("idesc", {})
    return mma_call(launch, MmaForm("mxf8f6f4", scale_vector="1X"), idesc, a=place_a, b=place_b, **more)


def test_unwritten_scales_are_a_finding():
    launch = bench()
    put_scales(launch, 0, np.full((128, 1), 127, np.uint8), SFA, 0)
    put_scales(launch, 0, np.full((64, 1), 127, np.uint8), SFB, 0, partitions=range(3))
    execute(call_with(launch, scale_a=SFA, scale_b=SFB))
    ((rule, _), finding) = next(iter(launch.findings.items()))
    assert rule == "uninitialised-tmem"
    assert "scale factors of B reads lane 96, column 320" in finding.message


def test_faults_of_scale_addresses():
    launch = bench(columns=256)
    with pytest.raises(DeviceError, match="scale factors of A touches columns 256-259"):
        execute(call_with(launch, scale_a=SFA, scale_b=0))
    with pytest.raises(UndefinedBehavior, match="id is 1 in the address and 2 in the instruction descriptor"):
        execute(call_with(launch, scale_a=1 << 30, scale_b=0, idesc={"sfa_id": 2}))
    with pytest.raises(UndefinedBehavior, match="lane of the address is 32"):
        execute(call_with(launch, scale_a=32 << 16, scale_b=0))


def test_descriptors_of_scaled_kinds():
    case = {"a_type": "e2m1", "b_type": "e2m1", "m": 128, "n": 64}
    word = encode_idesc("mxf4nvf4", scale_type="ue4m3", sfa_id=2, **case)
    with pytest.raises(UndefinedBehavior, match="sfa_id is 2"):
        checked_idesc(MmaForm("mxf4nvf4", scale_vector="4X"), word, "sm_100a")
    with pytest.raises(UndefinedBehavior, match="scale_type is ue4m3"):
        checked_idesc(
            MmaForm("mxf4nvf4", scale_vector="2X"), encode_idesc("mxf4nvf4", scale_type="ue4m3", **case), "sm_100a"
        )
    wide = encode_idesc("mxf4", k=96, **(case | {"m": 256}))
    with pytest.raises(UndefinedBehavior, match="K is 96 on sm_100a"):
        checked_idesc(MmaForm("mxf4", 2, scale_vector="2X"), wide, "sm_100a")


def test_pair_with_m_128_splits_n():
    """Layout B: partitions 0 and 1 multiply the first half of N, 2 and 3 the second; only partition 3 has scale 2."""
    launch = bench(ctas=2)
    ones = words_of(np.ones((64, 32)), "e4m3")
    for cta in range(2):
        place_a, place_b = stage(launch, cta, 0, ones, "e4m3"), stage(launch, cta, 0x4000, ones[:32], "e4m3")
        put_cells(
            launch,
            cta,
            np.arange(128)[:, None],
            np.arange(300, 310)[None, :],
            np.full((128, 10), 0x7F7F7F7F, np.uint32),
        )
        put_cells(launch, cta, np.arange(96, 128)[:, None], np.array([[304]]), np.full((32, 1), 0x80808080, np.uint32))
    idesc = {"a_type": "e4m3", "b_type": "e4m3", "m": 128, "n": 64}
    execute(
        mma_call(
            launch, MmaForm("mxf8f6f4", 2, scale_vector="1X"), idesc, a=place_a, b=place_b, scale_a=300, scale_b=304
        )
    )
    d = get_d(launch, "B", 128, 64)[0].view(np.float32)
    expected = np.full((128, 64), 32.0)
    for cta in range(2):
        rows = np.flatnonzero(lanes_of("B", 64, 1) >= 96) + 64 * cta
        expected[rows, 32:] = 64
    assert (d == expected).all()
