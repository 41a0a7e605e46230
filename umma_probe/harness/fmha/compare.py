"""Actual against exact: errors, cosine, ULPs, per query tile and per column of O.

A value that is NaN or infinite in the reference must be the same in the result. What is no number on either side is
left out of every figure; where only the result is none, it counts as wrong. The cosine of two zero vectors is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umma_probe.harness.fmha.reference import F64

ULP_BINS = (("0", 0), ("1", 1), ("2", 2), ("3-4", 4), ("5-8", 8), ("9-64", 64), ("more", 1 << 62))


@dataclass(frozen=True)
class Comparison:
    """One array against its reference; all arrays have its shape."""

    expected: F64
    actual: F64
    error: F64
    """|actual - expected|; 0 where either is NaN or infinite."""
    limit: F64
    wrong: npt.NDArray[np.bool_]
    """Beyond the limit, or not the NaN or infinity that it must be."""

    @property
    def limit_used(self) -> float:
        """The largest error as a share of its limit; 1 is the limit. At most a billion, where the limit is zero."""
        with np.errstate(all="ignore"):
            share = np.where(self.error == 0, 0.0, self.error / self.limit)
        return min(float(share.max(initial=0.0)), 1e9)

    @property
    def max_error(self) -> float:
        """The largest |actual - expected|."""
        return float(self.error.max(initial=0.0))

    @property
    def max_relative(self) -> float:
        """The largest error relative to its value, where that is at least a thousandth of the largest."""
        size = np.where(np.isfinite(self.expected), np.abs(self.expected), 0.0)
        large = size > 1e-3 * size.max(initial=0.0)
        return float((self.error[large] / size[large]).max(initial=0.0))

    def part(self, place: tuple[Any, ...]) -> Comparison:
        """The elements at an index of every array."""
        return Comparison(
            self.expected[place], self.actual[place], self.error[place], self.limit[place], self.wrong[place]
        )

    @property
    def first_wrong(self) -> tuple[int, ...]:
        """Index of the first wrong element; only if there is one."""
        return tuple(int(i) for i in np.argwhere(self.wrong)[0])


def compare(expected: F64, actual: npt.NDArray[Any], limit: npt.ArrayLike) -> Comparison:
    """Compare; ``limit`` broadcasts."""
    values = actual.astype(np.float64)
    limits = np.broadcast_to(np.asarray(limit, np.float64), expected.shape)
    with np.errstate(all="ignore"):
        difference = np.abs(values - expected)
    numbers = np.isfinite(difference)
    same = (values == expected) | (np.isnan(values) & np.isnan(expected))
    wrong = np.where(numbers, ~(difference <= limits), ~same)
    return Comparison(expected, values, np.where(numbers, difference, 0.0), limits, wrong)


def cosine(a: F64, b: F64, axis: tuple[int, ...] | None = None) -> Any:
    """Of vectors that lie along ``axis`` (all axes by default); elements that are no numbers in either are left out."""
    number = np.isfinite(a) & np.isfinite(b)
    x, y = np.where(number, a, 0.0), np.where(number, b, 0.0)
    with np.errstate(all="ignore"):
        dot, size = (x * y).sum(axis=axis), np.sqrt((x * x).sum(axis=axis) * (y * y).sum(axis=axis))
        both_zero = ((x == 0) & (y == 0)).all(axis=axis)
        return np.where(both_zero, 1.0, np.where(size == 0, 0.0, dot / size))


def ulp_distance(expected: F64, actual: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """How many numbers of the 16-bit type lie between the result and the reference rounded to that type."""
    with np.errstate(over="ignore"):
        rounded = expected.astype(actual.dtype)
    distance: npt.NDArray[np.int64] = np.abs(_ordinal(actual) - _ordinal(rounded))
    return np.where(np.isfinite(expected) & np.isfinite(actual.astype(np.float64)), distance, 0)


def _ordinal(x: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The position of a 16-bit number among all: neighbours differ by one, both zeros are 0."""
    code = np.ascontiguousarray(x).view(np.uint16).astype(np.int64)
    magnitude = code & 0x7FFF
    return np.where(code & 0x8000, -magnitude, magnitude)


def ulp_histogram(distance: npt.NDArray[np.int64]) -> dict[str, int]:
    """How many elements are that many ULP off, by bin."""
    counts, below = {}, -1
    for name, last in ULP_BINS:
        counts[name] = int(((distance > below) & (distance <= last)).sum())
        below = last
    return counts
