"""The float64 reference, the mask, the limits and the figures, against loops and numbers worked out by hand."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from umma_probe.harness.fmha.compare import compare, cosine, ulp_distance, ulp_histogram
from umma_probe.harness.fmha.inputs import Tensors, draw
from umma_probe.harness.fmha.limits import limits, unit_roundoff
from umma_probe.harness.fmha.problem import FmhaProblem
from umma_probe.harness.fmha.reference import attention, running_softmax


def loops(problem: FmhaProblem, tensors: Tensors) -> tuple[np.ndarray, np.ndarray]:
    """O and LSE, one row at a time, with natural exponentials and no maximum."""
    q, k, v = (x.astype(float) for x in (tensors.q, tensors.k, tensors.v))
    o = np.zeros(problem.q_shape)
    lse = np.full(problem.q_shape[:3], -np.inf)
    for b in range(problem.batch):
        for h in range(problem.heads):
            kv = h * problem.kv_heads // problem.heads
            for i in range(problem.seq_q):
                keys = [j for j in range(problem.seq_k)
                        if not problem.causal or j <= i + problem.seq_k - problem.seq_q]  # fmt: skip
                weights = [math.exp(float(q[b, h, i] @ k[b, kv, j]) / math.sqrt(problem.hd)) for j in keys]
                if weights:
                    o[b, h, i] = sum(w * v[b, kv, j] for w, j in zip(weights, keys, strict=True)) / sum(weights)
                    lse[b, h, i] = math.log(sum(weights))
    return o, lse


@pytest.mark.parametrize(
    "problem",
    [
        FmhaProblem(16, seq_q=3, seq_k=5),
        FmhaProblem(16, seq_q=5, seq_k=3, causal=True),
        FmhaProblem(32, seq_q=3, seq_k=6, causal=True, heads=4, kv_heads=2, batch=2),
        FmhaProblem(16, seq_q=2, seq_k=130),
    ],
)
def test_reference_against_loops(problem: FmhaProblem) -> None:
    tensors = draw(problem, "normal", 3)
    reference = attention(problem, tensors)
    o, lse = loops(problem, tensors)
    # scale_log2 is an f32: 2^-24 relative, of exponents below 10
    np.testing.assert_allclose(reference.o, o, rtol=0, atol=1e-5)
    np.testing.assert_allclose(reference.lse, lse, rtol=0, atol=1e-5)


def test_rows_that_see_no_key() -> None:
    problem = FmhaProblem(16, seq_q=4, seq_k=2, causal=True)
    assert problem.visible_keys().tolist() == [0, 0, 1, 2]
    reference = attention(problem, draw(problem, "normal", 0))
    assert not reference.o[0, 0, :2].any()
    assert np.isneginf(reference.lse[0, 0, :2]).all()


def test_tiles_that_a_query_tile_visits() -> None:
    problem = FmhaProblem(16, seq_q=300, seq_k=200, causal=True)
    # row 127 sees 28 keys, row 255 sees 156, row 299 all 200
    assert problem.visited_tiles()[[0, 127, 128, 255, 256, 299]].tolist() == [1, 1, 2, 2, 2, 2]
    assert FmhaProblem(16, seq_q=400, seq_k=100, causal=True).visited_tiles()[0] == 0


def test_the_running_softmax_ends_at_the_whole_one() -> None:
    problem = FmhaProblem(16, seq_q=4, seq_k=300)
    reference = attention(problem, draw(problem, "rising", 1))
    running = running_softmax(problem, reference)
    np.testing.assert_allclose(running.row_max[..., -1], reference.row_max)
    np.testing.assert_allclose(running.row_sum[..., -1], reference.row_sum)
    assert (np.diff(running.row_max, axis=-1) >= 0).all()
    # P of the first tile is relative to the maximum of the first 128 keys alone
    first = reference.s[..., :128] * float(problem.scale_log2)
    np.testing.assert_allclose(running.p[..., :128], np.exp2(first - first.max(-1, keepdims=True)))


@pytest.mark.parametrize(("dtype", "unit"), [("bf16", 2**-8), ("f16", 2**-11)])
def test_unit_roundoff(dtype: str, unit: float) -> None:
    assert unit_roundoff(FmhaProblem(64, dtype)) == unit


def test_limits_of_equal_rows() -> None:
    """All scores equal: B = mean |v|, and everything but the two roundings is far below them."""
    problem = FmhaProblem(16, "bf16", seq_q=1, seq_k=64)
    tensors = draw(problem, "equal", 0)
    reference = attention(problem, tensors)
    bound = limits(problem, tensors, reference).o
    mean = np.abs(tensors.v.astype(float)).mean(axis=2, keepdims=True)
    roundings = 2**-8 * (np.abs(reference.o) + mean)
    assert (bound > roundings).all()
    assert (bound < 1.05 * roundings).all()


def test_the_limit_of_a_score_follows_from_the_mma() -> None:
    problem = FmhaProblem(32, seq_q=1, seq_k=1)
    ones = np.ones((1, 1, 1, 32), ml_dtypes.bfloat16)
    tensors = Tensors(ones, ones, ones)
    # two MMAs, 5.25 * 2^-23 of sum |q||k| = 32 each
    assert limits(problem, tensors, attention(problem, tensors)).s[0, 0, 0, 0] == 2 * 5.25 * 2**-23 * 32


def test_comparison_of_special_values() -> None:
    expected = np.array([1.0, np.nan, np.nan, np.inf, -np.inf, 2.0, 0.0])
    actual = np.array([1.5, np.nan, 3.0, np.inf, np.inf, np.nan, 0.25])
    compared = compare(expected, actual, 0.5)
    assert compared.wrong.tolist() == [False, False, True, False, True, True, False]
    assert compared.error[0] == 0.5
    assert compared.error[5] == 0  # no number: wrong, but no figure
    assert compared.first_wrong == (2,)
    assert compared.limit_used == 1


def test_cosine() -> None:
    assert cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(math.sqrt(0.5))
    assert cosine(np.zeros(3), np.zeros(3)) == 1
    assert cosine(np.zeros(3), np.ones(3)) == 0
    assert cosine(np.array([np.nan, 2.0]), np.array([5.0, 4.0])) == pytest.approx(1)
    columns = cosine(np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 0.0]]), (0,))
    assert columns.tolist() == pytest.approx([1, 0])


def test_ulp_distance() -> None:
    one = 0x3F80  # of bf16
    codes = np.array([one, one + 3, 0x8001, one], np.uint16).view(ml_dtypes.bfloat16)
    expected = np.array([1.0, 1.0, float(np.array(0x0002, np.uint16).view(ml_dtypes.bfloat16)), np.nan])
    distance = ulp_distance(expected, codes)
    assert distance.tolist() == [0, 3, 3, 0]  # -1 to 2 over zero: three steps
    assert ulp_histogram(distance) == {"0": 2, "1": 0, "2": 0, "3-4": 2, "5-8": 0, "9-64": 0, "more": 0}


@pytest.mark.parametrize("pattern", ["normal", "equal", "large", "tiny", "rising", "minus-inf", "nan"])
def test_inputs_are_drawn_from_the_seed(pattern: str) -> None:
    problem = FmhaProblem(16, seq_q=4, seq_k=8)
    first, again, other = (draw(problem, pattern, seed) for seed in (5, 5, 6))
    assert first.q.tobytes() == again.q.tobytes()
    assert first.k.tobytes() != other.k.tobytes()
    assert first.v.dtype == ml_dtypes.bfloat16
