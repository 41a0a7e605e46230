"""Attention in float64, with the values at each point of the kernel where they exist.

A row that sees no key, or whose scores are all -inf, has O = 0 and LSE = -inf (the kernel's rule; the quotient 0 / 0
has no value). NaN spreads as in IEEE 754.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umma_probe.harness.fmha.inputs import Tensors
from umma_probe.harness.fmha.problem import TILE, FmhaProblem

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reference:
    """float64; axes are (batch, head, query, ...)."""

    s: F64
    """(..., key): Q K^T, before scale and mask."""
    s_size: F64
    """(..., key): the sum of the products' magnitudes, which bounds what rounding can do to a score."""
    visible: npt.NDArray[np.bool_]
    """(query, key)."""
    row_max: F64
    """(...): of scale * log2(e) * S over the visible keys; -inf if there is none."""
    row_sum: F64
    """(...): of 2 ** (scale * log2(e) * S - row_max)."""
    o: F64
    """(..., hd)."""
    o_size: F64
    """(..., hd): sum of p |v| / row_sum."""
    lse: F64
    """(...): natural logarithm."""

    def scaled(self, problem: FmhaProblem) -> F64:
        """(..., key): the exponents, -inf where masked."""
        return np.where(self.visible, self.s * float(problem.scale_log2), -np.inf)


def spread_heads(x: npt.NDArray[Any], problem: FmhaProblem) -> F64:
    """K or V in float64, one copy for each query head."""
    return np.repeat(x.astype(np.float64), problem.heads_per_kv_head, axis=1)


def attention(problem: FmhaProblem, tensors: Tensors) -> Reference:
    """The reference."""
    q = tensors.q.astype(np.float64)
    k, v = spread_heads(tensors.k, problem), spread_heads(tensors.v, problem)
    with np.errstate(all="ignore"):
        s = q @ np.swapaxes(k, -1, -2)
        s_size = np.abs(q) @ np.abs(np.swapaxes(k, -1, -2))
        visible = np.arange(problem.seq_k) < problem.visible_keys()[:, None]
        x = np.where(visible, s * float(problem.scale_log2), -np.inf)
        row_max = x.max(axis=-1)
        p = np.exp2(x - _origin(row_max)[..., None])
        row_sum = p.sum(axis=-1)
        divisor = np.where(row_sum == 0, 1.0, row_sum)[..., None]
        o, o_size = (p @ v) / divisor, (p @ np.abs(v)) / divisor
        lse = (row_max + np.log2(row_sum)) * np.log(2)
    return Reference(s, s_size, visible, row_max, row_sum, o, o_size, lse)


def _origin(maximum: F64) -> F64:
    """What exponents are relative to: the maximum, or 0 where there is none."""
    return np.where(np.isneginf(maximum), 0.0, maximum)


@dataclass(frozen=True)
class RunningSoftmax:
    """The online softmax after each KV tile; axes (batch, head, query, tile) and (batch, head, query, key)."""

    row_max: F64
    row_sum: F64
    p: F64
    """Relative to the maximum after the key's own tile."""


def running_softmax(problem: FmhaProblem, reference: Reference) -> RunningSoftmax:
    """What the kernel has after each KV tile."""
    x = reference.scaled(problem)
    maxima, sums, probabilities = [], [], []
    row_max = np.full(x.shape[:-1], -np.inf)
    row_sum = np.zeros(x.shape[:-1])
    with np.errstate(all="ignore"):
        for start in range(0, problem.seq_k, TILE):
            part = x[..., start : start + TILE]
            new_max = np.fmax(row_max, np.fmax.reduce(part, axis=-1))
            origin = _origin(new_max)
            p = np.exp2(part - origin[..., None])
            row_sum = row_sum * np.exp2(row_max - origin) + p.sum(axis=-1)
            row_max = new_max
            maxima.append(row_max)
            sums.append(row_sum)
            probabilities.append(p)
    return RunningSoftmax(np.stack(maxima, -1), np.stack(sums, -1), np.concatenate(probabilities, -1))
