"""tcgen05.ld.red: a load that also gives each thread the minimum or maximum of the words of its lane.

Floating point as ``min`` and ``max``: a NaN loses against a number, with ``.NaN`` it wins; -0 is less than +0;
``.abs`` compares and returns magnitudes. It exists on the targets of ``TARGETS``. With ``.16x32bx2`` two threads share
a lane; whether each reduces its own half or both the whole lane is not documented, so that shape is not modelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import IllegalProgram, NotModelled, PtxSyntaxError
from umma_probe.model.code.decode import operation
from umma_probe.model.ops.tcgen05_ldst import B32, REPEATS, check_registers, decode_access, load_executor
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame

REFS = (documented("tcgen05.ld", ".red"),)
TARGETS = ("sm_103a", "sm_103f", "sm_110a", "sm_110f")
NAN = np.uint32(0x7FFF_FFFF)
SIGN = np.uint32(0x8000_0000)


@operation("tcgen05.ld.red.sync.aligned.{shape}.{num}.{op}.{abs?}.{NaN?}.{type}", shape=("32x32b", "16x32bx2"),
           num=REPEATS, op=("min", "max"), type=("f32", "u32", "s32"), refs=REFS)  # fmt: skip
def load_reduced(ops: Operands, shape: str, num: int, op: str, abs: bool, NaN: bool, type: str) -> Executor:
    """Registers and their reduction <- Tensor Memory."""
    if shape == "16x32bx2":
        raise NotModelled("tcgen05.ld.red.16x32bx2", hint="which columns a thread reduces is not documented",
                          ref=str(REFS[0]))  # fmt: skip
    if num < 2:
        raise PtxSyntaxError(f"{ops.instruction.text}: .x{num}, must be at least .x2")
    if type != "f32" and (abs or NaN):
        raise PtxSyntaxError(f"{ops.instruction.text}: .abs and .NaN are for .f32")
    access = decode_access(ops, "tcgen05.ld.red", shape, num, False, 2)
    ops.expect_count(3)
    slots = ops.dst_vector(0, B32)
    check_registers(access, slots, ops)
    slots = [*slots, ops.dst(1, B32)]

    def reduce(words: Array) -> Array:
        return reduction(words, op == "max", type, abs, NaN)

    issue = load_executor(access, slots, frozenset(ops.writes), reduce)

    def run(f: Frame) -> None:
        if f.launch.arch.name not in TARGETS:
            f.fault(IllegalProgram, f"tcgen05.ld.red on {f.launch.arch.name}, must be {' or '.join(TARGETS)}",
                    ref=str(REFS[0]))  # fmt: skip
        issue(f)

    return run


def reduction(words: Array, largest: bool, type_: str, magnitude: bool, nan_wins: bool) -> Array:
    """Minimum or maximum over the registers: (registers, n) words to (n,) words."""
    if type_ != "f32":
        typed = np.ascontiguousarray(words).view(np.int32 if type_ == "s32" else np.uint32)
        extreme = typed.max(axis=0) if largest else typed.min(axis=0)
        return np.asarray(extreme.view(np.uint32))
    if magnitude:
        words = words & ~SIGN
    nan = (words & ~SIGN) > 0x7F80_0000
    # the order of the numbers is that of these unsigned keys
    keys = np.where(words & SIGN, ~words, words | SIGN)
    keys = np.where(nan, np.uint32(0 if largest else 0xFFFF_FFFF), keys)
    key = keys.max(axis=0) if largest else keys.min(axis=0)
    value = np.where(key & SIGN, key & ~SIGN, ~key)
    lost = nan.any(axis=0) if nan_wins else nan.all(axis=0)
    result: Array = np.where(lost, NAN, value)
    return result
