"""The element-wise opcodes of public Blackwell kernels all have an operation, and wrong spellings have none."""

from __future__ import annotations

from pathlib import Path

import pytest

import umma_probe.model.machine  # noqa: F401  (loads all operations)
from umma_probe.errors import NotModelled
from umma_probe.model.code.decode import OPERATIONS, find_operation
from umma_probe.spec.sources import Evidence

OPCODES = [
    line
    for line in (Path(__file__).parents[3] / "vectors" / "alu_opcodes.txt").read_text().splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("text", OPCODES)
def test_opcode_has_an_operation(text: str) -> None:
    opcode, *words = text.split(".")
    operation, _ = find_operation(opcode, tuple(words))
    assert operation.refs


@pytest.mark.parametrize(
    "text",
    [
        "add.b32",
        "add.sat.u32",
        "sub.u16x2",
        "mul.wide.u64",
        "setp.lt.b32",
        "setp.lo.s32",
        "setp.eq.ftz.bf16",
        "add.ftz.bf16",
        "fma.f32",
        "fma.rn.sat.bf16",
        "max.NaN.f64",
        "mov.f16",
        "ex2.approx.ftz.f16",
        "set.eq.u16.f32",
        "cvt.rzi.f32.s32",
        "cvt.rn.s32.f32",
        "cvt.f64.s32",
        "cvt.rm.f16x2.f32",
        "cvt.rn.e4m3x2.bf16x2",
        "cvt.rn.satfinite.f16x2.e4m3x2",
        "cvt.rn.ue8m0x2.bf16x2",
        "cvt.rn.f32.bf16x2",
        "shl.s32",
        "popc.u32",
        "bfe.b32",
        "selp.f16",
        "cvta.shared.u32",
    ],
)
def test_illegal_spelling_is_refused(text: str) -> None:
    """ptxas refuses each of these, too."""
    opcode, *words = text.split(".")
    with pytest.raises(NotModelled):
        find_operation(opcode, tuple(words))


def test_approximate_operations_are_measured_or_say_how_far_they_may_be_off() -> None:
    for operations in OPERATIONS.values():
        for operation in operations:
            if "approx" in operation.literals or "full" in operation.literals:
                measured = any(ref.evidence is Evidence.MEASURED for ref in operation.refs)
                assert operation.approximate or measured, operation.pattern
