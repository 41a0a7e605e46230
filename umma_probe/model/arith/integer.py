"""Kind i8: the exact sum of all products and C, then modulo 2^32, or clamped once where the instruction saturates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.spec.encoding import decode_to_float64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umma_probe.spec.formats import NumberFormat

_S32 = np.iinfo(np.int32)


def integer_sum(
    a_words: NDArray[np.unsignedinteger],
    b_words: NDArray[np.unsignedinteger],
    c_words: NDArray[np.unsignedinteger] | None,
    a_format: NumberFormat,
    b_format: NumberFormat,
    *,
    saturate: bool,
    valid: NDArray[np.bool_] | None,
) -> NDArray[np.uint32]:
    """(M, K) and (N, K) bytes, (M, N) S32 words: the (M, N) words of D.

    A float64 matrix product is exact here: 2^16 times K is far below 2^53.
    """
    a, b = decode_to_float64(a_words, a_format), decode_to_float64(b_words, b_format)
    if valid is not None:
        a = np.where(valid, a, 0.0)
    total = (a @ b.T).astype(np.int64)
    if c_words is not None:
        total += c_words.astype(np.uint32, copy=False).view(np.int32)
    if saturate:
        np.clip(total, _S32.min, _S32.max, out=total)
    return total.astype(np.uint32)
