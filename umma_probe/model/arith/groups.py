"""The 4-bit block-scaled kinds, whose products are added in groups before anything is cut off.

With ``P`` the largest raw exponent of a nonzero scaled product (both elements and both scales), ``S`` that of a pair of
scales of nonzero products, ``C`` the accumulator's if it is nonzero:

    q = max(P - 39, C - 39, S - 35)

UE8M0 scales: the groups are of 16; a group whose own ``P`` is not above ``C`` is cut off at ``max(q, C - 35)``, any
other at ``q``. If the result is a subnormal F32, groups of less than ``S`` that come to less than ``2^-174`` do not
count. (Published for ``C`` below ``P``; otherwise ``C - 35`` is at least -161 and there are no such groups.)

UE4M3 scales: the groups are of 4 and are cut off at ``q``. Where ``C >= P`` they are of 16, cut off at ``C - 35``.

All groups are multiples of ``2^q`` then and the sum stays below ``2^(q + 52)``: at most 96 products below
``2^(P + 3)``, and C. So float64 adds them exactly; and where no group can be cut, their sum is a matrix product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.model.arith.exponents import NO_EXPONENT, Exponents, largest_sum, power_of_two
from umma_probe.model.arith.window import cut, is_multiple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from umma_probe.model.arith.operands import Accumulator, Operand
    from umma_probe.spec.arithmetic import Groups, Window

_LOWEST = -600
"""Below the raw exponent of every nonzero term."""
_F32_MIN_NORMAL = 2.0**-126
_F32_MIN_SUBNORMAL = 2.0**-149


def grouped_sum(
    a: Operand, b: Operand, c: Accumulator | None, a_scales: Operand, b_scales: Operand, window: Window, expansion: int
) -> NDArray[np.float64]:
    """The (M, N) sums, exact.

    :param a: (M, K) with its scales multiplied in; ``b`` (N, K) too.
    :param a_scales: (M, S); ``b_scales`` (N, S).
    :param expansion: positions of K that hold one stored element of A: 1, or 2 for sparse A.
    """
    assert window.groups is not None
    coarsest = _coarsest_quantum(a, b, c, a_scales, b_scales, window)
    lowest_bit, floor = a.lowest_bit + b.lowest_bit, window.groups.subnormal_floor
    no_group_is_cut = lowest_bit >= coarsest and (floor is None or lowest_bit >= floor)
    if no_group_is_cut and (c is None or is_multiple(c.values, coarsest)):
        total: NDArray[np.float64] = a.values @ b.values.T
        return total if c is None else total + c.values
    state = _Exponents(a, b, c, a_scales, b_scales, window)
    if no_group_is_cut:
        return a.values @ b.values.T + _accumulator_part(c, state)
    if window.groups.per_group:
        return _sum_per_group(a, b, c, state, window.groups, expansion)
    return _sum_by_leader(a, b, c, state, window.groups, expansion)


def _coarsest_quantum(
    a: Operand, b: Operand, c: Accumulator | None, a_scales: Operand, b_scales: Operand, window: Window
) -> int:
    """The exponent of the largest quantum that any group of any sum can have."""
    groups = window.groups
    assert groups is not None
    return max(
        a.highest + b.highest - window.fraction_bits,
        a_scales.highest + b_scales.highest - groups.scale_fraction_bits,
        _LOWEST if c is None else c.highest - groups.accumulator_fraction_bits,
        _LOWEST,
    )


class _Exponents:
    """What the quantum follows from; every array is (M, N)."""

    def __init__(
        self, a: Operand, b: Operand, c: Accumulator | None, a_scales: Operand, b_scales: Operand, window: Window
    ) -> None:
        groups = window.groups
        assert groups is not None
        self.a_scales, self.b_scales = a_scales, b_scales
        self.product = largest_sum(a.exponents, b.exponents)
        self.scale_pair = largest_sum(_scale_exponents(a, a_scales), _scale_exponents(b, b_scales))
        self.accumulator = np.full_like(self.product, NO_EXPONENT) if c is None else c.raw()
        self.leads = (self.accumulator >= self.product) & (self.accumulator != NO_EXPONENT)
        """Where the accumulator sets the window."""
        quantum = np.maximum(self.product, self.accumulator) - window.fraction_bits
        self.quantum = np.maximum(quantum, np.maximum(self.scale_pair - groups.scale_fraction_bits, _LOWEST))


def _scale_exponents(elements: Operand, scales: Operand) -> Exponents:
    """(rows, K): the raw exponent of each nonzero element's scale."""
    spread = np.repeat(scales.raw, elements.raw.shape[1] // scales.raw.shape[1], axis=1)
    _, lowest, highest = scales.exponents
    return Exponents(np.where(elements.values != 0.0, spread, np.int16(NO_EXPONENT)), lowest, highest)


def _part(exponents: Exponents, part: slice) -> Exponents:
    return exponents._replace(keys=exponents.keys[:, part])


def _slices(K: int, size: int) -> Iterator[slice]:
    for first in range(0, K, size):
        yield slice(first, first + size)


def _accumulator_part(c: Accumulator | None, state: _Exponents) -> NDArray[np.float64]:
    return np.zeros(state.quantum.shape) if c is None else cut(c.values, power_of_two(-state.quantum))


def _sum_per_group(
    a: Operand, b: Operand, c: Accumulator | None, state: _Exponents, groups: Groups, expansion: int
) -> NDArray[np.float64]:
    total = _accumulator_part(c, state)
    dropped = np.zeros_like(total)
    K = a.values.shape[1]
    for part in _slices(K, groups.size * expansion):
        product = largest_sum(_part(a.exponents, part), _part(b.exponents, part))
        outranked = (state.accumulator >= product) & (state.accumulator != NO_EXPONENT)
        coarse = np.maximum(state.quantum, state.accumulator - groups.accumulator_fraction_bits)
        group = cut(a.values[:, part] @ b.values[:, part].T, power_of_two(-np.where(outranked, coarse, state.quantum)))
        total += group
        if groups.subnormal_floor is not None:
            block = part.start * state.a_scales.raw.shape[1] // K
            pair = state.a_scales.raw[:, block, None] + state.b_scales.raw[None, :, block]
            small = (np.abs(group) < 2.0**groups.subnormal_floor) & (pair < state.scale_pair)
            dropped += np.where(small, group, 0.0)
    magnitude = np.abs(total)
    subnormal = (magnitude >= _F32_MIN_SUBNORMAL) & (magnitude < _F32_MIN_NORMAL)
    return np.where(subnormal, total - dropped, total)


def _sum_by_leader(
    a: Operand, b: Operand, c: Accumulator | None, state: _Exponents, groups: Groups, expansion: int
) -> NDArray[np.float64]:
    total = _accumulator_part(c, state)
    K = a.values.shape[1]
    scale = power_of_two(-state.quantum)
    for part in _slices(K, groups.size * expansion):
        total += cut(a.values[:, part] @ b.values[:, part].T, scale)
    if c is None or not state.leads.any():
        return total
    coarse = state.accumulator - np.int16(groups.accumulator_fraction_bits)
    scale = power_of_two(-np.maximum(coarse, np.int16(_LOWEST)))
    led = c.values.copy()
    for part in _slices(K, groups.accumulator_group_size * expansion):
        led += cut(a.values[:, part] @ b.values[:, part].T, scale)
    return np.where(state.leads, led, total)
