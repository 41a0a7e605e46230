"""Why negate A and negate B are one cause: for no operand, special values included, do their results differ."""

from __future__ import annotations

import numpy as np
import pytest

from umma_probe.model.arith.mma import mma

# by hand: +0, the least subnormal, 1, the largest finite, infinity, NaN (quiet, and with another payload); and negative
SPECIAL = {
    "f16": [0x0000, 0x0001, 0x3C00, 0x7BFF, 0x7C00, 0x7E00, 0x7C01],
    "bf16": [0x0000, 0x0001, 0x3F80, 0x7F7F, 0x7F80, 0x7FC0, 0x7F81],
    "tf32": [0x00000000, 0x00002000, 0x3F800000, 0x7F7FE000, 0x7F800000, 0x7FC00000, 0x7F802000],
}
SIGN = {"f16": 1 << 15, "bf16": 1 << 15, "tf32": 1 << 31, "e4m3": 1 << 7, "e5m2": 1 << 7, "e2m1": 1 << 3}
CASES = [("f16", "f16", "f32", 16), ("f16", "f16", "f16", 16), ("f16", "bf16", "f32", 16), ("tf32", "tf32", "f32", 8),
         ("f8f6f4", "e4m3", "f32", 32), ("f8f6f4", "e5m2", "f32", 32), ("f8f6f4", "e2m1", "f16", 32)]  # fmt: skip


def all_of(type_: str) -> np.ndarray:
    """Every value of the small formats, the special ones of the others with both signs."""
    if type_ not in SPECIAL:
        return np.arange(2 * SIGN[type_])
    return np.array([word | sign for word in SPECIAL[type_] for sign in (0, SIGN[type_])])


@pytest.mark.parametrize(("kind", "type_", "d_type", "k"), CASES)
def test_no_values_tell_the_two_fields_apart(kind: str, type_: str, d_type: str, k: int) -> None:
    """Every pair of values as the one product of an MMA, without and with an accumulator of each sign."""
    width = np.uint32 if type_ == "tf32" else np.uint16 if type_ in SPECIAL else np.uint8
    values = all_of(type_)
    words = np.zeros((len(values), k), width)
    words[:, 0] = values
    negated = words.copy()
    negated[:, 0] ^= width(SIGN[type_])
    one = 0x3C00 if d_type == "f16" else 0x3F800000
    sign = 0x8000 if d_type == "f16" else 0x80000000
    types = {"a_type": type_, "b_type": type_, "d_type": d_type}
    for start in (None, 0, sign, one, one | sign):
        c = None if start is None else np.full((len(values),) * 2, start, np.uint32)
        by_a = mma(kind, words, words, c, **types, negate_a=True)  # type: ignore[arg-type]
        by_b = mma(kind, words, words, c, **types, negate_b=True)  # type: ignore[arg-type]
        assert np.array_equal(by_a, by_b)
        assert np.array_equal(by_a, mma(kind, negated, words, c, **types))  # type: ignore[arg-type]
        both = mma(kind, words, words, c, **types, negate_a=True, negate_b=True)  # type: ignore[arg-type]
        neither = mma(kind, words, words, c, **types)  # type: ignore[arg-type]
        assert np.array_equal(both, neither)
        assert not np.array_equal(by_a, neither)
