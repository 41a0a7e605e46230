"""The sums of ``mma.sync``, bit for bit as an H200 gives them (``reports/fidelity-sm90-h200.json``).

- f16, bf16, tf32: one fused sum over the instruction's K, with the adder of the larger MMAs. Integers are exact.
- e4m3, e5m2: no instruction of the machine. The assembler widens the operands to f16 and issues two f16 MMAs without C:
  first the lower two of each register's four bytes, then the upper two onto that result. C is added last, by an
  ordinary addition, rounded to nearest.
- f64: one fma after the other, in the order of K; each is rounded.

For sm_100a the assembler emits the same instructions (its f64 is two to eight of the smallest, which changes nothing
here). That their adder is the H200's is assumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.arith.mma import mma
from umma_probe.model.numbers.rounding import Rounding, canonical, f64_fma, f64_function
from umma_probe.spec.encoding import decode_to_float64
from umma_probe.spec.formats import FORMATS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from umma_probe.spec.warp_mma import WarpMma

    Words = NDArray[np.unsignedinteger[Any]]

_BYTES_OF_A_REGISTER = 4


def warp_product(
    row: WarpMma, a: Words, b: Words, c: Words, *, a_type: str, b_type: str, d_type: str, saturate: bool, arch: str
) -> Words:
    """The (m, n) words of D; f16 in the low half.

    :param a: (m, k) element words; ``b`` (n, k); ``c`` (m, n), in the type of D.
    """
    if row.kind == "f8f6f4":
        return _widened_product(a, b, c, a_type=a_type, b_type=b_type, d_type=d_type, arch=arch)
    return mma(row.kind, a, b, c, a_type=a_type, b_type=b_type, d_type=d_type, saturate=saturate, arch=arch)


def _widened_product(a: Words, b: Words, c: Words, *, a_type: str, b_type: str, d_type: str, arch: str) -> Words:
    wide_a, wide_b = _as_f16(a, a_type), _as_f16(b, b_type)
    place = np.arange(a.shape[1]) % _BYTES_OF_A_REGISTER
    total: Words = np.zeros(c.shape, np.uint32)
    for half in (place < 2, place >= 2):
        total = mma(
            "f16", wide_a[:, half], wide_b[:, half], total, a_type="f16", b_type="f16", d_type=d_type, arch=arch
        )
    return _sum_f16(total, c) if d_type == "f16" else _sum_f32(total, c)


def _as_f16(words: Words, type_: str) -> NDArray[np.uint16]:
    """Exact: f16 holds every number of both formats."""
    with np.errstate(invalid="ignore"):
        return decode_to_float64(words.astype(np.uint32), FORMATS[type_]).astype(np.float16).view(np.uint16)


def _sum_f32(a: Words, b: Words) -> Words:
    with np.errstate(all="ignore"):
        return np.asarray(canonical(a.view(np.float32) + b.view(np.float32))).view(np.uint32)


def _sum_f16(a: Words, b: Words) -> Words:
    with np.errstate(all="ignore"):
        total = a.astype(np.uint16).view(np.float16) + b.astype(np.uint16).view(np.float16)
    return np.where(np.isnan(total), np.uint16(0x7FFF), total.view(np.uint16)).astype(np.uint32)


def chained_product(a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64],
                    rounding: Rounding = Rounding.RN) -> NDArray[np.float64]:  # fmt: skip
    """The f64 form: (m, k) times (n, k), onto (m, n)."""
    fma = f64_function(f64_fma(rounding))
    total = c
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            rows, columns = np.broadcast_arrays(a[:, k, None], b[None, :, k])
            total = np.asarray(fma(rows.ravel(), columns.ravel(), total.ravel())).reshape(c.shape)
    return total
