"""Name resolution: a function's nested scopes become one flat list of instructions.

* A name of the function's own scope stays as it is. A name of an inner scope gets ``@n``, n being the number of the
  scope in the text, so that the ``waitLoop`` and ``complete`` of each inline-assembly block are their own.
* A scope sees the names of the scopes around it; its own hide them. Parameters belong to the function's own scope.
* Registers, variables and target lists are visible from their declaration on; labels in their whole scope. One scope
  declares a name once, whatever it names.
* Names that no scope declares are symbols of the module (kept as written) or special registers.

These are the rules of NVIDIA's assembler; a text that breaks them is refused there too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from umma_probe.errors import PtxSyntaxError
from umma_probe.ptx.nodes import (
    Address,
    Block,
    Directive,
    Element,
    Function,
    Group,
    Instruction,
    Label,
    Name,
    Not,
    Offset,
    Pair,
    RegDecl,
    SymbolInit,
    VarDecl,
    Vector,
)
from umma_probe.ptx.special_registers import SPECIAL_REGISTERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umma_probe.ptx.nodes import Guard, InitValue, Module, Operand, Param, Pos

_MAX_COUNT_DIGITS = 9
"""More digits than any register range has."""

__all__ = ["SPECIAL_REGISTERS", "FlatFunction", "RegType", "resolve"]


@dataclass(frozen=True, slots=True)
class RegType:
    """A register's declared type; ``vector`` is 2 or 4 for ``.reg .v4 .b32``, else 1."""

    type: str
    vector: int = 1


@dataclass(frozen=True, slots=True)
class FlatFunction:
    """A function without scopes: every name in it is unique, every label an index into ``instructions``."""

    name: str
    is_entry: bool
    params: tuple[Param, ...]
    results: tuple[Param, ...]
    registers: dict[str, RegType]
    """The registers that instructions use, in order of first use."""
    variables: tuple[VarDecl, ...]
    """All variables of all scopes, under their unique names."""
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    """Index of the instruction after the label; the number of instructions, if none follows."""
    branch_targets: dict[str, tuple[int, ...]]
    """``.branchtargets`` lists as instruction indices."""
    prototypes: dict[str, Directive]
    """``.callprototype`` and ``.calltargets`` by their label."""
    directives: tuple[Directive, ...]
    """Directives of the function's head."""
    pragmas: tuple[tuple[int, Directive], ...] = ()
    """Directives of the body, each with the index of the next instruction."""


def resolve(function: Function, module: Module) -> FlatFunction:
    """Flatten a function that has a body.

    :param module: gives the symbols that the function may name, and the text for carets.
    :raises PtxSyntaxError: a name is declared twice or not at all, or a label is unknown.
    """
    return _Resolver(function, module).run()


@dataclass(slots=True)
class _Scope:
    suffix: str
    outer: _Scope | None
    names: dict[str, str] = field(default_factory=dict)
    """Declared name to unique name."""
    ranges: dict[str, RegDecl] = field(default_factory=dict)
    """``%r`` of ``%r<5>`` to its declaration."""
    seen: dict[str, str] = field(default_factory=dict)
    """Names already looked up from here; emptied by each declaration."""

    def range_of(self, name: str) -> RegDecl | None:
        """The register range that the name is in."""
        if not self.ranges or not name[-1].isdigit():
            return None
        for cut in range(len(name) - 1, max(len(name) - _MAX_COUNT_DIGITS, 1) - 1, -1):
            digits = name[cut:]
            if not digits.isdigit():
                return None
            declaration = self.ranges.get(name[:cut])
            canonical = digits == "0" or digits[0] != "0"
            if declaration is not None and canonical and int(digits) < (declaration.count or 0):
                return declaration
        return None

    def chain(self) -> Iterable[_Scope]:
        """This scope and those around it, innermost first."""
        scope: _Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


