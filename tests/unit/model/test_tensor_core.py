"""One MMA against NumPy in float64 (exact here): every kind, shape, form, operand source, major-ness and swizzle."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from bench import SEGMENTS, bench, get_d, mma_call, put_a, put_bytes, put_d, small, stage, words_of

from umma_probe.errors import DeviceError, IllegalProgram, UndefinedBehavior
from umma_probe.model.mma.mma_call import MmaForm, checked_idesc
from umma_probe.model.mma.tensor_core import execute
from umma_probe.spec.idesc import encode_idesc
from umma_probe.spec.smem_descriptor import encode_smem_desc

Array = Any
K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}
TYPES = {"f16": ("f16", "bf16"), "tf32": ("tf32",), "f8f6f4": ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"),
         "i8": ("s8", "u8")}  # fmt: skip
LAYOUTS = {  # (M, cta_group, ws)
    (256, 2, False): "A", (128, 2, False): "B", (128, 1, False): "D", (64, 1, False): "F",
    (128, 1, True): "D", (64, 1, True): "E", (32, 1, True): "G",
}  # fmt: skip
SHAPES = [  # M, N, cta_group, ws: the edges of every row of the table
    *((m, n, 1, False) for m in (64, 128) for n in (8, 24, 64, 256)),
    *((m, n, 2, False) for m in (128, 256) for n in (32, 96, 256)),
    *((m, n, 1, True) for m in (32, 64, 128) for n in (64, 256)),
]
MAJORS = ("kk", "km", "mk", "mm")


def padded(kind: str, type_: str) -> bool:
    return kind in ("f8f6f4", "mxf8f6f4") and type_ in ("e2m3", "e3m2", "e2m1")


def run_case(
    kind: str,
    m: int,
    n: int,
    cta_group: int,
    ws: bool,
    a_type: str,
    b_type: str,
    *,
    d_type: str | None = None,
    tmem_a: bool = False,
    accumulate: bool = False,
    lane: int = 0,
    majors: str = "kk",
    swizzle: str = "none",
    seed: int = 0,
    **more: Any,
) -> tuple[Array, Array, Any]:
    """(expected, actual) of one MMA at column 32, and the launch."""
    rng = np.random.default_rng(seed)
    layout = LAYOUTS[m, cta_group, ws]
    launch = bench(ctas=cta_group)
    d_type = d_type or ("s32" if kind == "i8" else "f32")
    a, b = small(rng, (m, K[kind]), a_type), small(rng, (n, K[kind]), b_type)
    old = rng.integers(-64, 65, (m, n)).astype(np.float64)
    a_words, b_words = words_of(a, a_type), words_of(b, b_type)
    a_place = 0
    if tmem_a:
        put_a(launch, layout, a_words, a_type, kind, 400, lane)
        a_place = lane << 16 | 400
    a_major, b_major = ("mn" if letter == "m" else "k" for letter in majors)
    rows, share = m // cta_group, n // cta_group
    for cta in range(cta_group):
        mine, theirs = a_words[cta * rows :][:rows], b_words[cta * share :][:share]
        if not tmem_a:
            a_place = stage(launch, cta, 0, mine, a_type, padded=padded(kind, a_type), major=a_major, swizzle=swizzle)
        b_place = stage(
            launch, cta, 0x8000, theirs, b_type, padded=padded(kind, b_type), major=b_major, swizzle=swizzle
        )
    if accumulate:
        put_d(launch, layout, encode_d(old, d_type), 32, lane)
    idesc = {"a_type": a_type, "b_type": b_type, "d_type": d_type, "m": m, "n": n}
    idesc |= {"a_major": a_major, "b_major": b_major}
    form = MmaForm(kind, cta_group, ws=ws, a_in_tmem=tmem_a)
    call = mma_call(launch, form, idesc | more.pop("idesc", {}), a=a_place, b=b_place, d=lane << 16 | 32,
                    accumulate=accumulate, **more)  # fmt: skip
    execute(call)
    words, written = get_d(launch, layout, m, n, 32, lane)
    assert written.all()
    assert launch.tmem.written[:, :, :400].sum() == m * n, "D wrote more than D"
    return a @ b.T + (old if accumulate else 0), decode_d(words, d_type), launch


def encode_d(values: Array, d_type: str) -> Array:
    if d_type == "s32":
        return values.astype(np.int32).view(np.uint32)
    if d_type == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    return values.astype(np.float32).view(np.uint32)


def decode_d(words: Array, d_type: str) -> Array:
    if d_type == "s32":
        return words.view(np.int32).astype(np.float64)
    if d_type == "f16":
        assert (words >> 16 == 0).all()
        return words.astype(np.uint16).view(np.float16).astype(np.float64)
    return words.view(np.float32).astype(np.float64)


@pytest.mark.parametrize("kind", K)
@pytest.mark.parametrize(("m", "n", "cta_group", "ws"), SHAPES)
def test_every_shape_of_every_kind(kind: str, m: int, n: int, cta_group: int, ws: bool):
    types = TYPES[kind]
    a_type, b_type = types[m // 32 % len(types)], types[n // 8 % len(types)]
    if kind == "f16":
        b_type = a_type
    expected, actual, launch = run_case(kind, m, n, cta_group, ws, a_type, b_type, accumulate=n != 64, seed=m + n)
    assert (actual == expected).all()
    assert not launch.findings


@pytest.mark.parametrize("kind", K)
@pytest.mark.parametrize(("m", "cta_group", "ws"), LAYOUTS)
def test_operand_a_in_tensor_memory(kind: str, m: int, cta_group: int, ws: bool):
    for a_type in TYPES[kind]:
        b_type = a_type if kind == "f16" else TYPES[kind][-1]
        expected, actual, launch = run_case(kind, m, 64, cta_group, ws, a_type, b_type, tmem_a=True, accumulate=True)
        assert (actual == expected).all(), a_type
        assert not launch.findings


@pytest.mark.parametrize("tmem_a", [False, True])
def test_upper_half_of_the_lanes(tmem_a: bool):
    expected, actual, launch = run_case("f16", 64, 32, 1, False, "f16", "f16", lane=16, tmem_a=tmem_a, accumulate=True)
    assert (actual == expected).all()
    assert not launch.tmem.written[0, :, 32:64].reshape(4, 2, 16, 32)[:, 0].any()


@pytest.mark.parametrize(("kind", "type_", "majors", "swizzle"), [
    *(("f16", "bf16", majors, swizzle) for majors in MAJORS for swizzle in ("none", "32B", "64B", "128B")),
    *(("f8f6f4", "e4m3", majors, swizzle) for majors in MAJORS for swizzle in ("none", "128B")),
    *(("i8", "s8", "mm", swizzle) for swizzle in ("32B", "64B")),
    *(("tf32", "tf32", "kk", swizzle) for swizzle in ("none", "32B", "64B", "128B")),
    *(("f8f6f4", "e3m2", "kk", swizzle) for swizzle in ("32B", "128B")),
])  # fmt: skip
def test_majors_and_swizzles(kind: str, type_: str, majors: str, swizzle: str):
    for cta_group, m in ((1, 128), (2, 256)):
        expected, actual, _ = run_case(kind, m, 256, cta_group, False, type_, type_, majors=majors, swizzle=swizzle)
        assert (actual == expected).all()


def test_coordinate_coded_operands_name_every_cell():
    """A = (m, 1), B = (1, 256 n): D[m][n] = m + 256 n, so each cell says which element it holds."""
    for (m, cta_group, ws), layout in LAYOUTS.items():
        n = 64
        launch = bench(ctas=cta_group)
        a, b = np.zeros((m, 8)), np.zeros((n, 8))
        a[:, 0], a[:, 1], b[:, 0], b[:, 1] = np.arange(m), 1, 1, 256 * np.arange(n)
        rows, share = m // cta_group, n // cta_group
        for cta in range(cta_group):
            place_a = stage(launch, cta, 0, words_of(a, "tf32")[cta * rows : (cta + 1) * rows], "tf32")
            place_b = stage(launch, cta, 0x4000, words_of(b, "tf32")[cta * share : (cta + 1) * share], "tf32")
        idesc = {"a_type": "tf32", "b_type": "tf32", "m": m, "n": n}
        execute(mma_call(launch, MmaForm("tf32", cta_group, ws=ws), idesc, a=place_a, b=place_b))
        words, _ = get_d(launch, layout, m, n)
        expected = np.arange(m)[:, None] + 256 * np.arange(n)[None, :]
        assert (words.view(np.float32) == expected).all(), layout
        assert launch.tmem.written[:, :, n // SEGMENTS[layout] :].sum() == 0


def test_f16_accumulator_lies_in_the_low_half():
    expected, actual, _ = run_case("f16", 128, 64, 1, False, "f16", "f16", d_type="f16", accumulate=True)
    assert (actual == expected).all()


def test_negated_operands_and_scaled_input():
    expected, actual, _ = run_case("f16", 128, 16, 1, False, "f16", "f16", idesc={"negate_a": True})
    assert (actual == -expected).all()
    product, _, _ = run_case("f16", 128, 16, 1, False, "f16", "f16")
    expected, actual, _ = run_case("f16", 128, 16, 1, False, "f16", "f16", accumulate=True, scale_input_d=3)
    assert (actual == product + (expected - product) / 8).all()


def test_saturating_integers():
    launch = bench()
    place_a = stage(launch, 0, 0, np.full((128, 32), 127, np.uint8), "s8")
    place_b = stage(launch, 0, 0x4000, np.full((8, 32), 127, np.uint8), "s8")
    for saturate, expected in ((True, 2**31 - 1), (False, 2**31 - 1 + 32 * 127 * 127 - 2**32)):
        put_d(launch, "D", np.full((128, 8), 2**31 - 1, np.uint32))
        idesc = {"a_type": "s8", "b_type": "s8", "m": 128, "n": 8, "saturate": saturate}
        execute(mma_call(launch, MmaForm("i8"), idesc, a=place_a, b=place_b, accumulate=True))
        assert (get_d(launch, "D", 128, 8)[0].view(np.int32) == expected).all()


@pytest.mark.parametrize(("m", "cta_group"), [(128, 1), (256, 2), (128, 2), (64, 1)])
def test_disabled_lanes_keep_what_they_hold(m: int, cta_group: int):
    off = np.zeros((cta_group, 128), np.bool_)
    off[0, [0, 17, 100]] = True
    off[-1, 5] = True
    launch = bench(ctas=cta_group)
    ones = np.ones((m // cta_group, 16))
    for cta in range(cta_group):
        place_a = stage(launch, cta, 0, words_of(ones, "f16"), "f16")
        place_b = stage(launch, cta, 0x4000, words_of(np.ones((32 // cta_group, 16)), "f16"), "f16")
    execute(mma_call(launch, MmaForm("f16", cta_group), {"a_type": "f16", "b_type": "f16", "m": m, "n": 32},
                     a=place_a, b=place_b, disabled_lanes=off))  # fmt: skip
    driven = np.ones((cta_group, 128), np.bool_)
    if m == 64:
        driven = np.arange(128)[None, :] % 32 < 16
    assert (launch.tmem.written[:, :, 0] == (driven & ~off)).all()


def test_ashift_takes_the_next_row():
    launch = bench()
    a = np.zeros((128, 8))
    a[:, 0] = np.arange(128)
    put_a(launch, "D", words_of(a, "tf32"), "tf32", "tf32", 64)
    place_b = stage(launch, 0, 0, words_of(np.eye(8), "tf32"), "tf32")
    form = MmaForm("tf32", a_in_tmem=True, ashift=True)
    execute(mma_call(launch, form, {"a_type": "tf32", "b_type": "tf32", "m": 128, "n": 8}, a=64, b=place_b))
    column = get_d(launch, "D", 128, 8)[0].view(np.float32)[:, 0]
    assert column.tolist() == [*range(1, 128), 127]
    assert [key[0] for key in launch.reviews] == ["assumed-ashift"]


# ---------------------------------------------------------------------- findings and faults
def f16_call(launch: Any, *, m: int = 128, n: int = 32, **more: Any) -> Any:
    idesc = {"a_type": "f16", "b_type": "f16", "m": m, "n": n}
    return mma_call(launch, more.pop("form", MmaForm("f16")), idesc, **more)


def staged(launch: Any, rows: int, start: int) -> int:
    return stage(launch, 0, start, words_of(np.ones((rows, 16)), "f16"), "f16")


def test_unwritten_shared_memory_is_a_finding():
    launch = bench()
    place_a, place_b = staged(launch, 128, 0), staged(launch, 32, 0x4000)
    launch.shared.bytes.written[0x4010] = False
    execute(f16_call(launch, a=place_a, b=place_b))
    ((rule, _), finding) = next(iter(launch.findings.items()))
    assert rule == "uninitialised-read"
    assert "B reads shared address 0x4010" in finding.message


def test_a_generic_store_without_proxy_fence_is_a_finding():
    launch = bench()
    place_a, place_b = staged(launch, 128, 0), staged(launch, 32, 0x4000)
    launch.shared.note_generic(np.array([0x20]), 4, launch.tick())
    execute(f16_call(launch, a=place_a, b=place_b))
    ((rule, _), finding) = next(iter(launch.findings.items()))
    assert rule == "missing-proxy-fence"
    assert "A reads shared address 0x20" in finding.message
    launch.findings.clear()
    launch.shared.fence_time[0] = launch.tick()
    execute(f16_call(launch, a=place_a, b=place_b))
    assert not launch.findings


def test_unwritten_tensor_memory_is_a_finding():
    launch = bench()
    place_a, place_b = staged(launch, 128, 0), staged(launch, 32, 0x4000)
    put_d(launch, "D", np.zeros((128, 31), np.uint32), 96)
    execute(f16_call(launch, a=place_a, b=place_b, d=96, accumulate=True))
    ((rule, _), finding) = next(iter(launch.findings.items()))
    assert rule == "uninitialised-tmem"
    assert "lane 0, column 127" in finding.message
    assert "128 cells" in finding.message


def test_faults_name_the_operand_and_the_place():
    launch = bench(smem=0x4000, columns=64)
    place_a, place_b = staged(launch, 128, 0), staged(launch, 32, 0x2000)
    with pytest.raises(DeviceError, match=r"D touches columns 48-79; column 64 is not allocated") as caught:
        execute(f16_call(launch, a=place_a, b=place_b, d=48))
    assert caught.value.where is not None
    assert "CTA 0, warp 0, lane 0" in str(caught.value.where)
    assert caught.value.where.line == 6
    with pytest.raises(DeviceError, match=r"outside Tensor Memory"):
        execute(f16_call(launch, a=place_a, b=place_b, d=500))
    limit = launch.shared_limit
    with pytest.raises(DeviceError, match=rf"B reads shared address {limit + 0x1FF:#x}; the CTA has {limit:#x} bytes"):
        execute(f16_call(launch, a=place_a, b=place_b + (limit - 0x200 - 0x2000 >> 4)))
    with pytest.raises(DeviceError, match=r"A is at lane 0 and D at lane 16"):
        execute(f16_call(launch, m=64, form=MmaForm("f16", a_in_tmem=True), a=32, b=place_b, d=16 << 16))
    with pytest.raises(IllegalProgram, match=r"lane 16, must be 0"):
        execute(f16_call(launch, a=place_a, b=place_b, d=16 << 16))


@pytest.mark.parametrize(("form", "fields", "arch", "error", "text"), [
    (MmaForm("f16"), {"m": 96}, "sm_100a", UndefinedBehavior, "M is 96"),
    (MmaForm("f16"), {"n": 0}, "sm_100a", UndefinedBehavior, "N is 0"),
    (MmaForm("f16", 2), {"m": 64}, "sm_100a", UndefinedBehavior, "M is 64"),
    (MmaForm("f16", sparse=True), {}, "sm_100a", UndefinedBehavior, "sparse is 0"),
    (MmaForm("i8"), {"a_type": "s8", "b_type": "s8"}, "sm_103a", IllegalProgram, "arch is sm_103a"),
    (MmaForm("i8"), {"a_type": "s8", "b_type": "s8"}, "sm_100f", IllegalProgram, "arch is sm_100f"),
    (MmaForm("f16", a_in_tmem=True, ashift=True), {"m": 64}, "sm_100a", UndefinedBehavior, "must be 128 or 256"),
])  # fmt: skip
def test_illegal_instruction_descriptors(form: MmaForm, fields: dict[str, Any], arch: str, error: type, text: str):
    case = {"a_type": "f16", "b_type": "f16", "m": 128, "n": 64} | fields
    with pytest.raises(error, match=text):
        checked_idesc(form, encode_idesc(form.kind, **case), arch)


def test_b300_has_the_same_plain_kinds():
    for arch in ("sm_103a", "sm_110a"):
        launch = bench(arch)
        place_a, place_b = staged(launch, 128, 0), staged(launch, 32, 0x4000)
        execute(f16_call(launch, a=place_a, b=place_b))
        assert (get_d(launch, "D", 128, 32)[0].view(np.float32) == 16).all()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "limit_ms"), [(64, 0.6), (256, 4.0)])
def test_speed(n: int, limit_ms: float):
    """The model's time is that of its MMAs; ten times the limit is a regression on any machine."""
    launch = bench()
    place_a, place_b = staged(launch, 128, 0), staged(launch, n, 0x4000)
    put_d(launch, "D", np.zeros((128, n), np.uint32))
    call = f16_call(launch, n=n, a=place_a, b=place_b, accumulate=True)
    best = np.inf
    for _ in range(20):
        start = time.perf_counter()
        execute(call)
        best = min(best, time.perf_counter() - start)
    assert best * 1e3 < 10 * limit_ms


def test_a_base_offset_is_for_review():
    """Row r of A lies where row r - 3 of the pattern has its chunks; without the field the product is another."""
    launch = bench()
    rng = np.random.default_rng(3)
    a, b = small(rng, (128, 16), "bf16"), small(rng, (32, 16), "bf16")
    words = words_of(a, "bf16")
    data = np.ascontiguousarray(words).view(np.uint8)
    r, byte = np.indices(data.shape)
    linear = r % 8 * 128 + r // 8 * 1024 + byte
    put_bytes(launch, 0, linear ^ (((linear >> 7) - 3 & 7) << 4), data)
    desc = encode_smem_desc(start_bytes=0, lbo_bytes=0, sbo_bytes=1024, swizzle="128B", base_offset=3)
    place_b = stage(launch, 0, 0x8000, words_of(b, "bf16"), "bf16")
    idesc = {"a_type": "bf16", "b_type": "bf16", "d_type": "f32", "m": 128, "n": 32}
    execute(mma_call(launch, MmaForm("f16"), idesc, a=desc, b=place_b))
    assert (get_d(launch, "D", 128, 32)[0].view(np.float32) == a @ b.T).all()
    assert {rule for rule, _ in launch.reviews} == {"assumed-base-offset"}
