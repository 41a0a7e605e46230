"""``trap`` and ``brkpt``, and the instructions that change nothing a program could see.

``bra``, ``brx.idx``, ``call``, ``ret`` and ``exit`` are the scheduler's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.errors import DeviceError, IllegalProgram
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.values import TYPES
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.threads.frame import Frame

MISC = "Miscellaneous Instructions"
SYNC = "Parallel Synchronization and Communication Instructions"
MAX_REGISTERS = range(24, 257, 8)
_COOPERATIVE = "it asks for a grid workspace; grid.sync() needs cooperative=True (in a launch case, cooperative: true)"


def _no_effect(f: Frame) -> None:
    """Nothing that a program could see."""


@operation("trap", refs=(documented(f"{MISC}: trap", "abort execution and generate an interrupt to the host CPU"),))
def trap(ops: Operands) -> Executor:
    """``trap``."""
    ops.expect_count(0)

    def run(f: Frame) -> None:
        hint = _COOPERATIVE if f.launch.lacks_workspace else ""
        f.fault(DeviceError, "trap: the kernel ended itself", hint=hint)

    return run


@operation("brkpt", refs=(documented(f"{MISC}: brkpt", "suspends execution"),))
def brkpt(ops: Operands) -> Executor:
    """``brkpt``: with no debugger attached it is a fault."""
    ops.expect_count(0)

    def run(f: Frame) -> None:
        f.fault(DeviceError, "brkpt: the kernel ran into a breakpoint")

    return run


@operation("nanosleep.u32", refs=(documented(f"{MISC}: nanosleep", "a duration in [0, 2*t]: zero is allowed"),))
def nanosleep(ops: Operands) -> Executor:
    """``nanosleep.u32 t``."""
    ops.expect_count(1)
    ops.src(0, TYPES["u32"])
    return _no_effect


@operation("pmevent.{mask?}", refs=(documented(f"{MISC}: pmevent", "triggers performance monitor events"),))
def pmevent(ops: Operands, mask: bool) -> Executor:
    """``pmevent{.mask} a``."""
    ops.expect_count(1)
    ops.immediate(0)
    return _no_effect


@operation(
    "setmaxnreg.{action}.sync.aligned.u32",
    refs=(
        documented(
            f"{MISC}: setmaxnreg", "24 to 256, a multiple of 8; a hint about registers that the model has anyway"
        ),
    ),
    action=("inc", "dec"),
)
def setmaxnreg(ops: Operands, action: str) -> Executor:
    """``setmaxnreg.{inc,dec}.sync.aligned.u32 count``."""
    ops.expect_count(1)
    count = ops.immediate(0)
    if count not in MAX_REGISTERS:
        raise IllegalProgram(f"{ops.instruction.text}: count is {count}, must be a multiple of 8 from 24 to 256")
    return _no_effect


@operation(
    "griddepcontrol.{action}",
    refs=(documented(f"{SYNC}: griddepcontrol", "no effect without dependent or prerequisite grids"),),
    action=("launch_dependents", "wait"),
)
def griddepcontrol(ops: Operands, action: str) -> Executor:
    """``griddepcontrol.{launch_dependents,wait}``: every launch of the model runs alone."""
    ops.expect_count(0)
    return _no_effect
