"""``ldmatrix``, ``stmatrix`` and ``movmatrix``: matrices of 16- and 8-bit elements, spread over a warp's registers.

Rules (PTX ISA, "Warp-level Matrix Instructions: ldmatrix"): lane 8i + r gives the address of row r of matrix i, and
each row is 16 bytes, aligned to 16. Lane t holds elements 2(t % 4) and 2(t % 4) + 1 of row t / 4; with ``.trans``
rows and columns change places. ``.sync.aligned``: all 32 lanes execute it together.

8-bit elements (sm_100 and later) are always transposed: what an address points at are the 16 bytes of one column. Lane
t of a 16x8 matrix (``stmatrix``) holds rows t / 4 and t / 4 + 8 of columns 2(t % 4) and 2(t % 4) + 1 in one register,
the neighbours of a row in neighbouring bytes. Of a 16x16 matrix (``ldmatrix``) it holds columns 4(t % 4) to
4(t % 4) + 3 of these rows, two columns a register. The places are figures in the PTX ISA; they follow CuTe's copy
traits. The forms that widen 4- and 6-bit elements are missing: where these come to lie in their bytes is a figure too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import IllegalProgram, PtxSyntaxError, UndefinedBehavior
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.values import TYPES
from umma_probe.spec.sources import documented, header

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import AddressOperand, Operands
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame

FAMILY = "Warp-level Matrix Instructions"
B32 = TYPES["b32"]
COUNTS = {"x1": 1, "x2": 2, "x4": 4}
SPACES = {"shared": "shared", "shared::cta": "shared"}


def whole_warps(f: Frame, text: str) -> int:
    """The number of warps that execute together.

    :raises UndefinedBehavior: a warp is not whole.
    """
    for _, positions in f.warps():
        if len(positions) != 32:
            f.fault(
                UndefinedBehavior,
                f"{text}: {len(positions)} lanes of the warp execute it, all 32 must",
                int(f.threads[positions[0]]),
                hint="issue it from code that the whole warp reaches together",
            )
    return f.count // 32


def _rows(f: Frame, address: AddressOperand, count: int) -> Array:
    """Row addresses (warps x count x 8), flattened; selects the lanes that give them."""
    addresses = address.resolve(f).reshape(-1, 32)[:, : 8 * count]
    f.select(f.threads.reshape(-1, 32)[:, : 8 * count].ravel())
    return np.ascontiguousarray(addresses).ravel()


def spread(matrices: Array) -> Array:
    """Matrices (..., 8, 8) of 16-bit words to registers (..., 32): lane t holds two neighbours of row t / 4."""
    words = np.ascontiguousarray(matrices, np.uint16)
    return words.reshape(*words.shape[:-2], 32, 2).view(np.uint32)[..., 0]


def collect(registers: Array) -> Array:
    """Registers (..., 32) to matrices (..., 8, 8): the inverse of :func:`spread`."""
    words = np.ascontiguousarray(registers, np.uint32).view(np.uint16)
    return words.reshape(*registers.shape[:-1], 8, 8)


def _check_registers(ops: Operands, registers: list[int], count: int) -> None:
    if len(registers) != count:
        raise PtxSyntaxError(f"{ops.instruction.text}: has {len(registers)} registers, must have {count}")


@operation(
    "ldmatrix.sync.aligned.m8n8.{count}.{trans?}.{space?}.b16",
    refs=(documented(f"{FAMILY}: ldmatrix"),),
    count=COUNTS,
    space=SPACES,
)
def ldmatrix(ops: Operands, count: int, trans: bool, space: str | None) -> Executor:
    """``ldmatrix.sync.aligned.m8n8.xN{.trans}.shared.b16 {r, ...}, [p]``."""
    ops.expect_count(2)
    targets, address = ops.dst_vector(0, B32), ops.address(1)
    _check_registers(ops, targets, count)
    where, text = space or "generic", ops.instruction.text

    def run(f: Frame) -> None:
        warps = whole_warps(f, text)
        sel = f.sel
        rows = _rows(f, address, count)
        matrices = f.launch.memory.load(f, where, rows, 2, 8).reshape(warps, count, 8, 8)
        f.select(sel)
        registers = spread(matrices.swapaxes(2, 3) if trans else matrices)
        for i, target in enumerate(targets):
            f.regs[target][sel] = registers[:, i].ravel()

    return run


@operation(
    "stmatrix.sync.aligned.m8n8.{count}.{trans?}.{space?}.b16",
    refs=(documented(f"{FAMILY}: stmatrix"),),
    count=COUNTS,
    space=SPACES,
)
def stmatrix(ops: Operands, count: int, trans: bool, space: str | None) -> Executor:
    """``stmatrix.sync.aligned.m8n8.xN{.trans}.shared.b16 [p], {r, ...}``."""
    ops.expect_count(2)
    address, sources = ops.address(0), ops.src_vector(1, B32)
    _check_registers(ops, sources, count)
    where, text = space or "generic", ops.instruction.text

    def run(f: Frame) -> None:
        warps = whole_warps(f, text)
        sel = f.sel
        registers = np.stack([f.regs[source][sel].reshape(warps, 32) for source in sources], axis=1)
        matrices = collect(registers)
        if trans:
            matrices = matrices.swapaxes(2, 3)
        rows = _rows(f, address, count)
        f.launch.memory.store(f, where, rows, np.ascontiguousarray(matrices).reshape(-1, 8))
        f.select(sel)

    return run


# ---------------------------------------------------------------------- 8-bit elements
def _spread_bytes(columns: Array) -> Array:
    """Columns (..., c, 16 rows) of bytes to registers (..., c / 8, 32)."""
    *outer, count, rows = columns.shape
    # column = lane in four, register, neighbour; row = upper half, lane / 4
    pairs = columns.reshape(*outer, 4, count // 8, 2, 2, rows // 2)
    lanes = np.moveaxis(pairs, (-5, -4, -3, -2, -1), (-3, -5, -1, -2, -4))
    return np.ascontiguousarray(lanes).reshape(*outer, count // 8, 128).view(np.uint32)


def _collect_bytes(registers: Array) -> Array:
    """Registers (..., 32) of 16x8 matrices to columns (..., 8, 16 rows)."""
    lanes = np.ascontiguousarray(registers, np.uint32).view(np.uint8).reshape(*registers.shape[:-1], 8, 4, 2, 2)
    columns = np.moveaxis(lanes, (-4, -3, -2, -1), (-1, -4, -2, -3))
    return np.ascontiguousarray(columns).reshape(*registers.shape[:-1], 8, 16)


def _require_blackwell(f: Frame, text: str) -> None:
    if f.launch.arch.compute_capability[0] < 10:
        f.fault(IllegalProgram, f"{text}: 8-bit matrices on {f.launch.arch.name}, must be sm_100a or later")


@operation(
    "ldmatrix.sync.aligned.m16n16.{count}.trans.{space?}.b8",
    refs=(documented(f"{FAMILY}: ldmatrix"), header("copy_traits_sm100.hpp, SM100_U8x8_LDSM_T, SM100_U8x16_LDSM_T")),
    count={"x1": 1, "x2": 2},
    space=SPACES,
)
def ldmatrix_b8(ops: Operands, count: int, space: str | None) -> Executor:
    """``ldmatrix.sync.aligned.m16n16.xN.trans.shared.b8 {r, ...}, [p]``: two registers a matrix."""
    ops.expect_count(2)
    targets, address = ops.dst_vector(0, B32), ops.address(1)
    _check_registers(ops, targets, 2 * count)
    where, text = space or "generic", ops.instruction.text

    def run(f: Frame) -> None:
        _require_blackwell(f, text)
        warps = whole_warps(f, text)
        sel = f.sel
        rows = _rows(f, address, 2 * count)
        columns = f.launch.memory.load(f, where, rows, 8, 2).view(np.uint8).reshape(warps, count, 16, 16)
        f.select(sel)
        registers = _spread_bytes(columns).reshape(warps, 2 * count, 32)
        for i, target in enumerate(targets):
            f.regs[target][sel] = registers[:, i].ravel()

    return run


@operation(
    "stmatrix.sync.aligned.m16n8.{count}.trans.{space?}.b8",
    refs=(documented(f"{FAMILY}: stmatrix"), header("copy_traits_sm100.hpp, SM100_U8x16_STSM_T")),
    count=COUNTS,
    space=SPACES,
)
def stmatrix_b8(ops: Operands, count: int, space: str | None) -> Executor:
    """``stmatrix.sync.aligned.m16n8.xN.trans.shared.b8 [p], {r, ...}``."""
    ops.expect_count(2)
    address, sources = ops.address(0), ops.src_vector(1, B32)
    _check_registers(ops, sources, count)
    where, text = space or "generic", ops.instruction.text

    def run(f: Frame) -> None:
        _require_blackwell(f, text)
        warps = whole_warps(f, text)
        sel = f.sel
        registers = np.stack([f.regs[source][sel].reshape(warps, 32) for source in sources], axis=1)
        rows = _rows(f, address, count)
        f.launch.memory.store(f, where, rows, _collect_bytes(registers).reshape(-1, 16))
        f.select(sel)

    return run


@operation("movmatrix.sync.aligned.m8n8.trans.b16", refs=(documented(f"{FAMILY}: movmatrix"),))
def movmatrix(ops: Operands) -> Executor:
    """``movmatrix.sync.aligned.m8n8.trans.b16 d, a``: the transpose of a matrix in registers."""
    ops.expect_count(2)
    target, source = ops.dst(0, B32), ops.src(1, B32)
    text = ops.instruction.text

    def run(f: Frame) -> None:
        warps = whole_warps(f, text)
        matrices = collect(f.regs[source][f.sel].reshape(warps, 32))
        f.regs[target][f.sel] = spread(matrices.swapaxes(1, 2)).ravel()

    return run
