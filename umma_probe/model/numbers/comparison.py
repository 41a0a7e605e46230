"""The comparison and Boolean operators of ``setp`` and ``set`` (PTX ISA, "Comparison and Selection Instructions").

Rules enforced here: signed integers know ``eq ne lt le gt ge``, unsigned ones also ``lo ls hi hs``, untyped bits only
``eq ne``. Floating ``eq ne lt le gt ge`` are false if an input is NaN (``ne`` too), ``equ .. geu`` are true then;
``num`` and ``nan`` test for that alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array

Function: TypeAlias = "Callable[..., Any]"


def _ordered(a: Array, b: Array) -> Any:
    return (a == a) & (b == b)


def _unordered(a: Array, b: Array) -> Any:
    return (a != a) | (b != b)


BIT_COMPARISONS: dict[str, Function] = {"eq": np.equal, "ne": np.not_equal}
SIGNED_COMPARISONS = BIT_COMPARISONS | {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
UNSIGNED_COMPARISONS = SIGNED_COMPARISONS | {
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
FLOAT_COMPARISONS: dict[str, Function] = {
    "eq": np.equal,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": _ordered,
    "nan": _unordered,
}
BOOLEANS: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
