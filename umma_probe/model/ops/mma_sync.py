"""``mma.sync``: D = A * B + C of one warp, everything in registers (PTX ISA, "Warp-level Matrix Instructions: mma").

Fragments: a register holds neighbours along K (A, B) or N (C, D). Lane 4g + t has, of each block of 8 rows and 16
bytes along K, row g and the t-th four bytes; of C and D row g and the t-th pair of columns. Blocks count rows first.
(f64: eight bytes of 32.) How the sum is made: ``model/arith/warp.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import NotModelled, PtxSyntaxError
from umma_probe.model.arith.warp import chained_product, warp_product
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.rounding import Rounding
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.matrix_move import whole_warps
from umma_probe.spec.sources import assumed
from umma_probe.spec.warp_mma import REF, WARP_MMAS, WarpMma, warp_mma

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame

ARITHMETIC = assumed(
    "mma.sync, floating point on sm_100a",
    "the instructions are those of sm_90a, and so is the sum; words from a B200 would settle it",
)
OPERAND_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
ACCUMULATORS = ("f16", "f32", "s32")
_SHAPES = tuple(dict.fromkeys(row.shape for row in WARP_MMAS if row.kind != "f64"))
_DOUBLE_SHAPES = tuple(row.shape for row in WARP_MMAS if row.kind == "f64")


@operation(
    "mma.sync.aligned.{shape}.row.col.{satfinite?}.{d}.{a}.{b}.{c}",
    refs=(REF, ARITHMETIC),
    shape=_SHAPES,
    d=ACCUMULATORS,
    a=OPERAND_TYPES,
    b=OPERAND_TYPES,
    c=ACCUMULATORS,
)
def mma_sync(ops: Operands, shape: str, satfinite: bool, d: str, a: str, b: str, c: str) -> Executor:
    """``mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c``."""
    text = ops.instruction.text
    row = warp_mma(shape, a, b)
    if row is None:
        raise NotModelled(f"{text}: {shape} of {a} and {b}", ref=str(REF))
    if d not in row.accumulators or c != d:
        raise PtxSyntaxError(f"{text}: D is {d} and C is {c}, must both be {' or '.join(row.accumulators)} for {a}")
    if satfinite and row.kind != "i8":
        raise PtxSyntaxError(f"{text}: .satfinite is for .s32 alone")

    def product(f: Frame, a_words: Array, b_words: Array, c_words: Array) -> Array:
        return warp_product(
            row, _operand(a_words, row.m, row.element_bits), _operand(b_words, row.n, row.element_bits),
            _elements(c_words, row, c), a_type=a, b_type=b, d_type=d, saturate=satfinite, arch=f.launch.arch.name,
        )  # fmt: skip

    return _executor(ops, row, d, product)


@operation("mma.sync.aligned.{shape}.row.col.{rounding?}.f64.f64.f64.f64", refs=(REF,), shape=_DOUBLE_SHAPES,
           rounding=Rounding)  # fmt: skip
def mma_sync_f64(ops: Operands, shape: str, rounding: Rounding | None) -> Executor:
    """``mma.sync.aligned.shape.row.col{.rnd}.f64.f64.f64.f64 d, a, b, c``."""
    row = warp_mma(shape, "f64", "f64")
    assert row is not None

    def product(_: Frame, a_words: Array, b_words: Array, c_words: Array) -> Array:
        a, b = (_operand(words, rows, 64).view(np.float64) for words, rows in ((a_words, row.m), (b_words, row.n)))
        c = _elements(c_words, row, "f64").view(np.float64)
        return chained_product(a, b, c, rounding or Rounding.RN).view(np.uint64)

    return _executor(ops, row, "f64", product)


def _executor(
    ops: Operands, row: WarpMma, accumulator: str, product: Callable[[Frame, Array, Array, Array], Array]
) -> Executor:
    """Check the registers; then a warp at a time: fragments in, product, fragment out."""
    ops.expect_count(4)
    text = ops.instruction.text
    register = TYPES[f"b{row.register_bits}"]
    d_slots = ops.dst_vector(0, register)
    sources = [ops.src_vector(index, register) for index in (1, 2, 3)]
    lanes_bits = 32 * row.register_bits
    of_c = row.m * row.n * TYPES[accumulator].bits // lanes_bits
    wanted = (
        of_c,
        row.m * row.k * row.element_bits // lanes_bits,
        row.n * row.k * row.element_bits // lanes_bits,
        of_c,
    )
    for name, registers, count in zip("DABC", (d_slots, *sources), wanted, strict=True):
        if len(registers) != count:
            raise PtxSyntaxError(f"{text}: {name} has {len(registers)} registers, must have {count}")

    def run(f: Frame) -> None:
        warps = whole_warps(f, text)
        fragments = [np.stack([f.regs[slot][f.sel].reshape(warps, 32) for slot in slots], axis=1) for slots in sources]
        for warp in range(warps):
            words = product(f, *(fragment[warp] for fragment in fragments))
            threads = f.threads[32 * warp : 32 * warp + 32]
            for slot, values in zip(d_slots, _registers(words, row, accumulator), strict=True):
                f.regs[slot][threads] = values

    return run


def _operand(registers: Array, rows: int, element_bits: int) -> Array:
    """(R, 32) words of a warp to the element codes (rows, k)."""
    blocks = np.ascontiguousarray(registers).reshape(-1, rows // 8, 8, 4)  # (part of k, rows, row, quarter)
    return np.ascontiguousarray(blocks.transpose(1, 2, 0, 3)).reshape(rows, -1).view(f"<u{element_bits // 8}")


def _elements(registers: Array, row: WarpMma, type_: str) -> Array:
    """(R, 32) words of C to the element words (m, n); 16-bit elements in the low half."""
    words = np.ascontiguousarray(registers)
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
