"""Register dependence on a ``tcgen05.ld`` or a ``wgmma.mma_async`` in flight.

The result of ``tcgen05.ld`` arrives later; ``tcgen05.wait::ld`` is the documented way to wait. Kernels known to
work use loaded registers with no wait at all, so silicon honours the register dependence: an instruction that
touches such a register makes the load happen first. That is noted for review, and it orders nothing else: other
accesses to those Tensor Memory columns are not waited for.

The same for the accumulator and A registers of ``wgmma.mma_async`` before ``wgmma.wait_group``: NVIDIA's assembler sees
the dependence and serialises the instructions (with a warning). A further ``wgmma.mma_async`` is in order by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from umma_probe.model.code.decode import Control

if TYPE_CHECKING:
    from typing import Any

    from umma_probe.model.code.program import Program, Step
    from umma_probe.model.threads.frame import Frame
    from umma_probe.ptx import nodes


@dataclass(frozen=True)
class _Owner:
    """An instruction that owns registers while it is in flight."""

    opcode: str
    modifier: str
    kind: str
    """Of its operation in flight."""
    rule: str
    message: str

    def issues(self, instruction: nodes.Instruction) -> bool:
        """Whether the instruction is one of these."""
        words = instruction.modifiers
        return instruction.opcode == self.opcode and bool(words) and words[0] == self.modifier

    def owned(self, step: Step) -> frozenset[str]:
        """The registers that are not free until it is waited for."""
        return step.writes if self.kind == "ld" else step.writes | step.reads


_OWNERS = (
    _Owner("tcgen05", "ld", "ld", "ld-register-dependence", "uses the result of tcgen05.ld before tcgen05.wait::ld"),
    _Owner("wgmma", "mma_async", "wgmma", "wgmma-register-dependence",
           "touches registers of a wgmma.mma_async before wgmma.wait_group"),
)  # fmt: skip


def await_loads(program: Program) -> None:
    """Wrap every step that touches a register which some operation in flight of the program may own."""
    for owner in _OWNERS:
        owned: frozenset[str] = frozenset()
        for step in program.steps:
            if owner.issues(step.instruction):
                owned |= owner.owned(step)
        if not owned:
            continue
        for step in program.steps:
            touched = (step.reads | step.writes) & owned
            in_order = owner.kind == "wgmma" and owner.issues(step.instruction)
            if touched and step.control is not Control.BRANCH and not in_order:
                step.execute = _awaiting(step.execute, touched, owner)


def _awaiting(execute: Any, touched: frozenset[str], owner: _Owner) -> Any:
    def run(f: Frame, *strand: Any) -> Any:
        engine = f.launch.engine
        if engine.in_flight[owner.kind]:
            warps = set((f.threads >> 5).tolist())
            needed = [
                op
                for op in engine.pending(frozenset({owner.kind}))
                if op.warp in warps and not op.registers.isdisjoint(touched)
            ]
            if needed:
                f.launch.review(owner.rule, owner.message, int(f.threads[0]))
                engine.require(needed)
        return execute(f, *strand)

    return run