class _Resolver:
    def __init__(self, function: Function, module: Module) -> None:
        self.function = function
        self.module = module
        self.symbols = {item.name for item in module.items if isinstance(item, (VarDecl, Function))}
        self.scope = _Scope("", None)
        self.scope_count = 0
        self.declared: dict[str, RegType] = {}
        self.registers: dict[str, RegType] = {}
        self.variables: list[VarDecl] = []
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.targets: dict[str, tuple[str, ...]] = {}
        self.prototypes: dict[str, Directive] = {}
        self.pragmas: list[tuple[int, Directive]] = []

    def run(self) -> FlatFunction:
        function = self.function
        if function.body is None:
            raise self.error(f"function '{function.name}' has no body", function.pos)
        for param in (*function.results, *function.params):
            unique = self.declare(param.name, param.pos)
            if param.space == "reg":
                self.declared[unique] = RegType(param.type)
        self.body(function.body)
        return FlatFunction(
            name=function.name,
            is_entry=function.is_entry,
            params=function.params,
            results=function.results,
            registers=self.registers,
            variables=tuple(self.variables),
            instructions=tuple(self.instructions),
            labels=self.labels,
            branch_targets={key: tuple(self.labels[n] for n in names) for key, names in self.targets.items()},
            prototypes=self.prototypes,
            directives=function.directives,
            pragmas=tuple(self.pragmas),
        )

    # ------------------------------------------------------------------ scopes
    def block(self, block: Block) -> None:
        self.scope_count += 1
        self.scope = _Scope(f"@{self.scope_count}", self.scope)
        self.body(block)
        assert self.scope.outer is not None
        self.scope = self.scope.outer

    def body(self, block: Block) -> None:
        for statement in block.body:
            if isinstance(statement, Label):
                self.labels[self.declare(statement.name, statement.pos)] = -1
        for statement in block.body:
            if isinstance(statement, Instruction):
                self.instruction(statement)
            elif isinstance(statement, Label):
                self.labels[self.scope.names[statement.name]] = len(self.instructions)
            elif isinstance(statement, Block):
                self.block(statement)
            elif isinstance(statement, RegDecl):
                self.register(statement)
            elif isinstance(statement, VarDecl):
                self.variable(statement)
            elif isinstance(statement, Directive):
                self.directive(statement)

    # ------------------------------------------------------------------ declarations
    def declare(self, name: str, pos: Pos) -> str:
        scope = self.scope
        if name in scope.names or scope.range_of(name) is not None:
            raise self.error(f"'{name}' is declared twice in this scope", pos)
        scope.seen.clear()
        unique = scope.names[name] = name + scope.suffix
        return unique

    def register(self, declaration: RegDecl) -> None:
        if declaration.count is None:
            for name in declaration.names:
                unique = self.declare(name, declaration.pos)
                self.declared[unique] = RegType(declaration.type, declaration.vector)
            return
        scope = self.scope
        (prefix,) = declaration.names
        if prefix in scope.ranges:
            raise self.error(f"'{prefix}<...>' is declared twice in this scope", declaration.pos)
        scope.ranges[prefix] = declaration
        scope.seen.clear()
        for name in scope.names:
            if scope.range_of(name) is declaration:
                raise self.error(f"'{name}' of '{prefix}<{declaration.count}>' is declared twice", declaration.pos)

    def variable(self, variable: VarDecl) -> None:
        init = tuple(self.init_value(value, variable.pos) for value in variable.init)
        unique = self.declare(variable.name, variable.pos)
        self.variables.append(replace(variable, name=unique, init=init))

    def init_value(self, value: InitValue, pos: Pos) -> InitValue:
        return replace(value, symbol=self.name(value.symbol, pos)) if isinstance(value, SymbolInit) else value

    def directive(self, directive: Directive) -> None:
        if directive.name == "branchtargets":
            labels = tuple(self.label(word, directive.pos) for word in directive.words)
            self.targets[self.declare(directive.label, directive.pos)] = labels
        elif directive.label:
            self.prototypes[self.declare(directive.label, directive.pos)] = directive
        else:
            self.pragmas.append((len(self.instructions), directive))

    # ------------------------------------------------------------------ uses
    def instruction(self, instruction: Instruction) -> None:
        guard = instruction.guard and self.guard(instruction.guard)
        if instruction.opcode == "bra" and instruction.operands:
            target = instruction.operands[-1]
            if isinstance(target, Name):
                self.label(target.text, target.pos)
        operands = self.operands(instruction.operands)
        if operands is not instruction.operands or guard is not instruction.guard:
            instruction = replace(instruction, operands=operands, guard=guard)
        self.instructions.append(instruction)

    def guard(self, guard: Guard) -> Guard:
        name = self.name(guard.predicate, guard.pos)
        return guard if name == guard.predicate else replace(guard, predicate=name)

    def operands(self, items: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """The same tuple, if nothing in it changes: most instructions stand in the outermost scope."""
        found = tuple([self.operand(item) for item in items])
        return items if all(new is old for new, old in zip(found, items, strict=True)) else found

    def operand(self, operand: Operand) -> Operand:
        match operand:
            case Name():
                return self.renamed(operand)
            case Address():
                return self.address(operand)
            case Vector(items) | Group(items):
                found = self.operands(items)
                return operand if found is items else replace(operand, items=found)
            case Pair(first, second, pos):
                return Pair(self.operand(first), self.operand(second), pos)
            case Not(inner):
                return replace(operand, operand=self.renamed(inner))
            case Element(base) | Offset(base):
                return replace(operand, base=self.renamed(base))
        return operand

    def renamed(self, name: Name) -> Name:
        unique = self.scope.seen.get(name.text) or self.name(name.text, name.pos)
        return name if unique == name.text else Name(unique, name.pos)

    def address(self, address: Address) -> Address:
        base = self.renamed(address.base) if isinstance(address.base, Name) else address.base
        coords = self.operands(address.coords)
        if base is address.base and coords is address.coords:
            return address
        return Address(base, address.offset, coords, address.pos)

    # ------------------------------------------------------------------ names
    def label(self, name: str, pos: Pos) -> str:
        unique = next((scope.names[name] for scope in self.scope.chain() if name in scope.names), None)
        if unique is None or unique not in self.labels:
            raise self.error(self.undeclared("label", name, self.visible(labels=True)), pos)
        return unique

    def name(self, name: str, pos: Pos) -> str:
        """The unique name, and a note that it is used if it is a register."""
        seen = self.scope.seen
        if name in seen:
            return seen[name]
        unique = self.find(name)
        if unique is None:
            raise self.missing(name, pos)
        if unique in self.declared:
            self.registers.setdefault(unique, self.declared[unique])
        seen[name] = unique
        return unique

    def find(self, name: str) -> str | None:
        for scope in self.scope.chain():
            if name in scope.names:
                return scope.names[name]
            declaration = scope.range_of(name)
            if declaration is not None:
                unique = name + scope.suffix
                self.declared[unique] = RegType(declaration.type, declaration.vector)
                return unique
        return name if name in self.symbols or name in SPECIAL_REGISTERS else None

    # ------------------------------------------------------------------ errors
    def error(self, message: str, pos: Pos) -> PtxSyntaxError:
        return PtxSyntaxError(message, where=self.module.where(pos))

    def missing(self, name: str, pos: Pos) -> PtxSyntaxError:
        if not name.startswith("%"):
            return self.error(self.undeclared("name", name, {*self.visible(labels=False), *self.symbols}), pos)
        prefix = name.rstrip("0123456789")
        for scope in self.scope.chain():
            declaration = scope.ranges.get(prefix)
            if declaration is not None and prefix != name:
                text = f".reg .{declaration.type} {prefix}<{declaration.count}>"
                line = f" of line {declaration.pos.line}" if declaration.pos.line else ""
                return self.error(f"register '{name}' is outside '{text}'{line}", pos)
        return self.error(self.undeclared("register", name, {*self.visible(labels=False), *SPECIAL_REGISTERS}), pos)

    def visible(self, *, labels: bool) -> set[str]:
        return {
            name
            for scope in self.scope.chain()
            for name, unique in scope.names.items()
            if (unique in self.labels) == labels
        }

    @staticmethod
    def undeclared(what: str, name: str, known: Iterable[str]) -> str:
        near = get_close_matches(name, sorted(known), n=3)
        return f"{what} '{name}' is not declared" + (f"; did you mean {', '.join(near)}?" if near else "")
