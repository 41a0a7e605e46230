"""Register dependence on a ``tcgen05.ld`` in flight.

The result of ``tcgen05.ld`` arrives later; ``tcgen05.wait::ld`` is the documented way to wait. Kernels known to
work use loaded registers with no wait at all, so silicon honours the register dependence: an instruction that
touches such a register makes the load happen first. That is noted for review, and it orders nothing else: other
accesses to those Tensor Memory columns are not waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.model.decode import Control

if TYPE_CHECKING:
    from typing import Any

    from umma_probe.model.frame import Frame
    from umma_probe.model.program import Program, Step

_LOAD = "ld"


def is_tmem_load(step: Step) -> bool:
    """Whether the step is a ``tcgen05.ld``."""
    words = step.instruction.modifiers
    return step.instruction.opcode == "tcgen05" and bool(words) and words[0] == "ld"


def await_loads(program: Program) -> None:
    """Wrap every step that touches a register which some ``tcgen05.ld`` of the program writes."""
    loaded: frozenset[str] = frozenset()
    for step in program.steps:
        if is_tmem_load(step):
            loaded |= step.writes
    if not loaded:
        return
    for step in program.steps:
        touched = (step.reads | step.writes) & loaded
        if touched and step.control is not Control.BRANCH:
            step.execute = _awaiting(step.execute, touched)


def _awaiting(execute: Any, touched: frozenset[str]) -> Any:
    def run(f: Frame, *strand: Any) -> Any:
        engine = f.launch.engine
        if engine.in_flight[_LOAD]:
            warps = set((f.threads >> 5).tolist())
            needed = [
                op
                for op in engine.pending(frozenset({_LOAD}))
                if op.warp in warps and not op.registers.isdisjoint(touched)
            ]
            if needed:
                f.launch.review(
                    "ld-register-dependence",
                    "uses the result of tcgen05.ld before tcgen05.wait::ld",
                    int(f.threads[0]),
                )
                engine.require(needed)
        return execute(f, *strand)

    return run
