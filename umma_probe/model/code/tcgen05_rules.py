"""Rules about tcgen05 that hold for a kernel as a whole; NVIDIA's assembler refuses a program that breaks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.errors import IllegalProgram, PtxSyntaxError
from umma_probe.spec.sources import Evidence, Ref, documented

if TYPE_CHECKING:
    from umma_probe.model.code.program import Program, Step
    from umma_probe.spec.machine import Arch

ONE_GROUP_REF = documented("tcgen05.mma, .cta_group", "all tcgen05 instructions of a kernel have the same value")
TARGET_REF = Ref("assembler", "tcgen05 per target", Evidence.MEASURED, "which targets accept the family")


def check_one_cta_group(program: Program) -> None:
    """All tcgen05 instructions of a kernel have the same ``.cta_group``; NVIDIA's assembler refuses a mix.

    :raises PtxSyntaxError: they have not.
    """
    first: Step | None = None
    for step in program.steps:
        group = _group_of(step)
        if group is None:
            continue
        if first is None:
            first = step
        elif group != _group_of(first):
            place = program.where(first.pc)
            raise PtxSyntaxError(
                f"{step.instruction.text}: has .{group}, must have .{_group_of(first)} as the first tcgen05 "
                f"instruction of the kernel (line {place.line})", where=program.where(step.pc), ref=str(ONE_GROUP_REF)
            )  # fmt: skip


def _group_of(step: Step) -> str | None:
    if step.instruction.opcode != "tcgen05":
        return None
    return next((word for word in step.instruction.modifiers if word.startswith("cta_group::")), None)


def check_target(program: Program, arch: Arch) -> None:
    """Only targets with Tensor Memory have tcgen05 instructions.

    :raises IllegalProgram: the kernel has one and the target has no Tensor Memory.
    """
    if arch.has_tmem:
        return
    for step in program.steps:
        if step.instruction.opcode == "tcgen05":
            raise IllegalProgram(
                f"{step.instruction.text}: {arch.name} ({arch.gpu}) has no Tensor Memory",
                where=program.where(step.pc), hint="run it as sm_100a", ref=str(TARGET_REF)
            )  # fmt: skip
