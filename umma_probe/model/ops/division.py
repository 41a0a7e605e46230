"""Integer ``div`` and ``rem`` (PTX ISA, "Integer Arithmetic Instructions").

Rules enforced here: quotients truncate towards zero, and a remainder has the sign of the dividend. MININT / -1 wraps
to MININT. The document leaves division by zero to the machine; the model gives what ``ZERO_DIVISOR`` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.model.code.decode import alu
from umma_probe.spec.sources import assumed, documented

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.numbers.values import Array, PtxType

ZERO_DIVISOR = assumed(
    "Integer Arithmetic Instructions: div",
    "x / 0 is all ones and x % 0 is all ones at 32 and 64 bits, as seen on an H200; a run on Blackwell would settle it",
)
DIVIDE = (
    documented("Integer Arithmetic Instructions: div"),
    documented("Integer Arithmetic Instructions: rem"),
    ZERO_DIVISOR,
)
INTEGERS = "u16 u32 u64 s16 s32 s64"


def _unsigned_pair(a: Array, b: Array) -> tuple[Array, Array]:
    """Quotient and remainder of unsigned arrays; both all ones for a zero divisor."""
    quotient, remainder = np.divmod(a, b)
    zero = b == 0
    if zero.any():
        ones = ~b.dtype.type(0)
        quotient, remainder = np.where(zero, ones, quotient), np.where(zero, ones, remainder)
    return quotient, remainder


def _signed_pair(a: Array, b: Array) -> tuple[Array, Array]:
    """As above for signed arrays, by way of their magnitudes, so that MININT / -1 needs no case."""
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    zero = b == 0
    quotient, remainder = np.divmod(np.abs(a).view(unsigned), np.abs(b).view(unsigned))
    quotient = np.where((a < 0) != (b < 0), -quotient, quotient).view(a.dtype)
    remainder = np.where(a < 0, -remainder, remainder).view(a.dtype)
    if zero.any():
        quotient, remainder = np.where(zero, -1, quotient), np.where(zero, -1, remainder)
    return quotient, remainder


def _pair(type_: PtxType) -> Callable[[Array, Array], tuple[Array, Array]]:
    return _signed_pair if type_.signed else _unsigned_pair


@alu("div.{type}", type=INTEGERS, refs=DIVIDE)
def div(type: PtxType) -> Callable[[Array, Array], Array]:
    """Quotient."""
    pair = _pair(type)
    return lambda a, b: pair(a, b)[0]


@alu("rem.{type}", type=INTEGERS, refs=DIVIDE)
def rem(type: PtxType) -> Callable[[Array, Array], Array]:
    """Remainder."""
    pair = _pair(type)
    return lambda a, b: pair(a, b)[1]
