"""Sparse MMAs: metadata in Tensor Memory and the expansion of A, against NumPy and CuTe's table of metadata."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import bench, get_d, lanes_of, mma_call, put_a, small, stage, words_of

from umma_probe.errors import NotModelled, UndefinedBehavior
from umma_probe.model.mma.mma_call import MmaForm
from umma_probe.model.mma.sparse_fetch import _deinterleave
from umma_probe.model.mma.tensor_core import execute

Array = Any
VECTORS = Path(__file__).parents[2] / "vectors"
META = 300
# kind: (K, values of a group, values kept together, type of A, of B)
KINDS = {
    "f16": (32, 4, 1, "bf16", "bf16"),
    "tf32": (16, 2, 1, "tf32", "tf32"),
    "f8f6f4": (64, 4, 1, "e5m2", "e2m3"),
    "i8": (64, 4, 1, "s8", "u8"),
    "mxf8f6f4": (64, 4, 1, "e4m3", "e2m1"),
    "mxf4": (128, 8, 2, "e2m1", "e2m1"),
    "mxf4nvf4": (128, 8, 2, "e2m1", "e2m1"),
}
# code to the kept units, written out from the PTX ISA's list of meaningful values
PAIRS = {0b0100: (0, 1), 0b1000: (0, 2), 0b1100: (0, 3), 0b1001: (1, 2), 0b1101: (1, 3), 0b1110: (2, 3), 0b0110: (2, 1)}
SINGLES = {0b0100: (0,), 0b1110: (1,)}
LAYOUTS = {
    (256, 2, False): "A", (128, 2, False): "C", (128, 1, False): "D", (64, 1, False): "F",
    (128, 1, True): "D", (64, 1, True): "E", (32, 1, True): "G",
}  # fmt: skip
SEGMENTS = {"A": 1, "C": 1, "D": 1, "F": 1, "E": 2, "G": 4}


def sparse_a(rng: np.random.Generator, kind: str, m: int) -> tuple[Array, Array, Array]:
    """(stored values (m, K/2), codes (m, groups), A with zeros (m, K))."""
    k, group, unit, a_type, _ = KINDS[kind]
    table = SINGLES if kind == "tf32" else PAIRS
    codes = rng.choice(np.array(sorted(table)), (m, k // group))
    stored = small(rng, (m, k // 2), a_type)
    full = np.zeros((m, k))
    for row in range(m):
        at = 0
        for g, code in enumerate(codes[row]):
            for kept in table[int(code)]:
                for i in range(unit):
                    full[row, g * group + kept * unit + i] = stored[row, at]
                    at += 1
    return stored, codes, full


def put_codes(launch: Any, cta: int, layout: str, codes: Array, interleaved: bool, selector: int, base: int) -> None:
    """Code (m, c): 16*(m/16) + m%8 + 8*(c/4), nibble 4*((m/8)%2) + c%4; or lane m, column c/8, nibble c%8."""
    cells = np.zeros((128, 4), np.uint32)
    for segment in range(SEGMENTS[layout]):
        for row, lane in enumerate(lanes_of(layout, len(codes), segment, base)):
            for c, code in enumerate(codes[row].tolist()):
                if interleaved:
                    where, column, nibble = lane // 16 * 16 + lane % 8 + c // 4 * 8, selector, lane // 8 % 2 * 4 + c % 4
                else:
                    where, column, nibble = lane, c // 8, c % 8
                cells[where, column] |= np.uint32(code << 4 * nibble)
    launch.tmem.words[cta, :, META : META + 4] = cells
    launch.tmem.written[cta, :, META : META + 4] = True


def run_case(kind: str, m: int, n: int, cta_group: int, ws: bool, *, selector: int = 0, base: int = 0,
             tmem_a: bool = False, metadata: int | None = None) -> tuple[Array, Array, Any]:  # fmt: skip
    rng = np.random.default_rng(m)
    k, _, _, a_type, b_type = KINDS[kind]
    launch = bench(ctas=cta_group)
    layout = LAYOUTS[m, cta_group, ws]
    stored, codes, full = sparse_a(rng, kind, m)
    b = small(rng, (n, k), b_type)
    rows, share = m // cta_group, n // cta_group
    padded = {t: kind in ("f8f6f4", "mxf8f6f4") and t in ("e2m1", "e2m3", "e3m2") for t in (a_type, b_type)}
    place_a = base << 16 | 400
    if tmem_a:
        put_a(launch, layout, words_of(stored, a_type), a_type, kind, 400, base)
    for cta in range(cta_group):
        if not tmem_a:
            place_a = stage(
                launch, cta, 0, words_of(stored, a_type)[cta * rows :][:rows], a_type, padded=padded[a_type]
            )
        place_b = stage(launch, cta, 0x8000, words_of(b, b_type)[cta * share :][:share], b_type, padded=padded[b_type])
        put_codes(launch, cta, layout, codes[cta * rows :][:rows], kind in ("f16", "tf32"), selector, base)
        launch.tmem.words[cta, :, 320:336] = 0x7F7F7F7F  # scale factors of one
        launch.tmem.written[cta, :, 320:336] = True
    idesc = {"a_type": a_type, "b_type": b_type, "m": m, "n": n, "sparsity_selector": selector}
    vector = {"mxf8f6f4": "1X", "mxf4": "2X", "mxf4nvf4": "2X"}.get(kind)
    if kind == "mxf4nvf4":
        idesc["scale_type"] = "ue8m0"
    form = MmaForm(kind, cta_group, ws=ws, sparse=True, a_in_tmem=tmem_a, scale_vector=vector)
    execute(mma_call(launch, form, idesc, a=place_a, b=place_b, d=base << 16, scale_a=320, scale_b=328,
                     metadata=META | base << 16 if metadata is None else metadata))  # fmt: skip
    words, written = get_d(launch, layout, m, n, 0, base)
    assert written.all()
    return full @ b.T, words.view(np.int32 if kind == "i8" else np.float32), launch


FORMS = [
    (kind, *shape)
    for kind in KINDS
    for shape in LAYOUTS
    if not kind.startswith("mx") or shape in ((128, 1, False), (256, 2, False))
]


@pytest.mark.parametrize(("kind", "m", "cta_group", "ws"), FORMS)
@pytest.mark.parametrize("tmem_a", [False, True])
def test_every_kind_and_layout(kind: str, m: int, cta_group: int, ws: bool, tmem_a: bool):
    expected, actual, launch = run_case(kind, m, 64, cta_group, ws, tmem_a=tmem_a)
    assert (actual == expected).all()
    assert not launch.findings


@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_selector_picks_the_column(kind: str):
    for metadata in (META, META + 1):  # the even column, or the odd one that the selector means
        expected, actual, _ = run_case(kind, 128, 64, 1, False, selector=1, metadata=metadata)
        assert (actual == expected).all()


def test_upper_half_of_the_lanes():
    for kind in ("f16", "f8f6f4"):
        expected, actual, _ = run_case(kind, 64, 64, 1, False, base=16)
        assert (actual == expected).all()


def test_places_agree_with_cute():
    """CuTe's map of (row, value of A) to lane, column and sub-column position, for 128 rows."""
    with gzip.open(VECTORS / "tmem_e_layouts.json.gz", "rt", encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    for case in cases:
        m, k = case["m"], case["k"]
        interleaved = case["value_type"] in ("tf32", "f16")
        groups = 8 if interleaved else 16
        axes = {}
        for what in ("lane", "col", "sub"):
            parts = [np.zeros(size, np.int64) if case[f"{what}_{axis}"] == 0 else np.array(case[f"{what}_{axis}"])
                     for axis, size in (("m", m), ("k", k))]  # fmt: skip
            axes[what] = (parts[0][:, None] + parts[1][None, :])[:, :: k // groups]
        nibble = axes["sub"] * 8 // case["elems_per_column"]
        rng = np.random.default_rng(k)
        codes = rng.integers(0, 16, (m, groups))
        cells = np.zeros((128, 2), np.uint32)
        np.bitwise_or.at(cells, (axes["lane"], axes["col"]), (codes << 4 * nibble).astype(np.uint32))
        nibbles = (cells[:, :, None] >> np.arange(0, 32, 4, dtype=np.uint32) & 0xF).astype(np.uint8)
        actual = _deinterleave(nibbles[:, 0]) if interleaved else nibbles.reshape(128, -1)
        assert (actual == codes).all(), case["value_type"]


@pytest.mark.parametrize(
    ("kind", "bad"), [("f16", 0), ("f16", 0b0101), ("tf32", 0b1000), ("mxf4", 0b1111), ("i8", 0b0001)]
)
def test_undefined_codes(kind: str, bad: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(SINGLES if kind == "tf32" else PAIRS, bad, (0,) if kind == "tf32" else (0, 1))
    with pytest.raises(UndefinedBehavior, match=rf"is 0b{bad:04b}, must be one of 0b0100"):
        run_case(kind, 128, 64, 1, False)


@pytest.mark.parametrize(("kind", "code"), [("f16", 0), ("tf32", 0b0001), ("mxf4", 0), ("i8", 0b0101)])
def test_codes_of_groups_without_values_do_not_matter(kind: str, code: int, monkeypatch: pytest.MonkeyPatch):
    """CUTLASS's compressor writes 0b0000 for a group of zeros."""
    real = sparse_a

    def with_empty_groups(rng: np.random.Generator, kind: str, m: int) -> tuple[Array, Array, Array]:
        stored, codes, full = real(rng, kind, m)
        for array, value in ((stored, 0), (codes, code), (full, 0)):
            array.reshape(*codes.shape, -1)[::3, 1::2] = value
        return stored, codes, full

    monkeypatch.setitem(globals(), "sparse_a", with_empty_groups)
    run_case(kind, 128, 64, 1, False)


def test_faults_of_metadata_addresses():
    with pytest.raises(UndefinedBehavior, match="the lane is 16, must be that of D, 0"):
        run_case("f16", 64, 64, 1, False, metadata=16 << 16 | META)
    with pytest.raises(UndefinedBehavior, match="must be even under kind::f8f6f4"):
        run_case("f8f6f4", 64, 64, 1, False, metadata=META + 1)
    with pytest.raises(UndefinedBehavior, match="an odd column means selector 1"):
        run_case("f16", 64, 64, 1, False, metadata=META + 1)
    with pytest.raises(NotModelled, match="selector is 2"):
        run_case("f16", 64, 64, 1, False, selector=2)


def test_absent_elements_have_no_effect():
    """A NaN in B counts only where A has a value."""
    launch = bench()
    a = words_of(np.ones((128, 16)), "f16")
    b = words_of(np.ones((8, 32)), "f16")
    b[3, 0::4] = 0x7E00
    place_a, place_b = stage(launch, 0, 0, a, "f16"), stage(launch, 0, 0x8000, b, "f16")
    codes = np.full((128, 8), 0b1110)
    codes[5] = 0b0100
    put_codes(launch, 0, "D", codes, True, 0, 0)
    idesc = {"a_type": "f16", "b_type": "f16", "m": 128, "n": 8}
    execute(mma_call(launch, MmaForm("f16", sparse=True), idesc, a=place_a, b=place_b, metadata=META))
    d = get_d(launch, "D", 128, 8)[0].view(np.float32)
    nan = np.zeros((128, 8), bool)
    nan[5, 3] = True
    assert (np.isnan(d) == nan).all()
    assert (d[~nan] == 16).all()
