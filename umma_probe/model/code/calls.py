"""Who calls whom: the functions that a kernel reaches, what an indirect call may reach, and which calls recur.

An indirect call goes through a register, with a prototype (``.callprototype``) or a list (``.calltargets``). It may
reach every function of the list, or every function whose address the module takes and whose parameters have the sizes
of the prototype (PTX ISA, "Control Flow Instructions: call", "Kernel and Function Directives: .callprototype").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from umma_probe.errors import PtxSyntaxError
from umma_probe.model.code.variables import Variable, parameter_size
from umma_probe.model.numbers.values import ptx_type
from umma_probe.ptx import nodes
from umma_probe.ptx.scopes import FlatFunction, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FUNCTION_SPACE = "func"
FUNCTION_BASE = 0x0F00_0000_0000
"""Addresses of functions: outside of every memory, so that a load through one is a fault."""
FUNCTION_STEP = 16

Sizes: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"
"""Bytes of (results, parameters)."""


def function_variables(module: nodes.Module) -> dict[str, Variable]:
    """The addresses of all functions of a module, by name."""
    names = dict.fromkeys(item.name for item in module.items if isinstance(item, nodes.Function) and not item.is_entry)
    return {
        name: Variable(FUNCTION_SPACE, FUNCTION_BASE + FUNCTION_STEP * index, 0) for index, name in enumerate(names)
    }


# ---------------------------------------------------------------------- one call
def callee_operand(instruction: nodes.Instruction) -> nodes.Name:
    """The operand that says what is called: a function, or a register.

    :raises PtxSyntaxError: there is none.
    """
    for operand in instruction.operands:
        if isinstance(operand, nodes.Name):
            return operand
    raise PtxSyntaxError("call: no function is named")


def is_indirect(instruction: nodes.Instruction, function: FlatFunction) -> bool:
    """Whether the call goes through a register."""
    return callee_operand(instruction).text in function.registers


def call_lists(instruction: nodes.Instruction) -> tuple[list[str], list[str]]:
    """(result names, argument names)."""
    before: list[str] = []
    after: list[str] = []
    current = before
    for operand in instruction.operands:
        if isinstance(operand, nodes.Group):
            current.extend(item.text for item in operand.items if isinstance(item, nodes.Name))
        else:
            current = after
    return before, after


# ---------------------------------------------------------------------- the call graph
@dataclass
class CallGraph:
    """The functions that a kernel reaches, the kernel first."""

    functions: list[FlatFunction]
    callees: dict[str, dict[int, tuple[str, ...]]]
    """Function to index of a call in it to the names that the call may reach; only those with a body."""

    def reaches(self, start: str) -> set[str]:
        """Every function that ``start`` may call, itself only if it recurs."""
        seen: set[str] = set()
        pending = [start]
        while pending:
            for names in self.callees[pending.pop()].values():
                fresh = [name for name in names if name not in seen]
                seen.update(fresh)
                pending.extend(fresh)
        return seen

    def recursive(self) -> frozenset[str]:
        """The functions of which a thread may have several activations at once."""
        return frozenset(name for name in self.callees if name in self.reaches(name))


def call_graph(module: nodes.Module, entry: str) -> CallGraph:
    """What ``entry`` reaches.

    :raises PtxSyntaxError: the entry has no body, or a call names nothing.
    """
    bodies = {item.name for item in module.items if isinstance(item, nodes.Function) and item.body is not None}
    if entry not in bodies:
        raise PtxSyntaxError(f"kernel {entry} has no body")
    taken = _Taken(module, bodies)
    graph = CallGraph([], {})
    pending = [entry]
    while pending:
        name = pending.pop(0)
        if name in graph.callees:
            continue
        node = module.function(name)
        assert node is not None
        flat = resolve(node, module)
        graph.functions.append(flat)
        calls = {
            index: tuple(callee for callee in taken.callees(instruction, flat) if callee in bodies)
            for index, instruction in enumerate(flat.instructions)
            if instruction.opcode == "call"
        }
        graph.callees[name] = calls
        pending.extend(callee for names in calls.values() for callee in names)
    return graph


class _Taken:
    """The functions whose address a module takes, found when an indirect call asks for them."""

    def __init__(self, module: nodes.Module, bodies: set[str]) -> None:
        self._module = module
        self._bodies = bodies
        self._names: list[str] | None = None

    def callees(self, instruction: nodes.Instruction, function: FlatFunction) -> Sequence[str]:
        """What a call may reach."""
        if not is_indirect(instruction, function):
            return (callee_operand(instruction).text,)
        last = instruction.operands[-1]
        directive = function.prototypes.get(last.text) if isinstance(last, nodes.Name) else None
        if directive is None:
            return ()  # said where it is decoded
        if directive.name == "calltargets":
            return directive.words
        wanted = prototype_sizes(directive)
        return [name for name in self._taken() if _sizes(self._module.function(name)) == wanted]

    def _taken(self) -> list[str]:
        if self._names is None:
            found = dict.fromkeys(name for name in _named_functions(self._module) if name in self._bodies)
            self._names = list(found)
        return self._names


def _named_functions(module: nodes.Module) -> Iterator[str]:
    """Names that stand where an address can be taken: operands of other instructions than calls, and initialisers."""
    for item in module.items:
        if isinstance(item, nodes.VarDecl):
            yield from (value.symbol for value in item.init if isinstance(value, nodes.SymbolInit))
        elif isinstance(item, nodes.Function) and item.body is not None:
            pending: list[object] = list(item.body.body)
            while pending:
                statement = pending.pop()
                if isinstance(statement, nodes.Block):
                    pending.extend(statement.body)
                elif isinstance(statement, nodes.Instruction) and statement.opcode != "call":
                    yield from (operand.text for operand in statement.operands if isinstance(operand, nodes.Name))


# ---------------------------------------------------------------------- prototypes
def _sizes(function: nodes.Function | None) -> Sizes | None:
    if function is None:
        return None
    results, params = (tuple(parameter_size(p)[0] for p in group) for group in (function.results, function.params))
    return results, params


def prototype_sizes(directive: nodes.Directive) -> Sizes:
    """Of ``.callprototype (.param .b32 _) _ (.param .align 8 .b8 _[16], ...)``."""
    groups: list[list[list[str]]] = []
    depth = 0
    before_name = True
    results: list[list[str]] = []
    for word in directive.words:
        if word == "(":
            depth += 1
            groups.append([[]])
        elif word == ")":
            depth -= 1
        elif depth and word == ",":
            groups[-1].append([])
        elif depth:
            groups[-1][-1].append(word)
        elif word == "_" and before_name:
            before_name = False
            results = groups.pop() if groups else []
    params = groups[-1] if groups else []
    result_sizes, param_sizes = (
        tuple(_declared_size(words) for words in group if words) for group in (results, params)
    )
    return result_sizes, param_sizes


def _declared_size(words: Sequence[str]) -> int:
    types = [word for word in words if word.startswith(".") and word not in (".param", ".reg", ".align", ".ptr")]
    numbers = [int(word) for at, word in enumerate(words) if word.isdigit() and words[at - 1] == "["]
    return ptx_type(types[0].lstrip(".")).bytes * (numbers[0] if numbers else 1)
