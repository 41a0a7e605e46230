"""Random words of every kind, with all their specials, subnormals and spreads, against Python integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from arith_reference import dot as reference_dot
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.model.arith import mma
from umma_probe.model.arith.exponents import NO_EXPONENT, Exponents, largest_sum, power_of_two
from umma_probe.model.arith.operands import operand
from umma_probe.model.arith.window import sum_term_by_term, sum_where_cut
from umma_probe.spec.formats import FORMATS

M, N = 3, 4
BITS = {"bf16": 16, "f16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4}
FRACTION = {"bf16": 7, "f16": 10, "tf32": 23, "e4m3": 3, "e5m2": 2, "e2m3": 3, "e3m2": 2, "e2m1": 1, "f32": 23}


@dataclass(frozen=True)
class Form:
    kind: str
    K: int
    a_type: str
    b_type: str
    d_type: str = "f32"
    scale_type: str = ""
    scales: int = 0

    def __str__(self) -> str:
        return "-".join(filter(None, (self.kind, self.a_type, self.b_type, self.d_type, self.scale_type, str(self.K))))


PLAIN = [
    Form("tf32", 8, "tf32", "tf32"),
    Form("f16", 16, "bf16", "bf16"),
    Form("f16", 16, "f16", "f16"),
    Form("f16", 16, "f16", "f16", "f16"),
    Form("f16", 16, "bf16", "f16"),
    Form("f8f6f4", 32, "e4m3", "e4m3"),
    Form("f8f6f4", 32, "e5m2", "e5m2"),
    Form("f8f6f4", 32, "e5m2", "e2m3"),
    Form("f8f6f4", 32, "e4m3", "e3m2", "f16"),
    Form("f8f6f4", 32, "e5m2", "e5m2", "f16"),
    Form("f8f6f4", 32, "e2m1", "e2m1"),
]
SCALED = [
    Form("mxf8f6f4", 32, "e4m3", "e5m2", "f32", "ue8m0", 1),
    Form("mxf8f6f4", 32, "e2m1", "e3m2", "f32", "ue8m0", 1),
    Form("mxf4", 64, "e2m1", "e2m1", "f32", "ue8m0", 2),
    Form("mxf4nvf4", 64, "e2m1", "e2m1", "f32", "ue8m0", 4),
    Form("mxf4nvf4", 64, "e2m1", "e2m1", "f32", "ue4m3", 4),
    Form("mxf4nvf4", 96, "e2m1", "e2m1", "f32", "ue4m3", 6),
]

STYLES = ["any", "finite", "close", "few", "tiny"]
seeds = st.integers(0, 2**32 - 1)


def words(rng: np.random.Generator, shape: tuple[int, ...], type_: str, style: str) -> np.ndarray:
    """Random codes.

    any: all of them; finite: not the exponent of all ones; close: one of six exponents around 1; few: most are zero;
    tiny: subnormal, or next to it. The types of 6 bits and less have neither specials nor exponents to be far apart.
    """
    bits = 32 if type_ == "f32" else BITS[type_]
    codes = rng.integers(0, 1 << bits, shape)
    fraction = FRACTION[type_]
    exponent_mask = (1 << (bits - 1)) - (1 << fraction)
    if style == "tiny":
        codes &= ~exponent_mask | 1 << fraction
    elif style == "close" and bits > 6:
        near = (1 << (bits - 2)) + (rng.integers(-4, 2, shape) << fraction)
        codes = (codes & ~exponent_mask) | (near & exponent_mask)
    elif style in ("finite", "few") and bits > 6:
        codes &= ~(1 << (bits - 3))
    if style == "few":
        codes[rng.random(shape) < 0.8] = 0
    return codes.astype(np.uint32)


def scale_words(rng: np.random.Generator, shape: tuple[int, int], type_: str, style: str) -> np.ndarray:
    if type_ == "ue4m3":
        top = {"any": 256, "finite": 0x7F, "close": 0x48, "few": 0x7F, "tiny": 16}[style]
        return rng.integers(0x30 if style == "close" else 0, top, shape).astype(np.uint8)
    low, high = {"any": (0, 256), "finite": (97, 157), "close": (124, 131), "few": (60, 200), "tiny": (20, 66)}[style]
    return rng.integers(low, high, shape).astype(np.uint8)


def accumulator_words(rng: np.random.Generator, d_type: str, style: str, scaled_down: bool) -> np.ndarray:
    result = words(rng, (M, N), d_type, "finite" if style == "close" and scaled_down else style)
    if style == "few":
        result[rng.random((M, N)) < 0.5] = rng.choice([0, 0x8000_0000 if d_type == "f32" else 0x8000])
    return result


def expected(form: Form, a, b, c, scale_a=None, scale_b=None, valid=None, **parameters) -> list[list[int]]:
    result = []
    for m in range(M):
        row = []
        for n in range(N):
            kept = [k for k in range(a.shape[1]) if valid is None or valid[m, k]]
            row.append(
                reference_dot(
                    form.kind,
                    [int(a[m, k]) for k in kept],
                    [int(b[n, k]) for k in kept],
                    0 if c is None else int(c[m, n]),
                    a_type=form.a_type,
                    b_type=form.b_type,
                    d_type=form.d_type,
                    scale_a=None if scale_a is None else [int(word) for word in scale_a[m]],
                    scale_b=None if scale_b is None else [int(word) for word in scale_b[n]],
                    scale_type=form.scale_type,
                    **parameters,
                )
            )
        result.append(row)
    return result


def run(form: Form, a, b, c, **more) -> list[list[int]]:
    types = {"a_type": form.a_type, "b_type": form.b_type, "d_type": form.d_type}
    return mma(form.kind, a, b, c, **types, scale_type=form.scale_type or None, **more).tolist()


@pytest.mark.parametrize("form", PLAIN, ids=str)
@settings(derandomize=True, max_examples=20, deadline=None)
@given(seed=seeds, a_style=st.sampled_from(STYLES), b_style=st.sampled_from(STYLES), c_style=st.sampled_from(STYLES))
def test_plain_kinds_give_the_words_of_the_integer_reference(form, seed, a_style, b_style, c_style):
    rng = np.random.default_rng(seed)
    a, b = words(rng, (M, form.K), form.a_type, a_style), words(rng, (N, form.K), form.b_type, b_style)
    c = accumulator_words(rng, form.d_type, c_style, scaled_down=False)
    assert expected(form, a, b, c) == run(form, a, b, c)
    assert expected(form, a, b, None) == run(form, a, b, None)


@pytest.mark.parametrize("form", SCALED, ids=str)
@settings(derandomize=True, max_examples=25, deadline=None)
@given(
    seed=seeds,
    style=st.sampled_from(STYLES),
    a_scale=st.sampled_from(STYLES),
    b_scale=st.sampled_from(STYLES),
    c_style=st.sampled_from(STYLES),
)
def test_block_scaled_kinds_give_the_words_of_the_integer_reference(form, seed, style, a_scale, b_scale, c_style):
    rng = np.random.default_rng(seed)
    a, b = words(rng, (M, form.K), form.a_type, style), words(rng, (N, form.K), form.b_type, "finite")
    scale_a = scale_words(rng, (M, form.scales), form.scale_type, a_scale)
    scale_b = scale_words(rng, (N, form.scales), form.scale_type, b_scale)
    c = accumulator_words(rng, "f32", c_style, scaled_down=True)
    assert expected(form, a, b, c, scale_a, scale_b) == run(form, a, b, c, scale_a=scale_a, scale_b=scale_b)


def _cancelling(rng: np.random.Generator, form: Form) -> dict[str, np.ndarray]:
    """Operands whose large parts cancel, so that the last bits of the window show in the result.

    The second quarter of K is the first with A negated but for a few elements; the rest has scales far below. C is
    zero, or takes away what the first two quarters leave, or has any size between.
    """
    K, quarter = form.K, form.K // 4
    a, b = words(rng, (M, K), "e2m1", "any"), words(rng, (N, K), "e2m1", "any")
    if rng.random() < 0.5:  # no large elements: the scales, not the products, set the window
        a, b = a & 0b1011, b & 0b1011
    if rng.random() < 0.5:  # few far below: their sums stay small
        a[:, 2 * quarter :][rng.random((M, K - 2 * quarter)) < 0.8] = 0
    kept = rng.random(quarter) < rng.choice([0.0, 0.2])
    a[:, quarter : 2 * quarter] = np.where(kept, a[:, quarter : 2 * quarter], a[:, :quarter] ^ 8)
    b[:, quarter : 2 * quarter] = np.where(kept, b[:, quarter : 2 * quarter], b[:, :quarter])
    if form.scale_type == "ue4m3":
        # the least product of subnormal scales is one bit below the window of the largest scales
        scale_a, scale_b = (rng.integers(0x78, 0x7F, (rows, form.scales)) for rows in (M, N))
        low_a, low_b = (rng.integers(0, rng.choice([8, 72]), (rows, form.scales // 2)) for rows in (M, N))
    else:
        middle, drop, spread = int(rng.integers(110, 140)), int(rng.integers(5, 23)), 4
        if rng.random() < 0.5:  # the result is a subnormal F32, the rest is near 2^-174
            middle = int(rng.integers(53, 58))
            drop, spread = middle - 127 + 88 + int(rng.integers(-1, 2)), 1
        scale_a, scale_b = (np.full((rows, form.scales), middle) for rows in (M, N))
        low_a, low_b = (middle - drop + rng.integers(0, spread, (rows, form.scales // 2)) for rows in (M, N))
    for scale, low in ((scale_a, low_a), (scale_b, low_b)):
        scale[:, 1 : form.scales // 2] = scale[:, :1]
        scale[:, form.scales // 2 :] = low
    big = _exact(form, a, b, scale_a, scale_b, 2 * quarter)
    choice = rng.integers(0, rng.choice([1, 2, 4]), (M, N))
    sized = np.ldexp(rng.uniform(-2, 2, (M, N)), rng.integers(-20, 8, (M, N))) * np.abs(big).max()
    c = np.choose(choice, [np.zeros((M, N)), -big, -big, sized]).astype(np.float32)
    return {
        "a": a,
        "b": b,
        "c": c.view(np.uint32),
        "scale_a": scale_a.astype(np.uint8),
        "scale_b": scale_b.astype(np.uint8),
    }


def _exact(form: Form, a, b, scale_a, scale_b, stop: int) -> np.ndarray:
    """The sum up to ``stop``, exact in float64: all in one pair of scales."""
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    total = values[a[:, :stop]] @ values[b[:, :stop]].T

    def value(scale: np.ndarray) -> np.ndarray:
        if form.scale_type == "ue8m0":
            return np.ldexp(1.0, scale - 127)
        return np.ldexp(1.0 + (scale & 7) / 8, (scale >> 3) - 7)

    return total * value(scale_a[:, :1]) * value(scale_b[:, :1]).T


@pytest.mark.parametrize("form", [form for form in SCALED if form.a_type == form.b_type and form.K == 64], ids=str)
@settings(derandomize=True, max_examples=60, deadline=None)
@given(seed=seeds)
def test_the_last_bits_of_the_grouped_window(form, seed):
    case = _cancelling(np.random.default_rng(seed), form)
    assert expected(form, **case) == run(
        form, *(case[name] for name in "abc"), **{k: case[k] for k in case if "_" in k}
    )


@settings(derandomize=True, max_examples=20, deadline=None)
@given(seed=seeds, swap=st.booleans())
def test_scales_may_take_the_operands_far_out_of_float32(seed, swap):
    form = SCALED[0]
    rng = np.random.default_rng(seed)
    a, b = words(rng, (M, 32), form.a_type, "finite"), words(rng, (N, 32), form.b_type, "finite")
    ranges = [(0, 9), (246, 255)]
    scale_a, scale_b = (
        rng.integers(*ranges[which ^ swap], (rows, 1)).astype(np.uint8) for which, rows in ((0, M), (1, N))
    )
    assert expected(form, a, b, None, scale_a, scale_b) == run(form, a, b, None, scale_a=scale_a, scale_b=scale_b)


@pytest.mark.parametrize("form", [Form("wgmma", 32, "e4m3", "e5m2"), Form("wgmma", 32, "e4m3", "e4m3", "f16")], ids=str)
@settings(derandomize=True, max_examples=20, deadline=None)
@given(seed=seeds, style=st.sampled_from(STYLES), c_style=st.sampled_from(STYLES))
def test_hopper_keeps_13_bits_of_fp8_sums(form, seed, style, c_style):
    rng = np.random.default_rng(seed)
    a, b = words(rng, (M, 32), form.a_type, style), words(rng, (N, 32), form.b_type, "finite")
    c = accumulator_words(rng, form.d_type, c_style, scaled_down=False)
    types = {"a_type": form.a_type, "b_type": form.b_type, "d_type": form.d_type}
    actual = mma("f8f6f4", a, b, c, **types, arch="sm_90a").tolist()
    assert expected(form, a, b, c, fraction_bits=13, result_fraction_bits=13) == actual


@settings(derandomize=True, max_examples=20, deadline=None)
@given(seed=seeds, form=st.sampled_from(PLAIN), style=st.sampled_from(STYLES))
def test_the_order_along_k_does_not_matter(seed, form, style):
    rng = np.random.default_rng(seed)
    a, b = words(rng, (M, form.K), form.a_type, style), words(rng, (N, form.K), form.b_type, style)
    c = accumulator_words(rng, form.d_type, style, scaled_down=False)
    order = rng.permutation(form.K)
    assert run(form, a, b, c) == run(form, a[:, order], b[:, order], c)


@settings(derandomize=True, max_examples=20, deadline=None)
@given(seed=seeds, form=st.sampled_from(PLAIN), style=st.sampled_from(STYLES))
def test_the_ways_of_summing_agree(seed, form, style):
    """Many sums, so that blocks have a rest: all term by term, some gathered, and those where nothing is cut."""
    rng = np.random.default_rng(seed)
    a = operand(words(rng, (70, form.K), form.a_type, style), FORMATS[form.a_type])
    b = operand(words(rng, (130, form.K), form.b_type, style), FORMATS[form.b_type])
    up = (25 - np.maximum(largest_sum(a.exponents, b.exponents), -600)).astype(np.int16)
    scale = power_of_two(up)
    is_cut = largest_sum(a.fineness, b.fineness) > up
    by_term = sum_term_by_term(a, b, scale)
    assert (by_term == sum_where_cut(a, b, scale, is_cut)).all()
    few = is_cut & (rng.random(is_cut.shape) < 0.2)
    assert (by_term == sum_where_cut(a, b, scale, few))[few | ~is_cut].all()


@settings(derandomize=True, max_examples=25, deadline=None)
@given(seed=seeds, spread=st.sampled_from([1, 20, 120]), K=st.sampled_from([8, 16, 31, 32, 64]))
def test_the_largest_sum_of_exponents_is_the_one_found_by_comparing(seed, spread, K):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-spread, spread + 1, (rows, K)).astype(np.int16) for rows in (6, 7))
    a[rng.random(a.shape) < 0.3] = NO_EXPONENT
    a[0] = NO_EXPONENT
    by_comparison = (a[:, None, :] + b[None, :, :]).max(axis=2)
    actual = largest_sum(*(Exponents(keys, -spread, spread) for keys in (a, b)))
    assert (actual[1:] == by_comparison[1:]).all()
    assert (actual[0] < NO_EXPONENT // 2).all()


@pytest.mark.parametrize("K", [1, 7, 8, 15, 16, 31, 32, 63, 64, 128])
def test_many_equal_exponents_do_not_carry_into_the_next(K):
    keys = Exponents(np.full((2, K), 3, dtype=np.int16), 3, 3)
    assert (largest_sum(keys, keys) == 6).all()


def _two_of_four(rng: np.random.Generator, K: int) -> np.ndarray:
    order = np.argsort(rng.random((M, K // 4, 4)), axis=2)
    return (order < 2).reshape(M, K)


def _pairs_of_eight(rng: np.random.Generator, K: int) -> np.ndarray:
    return np.repeat(_two_of_four(rng, K // 2), 2, axis=1)


@pytest.mark.parametrize("form", [PLAIN[1], PLAIN[6], SCALED[0], SCALED[2], SCALED[3], SCALED[4]], ids=str)
@settings(derandomize=True, max_examples=10, deadline=None)
@given(seed=seeds, style=st.sampled_from(STYLES))
def test_what_sparsity_leaves_out_is_absent(form, seed, style):
    """As if only the elements that are there had been given: their NaN, blocks and groups are those of stored A."""
    rng = np.random.default_rng(seed)
    K = 2 * form.K
    a, b = words(rng, (M, K), form.a_type, style), words(rng, (N, K), form.b_type, "any")
    c = accumulator_words(rng, form.d_type, style, scaled_down=True)
    valid = (_pairs_of_eight if form.kind.startswith("mxf4") else _two_of_four)(rng, K)
    scales = {}
    if form.scales:
        scales["scale_a"] = scale_words(rng, (M, form.scales), form.scale_type, "finite")
        scales["scale_b"] = scale_words(rng, (N, form.scales), form.scale_type, style)
    assert expected(form, a, b, c, **scales, valid=valid) == run(form, a, b, c, a_valid=valid, **scales)


@settings(derandomize=True, max_examples=20, deadline=None)
@given(seed=seeds, a_type=st.sampled_from(["s8", "u8"]), b_type=st.sampled_from(["s8", "u8"]), saturate=st.booleans())
def test_i8_is_the_exact_sum_wrapped_or_clamped(seed, a_type, b_type, saturate):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 256, (rows, 32)).astype(np.uint8) for rows in (M, N))
    near_the_ends = rng.choice([0, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF], (M, N)).astype(np.uint32)
    c = near_the_ends ^ rng.integers(0, 1 << 18, (M, N)).astype(np.uint32)
    actual = mma("i8", a, b, c, a_type=a_type, b_type=b_type, d_type="s32", saturate=saturate)

    def signed(word: int, bits: int) -> int:
        return word - (1 << bits) if word >> (bits - 1) else word

    for m, n in np.ndindex(M, N):
        total = signed(int(c[m, n]), 32)
        for k in range(32):
            x = signed(int(a[m, k]), 8) if a_type == "s8" else int(a[m, k])
            y = signed(int(b[n, k]), 8) if b_type == "s8" else int(b[n, k])
            total += x * y
        if saturate:
            total = min(max(total, -(2**31)), 2**31 - 1)
        assert total % 2**32 == actual[m, n]
