"""``selp`` and ``slct`` (PTX ISA, "Comparison and Selection Instructions").

Rules enforced here: ``slct`` takes a for c >= 0 (so for -0, too), else b; a NaN counts as negative, and ``.ftz``
takes a subnormal c as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.code.decode import alu, operation
from umma_probe.model.numbers.rounding import flush
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import PtxType
    from umma_probe.model.threads.frame import Frame

SELECT = (
    documented("Comparison and Selection Instructions: selp"),
    documented("Comparison and Selection Instructions: slct"),
)
TYPES_SELECT = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"


@operation("selp.{type}", type=TYPES_SELECT, refs=SELECT)
def selp(ops: Operands, type: PtxType) -> Executor:
    """a where the predicate holds, else b."""
    ops.expect_count(4)
    target, a, b = ops.dst(0, type), ops.src(1, type), ops.src(2, type)
    c, negated = ops.pred(3)
    if negated:
        a, b = b, a

    def run(f: Frame) -> None:
        r, s = f.regs, f.sel
        r[target][s] = np.where(r[c][s], r[a][s], r[b][s])

    return run


@alu("slct.{type}.s32", operands="type type type s32", type=TYPES_SELECT, refs=SELECT)
def slct(type: PtxType) -> Callable[..., Any]:
    """By the sign of an integer."""
    return lambda a, b, c: np.where(c >= 0, a, b)


@alu("slct.{ftz?}.{type}.f32", operands="type type type f32", type=TYPES_SELECT, refs=SELECT)
def slct_f32(ftz: bool, type: PtxType) -> Callable[..., Any]:
    """By the sign of a number."""
    if ftz:
        return lambda a, b, c: np.where(flush(c) >= 0, a, b)
    return lambda a, b, c: np.where(c >= 0, a, b)
