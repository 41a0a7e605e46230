"""A kernel decoded once: steps, straight runs between control points, reconvergence, variables.

Program counters are step numbers. The entry's steps come first, then those of every ``.func`` that it reaches; each
function has its own names (``function::name``), so one flat register file serves the whole call graph. Of functions
that recur, ``call_frames`` keeps the activations apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from umma_probe.errors import Where
from umma_probe.model.code.decode import Control

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import SlotTable
    from umma_probe.model.code.variables import VariableLayout
    from umma_probe.ptx import nodes


@dataclass(frozen=True, slots=True)
class ParameterCopy:
    """One argument or result of a call, copied within local memory."""

    source: int
    destination: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FunctionFrame:
    """What each activation of a recursive function has of its own."""

    registers: tuple[str, ...]
    start: int
    """Where its variables lie in local memory, of which each activation has a copy."""
    size_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class CallTarget:
    """One function that a call may reach."""

    function: str
    pc: int
    copies_in: tuple[ParameterCopy, ...]
    copies_out: tuple[ParameterCopy, ...]
    frame: FunctionFrame | None
    """None where no thread can have two activations."""


@dataclass
class Step:
    """One decoded instruction."""

    pc: int
    instruction: nodes.Instruction
    control: Control
    execute: Executor
    guard: tuple[int, bool] | None
    """(predicate slot, negated)."""
    function: str = ""
    targets: tuple[int, ...] = ()
    """Branch targets, or the entry of a called function."""
    selector: int = -1
    """The slot of the index of ``brx.idx``, or of the address of an indirect ``call``."""
    callees: dict[int, CallTarget] = field(default_factory=dict)
    """Of a call: function address to function; of a direct one, a single entry."""
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    """Register names."""


@dataclass(frozen=True)
class Run:
    """Steps from a program counter up to the next control point."""

    body: tuple[Executor, ...]
    start: int
    stop: int
    """The program counter after the body."""
    terminator: Step | None
    """The step at ``stop`` if it is control or sync; None if another thread may join there."""


@dataclass
class Program:
    """A decoded kernel. Independent of any launch."""

    name: str
    file: str
    text_lines: list[str]
    source_files: dict[int, str]
    steps: list[Step]
    table: SlotTable
    variables: VariableLayout
    params: tuple[nodes.Param, ...]
    directives: tuple[nodes.Directive, ...]
    joins: frozenset[int] = frozenset()
    reconvergence: list[int | None] = field(default_factory=list)
    _runs: dict[int, Run] = field(default_factory=dict)

    def run_at(self, pc: int) -> Run:
        """The straight run that starts at ``pc``."""
        run = self._runs.get(pc)
        if run is None:
            run = self._runs[pc] = self._make_run(pc)
        return run

    def _make_run(self, start: int) -> Run:
        body: list[Executor] = []
        pc = start
        while pc < len(self.steps):
            step = self.steps[pc]
            if pc != start and pc in self.joins:
                break
            if step.control is not Control.STRAIGHT:
                return Run(tuple(body), start, pc, step)
            body.append(step.execute)
            pc += 1
        return Run(tuple(body), start, pc, None)

    def where(self, pc: int, actor: str = "") -> Where:
        """The PTX place of a step, with the CUDA line where ``.loc`` tells it."""
        instruction = self.steps[pc].instruction
        line = instruction.pos.line
        text = self.text_lines[line - 1] if 0 < line <= len(self.text_lines) else instruction.text
        source = self.source_place(pc)
        who = f"{actor}, from {source}" if actor and source else actor or (f"from {source}" if source else "")
        return Where(self.file, line, instruction.pos.column, text, who)

    def source_place(self, pc: int) -> str:
        """``file:line`` of the CUDA source, or an empty string."""
        source = self.steps[pc].instruction.source
        if source is None:
            return ""
        name = self.source_files.get(source[0], f"file {source[0]}").rsplit("/", 1)[-1]
        return f"{name}:{source[1]}"

    @property
    def required_block(self) -> tuple[int, int, int] | None:
        """``.reqntid``, if there."""
        return _three(self.directives, ".reqntid")

    @property
    def required_cluster(self) -> tuple[int, int, int] | None:
        """``.reqnctapercluster``, if there."""
        return _three(self.directives, ".reqnctapercluster")


def _three(directives: tuple[nodes.Directive, ...], name: str) -> tuple[int, int, int] | None:
    for directive in directives:
        if directive.name.lstrip(".") == name.lstrip("."):
            numbers = [int(w) for w in directive.words if w.isdigit()]
            x, y, z = [*numbers, 1, 1, 1][:3]
            return x, y, z
    return None
