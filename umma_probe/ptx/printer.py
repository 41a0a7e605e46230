"""A tree back to canonical PTX text: one statement a line, numbers in decimal, floats as bit patterns.

``parse(print_module(parse(text))) == parse(text)`` holds for every text, and the printed text is a fixed point.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from umma_probe.ptx.nodes import (
    Address,
    Block,
    Directive,
    Element,
    File,
    FloatImm,
    Function,
    Group,
    Instruction,
    IntImm,
    Label,
    Loc,
    Name,
    Not,
    Offset,
    Pair,
    RegDecl,
    Section,
    Sink,
    SymbolInit,
    VarDecl,
    Vector,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from umma_probe.ptx.nodes import InitValue, Module, ModuleItem, Operand, Param, Statement


def print_module(module: Module) -> str:
    """The whole translation unit as text."""
    major, minor = module.version
    lines = [
        f".version {major}.{minor}",
        f".target {', '.join(module.target)}",
        f".address_size {module.address_size}",
    ]
    for item in module.items:
        lines += ["", *_item(item)]
    return "\n".join(lines) + "\n"


def print_statement(statement: Statement) -> str:
    """One statement; a block takes several lines."""
    return "\n".join(_statement(statement, ""))


def print_operand(operand: Operand) -> str:
    """One operand."""
    match operand:
        case Name(text):
            return text
        case IntImm(value, unsigned):
            return f"{value}U" if unsigned else str(value)
        case FloatImm(bits, width):
            return f"0f{bits:08X}" if width == 32 else f"0d{bits:016X}"
        case Sink():
            return "_"
        case Not(inner):
            return f"!{inner.text}"
        case Element(base, index):
            return f"{base.text}.{index}" if index[0].isalpha() else f"{base.text}[{index}]"
        case Offset(base, offset):
            return f"{base.text}+{offset}"
        case Vector(items):
            return "{" + _operands(items) + "}"
        case Address(base, offset, coords):
            address = print_operand(base) + (f"+{offset}" if offset else "")
            return f"[{', '.join((address, *map(print_operand, coords)))}]"
        case Pair(first, second):
            return f"{print_operand(first)}|{print_operand(second)}"
        case Group(items):
            return f"({_operands(items)})"


def _operands(items: Iterable[Operand]) -> str:
    return ", ".join(map(print_operand, items))


def _dotted(*words: str | None) -> str:
    return " ".join(f".{word}" for word in words if word)


# --------------------------------------------------------------------------- module level
def _item(item: ModuleItem) -> Iterator[str]:
    match item:
        case Function():
            yield from _function(item)
        case Section(name, text):
            yield f".section {name} {{\n{text}\n}}"
        case File(index, name, rest):
            yield f'.file {index} "{name}"' + (f", {rest}" if rest else "")
        case VarDecl():
            yield _variable(item)
        case Directive():
            yield _directive(item)


def _function(function: Function) -> Iterator[str]:
    attributes = [directive for directive in function.directives if directive.name == "attribute"]
    words = [_dotted(*function.linkage, "entry" if function.is_entry else "func")]
    words += [f".attribute({', '.join(directive.words)})" for directive in attributes]
    if function.results:
        words.append(_params(function.results))
    words.append(function.name + _params(function.params))
    yield " ".join(word for word in words if word)
    for directive in function.directives:
        if directive not in attributes:
            yield _directive(directive, semicolon=directive.name == "pragma")
    if function.body is None:
        yield ";"
    else:
        yield from _statement(function.body, "")


def _params(params: Sequence[Param]) -> str:
    return f"({', '.join(map(_param, params))})"


def _param(param: Param) -> str:
    align = None if param.align is None else f"align {param.align}"
    size = "" if param.size is None else f"[{param.size or ''}]"
    return f"{_dotted(param.space, align, param.type, *param.attributes)} {param.name}{size}"


def _directive(directive: Directive, *, semicolon: bool = True) -> str:
    if directive.name == "@@":
        return "@@ " + " ".join(directive.words)
    label = f"{directive.label}: " if directive.label else ""
    between = " " if directive.name == "callprototype" else ", "
    words = between.join(directive.words)
    return f"{label}.{directive.name} {words}".rstrip() + (";" if semicolon else "")


# --------------------------------------------------------------------------- declarations
def _variable(variable: VarDecl) -> str:
    attributes = f".attribute({', '.join(variable.attributes)}) " if variable.attributes else ""
    align = None if variable.align is None else f"align {variable.align}"
    vector = f"v{variable.vector}" if variable.vector > 1 else None
    head = _dotted(*variable.linkage, variable.space)
    dims = "".join(f"[{'' if size is None else size}]" for size in variable.dims)
    shape = (*variable.dims, variable.vector) if variable.vector > 1 else variable.dims
    init = f" = {_initialiser(variable.init, shape)}" if variable.init else ""
    return f"{head} {attributes}{_dotted(align, vector, variable.type)} {variable.name}{dims}{init};"


def _initialiser(values: Sequence[InitValue], shape: tuple[int | None, ...]) -> str:
    if not shape:
        return _init_value(values[0])
    if len(shape) == 1:
        return "{" + ", ".join(map(_init_value, values)) + "}"
    inner = prod(size or 0 for size in shape[1:])
    groups = (values[start : start + inner] for start in range(0, len(values), inner))
    return "{" + ", ".join(_initialiser(group, shape[1:]) for group in groups) + "}"


def _init_value(value: InitValue) -> str:
    if isinstance(value, SymbolInit):
        address = f"generic({value.symbol})" if value.generic else value.symbol
        address += f"+{value.offset}" if value.offset else ""
        return address if value.mask is None else f"{value.mask:#x}({address})"
    return print_operand(value) if isinstance(value, FloatImm) else str(value)


def _registers(declaration: RegDecl) -> str:
    vector = f"v{declaration.vector}" if declaration.vector > 1 else None
    names = ", ".join(declaration.names)
    count = "" if declaration.count is None else f"<{declaration.count}>"
    return f"{_dotted('reg', vector, declaration.type)} {names}{count};"


# --------------------------------------------------------------------------- statements
def _statement(statement: Statement, indent: str) -> Iterator[str]:
    match statement:
        case Instruction():
            yield indent + _instruction(statement)
        case Label(name):
            yield f"{indent[:-1]}{name}:"
        case RegDecl():
            yield indent + _registers(statement)
        case VarDecl():
            yield indent + _variable(statement)
        case Loc(file, line, column, rest):
            yield f"{indent}.loc {file} {line} {column}" + (f", {rest}" if rest else "")
        case Directive():
            yield indent + _directive(statement)
        case Block(body):
            yield indent + "{"
            for inner in body:
                yield from _statement(inner, indent + "\t")
            yield indent + "}"


def _instruction(instruction: Instruction) -> str:
    guard = ""
    if instruction.guard is not None:
        guard = f"@{'!' if instruction.guard.negated else ''}{instruction.guard.predicate} "
    return f"{guard}{instruction.text} {_operands(instruction.operands)}".rstrip() + ";"
