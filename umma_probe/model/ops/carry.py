"""Extended-precision integer arithmetic: ``add.cc addc sub.cc subc mad.cc madc``.

Rules enforced here (PTX ISA, "Extended-Precision Integer Arithmetic Instructions"): one carry bit a thread, written
by the ``.cc`` forms alone and read by ``addc subc madc``; for subtraction it is the borrow. It is a hidden register
of the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.model.code.decode import operation
from umma_probe.model.code.operands import PRED, RegisterSlot
from umma_probe.model.ops.integer import high_product
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

EXTENDED = tuple(
    documented(f"Extended-Precision Integer Arithmetic Instructions: {name}")
    for name in ("add.cc", "addc", "sub.cc", "subc", "mad.cc", "madc")
)
CARRY_REGISTER = "%CC.CF"
"""No name of a program: a dot never is part of a register's name."""
TYPES_CC = "u32 s32 u64 s64"


def _carry_slot(ops: Operands) -> int:
    ops.table.registers.setdefault(CARRY_REGISTER, 1)
    return ops.table.slot(RegisterSlot(CARRY_REGISTER, 1, PRED))


def _sum(a: Array, b: Array, carry: Array | None) -> tuple[Array, Array]:
    total = a + b
    out = total < a
    if carry is not None:
        with_carry = total + carry
        out = out | (with_carry < total)
        total = with_carry
    return total, out


def _difference(a: Array, b: Array, borrow: Array | None) -> tuple[Array, Array]:
    total = a - b
    out = a < b
    if borrow is not None:
        with_borrow = total - borrow
        out = out | (total < with_borrow)
        total = with_borrow
    return total, out


def _bind(
    ops: Operands,
    type_: PtxType,
    combine: Callable[[Array, Array, Array | None], tuple[Array, Array]],
    product: Callable[[Array, Array], Array] | None,
    *,
    reads: bool,
    writes: bool,
) -> Executor:
    """``product`` of the first two sources comes first in the mad forms."""
    ops.expect_count(3 if product is None else 4)
    target, carry = ops.dst(0, type_), _carry_slot(ops)
    sources = [ops.src(i, type_) for i in range(1, len(ops))]
    unsigned = np.dtype(f"u{type_.bytes}")

    def run(f: Frame) -> None:
        r, s = f.regs, f.sel
        values = [r[i][s] for i in sources]
        if product is not None:
            values = [product(values[0], values[1]), values[2]]
        a, b = (v.astype(unsigned) for v in values)
        total, out = combine(a, b, r[carry][s].astype(unsigned) if reads else None)
        r[target][s] = total.astype(type_.dtype)
        if writes:
            r[carry][s] = out

    return run


@operation("add.cc.{type}", type=TYPES_CC, refs=EXTENDED)
def add_cc(ops: Operands, type: PtxType) -> Executor:
    """a + b; carry out."""
    return _bind(ops, type, _sum, None, reads=False, writes=True)


@operation("addc.{cc?}.{type}", type=TYPES_CC, refs=EXTENDED)
def addc(ops: Operands, cc: bool, type: PtxType) -> Executor:
    """a + b + carry."""
    return _bind(ops, type, _sum, None, reads=True, writes=cc)


@operation("sub.cc.{type}", type=TYPES_CC, refs=EXTENDED)
def sub_cc(ops: Operands, type: PtxType) -> Executor:
    """a - b; borrow out."""
    return _bind(ops, type, _difference, None, reads=False, writes=True)


@operation("subc.{cc?}.{type}", type=TYPES_CC, refs=EXTENDED)
def subc(ops: Operands, cc: bool, type: PtxType) -> Executor:
    """a - (b + borrow)."""
    return _bind(ops, type, _difference, None, reads=True, writes=cc)


_PARTS: dict[str, Callable[[PtxType], Callable[[Array, Array], Array]]] = {
    "lo": lambda type_: np.multiply,
    "hi": high_product,
}


@operation("mad.{part}.cc.{type}", part=_PARTS, type="u32 s32 u64 s64", refs=EXTENDED)
def mad_cc(ops: Operands, part: Callable[[PtxType], Callable[[Array, Array], Array]], type: PtxType) -> Executor:
    """A half of a * b, plus c; carry out."""
    return _bind(ops, type, _sum, part(type), reads=False, writes=True)


@operation("madc.{part}.{cc?}.{type}", part=_PARTS, type="u32 s32 u64 s64", refs=EXTENDED)
def madc(
    ops: Operands, part: Callable[[PtxType], Callable[[Array, Array], Array]], cc: bool, type: PtxType
) -> Executor:
    """A half of a * b, plus c and the carry."""
    return _bind(ops, type, _sum, part(type), reads=True, writes=cc)
