"""``mma.sync``: D = A * B + C of one warp, everything in registers (PTX ISA, "Warp-level Matrix Instructions: mma").

Fragments: a register holds neighbours along K (A, B) or N (C, D). Lane 4g + t has, of each block of 8 rows and 16
bytes along K, row g and the t-th four bytes; of C and D row g and the t-th pair of columns. Blocks count rows first.
The sum is taken to be one fused sum like that of the warpgroup's and tcgen05's MMAs: their arithmetic, over this K.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import NotModelled, PtxSyntaxError
from umma_probe.model.arith.mma import mma
from umma_probe.model.decode import operation
from umma_probe.model.ops.matrix_move import whole_warps
from umma_probe.model.values import TYPES
from umma_probe.spec.sources import assumed
from umma_probe.spec.warp_mma import REF, WARP_MMAS, WarpMma, warp_mma

if TYPE_CHECKING:
    from umma_probe.model.decode import Executor
    from umma_probe.model.frame import Frame
    from umma_probe.model.operands import Operands
    from umma_probe.model.values import Array

ARITHMETIC = assumed(
    "mma.sync, floating point",
    "the adder of the generation's larger MMAs over the instruction's K; words from silicon would settle it",
)
B32 = TYPES["b32"]
OPERAND_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
ACCUMULATORS = ("f16", "f32", "s32")


@operation(
    "mma.sync.aligned.{shape}.row.col.{satfinite?}.{d}.{a}.{b}.{c}",
    refs=(REF, ARITHMETIC),
    shape=tuple(dict.fromkeys(row.shape for row in WARP_MMAS)),
    d=ACCUMULATORS,
    a=OPERAND_TYPES,
    b=OPERAND_TYPES,
    c=ACCUMULATORS,
)
def mma_sync(ops: Operands, shape: str, satfinite: bool, d: str, a: str, b: str, c: str) -> Executor:
    """``mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c``."""
    ops.expect_count(4)
    text = ops.instruction.text
    row = warp_mma(shape, a, b)
    if row is None:
        raise NotModelled(f"{text}: {shape} of {a} and {b}", ref=str(REF))
    if d not in row.accumulators or c not in row.accumulators:
        raise PtxSyntaxError(f"{text}: D is {d} and C is {c}, must be {' or '.join(row.accumulators)} for {a}")
    if satfinite and row.kind != "i8":
        raise PtxSyntaxError(f"{text}: .satfinite is for .s32 alone")
    d_slots = ops.dst_vector(0, B32)
    sources = [ops.src_vector(index, B32) for index in (1, 2, 3)]
    wanted = (_accumulator_registers(row, d), row.m * row.k * row.element_bits // 1024,
              row.n * row.k * row.element_bits // 1024, _accumulator_registers(row, c))  # fmt: skip
    for name, registers, count in zip("DABC", (d_slots, *sources), wanted, strict=True):
        if len(registers) != count:
            raise PtxSyntaxError(f"{text}: {name} has {len(registers)} registers, must have {count}")

    def run(f: Frame) -> None:
        warps = whole_warps(f, text)
        a_words, b_words, c_words = (
            np.stack([f.regs[slot][f.sel].reshape(warps, 32) for slot in slots], axis=1) for slots in sources
        )
        for warp in range(warps):
            total = mma(
                row.kind, _operand(a_words[warp], row.m, row.element_bits),
                _operand(b_words[warp], row.n, row.element_bits), _widened(_elements(c_words[warp], row, c), c, d),
                a_type=a, b_type=b, d_type=d, saturate=satfinite, arch=f.launch.arch.name,
            )  # fmt: skip
            threads = f.threads[32 * warp : 32 * warp + 32]
            for slot, values in zip(d_slots, _registers(total, row, d), strict=True):
                f.regs[slot][threads] = values

    return run


def _accumulator_registers(row: WarpMma, type_: str) -> int:
    return row.m * row.n * (16 if type_ == "f16" else 32) // 1024


def _operand(registers: Array, rows: int, element_bits: int) -> Array:
    """(R, 32) words of a warp to the element codes (rows, k)."""
    blocks = np.ascontiguousarray(registers, np.uint32).reshape(-1, rows // 8, 8, 4)  # (part of k, rows, row, quarter)
    return np.ascontiguousarray(blocks.transpose(1, 2, 0, 3)).reshape(rows, -1).view(f"<u{element_bits // 8}")


def _elements(registers: Array, row: WarpMma, type_: str) -> Array:
    """(R, 32) words of C to the element words (m, n); 16-bit elements in the low half."""
    words = np.ascontiguousarray(registers, np.uint32)
    if type_ == "f16":
        return words.reshape(row.m, 4).view(np.uint16).astype(np.uint32)
    blocks = words.reshape(row.m // 8, 2, 8, 4)  # (rows, column of the pair, row, pair)
    return np.ascontiguousarray(blocks.transpose(0, 2, 3, 1)).reshape(row.m, row.n)


def _registers(words: Array, row: WarpMma, type_: str) -> Array:
    """(m, n) words of D to the (R, 32) words of a warp: the inverse of :func:`_elements`."""
    if type_ == "f16":
        return words.astype(np.uint16).view(np.uint32).reshape(-1, 32)
    blocks = words.reshape(row.m // 8, 8, 4, 2)
    return np.ascontiguousarray(blocks.transpose(0, 3, 1, 2)).reshape(-1, 32)


def _widened(words: Array, from_type: str, to_type: str) -> Array:
    """C in the type of D."""
    if from_type == to_type:
        return words
    if to_type == "f32":
        return words.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    raise NotModelled(f"mma.sync with {from_type} C and {to_type} D", ref=str(ARITHMETIC))
