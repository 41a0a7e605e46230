"""Inf and NaN, decided before anything is added.

A NaN in a present product or in C, Inf times zero, or infinities of both signs give the canonical NaN of D
(0x7fffffff, F16 0x7fff); otherwise an Inf gives the Inf of its sign. The elements that sparsity leaves out are absent:
nothing in them counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umma_probe.model.arith.operands import Accumulator, Operand

_WORDS = {"f32": (0x7FFF_FFFF, 0x7F80_0000, 0xFF80_0000), "f16": (0x7FFF, 0x7C00, 0xFC00)}


def apply_specials(
    words: NDArray[np.uint32],
    a: Operand,
    b: Operand,
    c: Accumulator | None,
    *,
    d_type: str,
    valid: NDArray[np.bool_] | None,
    a_scales: Operand | None = None,
    b_scales: Operand | None = None,
) -> None:
    """Overwrite the (M, N) ``words`` where a special value decides.

    :param valid: (M, K), False where A's element is absent; None: all present.
    :param a_scales: (M, S), ``b_scales`` (N, S): one that is NaN makes its whole row or column NaN.
    """
    nan = np.zeros(words.shape, dtype=bool)
    positive = np.zeros(words.shape, dtype=bool)
    negative = np.zeros(words.shape, dtype=bool)
    if a.specials is not None or b.specials is not None:
        _products(a, b, valid, nan, positive, negative)
    if c is not None and c.specials is not None:
        nan |= np.isnan(c.specials)
        positive |= c.specials == np.inf
        negative |= c.specials == -np.inf
    if a_scales is not None and a_scales.specials is not None:
        nan |= np.isnan(a_scales.specials).any(axis=1, keepdims=True)
    if b_scales is not None and b_scales.specials is not None:
        nan |= np.isnan(b_scales.specials).any(axis=1, keepdims=True).T
    nan |= positive & negative
    nan_word, positive_word, negative_word = _WORDS[d_type]
    words[positive] = positive_word
    words[negative] = negative_word
    words[nan] = nan_word


def _products(
    a: Operand,
    b: Operand,
    valid: NDArray[np.bool_] | None,
    nan: NDArray[np.bool_],
    positive: NDArray[np.bool_],
    negative: NDArray[np.bool_],
) -> None:
    """Which of the (M, N) sums have a NaN product, a +Inf, a -Inf: one small matrix product of masks for each rule."""
    av = a.values if a.specials is None else a.specials
    bv = b.values if b.specials is None else b.specials
    present = np.ones(av.shape, dtype=bool) if valid is None else valid
    a_inf, b_inf = np.isinf(av), np.isinf(bv)
    nan |= _any(present & np.isnan(av), np.ones(bv.shape, dtype=bool)) | _any(present, np.isnan(bv))
    nan |= _any(a_inf, bv == 0.0) | _any(present & (av == 0.0), b_inf)
    for a_sign, b_sign, target in ((1, 1, positive), (-1, -1, positive), (1, -1, negative), (-1, 1, negative)):
        a_signed, b_signed = av * a_sign > 0, bv * b_sign > 0
        target |= _any(a_signed & a_inf, b_signed) | _any(a_signed, b_signed & b_inf)


def _any(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(M, K) and (N, K) masks: the (M, N) mask of "both, for some k"."""
    return np.asarray(a.astype(np.float32) @ b.astype(np.float32).T > 0.0)
