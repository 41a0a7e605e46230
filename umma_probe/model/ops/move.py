"""``mov``: copies, constants, special registers, addresses of variables, and packing and unpacking of ``{...}``.

Rules enforced here (PTX ISA, "Data Movement and Conversion Instructions: mov"): a vector operand packs 2 or 4 parts
into one scalar or unpacks them, the first part in the low bits; ``_`` throws a part away; braces around one operand
mean nothing (NVIDIA's assembler takes them, and inline assembly has them). The address of a variable is in its own
state space, not generic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import PtxSyntaxError
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.values import TYPES, WORD
from umma_probe.ptx import nodes
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import PtxType
    from umma_probe.model.threads.frame import Frame

MOVE = (documented("Data Movement and Conversion Instructions: mov"),)
MOVE_TYPES = "pred b16 b32 b64 b128 u16 u32 u64 s16 s32 s64 f32 f64"
PART_BITS = (8, 16, 32, 64)


@operation("mov.{type}", type=MOVE_TYPES, refs=MOVE)
def mov(ops: Operands, type: PtxType) -> Executor:
    """Copy, pack or unpack."""
    ops.expect_count(2)
    if len(ops.items(0)) > 1:
        return _unpack(ops, type)
    if len(ops.items(1)) > 1:
        return _pack(ops, type)
    if isinstance(ops[1], nodes.IntImm) and type.category == "f":
        raise PtxSyntaxError(f"{ops.instruction.text}: an integer constant, must be a floating-point constant")
    target, source = ops.dst(0, type), ops.src(1, type)

    def run(f: Frame) -> None:
        f.regs[target][f.sel] = f.regs[source][f.sel]

    return run


def _part_type(ops: Operands, type_: PtxType, count: int) -> PtxType:
    bits = type_.bits // count
    if type_.category != "b" or bits * count != type_.bits or bits not in PART_BITS or count not in (2, 4):
        raise PtxSyntaxError(
            f"{ops.instruction.text}: {count} parts, must be .b16 to .b128 in 2 or 4 parts of at least 8 bits"
        )
    return TYPES[f"b{bits}"]


def _pack(ops: Operands, type_: PtxType) -> Executor:
    count = len(ops.items(1))
    part = _part_type(ops, type_, count)
    target, sources = ops.dst(0, type_), ops.src_vector(1, part)
    wide = type_.bits == 128

    def run(f: Frame) -> None:
        r, s = f.regs, f.sel
        parts = np.empty((f.count, count), part.dtype)
        for i, source in enumerate(sources):
            parts[:, i] = r[source][s]
        r[target][s] = parts.view(np.uint64) if wide else parts.view(WORD[type_.bits])[:, 0]

    return run


def _unpack(ops: Operands, type_: PtxType) -> Executor:
    part = _part_type(ops, type_, len(ops.items(0)))
    targets, source = ops.dst_vector(0, part), ops.src(1, type_)
    kept = [(i, t) for i, t in enumerate(targets) if not isinstance(ops.items(0)[i], nodes.Sink)]

    def run(f: Frame) -> None:
        r, s = f.regs, f.sel
        words = np.ascontiguousarray(r[source][s])
        parts = words.view(part.dtype).reshape(len(words), -1)
        for i, target in kept:
            r[target][s] = parts[:, i]

    return run
