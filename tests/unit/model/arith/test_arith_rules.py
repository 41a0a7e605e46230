"""Each rule by a sum small enough to do by hand."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from umma_probe.errors import ConfigError, NotModelled
from umma_probe.model.arith import DotProduct, mma
from umma_probe.spec.arithmetic import WINDOWS, window_of

NAN, INF = math.nan, math.inf


def f32(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


def f16(value: float) -> int:
    return int.from_bytes(struct.pack("<e", value), "little")


def tf32_sum(a: list[float], b: list[float], c: float | None = 0.0, **more) -> int:
    words = [np.array([[f32(x) for x in row + [0.0] * (8 - len(row))]], dtype=np.uint32) for row in (a, b)]
    c_words = None if c is None else np.array([[f32(c)]], dtype=np.uint32)
    return int(mma("tf32", *words, c_words, a_type="tf32", b_type="tf32", d_type="f32", **more)[0, 0])


def f16_sum(a: list[float], b: list[float], c: float = 0.0, **more) -> int:
    words = [np.array([[f16(x) for x in row + [0.0] * (16 - len(row))]], dtype=np.uint16) for row in (a, b)]
    c_words = np.array([[f16(c)]], dtype=np.uint32)
    return int(mma("f16", *words, c_words, a_type="f16", b_type="f16", d_type="f16", **more)[0, 0])


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        # 25 bits below the largest: 2^-25 survives the sum (and the RZ of a sum that cancels), 2^-26 does not
        ([1.0, -1.0, 2.0**-12], [1.0, 1.0, 2.0**-13], 0.0, 2.0**-25),
        ([1.0, -1.0, 2.0**-13], [1.0, 1.0, 2.0**-13], 0.0, 0.0),
        # cut toward zero on both sides, term by term: 1.5 units of 2^-25 count 1 each
        ([1.0, -1.0, -1.5 * 2.0**-12], [1.0, 1.0, 2.0**-13], 0.0, -(2.0**-25)),
        # products are not normalised: 1.5 * 1.5 has the raw exponent 0 though it is 2.25
        ([1.5, -1.5, 2.0**-12], [1.5, 1.5, 2.0**-13], 0.0, 2.0**-25),
        # raw exponents are those that were encoded: a subnormal has -126, here below the others
        ([2.0**-130, 1.0], [2.0**120, 2.0**-30], 0.0, 2.0**-10 + 2.0**-30),
        # C is cut as well, and sets the window as well
        ([1.0, -1.0], [1.0, 1.0], 2.0**-26, 0.0),
        ([2.0**-13], [2.0**-13], 1.0, 1.0),
        # the sum is cut, not rounded
        ([1.0, 2.0**-12], [1.0, 1.5 * 2.0**-11], 0.0, 1.0 + 2.0**-23),
        ([2.0**-100], [2.0**-49], 0.0, 2.0**-149),
        ([1.5 * 2.0**-100], [2.0**-49], 0.0, 2.0**-149),
        ([-(2.0**-100)], [2.0**-50], 0.0, 0.0),
        ([2.0**64], [2.0**64], 0.0, INF),
        ([-(2.0**64)], [2.0**64], 0.0, -INF),
        # the low 13 bits of a TF32 container are not there
        ([1.0 + 2.0**-11], [1.0], 0.0, 1.0),
        ([-0.0], [1.0], -0.0, 0.0),
    ],
)
def test_window_and_result(a, b, c, expected):
    assert f32(expected) == tf32_sum(a, b, c)


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        ([NAN], [0.0], 0.0, 0x7FFF_FFFF),
        ([0.0], [INF], 0.0, 0x7FFF_FFFF),
        ([INF, -INF], [1.0, 1.0], 0.0, 0x7FFF_FFFF),
        ([INF], [1.0], -INF, 0x7FFF_FFFF),
        ([1.0], [1.0], NAN, 0x7FFF_FFFF),
        ([INF, 1.0], [-1.0, 1.0], 1.0, 0xFF80_0000),
        ([-INF, 1.0], [-INF, 1.0], INF, 0x7F80_0000),
        ([1.0], [1.0], -INF, 0xFF80_0000),
    ],
)
def test_specials(a, b, c, expected):
    assert f"{expected:#x}" == f"{tf32_sum(a, b, c):#x}"


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        ([1.0], [1.0], 2.0**-11, f16(1.0)),  # a tie, to even
        ([1.0, 2.0**-10], [1.0, 1.0], 2.0**-11, f16(1.0 + 2.0**-9)),  # a tie, to even, upward
        ([1.0, 2.0**-12], [1.0, 2.0**-11], 2.0**-11, f16(1.0 + 2.0**-10)),  # above the tie: no second rounding
        ([256.0], [255.0], 240.0, 0x7C00),
        ([256.0], [255.0], 224.0, f16(65504.0)),
        ([2.0**-14], [2.0**-10], 0.0, 1),
        ([-(2.0**-14)], [2.0**-12], 0.0, 0),
        ([NAN], [1.0], 0.0, 0x7FFF),
        ([-INF], [1.0], 0.0, 0xFC00),
    ],
)
def test_f16_results_are_rounded_to_even(a, b, c, expected):
    assert f"{expected:#x}" == f"{f16_sum(a, b, c):#x}"


def test_without_accumulator_the_products_alone_count():
    assert f32(6.0) == tf32_sum([2.0], [3.0], None)
    assert f32(0.0) == tf32_sum([0.0], [3.0], None)


def test_negation_of_operands():
    assert f32(-5.0) == tf32_sum([2.0], [3.0], 1.0, negate_a=True)
    assert f32(-5.0) == tf32_sum([2.0], [3.0], 1.0, negate_b=True)
    assert f32(7.0) == tf32_sum([2.0], [3.0], 1.0, negate_a=True, negate_b=True)
    assert f32(-INF) == tf32_sum([INF], [3.0], 1.0, negate_a=True)


def test_scale_input_d_divides_the_accumulator_only():
    assert f32(6.0 + 0.25) == tf32_sum([2.0], [3.0], 2.0, scale_input_d=3)
    assert f32(INF) == tf32_sum([2.0], [3.0], INF, scale_input_d=15)


def test_scale_input_d_of_i8_is_not_modelled():
    ones = np.ones((1, 32), dtype=np.uint8)
    with pytest.raises(NotModelled, match="scale-input-d is 2"):
        mma("i8", ones, ones, None, a_type="u8", b_type="u8", d_type="s32", scale_input_d=2)


@pytest.mark.parametrize(("type_", "largest"), [("e5m2", 0x3F), ("f16", 0x3FFF), ("bf16", 0x3FFF)])
def test_a_long_sum_of_the_largest_significands(type_, largest):
    """31 products next to 4 and one that is cut away: more than an int32 of units."""
    a, b = np.full((1, 32), largest, dtype=np.uint32), np.full((1, 32), largest, dtype=np.uint32)
    a[0, 0] = b[0, 0] = 1
    value = {"e5m2": 1.75, "f16": 2 - 2.0**-10, "bf16": 2 - 2.0**-7}[type_]
    actual = mma("f16", a, b, None, a_type=type_, b_type=type_, d_type="f32").view(np.float32)[0, 0]
    cut = math.trunc(31 * math.trunc(value * value * 2**25) / 2**8) * 2.0**-17
    assert cut == actual


def test_bits_above_the_format_are_ignored():
    a, b = np.full((1, 32), 0xF2, dtype=np.uint8), np.full((1, 32), 0x02, dtype=np.uint8)
    types = {"a_type": "e2m1", "b_type": "e2m1", "d_type": "f32"}
    assert f32(32.0) == int(mma("f8f6f4", a, b, None, **types)[0, 0])


def test_a_nan_scale_makes_its_row_nan():
    a, b = np.zeros((2, 32), dtype=np.uint8), np.zeros((3, 32), dtype=np.uint8)
    actual = mma(
        "mxf8f6f4",
        a,
        b,
        None,
        a_type="e4m3",
        b_type="e4m3",
        d_type="f32",
        scale_a=np.array([[127], [255]], dtype=np.uint8),
        scale_b=np.array([[127], [127], [127]], dtype=np.uint8),
        scale_type="ue8m0",
    )
    assert actual.tolist() == [[0, 0, 0], [0x7FFF_FFFF] * 3]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 8), (3, 16), (2, 3)), r"A is \(2, 8\) and B is \(3, 16\)"),
        (((2, 8), (3, 8), (3, 2)), r"C is \(3, 2\), must be \(M, N\) = \(2, 3\)"),
    ],
)
def test_shapes_that_do_not_fit(shapes, message):
    a, b, c = (np.zeros(shape, dtype=np.uint32) for shape in shapes)
    with pytest.raises(ConfigError, match=message):
        mma("tf32", a, b, c, a_type="tf32", b_type="tf32", d_type="f32")


def test_block_scaled_kinds_need_their_scales():
    words = np.zeros((1, 64), dtype=np.uint8)
    with pytest.raises(ConfigError, match="scale_a and scale_b are missing"):
        mma("mxf4", words, words, None, a_type="e2m1", b_type="e2m1", d_type="f32")


def test_every_row_cites_a_source():
    assert len(WINDOWS) >= 10
    assert all(row.refs for row in WINDOWS.values())


@pytest.mark.parametrize("arch", ["sm_100a", "sm_100f", "sm_103a", "sm_110a"])
def test_targets_with_tensor_memory_share_the_arithmetic(arch):
    assert window_of(arch, "f8f6f4").fraction_bits == 25


@pytest.mark.parametrize(
    ("arch", "kind", "message"),
    [
        ("sm_12a", "f16", "unknown architecture 'sm_12a'"),
        ("sm_120a", "f16", "arch is sm_120a, must be one with tcgen05.mma or wgmma"),
        ("sm_90a", "mxf4", "unknown arithmetic of sm_90a 'mxf4'"),
    ],
)
def test_no_arithmetic_is_made_up(arch, kind, message):
    with pytest.raises(ConfigError, match=message):
        window_of(arch, kind)


def _case(**changes) -> DotProduct:
    fields = {
        "kind": "f16",
        "a": (0,) * 16,
        "b": (0,) * 16,
        "c": 0,
        "a_type": "bf16",
        "b_type": "bf16",
        "d_type": "f32",
    }
    return DotProduct(**fields | changes)


def test_bf16_words_of_a_dot_product_are_f32_containers():
    assert _case(a=(f32(1.0 + 2.0**-8),) * 16, b=(f32(2.0),) * 16).word() == f32(32.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "f8"}, "unknown MMA kind 'f8'"),
        ({"a": (0,) * 15}, "a has 15 elements, must have 16"),
        ({"b": (0,) * 17}, "b has 17 elements, must have 16"),
        ({"a": (1 << 32,) + (0,) * 15}, r"a\[0\] is 0x100000000, must fit 32 bits"),
        ({"a_type": "f16", "b_type": "f16", "b": (0,) * 9 + (0x1_0000,) + (0,) * 6}, r"b\[9\] is .* must fit 16 bits"),
        ({"c": -1}, "c is -0x1, must fit 32 bits"),
        ({"a_type": "e4m3"}, "a_type: unknown type for kind f16 'e4m3'"),
        ({"d_type": "f16"}, "d_type is f16, must be f32 unless"),
        ({"saturate": True}, "only i8 saturates"),
        ({"scale_a": (1,)}, "kind f16 has no scale factors"),
        ({"kind": "f8f6f4", "arch": "sm_90a", "a_type": "e2m1", "b_type": "e4m3"}, "a_type: unknown type"),
    ],
)
def test_wrong_dot_products_say_what_is_wrong(changes, message):
    with pytest.raises(ConfigError, match=message):
        _case(**changes)


SCALED = {
    "kind": "mxf4nvf4",
    "a": (0,) * 64,
    "b": (0,) * 64,
    "a_type": "e2m1",
    "b_type": "e2m1",
    "scale_type": "ue4m3",
    "scale_vec": 4,
    "scale_a": (0,) * 4,
    "scale_b": (0,) * 4,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale_type": None}, "scale_type is missing, must be ue8m0 or ue4m3"),
        ({"scale_vec": None}, "scale_vec is missing, must be 2 or 4"),
        ({"scale_vec": 2}, "scale_type is ue4m3, must be ue8m0 with scale_vec 2"),
        ({"scale_b": (0,) * 3}, "scale_b has 3 words, must have 4: one for 16 elements"),
        ({"scale_a": (0, 0, 256, 0)}, r"scale_a\[2\] is 0x100, must fit 8 bits"),
    ],
)
def test_wrong_scales_say_what_is_wrong(changes, message):
    with pytest.raises(ConfigError, match=message):
        _case(**SCALED | changes)
