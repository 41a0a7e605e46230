"""How far a correct kernel may be from the exact result, element by element, derived from the number formats.

With u = half the distance from 1 to the next number of the element type (2^-8 for bf16, 2^-11 for f16):

- A score. One MMA adds 16 products and the old score, each truncated to 2^(e - 25), where 2^e is at most the largest
  term, and truncates the sum to f32: at most 17 * 2^-25 + 2^-23 = 5.25 * 2^-23 of A = sum |q| |k|. A head
  dimension takes hd / 16 MMAs: ds = hd / 16 * 5.25 * 2^-23 * A.
- A probability, relative: the exponent is off by scale * log2(e) * ds and by one f32 rounding (2^-24 of at most 150:
  beyond that it underflows), ex2.approx by 2^-22. Together e_p.
- The sum, relative: e_p, 37 f32 additions a tile, and with each tile's rescaling 2^-22 (ex2.approx) + 2^-24. The
  maximum itself cancels, because probabilities, sum and rescaling use the same rounded one.
- O, with B = sum p |v| / sum p: P is rounded to the element type (u), both probabilities and the sum are off, and
  8 MMAs a tile accumulate: (u + 2 e_p + e_sum + tiles * (8 * 5.25 * 2^-23 + 2^-21)) * B; the result is rounded to the
  element type: u * |O|. Small numbers add a floor, in O and in each P: half the spacing of the element type's
  subnormals (f16: 2^-25), and 2^-126 because ex2.approx.ftz gives no f32 subnormals.
- LSE, absolute: e_p + e_sum as logarithms, 2^-22 of lg2.approx, two f32 roundings of its terms.

These are bounds, not estimates: a correct kernel stays below them whatever the data. The cosine has a limit of its
own, 0.99999: the figure by which the first kernels of this kind were accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from umma_probe.harness.fmha.inputs import Tensors
from umma_probe.harness.fmha.problem import TILE, FmhaProblem
from umma_probe.harness.fmha.reference import F64, Reference, spread_heads

COSINE_LIMIT = 0.99999
MMA_ERROR = 5.25 * 2.0**-23
EX2_ERROR = 2.0**-22
LG2_ERROR = 2.0**-22
F32_UNIT = 2.0**-24
SMALLEST_NORMAL = 2.0**-126
_EXPONENT_RANGE = 150.0
_ADDITIONS = 37
_MMAS_PER_TILE = TILE // 16
LN_2 = float(np.log(2))

DERIVATION = (
    "|error| <= u |O| + (u + 2 e_p + e_sum + tiles (42 * 2^-23 + 2^-21)) sum(p |v|) / sum(p), u = {unit}: rounding of P"
    " and O to {dtype}; e_p: scores truncated by the MMA, ex2.approx; e_sum: f32 additions"
)


@dataclass(frozen=True)
class Limits:
    """The largest |actual - exact| of each value, with the axes of the reference."""

    s: F64
    p_relative: F64
    """(batch, head, query): of a probability, before it is rounded."""
    sum_relative: F64
    o: F64
    o_unscaled: F64
    """Of O before the division by the sum."""
    lse: F64
    unit: float
    p_floor: float
    """What a probability may be off however small it is."""


def unit_roundoff(problem: FmhaProblem) -> float:
    """Half the distance from 1 to the next number of the element type."""
    return float(ml_dtypes.finfo(problem.element).eps) / 2


def derivation(problem: FmhaProblem) -> str:
    """The limit of O as one line."""
    return DERIVATION.format(unit=f"2^{int(np.log2(unit_roundoff(problem)))}", dtype=problem.dtype)


def limits(problem: FmhaProblem, tensors: Tensors, reference: Reference) -> Limits:
    """The limits of a problem."""
    unit = unit_roundoff(problem)
    half_spacing = float(ml_dtypes.finfo(problem.element).smallest_subnormal) / 2
    floor = half_spacing + SMALLEST_NORMAL
    tiles = problem.kv_tiles
    with np.errstate(all="ignore"):
        ds = problem.hd // 16 * MMA_ERROR * reference.s_size
        worst = np.where(reference.visible & np.isfinite(reference.s), ds, 0.0).max(axis=-1, initial=0.0)
        exponent = float(problem.scale_log2) * worst + F32_UNIT * _EXPONENT_RANGE
        p_relative = np.expm1(LN_2 * exponent) + EX2_ERROR
        sum_relative = p_relative + tiles * (_ADDITIONS * F32_UNIT + EX2_ERROR + F32_UNIT)
        relative = unit + p_relative + sum_relative + tiles * (_MMAS_PER_TILE * MMA_ERROR + 2.0**-21)
        divisor = np.where(reference.row_sum == 0, 1.0, reference.row_sum)[..., None]
        floors = floor * np.abs(spread_heads(tensors.v, problem)).sum(axis=-2, keepdims=True) / divisor
        rest = relative[..., None] * reference.o_size + floors
        o = unit * np.abs(reference.o) + rest + floor
        size = np.abs(reference.row_max) + np.abs(np.log2(reference.row_sum))
        lse = LN_2 * (np.log2(1 + p_relative + sum_relative) + LG2_ERROR + 4 * F32_UNIT * size)
        o_unscaled = rest * divisor * np.exp2(F32_UNIT * np.abs(reference.row_max))[..., None]
    return Limits(ds, p_relative, sum_relative, o, o_unscaled, lse, unit, floor)
