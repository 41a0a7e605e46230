"""``ldmatrix``, ``stmatrix`` and ``movmatrix``: 8x8 matrices of 16-bit elements, spread over the registers of a warp.

Rules (PTX ISA, "Warp-level Matrix Instructions: ldmatrix"): lane 8i + r gives the address of row r of matrix i, and
each row is 16 bytes, aligned to 16. Lane t holds elements 2(t % 4) and 2(t % 4) + 1 of row t / 4; with ``.trans``
rows and columns change places. ``.sync.aligned``: all 32 lanes execute it together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import PtxSyntaxError, UndefinedBehavior
from umma_probe.model.decode import operation
from umma_probe.model.values import TYPES
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.decode import Executor
    from umma_probe.model.frame import Frame
    from umma_probe.model.operands import AddressOperand, Operands
    from umma_probe.model.values import Array

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
