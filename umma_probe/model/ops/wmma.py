"""``wmma``: matrices from memory to fragments, D = A * B + C on fragments, and back (PTX ISA, "Warp-level Matrix
Instructions: wmma.load", "wmma.mma", "wmma.store").

Which element lies in which register of which lane is left open by the PTX ISA, so programs may only load, multiply,
store, and treat all elements of a fragment alike; for these any placement gives the same. The one here is that of
``mma.sync``, with the blocks of 8 rows first; the copies that f16 operands have follow one another. The sums are those
of ``mma.sync`` too: one fused sum over K.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import NotModelled, PtxSyntaxError, UndefinedBehavior
from umma_probe.model.arith.mma import mma
from umma_probe.model.arith.warp import chained_product
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.rounding import Rounding
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.matrix_move import FAMILY, whole_warps
from umma_probe.model.ops.mma_sync import ARITHMETIC
from umma_probe.spec.sources import documented
from umma_probe.spec.wmma import ELEMENT_BYTES, REF, WMMAS, Wmma, register_bytes, wmma_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

LAYOUTS = ("row", "col")
SPACES = {"global": "global", "shared": "shared", "shared::cta": "shared", "shared::cluster": "shared::cluster"}
SHAPES = tuple(dict.fromkeys(row.shape for row in WMMAS))
OPERAND_TYPES = ("f16", "bf16", "tf32", "s8", "u8", "f64")
LOAD_REFS = (documented(f"{FAMILY}: wmma.load"), REF)
ACCUMULATORS = ("f16", "f32", "s32", "f64")


@lru_cache(maxsize=64)
def places(rows: int, columns: int, type_: str, accumulator: bool) -> tuple[Array, Array]:
    """(row, column) of each element of a fragment, both of shape (elements, 32 lanes); copies are left out.

    Of A the columns are K, of B the rows are N and the columns K.
    """
    # of each block of 8 rows, a lane has `run` neighbours in one row: a register's, or of an accumulator a pair
    run = 2 if accumulator else max(1, 4 // ELEMENT_BYTES[type_])
    element, lane = np.indices((rows * columns // 32, 32))
    block = element // run
    row = block % (rows // 8) * 8 + lane // 4
    column = block // (rows // 8) * 4 * run + lane % 4 * run + element % run
    return row, column


def _row_of(ops: Operands, shape: str, part: str, type_: str) -> Wmma:
    row = wmma_of(shape, part, type_)
    if row is None:
        raise NotModelled(f"{ops.instruction.text}: {shape} with {part.upper()} of {type_}", ref=str(REF))
    return row


def _check_registers(ops: Operands, slots: list[int], row: Wmma, part: str, type_: str) -> None:
    wanted = row.registers(part, type_)
    if len(slots) != wanted:
        raise PtxSyntaxError(f"{ops.instruction.text}: {part.upper()} has {len(slots)} registers, must have {wanted}")


# ---------------------------------------------------------------------- memory
@operation("wmma.load.{part}.sync.aligned.{layout}.{shape}.{space?}.{type}", part=("a", "b", "c"), layout=LAYOUTS,
           shape=SHAPES, space=SPACES, type=tuple(ELEMENT_BYTES), refs=LOAD_REFS)  # fmt: skip
def wmma_load(ops: Operands, part: str, layout: str, shape: str, space: str | None, type: str) -> Executor:
    """``wmma.load.{a,b,c}.sync.aligned.layout.shape{.ss}.type r, [p]{, stride}``."""
    row = _row_of(ops, shape, part, type)
    slots = ops.dst_vector(0, _register(type))
    _check_registers(ops, slots, row, part, type)
    addresses = _addresses(ops, 1, row, part, layout, type)
    where, width, text = space or "generic", ELEMENT_BYTES[type], ops.instruction.text

    def run(f: Frame) -> None:
        warps = whole_warps(f, text)
        found = [f.launch.memory.load(f, where, one, width)[:, 0] for one in addresses(f)]
        codes = np.stack(found).reshape(len(found), warps, 32)
        for slot, words in zip(slots, _packed(codes, len(slots), type), strict=True):
            f.regs[slot][f.sel] = words.ravel()

    return run


@operation("wmma.store.d.sync.aligned.{layout}.{shape}.{space?}.{type}", layout=LAYOUTS, shape=SHAPES, space=SPACES,
           type=ACCUMULATORS, refs=(documented(f"{FAMILY}: wmma.store"), REF))  # fmt: skip
def wmma_store(ops: Operands, layout: str, shape: str, space: str | None, type: str) -> Executor:
    """``wmma.store.d.sync.aligned.layout.shape{.ss}.type [p], r{, stride}``."""
    row = _row_of(ops, shape, "d", type)
    slots = ops.src_vector(1, _register(type))
    _check_registers(ops, slots, row, "d", type)
    addresses = _addresses(ops, 0, row, "d", layout, type)
    where, text = space or "generic", ops.instruction.text

    def run(f: Frame) -> None:
        warps = whole_warps(f, text)
        codes = _unpacked(_fragment(f, slots, warps), row, "d", type)
        for one, values in zip(addresses(f), codes.reshape(len(codes), -1), strict=True):
            f.launch.memory.store(f, where, one, np.ascontiguousarray(values)[:, None])

    return run


def _addresses(
    ops: Operands, index: int, row: Wmma, part: str, layout: str, type_: str
) -> Callable[[Frame], list[Array]]:
    """For each element of a fragment, its address in every running thread."""
    extent = row.extent(part)
    base = ops.address(index)
    across, along = places(*extent, type_, part not in ("a", "b"))
    # B is held as (n, k), and its rows are K
    if (layout == "col") != (part == "b"):
        across, along, extent = along, across, (extent[1], extent[0])
    given = len(ops) > 2
    ops.expect_count(3 if given else 2)
    stride = ops.src(2, TYPES["u32"]) if given else None
    width, text = ELEMENT_BYTES[type_], ops.instruction.text

    def resolve(f: Frame) -> list[Array]:
        first = base.resolve(f)
        step = np.full(f.count, extent[1]) if stride is None else f.regs[stride][f.sel].astype(np.int64)
        for what, values in (("address", first), ("stride", step)):
            if (values.reshape(-1, 32) != values.reshape(-1, 32)[:, :1]).any():
                f.fault(UndefinedBehavior, f"{text}: the {what} differs between the lanes of a warp", ref=str(REF))
        warps = f.count // 32
        return [
            first + width * (np.tile(outer, warps) * step + np.tile(inner, warps))
            for outer, inner in zip(across, along, strict=True)
        ]

    return resolve


# ---------------------------------------------------------------------- registers
def _register(type_: str) -> PtxType:
    return TYPES[f"b{8 * register_bytes(type_)}"]


def _fragment(f: Frame, slots: list[int], warps: int) -> Array:
    """(registers, warps, 32) words."""
    return np.stack([f.regs[slot][f.sel] for slot in slots]).reshape(len(slots), warps, 32)


def _packed(codes: Array, registers: int, type_: str) -> Array:
    """Element codes (elements, warps, lanes) to words (registers, warps, lanes), repeated where there is room."""
    run = register_bytes(type_) // ELEMENT_BYTES[type_]
    grouped = np.moveaxis(codes.reshape(-1, run, *codes.shape[1:]), 1, -1)
    words = np.ascontiguousarray(grouped).view(f"<u{register_bytes(type_)}")[..., 0]
    return np.tile(words, (registers // len(words), 1, 1))


def _unpacked(words: Array, row: Wmma, part: str, type_: str) -> Array:
    """The inverse of :func:`_packed`; of copies the first counts."""
    rows, columns = row.extent(part)
    codes = np.ascontiguousarray(words)[..., None].view(f"<u{ELEMENT_BYTES[type_]}")
    elements = np.moveaxis(codes, -1, 1).reshape(-1, *words.shape[1:])
    return elements[: rows * columns // 32]


def _matrix(words: Array, row: Wmma, part: str, type_: str) -> Array:
    """Words (registers, 32) of one warp to element codes (rows, columns)."""
    codes = _unpacked(words[:, None], row, part, type_)[:, 0]
    matrix = np.empty(row.extent(part), codes.dtype)
    matrix[places(*matrix.shape, type_, part not in ("a", "b"))] = codes
    return matrix


# ---------------------------------------------------------------------- products
@operation("wmma.mma.sync.aligned.{a_layout}.{b_layout}.{shape}.{d}.{c}", a_layout=LAYOUTS, b_layout=LAYOUTS,
           shape=SHAPES, d=("f16", "f32"), c=("f16", "f32"),
           refs=(documented(f"{FAMILY}: wmma.mma"), REF, ARITHMETIC))  # fmt: skip
def wmma_f16(ops: Operands, a_layout: str, b_layout: str, shape: str, d: str, c: str) -> Executor:
    """``wmma.mma.sync.aligned.alayout.blayout.shape.dtype.ctype d, a, b, c``; A and B are f16."""
    return _product(ops, shape, d, "f16", "f16", c)


@operation("wmma.mma.sync.aligned.{a_layout}.{b_layout}.{shape}.{rounding?}.{satfinite?}.{d}.{a}.{b}.{c}",
           a_layout=LAYOUTS, b_layout=LAYOUTS, shape=SHAPES, rounding=Rounding, d=ACCUMULATORS, a=OPERAND_TYPES,
           b=OPERAND_TYPES, c=ACCUMULATORS, refs=(documented(f"{FAMILY}: wmma.mma"), REF, ARITHMETIC))  # fmt: skip
def wmma_typed(
    ops: Operands, a_layout: str, b_layout: str, shape: str, rounding: Rounding | None, satfinite: bool, d: str,
    a: str, b: str, c: str,
) -> Executor:  # fmt: skip
    """``wmma.mma.sync.aligned.alayout.blayout.shape{.rnd}.dtype.atype.btype.ctype{.satfinite} d, a, b, c``."""
    if rounding is not None and a != "f64":
        raise PtxSyntaxError(f"{ops.instruction.text}: .{rounding.value} is for f64 alone")
    if satfinite and d != "s32":
        raise PtxSyntaxError(f"{ops.instruction.text}: .satfinite is for s32 alone")
    return _product(ops, shape, d, a, b, c, saturate=satfinite, rounding=rounding or Rounding.RN)


def _product(
    ops: Operands,
    shape: str,
    d: str,
    a: str,
    b: str,
    c: str,
    *,
    saturate: bool = False,
    rounding: Rounding = Rounding.RN,
) -> Executor:
    text = ops.instruction.text
    row = _row_of(ops, shape, "a", a)
    if a != b or d not in row.accumulators or c not in row.accumulators:
        raise PtxSyntaxError(f"{text}: A is {a}, B {b}, C {c} and D {d}, must be A and B of one type, C and D "
                             + " or ".join(row.accumulators))  # fmt: skip
    if (d, c) == ("f16", "f32"):
        raise NotModelled(f"{text}: D is f16 and C f32", hint="when C is rounded is not documented", ref=str(REF))
    ops.expect_count(4)
    d_slots = ops.dst_vector(0, _register(d))
    sources = [ops.src_vector(index, _register(type_)) for index, type_ in ((1, a), (2, b), (3, c))]
    for part, type_, slots in zip("dabc", (d, a, b, c), (d_slots, *sources), strict=True):
        _check_registers(ops, slots, row, part, type_)

    def multiply(f: Frame, a_codes: Array, b_codes: Array, c_codes: Array) -> Array:
        if a == "f64":
            double = np.float64
            total = chained_product(a_codes.view(double), b_codes.view(double), c_codes.view(double), rounding)
            return total.view(np.uint64)
        if (d, c) == ("f32", "f16"):
            c_codes = c_codes.view(np.float16).astype(np.float32).view(np.uint32)
        return mma(row.kind, a_codes, b_codes, c_codes.astype(np.uint32), a_type=a, b_type=b, d_type=d,
                   saturate=saturate, arch=f.launch.arch.name)  # fmt: skip

    def run(f: Frame) -> None:
        warps = whole_warps(f, text)
        fragments = [_fragment(f, slots, warps) for slots in sources]
        for warp in range(warps):
            parts = [_matrix(fragment[:, warp], row, part, type_)
                     for fragment, part, type_ in zip(fragments, "abc", (a, b, c), strict=True)]  # fmt: skip
            codes = multiply(f, *parts).astype(f"<u{ELEMENT_BYTES[d]}")[places(row.m, row.n, d, True)]
            threads = f.threads[32 * warp : 32 * warp + 32]
            for slot, words in zip(d_slots, _packed(codes[:, None], len(d_slots), d)[:, 0], strict=True):
                f.regs[slot][threads] = words

    return run
