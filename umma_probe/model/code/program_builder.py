"""From a module's syntax to a decoded :class:`Program`: every fault of the kernel is found before a thread runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from umma_probe.errors import NotModelled, PtxSyntaxError, UmmaProbeError, Where
from umma_probe.model.code.awaiting import await_loads
from umma_probe.model.code.calls import call_graph, call_lists, callee_operand, is_indirect
from umma_probe.model.code.control_flow import immediate_post_dominators
from umma_probe.model.code.decode import Control, Executor, Operation, find_operation
from umma_probe.model.code.intrinsics import intrinsic
from umma_probe.model.code.operands import Operands, SlotTable
from umma_probe.model.code.program import CallTarget, FunctionFrame, ParameterCopy, Program, Step
from umma_probe.model.code.special_registers import SPECIAL_REGISTERS
from umma_probe.model.code.tcgen05_rules import check_one_cta_group
from umma_probe.model.code.variables import Variable, VariableLayout, align_up, parameter_size
from umma_probe.model.numbers.values import TYPES, ptx_type
from umma_probe.ptx import nodes
from umma_probe.ptx.scopes import FlatFunction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.model.threads.frame import Frame

BRANCHES = frozenset({"bra", "brx", "call", "ret", "exit"})


@dataclass
class FunctionScope:
    """One function of the call tree at its place in the program."""

    function: FlatFunction
    base: int
    qualified: dict[str, str]
    """Local name to program-wide name; empty for the entry."""
    labels: dict[str, int] = field(default_factory=dict)

    @property
    def exit_pc(self) -> int:
        """The appended step where all returns of a ``.func`` meet."""
        return self.base + len(self.function.instructions)


@dataclass(frozen=True)
class Refusal:
    """One fault of a kernel that is found while it is decoded."""

    instruction: nodes.Instruction | None
    """None for a fault of the kernel as a whole."""
    error: UmmaProbeError


class ProgramBuilder:
    """Decodes one kernel and the functions that it reaches."""

    def __init__(self, module: nodes.Module, file: str, text: str, module_variables: dict[str, Variable]) -> None:
        self.module = module
        self.file = file
        self.lines = text.splitlines()
        self.module_variables = module_variables
        self._operations: dict[tuple[str, tuple[str, ...]], tuple[Operation, dict[str, Any]]] = {}

    def build(self, entry: str) -> Program:
        """Decode the kernel ``entry``.

        :raises PtxSyntaxError: names or operands are wrong.
        :raises NotModelled: an instruction, modifier or special register is not known; the message lists all.
        """
        program, refusals = self._decode_kernel(entry)
        if refusals:
            raise combined([refusal.error for refusal in refusals])
        check_one_cta_group(program)
        _add_control_flow(program, self._placed)
        await_loads(program)
        return program

    def refusals(self, entry: str) -> list[Refusal]:
        """Everything for which ``build`` would refuse the kernel."""
        try:
            program, refusals = self._decode_kernel(entry)
            if not refusals:
                check_one_cta_group(program)
        except UmmaProbeError as error:
            return [Refusal(None, error)]
        return refusals

    def _decode_kernel(self, entry: str) -> tuple[Program, list[Refusal]]:
        self.graph = call_graph(self.module, entry)
        functions = self.graph.functions
        recursive = self.graph.recursive()
        shared = [v for v in self.module.items if isinstance(v, nodes.VarDecl) and v.space == "shared"]
        layout = VariableLayout.build(functions, self.module_variables, shared)
        scopes = _place(functions)
        registers = {
            scope.qualified.get(name, name): register_bits(register.type)
            for scope in scopes
            for name, register in scope.function.registers.items()
        }
        table = SlotTable(registers, frozenset(layout.variables), frozenset(SPECIAL_REGISTERS))
        self.table, self.layout, self.spaces = table, layout, layout.spaces
        self.scopes = {scope.function.name: scope for scope in scopes}
        self.frames = {name: self._frame(self.scopes[name]) for name in recursive}
        if recursive:
            layout.add_stack()
        self._placed = scopes
        steps, refusals = self._decode_all(scopes)
        entry_function = functions[0]
        program = Program(entry, self.file, self.lines, self.module.files, steps, table, layout,
                          entry_function.params, entry_function.directives)  # fmt: skip
        return program, refusals

    def _decode_all(self, scopes: Sequence[FunctionScope]) -> tuple[list[Step], list[Refusal]]:
        steps: list[Step] = []
        refusals: list[Refusal] = []
        for scope in scopes:
            for instruction in scope.function.instructions:
                try:
                    steps.append(self._decode(instruction, len(steps), scope))
                except UmmaProbeError as error:
                    if error.where is None or not error.where.line:
                        error.where = self._where(instruction)
                    refusals.append(Refusal(instruction, error))
                    steps.append(Step(len(steps), instruction, Control.STRAIGHT, _unreachable, None))
            end = nodes.Instruction("exit" if scope.function.is_entry else "ret", (), ())
            steps.append(Step(len(steps), end, Control.BRANCH, _unreachable, None, scope.function.name))
        return steps, refusals

    def _where(self, instruction: nodes.Instruction) -> Where:
        line = instruction.pos.line
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return Where(self.file, line, instruction.pos.column, text)

    def _frame(self, scope: FunctionScope) -> FunctionFrame:
        """What an activation of a recursive function has of its own."""
        registers = tuple(scope.qualified[name] for name in scope.function.registers)
        start, end = self.layout.local_range(scope.function.name)
        start -= start % 16
        return FunctionFrame(registers, start, align_up(end - start, 16))

    # ------------------------------------------------------------------ one instruction
    def _decode(self, instruction: nodes.Instruction, pc: int, scope: FunctionScope) -> Step:
        operands = Operands(instruction, self.table, self.spaces, scope.qualified)
        guard = None
        if instruction.guard is not None:
            name = nodes.Name(instruction.guard.predicate)
            guard = (operands.source(name, TYPES["pred"]), instruction.guard.negated)
        if instruction.opcode in BRANCHES:
            step = self._decode_branch(instruction, pc, scope, operands, guard)
        else:
            key = (instruction.opcode, instruction.modifiers)
            if key not in self._operations:
                self._operations[key] = find_operation(*key)
            op, slots = self._operations[key]
            step = Step(pc, instruction, op.control, op.factory(operands, **slots), guard, scope.function.name)
        if step.control is Control.STRAIGHT and guard is not None:
            step.execute = guarded(step.execute, *guard)
        step.reads, step.writes = frozenset(operands.reads), frozenset(operands.writes)
        return step

    def _decode_branch(
        self,
        instruction: nodes.Instruction,
        pc: int,
        scope: FunctionScope,
        operands: Operands,
        guard: tuple[int, bool] | None,
    ) -> Step:
        step = Step(pc, instruction, Control.BRANCH, _unreachable, guard, scope.function.name)
        match instruction.opcode:
            case "bra":
                step.targets = (_label_pc(operands[0], scope, instruction),)
            case "brx":
                step.selector = operands.src(0, TYPES["u32"])
                name = operands[1]
                targets = scope.function.branch_targets.get(name.text) if isinstance(name, nodes.Name) else None
                if targets is None:
                    raise PtxSyntaxError(f"{instruction.text}: the list of targets is not declared")
                step.targets = tuple(scope.base + target for target in targets)
            case "ret" if not scope.function.is_entry:
                step.targets = (scope.exit_pc,)
            case "call":
                self._bind_call(step, instruction, scope, operands)
        return step

    def _bind_call(self, step: Step, instruction: nodes.Instruction, scope: FunctionScope, operands: Operands) -> None:
        results, arguments = call_lists(instruction)
        results = [scope.qualified.get(r, r) for r in results]
        arguments = [scope.qualified.get(a, a) for a in arguments]
        callee = callee_operand(instruction)
        names: tuple[str, ...] = (callee.text,)
        if is_indirect(instruction, scope.function):
            step.selector = operands.source(callee, TYPES["u64"])
            names = self._indirect_callees(instruction, scope)
        elif callee.text not in self.scopes:
            step.control = Control.STRAIGHT
            step.execute = intrinsic(callee.text, results, arguments, self.layout)
            return
        for name in names:
            target = self.scopes[name]
            step.callees[self.layout.variables[name].address] = CallTarget(
                name, target.base,
                self._copies(arguments, target, target.function.params, inward=True),
                self._copies(results, target, target.function.results, inward=False),
                self.frames.get(name),
            )  # fmt: skip
        step.targets = tuple(target.pc for target in step.callees.values())

    def _indirect_callees(self, instruction: nodes.Instruction, scope: FunctionScope) -> tuple[str, ...]:
        last = instruction.operands[-1]
        if not isinstance(last, nodes.Name) or last.text not in scope.function.prototypes:
            raise PtxSyntaxError(f"{instruction.text}: an indirect call without .callprototype or .calltargets")
        calls = self.graph.callees[scope.function.name]
        index = next(at for at, known in enumerate(scope.function.instructions) if known is instruction)
        return calls[index]

    def _copies(
        self, names: list[str], callee: FunctionScope, formals: Sequence[nodes.Param], *, inward: bool
    ) -> tuple[ParameterCopy, ...]:
        if len(names) != len(formals):
            raise PtxSyntaxError(f"call of {callee.function.name}: {len(names)} parameters, must be {len(formals)}")
        copies = []
        for name, formal in zip(names, formals, strict=True):
            if name not in self.layout.variables or formal.space != "param":
                raise NotModelled(f"call of {callee.function.name}: parameter {name} is not a .param variable")
            outer = self.layout.variables[name].address
            inner = self.layout.variables[callee.qualified.get(formal.name, formal.name)].address
            source, destination = (outer, inner) if inward else (inner, outer)
            copies.append(ParameterCopy(source, destination, parameter_size(formal)[0]))
        return tuple(copies)


# ---------------------------------------------------------------------- pieces
def _place(functions: Sequence[FlatFunction]) -> list[FunctionScope]:
    scopes = []
    base = 0
    for function in functions:
        qualified: dict[str, str] = {}
        if not function.is_entry:
            local = [*function.registers, *(v.name for v in function.variables)]
            local += [p.name for p in (*function.params, *function.results)]
            qualified = {name: f"{function.name}::{name}" for name in local}
        labels = {name: base + index for name, index in function.labels.items()}
        scopes.append(FunctionScope(function, base, qualified, labels))
        base += len(function.instructions) + 1
    return scopes


def _add_control_flow(program: Program, scopes: Sequence[FunctionScope]) -> None:
    """Fill ``joins`` and ``reconvergence``."""
    steps = program.steps
    joins: set[int] = set()
    program.reconvergence = [None] * len(steps)
    for scope in scopes:
        base, end = scope.base, scope.exit_pc
        successors = [[t - base for t in _successors(steps[pc])] for pc in range(base, end + 1)]
        aborts = frozenset(pc - base for pc in range(base, end + 1) if _aborts(steps[pc]))
        for offset, join in enumerate(immediate_post_dominators(successors, aborts)):
            if join is None or _leaves(steps[base + join]):
                continue
            if len(successors[offset]) > 1 or steps[base + offset].guard is not None:
                program.reconvergence[base + offset] = base + join
                joins.add(base + join)
        joins.update(t for pc in range(base, end + 1) for t in steps[pc].targets)
    program.joins = frozenset(joins)


def _leaves(step: Step) -> bool:
    """Whether the thread ends here. Nobody waits for others in order to end: a barrier behind an early return counts
    the threads that are left (CUDA C++ Programming Guide, "Synchronization Functions": all non-exited threads).
    """
    return (
        step.control is Control.BRANCH
        and step.instruction.opcode in ("ret", "exit")
        and not (step.targets or step.guard)
    )


def _aborts(step: Step) -> bool:
    """Whether the kernel ends here with an error."""
    instruction = step.instruction
    fails = instruction.opcode == "trap" or (
        instruction.opcode == "call"
        and step.control is Control.STRAIGHT
        and callee_operand(instruction).text == "__assertfail"
    )
    return fails and step.guard is None


def _successors(step: Step) -> list[int]:
    opcode = step.instruction.opcode
    following = [step.pc + 1]
    if step.control is not Control.BRANCH or opcode == "call":
        return [] if _aborts(step) else following
    targets = list(step.targets)
    if opcode == "ret" and step.targets and step.targets[0] == step.pc:
        targets = []
    return targets if step.guard is None else targets + [t for t in following if t not in targets]


def guarded(execute: Executor, slot: int, negated: bool) -> Executor:
    """Run ``execute`` for the threads whose predicate holds."""

    def run(f: Frame) -> None:
        taken = f.regs[slot][f.sel]
        if negated:
            taken = ~taken
        if taken.all():
            execute(f)
        elif taken.any():
            sel = f.sel
            f.select(f.threads[taken])
            execute(f)
            f.select(sel)

    return run


def _unreachable(f: Frame) -> None:
    raise AssertionError("the scheduler executes branches")


def register_bits(type_name: str) -> int:
    """The width of a register of that declared type."""
    return ptx_type(type_name).bits


def _label_pc(operand: nodes.Operand, scope: FunctionScope, instruction: nodes.Instruction) -> int:
    if isinstance(operand, nodes.Name) and operand.text in scope.labels:
        return scope.labels[operand.text]
    raise PtxSyntaxError(f"{instruction.text}: the target is not a label of {scope.function.name}")


def combined(problems: list[UmmaProbeError]) -> UmmaProbeError:
    """One error that lists all faults of a kernel: the first in full, the others a line each."""
    first = problems[0]
    if len(problems) == 1:
        return first
    seen = {first.message}
    others = []
    for problem in problems[1:]:
        if problem.message not in seen:
            seen.add(problem.message)
            others.append(f"{problem.where}: {problem.message}")
    if others:
        shown = others[:20]
        more = f"\n  and {len(others) - len(shown)} more" if len(others) > len(shown) else ""
        first.hint = "\n  ".join(part for part in (first.hint, "also:", *shown) if part) + more
    return first
