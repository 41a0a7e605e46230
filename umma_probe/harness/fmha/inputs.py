"""What Q, K and V hold: random numbers, or one of the edges that attention kernels break at.

Everything is drawn in float64 from a seeded generator and rounded once to the element type, so that the kernel and the
reference see the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umma_probe.errors import ConfigError, unknown_name
from umma_probe.harness.fmha.problem import FmhaProblem

Array = npt.NDArray[Any]
_LARGE, _TINY = 64.0, 2.0**-12
_NAN_ROW = 1


@dataclass(frozen=True)
class Tensors:
    """Q, K, V in the element type, (batch, head, row, hd)."""

    q: Array
    k: Array
    v: Array


def draw(problem: FmhaProblem, pattern: str, seed: int) -> Tensors:
    """The inputs.

    :param pattern: one of ``PATTERNS``.
    :raises ConfigError: unknown pattern.
    """
    if pattern not in PATTERNS:
        raise ConfigError(unknown_name("inputs", pattern, PATTERNS))
    random = np.random.default_rng(seed)
    q = random.standard_normal(problem.q_shape)
    k = random.standard_normal(problem.kv_shape)
    v = random.standard_normal(problem.kv_shape)
    PATTERNS[pattern](q, k, v)
    with np.errstate(over="ignore"):
        return Tensors(*(x.astype(problem.element) for x in (q, k, v)))


def _normal(q: Array, k: Array, v: Array) -> None:
    """Standard normal."""


def _equal(q: Array, k: Array, v: Array) -> None:
    """All query rows are the same, and all keys: every probability is 1 / keys."""
    q[:], k[:] = q[:, :, :1], k[:, :, :1]


def _large(q: Array, k: Array, v: Array) -> None:
    """Scores of thousands: the softmax picks one key, and everything else underflows."""
    q *= _LARGE


def _tiny(q: Array, k: Array, v: Array) -> None:
    """Scores near zero: the softmax is flat."""
    q *= _TINY
    k *= _TINY


def _rising(q: Array, k: Array, v: Array) -> None:
    """Later keys score higher: the row maximum grows in every KV tile, and O is rescaled each time."""
    k[:] = np.abs(k) * np.linspace(0.25, 4.0, k.shape[2])[:, None]
    q[:] = np.abs(q)


def _minus_inf(q: Array, k: Array, v: Array) -> None:
    """Every third key scores -inf in every row, as a user's own mask would have it."""
    q[..., 0] = np.abs(q[..., 0]) + 0.5
    k[:, :, ::3, 0] = -np.inf


def _nan(q: Array, k: Array, v: Array) -> None:
    """One query row has a NaN: that row of O is NaN, and no other."""
    q[:, :, min(_NAN_ROW, q.shape[2] - 1), 0] = np.nan


PATTERNS: dict[str, Callable[[Array, Array, Array], None]] = {
    "normal": _normal,
    "equal": _equal,
    "large": _large,
    "tiny": _tiny,
    "rising": _rising,
    "minus-inf": _minus_inf,
    "nan": _nan,
}
