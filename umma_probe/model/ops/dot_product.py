"""``dp4a`` and ``dp2a``: small dot products with a 32-bit accumulator (PTX ISA, "Integer Arithmetic Instructions").

The result wraps. ``dp2a`` takes the two 16-bit halves of a and either the lower or the upper two bytes of b.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.code.decode import alu
from umma_probe.model.numbers.values import TYPES
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.numbers.values import Array, PtxType

DOT = (documented("Integer Arithmetic Instructions: dp4a"), documented("Integer Arithmetic Instructions: dp2a"))
SIGNS = {"u32": "u", "s32": "i"}
HALVES = {"lo": 0, "hi": 2}


def _result(slots: dict[str, Any]) -> PtxType:
    return TYPES["u32" if slots["atype"] == slots["btype"] == "u" else "s32"]


def _parts(words: Array, sign: str, size: int) -> Array:
    return np.ascontiguousarray(words).view(f"{sign}{size}").reshape(len(words), -1).astype(np.int64)


@alu("dp4a.{atype}.{btype}", operands=(_result, "u32", "u32", _result), atype=SIGNS, btype=SIGNS, refs=DOT)
def dp4a(atype: str, btype: str) -> Callable[..., Any]:
    """Four byte products."""
    return lambda a, b, c: ((_parts(a, atype, 1) * _parts(b, btype, 1)).sum(axis=1) + c).astype(c.dtype)


@alu(
    "dp2a.{half}.{atype}.{btype}",
    operands=(_result, "u32", "u32", _result),
    half=HALVES,
    atype=SIGNS,
    btype=SIGNS,
    refs=DOT,
)
def dp2a(half: int, atype: str, btype: str) -> Callable[..., Any]:
    """Two products of a half-word and a byte."""
    return lambda a, b, c: ((_parts(a, atype, 2) * _parts(b, btype, 1)[:, half : half + 2]).sum(axis=1) + c).astype(
        c.dtype
    )
