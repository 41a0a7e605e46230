"""tcgen05.mma with K = 96 on sm_103a: CUTLASS's walk over a tile of 768, against NumPy; and its illegal twins.

A tile is 384 bytes of K in three buffers with rows of 128 bytes (128B swizzle). Eight MMAs of 48 bytes read it, two of
which begin in one buffer and end in the next. The scales of a tile lie as CuTe's ``tmem_sf_frg`` has them: scale j of
row i in lane i % 32 of each partition, byte j % 4, column i / 32 + step * (j / 4), where the step is the columns of all
rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bench import bench, get_d, mma_call, put_bytes, put_d, row_bytes, small, words_of

from umma_probe.errors import DeviceError, UndefinedBehavior
from umma_probe.model.mma.mma_call import MmaForm, checked_idesc
from umma_probe.model.mma.tensor_core import execute
from umma_probe.spec.idesc import encode_idesc

Array = Any
TILE, K = 768, 96
WALK = ((0, 0, 0), (0, 48, 0), (0, 96, 1), (1, 16, 1), (1, 64, 1), (1, 112, 2), (2, 32, 2), (2, 80, 2))
"""Of each MMA: the buffer and byte where it starts, and the buffer of the absolute address."""
A, B, BUFFER = 0, 0x18000, 0x8000
SFA, SFB = 260, 360
E2M1 = {"a_type": "e2m1", "b_type": "e2m1"}


def stage_tile(launch: Any, slot: int, base: int, words: Array) -> None:
    """384 bytes of each row in three buffers, swizzled by hand."""
    data = row_bytes(words.astype(np.uint32), 4)
    r, byte = np.indices(data.shape)
    linear = base + byte // 128 * BUFFER + r // 8 * 1024 + r % 8 * 128 + byte % 128
    put_bytes(launch, slot, linear ^ ((linear >> 7 & 7) << 4), data)


def descriptor(base: int, step: tuple[int, int, int]) -> int:
    """By hand: start, LBO and SBO in units of 16, bit 46 constant, bit 52 the absolute mode, swizzle code 2."""
    buffer, byte, following = step
    start, lbo = base + buffer * BUFFER + byte, base + following * BUFFER
    return start >> 4 | lbo >> 4 << 16 | 1024 >> 4 << 32 | 1 << 46 | 1 << 52 | 2 << 61


def draw_scales(rng: np.random.Generator, shape: tuple[int, int], scale_type: str) -> tuple[Array, Array]:
    exponents = rng.integers(-1, 2, shape)
    if scale_type == "ue8m0":
        return (exponents + 127).astype(np.uint8), np.ldexp(1.0, exponents)
    return (exponents + 7 << 3).astype(np.uint8), np.ldexp(1.0, exponents)


def put_tile_scales(launch: Any, slot: int, scales: Array, base: int) -> int:
    """Returns the columns from four scales to the next four."""
    step = 4 if len(scales) <= 128 else 8
    cells = launch.tmem.words[slot].view(np.uint8).reshape(128, 512, 4)
    i, j = np.indices(scales.shape)
    for partition in range(4):
        place = (32 * partition + i % 32, base + i // 32 + step * (j // 4))
        cells[(*place, j % 4)] = scales
        launch.tmem.written[(slot, *place)] = True
    return step


@pytest.mark.parametrize(("kind", "vector", "scale_type", "block"), [
    ("mxf4", "2X", "ue8m0", 32),
    ("mxf4nvf4", "2X", "ue8m0", 32),
    ("mxf4nvf4", "4X", "ue8m0", 16),
    ("mxf4nvf4", "4X", "ue4m3", 16),
])  # fmt: skip
@pytest.mark.parametrize(("m", "cta_group", "n"), [(128, 1, 64), (128, 1, 192), (256, 2, 128), (256, 2, 256)])
def test_a_tile_as_cutlass_walks_it(
    kind: str, vector: str, scale_type: str, block: int, m: int, cta_group: int, n: int
):
    rng = np.random.default_rng(n + block)
    launch = bench("sm_103a", cta_group, smem=200 * 1024)
    a, b = small(rng, (m, TILE), "e2m1"), small(rng, (n, TILE), "e2m1")
    sfa, sfa_values = draw_scales(rng, (m, TILE // block), scale_type)
    sfb, sfb_values = draw_scales(rng, (n, TILE // block), scale_type)
    for slot in range(cta_group):
        stage_tile(launch, slot, A, words_of(a, "e2m1")[slot * 128 :][:128])
        stage_tile(launch, slot, B, words_of(b, "e2m1")[slot * n // cta_group :][: n // cta_group])
        step_a = put_tile_scales(launch, slot, sfa[slot * 128 :][:128], SFA)
        step_b = put_tile_scales(launch, slot, sfb, SFB)
    form = MmaForm(kind, cta_group, scale_vector=vector)
    for index, step in enumerate(WALK):
        word, sf_id = divmod(index * K // block, 4)
        idesc = E2M1 | {"m": m, "n": n, "k": K, "scale_type": scale_type, "sfa_id": sf_id, "sfb_id": sf_id}
        scales = {"scale_a": SFA + step_a * word | sf_id << 30, "scale_b": SFB + step_b * word | sf_id << 30}
        execute(
            mma_call(launch, form, idesc, a=descriptor(A, step), b=descriptor(B, step), accumulate=index > 0, **scales)
        )
    expected = (a * np.repeat(sfa_values, block, 1)) @ (b * np.repeat(sfb_values, block, 1)).T
    actual = get_d(launch, "D" if cta_group == 1 else "A", m, n)[0].view(np.float32)
    assert (actual == expected).all()
    assert not launch.findings


def idesc_fields(**more: Any) -> Any:
    form = MmaForm(more.pop("kind", "mxf4"), more.pop("cta_group", 1), scale_vector=more.pop("vector", "2X"))
    word = encode_idesc(form.kind, **(E2M1 | {"m": 128, "n": 64, "k": K} | more))
    return checked_idesc(form, word, "sm_103a")


def test_the_k_bit_is_bit_31():
    assert encode_idesc("mxf4", **E2M1, m=128, n=64, k=96) == encode_idesc("mxf4", **E2M1, m=128, n=64) | 1 << 31
    assert idesc_fields().k == 96


@pytest.mark.parametrize(("fields", "says"), [
    ({"sparse": True}, "sparse is 1"),
    ({"m": 256}, "M is 256"),
    ({"m": 128, "cta_group": 2}, "M is 128 with K = 96 and cta_group::2, must be 256"),
    ({"n": 24}, "N is 24 with K = 96, must be a multiple of 16"),
    ({"kind": "mxf4nvf4", "vector": "4X", "scale_type": "ue4m3", "sfa_id": 1}, "sfa_id is 1"),
    ({"kind": "mxf4nvf4", "vector": "4X", "scale_type": "ue8m0", "sfb_id": 3}, "sfb_id is 3, must be 0 or 2"),
])  # fmt: skip
def test_illegal_twins(fields: dict[str, Any], says: str):
    with pytest.raises(UndefinedBehavior, match=says):
        idesc_fields(**fields)


@pytest.mark.parametrize("fields", [
    {}, {"n": 16}, {"m": 256, "cta_group": 2}, {"sfa_id": 1, "sfb_id": 3},
    {"kind": "mxf4nvf4", "vector": "4X", "scale_type": "ue4m3", "sfa_id": 2, "sfb_id": 0},
])  # fmt: skip
def test_legal_twins(fields: dict[str, Any]):
    assert idesc_fields(**fields).k == 96


def issue(launch: Any, a: int, sfa_id: int = 0, **more: Any) -> None:
    form = MmaForm("mxf4", scale_vector="2X")
    idesc = E2M1 | {"m": 128, "n": 64, "k": K, "sfa_id": sfa_id}
    places = {"scale_a": SFA, "scale_b": SFB} | more
    execute(mma_call(launch, form, idesc, a=a, b=descriptor(B, WALK[0]), **places))


def test_relative_mode_may_not_cross_the_row():
    launch = bench("sm_103a", smem=200 * 1024)
    stage_tile(launch, 0, A, np.zeros((128, TILE), np.uint8))
    stage_tile(launch, 0, B, np.zeros((64, TILE), np.uint8))
    for base, rows in ((SFA, 128), (SFB, 64)):
        put_tile_scales(launch, 0, np.full((rows, 4), 127, np.uint8), base)
    issue(launch, descriptor(A, (0, 80, 0)) & ~(1 << 52))
    with pytest.raises(UndefinedBehavior, match="lbo_mode is 0, must be 1: 48 bytes of K from byte 96"):
        issue(launch, descriptor(A, (0, 96, 0)) & ~(1 << 52))


def test_the_second_word_must_be_allocated():
    launch = bench("sm_103a", smem=200 * 1024, columns=256)
    for base in (A, B):
        stage_tile(launch, 0, base, np.zeros((128, TILE), np.uint8))
    put_d(launch, "D", np.zeros((128, 64), np.uint32))
    # SF_ID 0: one word of each row, columns 252-255; SF_ID 2: the next four columns too
    put_tile_scales(launch, 0, np.full((128, 4), 127, np.uint8), 252)
    issue(launch, descriptor(A, WALK[0]), scale_a=252, scale_b=252)
    with pytest.raises(DeviceError, match="scale factors of A touches columns 252-259"):
        issue(launch, descriptor(A, WALK[0]), sfa_id=2, scale_a=252 | 2 << 30, scale_b=252)
