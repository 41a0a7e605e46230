"""What TMA does to elements on their way: conversions of a load, the fill outside the tensor, reductions of a store.

Which reductions there are is the table of ``cp.reduce.async.bulk.tensor``; what they compute is that of ``red``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.model.numbers.element_ops import combiner
from umma_probe.model.numbers.values import TYPES
from umma_probe.spec.sources import Evidence, Ref

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array

TO_TF32 = Ref("cutlass", "ConvertF32toTF32A", Evidence.HEADER, "TMA converts f32 to tf32 on its way to shared memory")
TF32_ROUNDING = Ref(
    "silicon-h200", "tma.json", Evidence.MEASURED, "to nearest, ties to even; every NaN becomes 0x7fffe000"
)
FLUSH = Ref(
    "silicon-h200",
    "tma.json",
    Evidence.MEASURED,
    "the _ftz types: a load keeps subnormals; a reduction flushes its operands and its result",
)
OOB_NAN = Ref("silicon-h200", "tma.json", Evidence.MEASURED, "every 16 bits are 0x7ff7, in every floating type")
S64_BITS = Ref("silicon-h200", "tma.json", Evidence.MEASURED, "and, or, xor on s64: an illegal instruction")
REFS = (TO_TF32, TF32_ROUNDING, FLUSH, OOB_NAN, S64_BITS)

_F32_EXPONENT, _F32_SIGN = np.uint32(0x7F80_0000), np.uint32(0x8000_0000)
_TF32_DROPPED = 13
_TF32_NAN = np.uint32(0x7FFF_E000)
_NAN_FILL = 0x7FF7


# ---------------------------------------------------------------------- loads
def convert_loaded(dtype: str, data: Array) -> Array:
    """Bytes of whole elements, (n, unit) uint8, as they are stored in shared memory."""
    if dtype not in ("tf32", "tf32_ftz"):
        return data
    words = np.ascontiguousarray(data).reshape(-1).view(np.uint32)
    return _round_to_tf32(words).view(np.uint8).reshape(data.shape)


def _flush(words: Array) -> Array:
    return np.where(words & _F32_EXPONENT, words, words & _F32_SIGN)


def _round_to_tf32(words: Array) -> Array:
    nan = (words & ~_F32_SIGN) > _F32_EXPONENT
    odd = words >> _TF32_DROPPED & 1
    half = np.uint32((1 << (_TF32_DROPPED - 1)) - 1)
    rounded = (words + half + odd) >> _TF32_DROPPED << _TF32_DROPPED
    return np.where(nan, _TF32_NAN, rounded).astype(np.uint32)


def fill_pattern(fill: str, size_bytes: int) -> Array:
    """What a row outside the tensor holds."""
    if fill == "zero":
        return np.zeros(size_bytes, np.uint8)
    return np.full(size_bytes // 2, _NAN_FILL, np.uint16).view(np.uint8)


# ---------------------------------------------------------------------- reductions
_INTEGERS = ("u32", "s32", "u64", "s64")
_HALVES = ("f16", "bf16")
REDUCTIONS: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f32_ftz", *_HALVES),
    "min": (*_INTEGERS, *_HALVES),
    "max": (*_INTEGERS, *_HALVES),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": _INTEGERS[:-1],
    "or": _INTEGERS[:-1],
    "xor": _INTEGERS[:-1],
}
"""Operator to the element types of a tensor map that it is for."""


def reduction_problem(operator: str, dtype: str) -> str:
    """Why the operator is not for that element type; empty if it is."""
    allowed = REDUCTIONS[operator]
    return (
        "" if dtype in allowed else f"dtype of the tensor map is {dtype}, must be {', '.join(allowed)} for .{operator}"
    )


def reduce_elements(operator: str, dtype: str, old: Array, new: Array) -> Array:
    """The bytes of ``operator(old, new)``; both are uint8 of whole elements, in the same shape."""
    function, word = combiner(operator, TYPES[dtype.removesuffix("_ftz")])
    values = [np.ascontiguousarray(part).reshape(-1).view(word) for part in (old, new)]
    flushed = dtype.endswith("_ftz")
    if flushed:
        values = [_flush(part.view(np.uint32)).view(word) for part in values]
    result = np.ascontiguousarray(function(*values)).astype(word)
    if flushed:
        result = _flush(result.view(np.uint32))
    return result.view(np.uint8).reshape(old.shape)
