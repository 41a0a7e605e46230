"""Declarations: registers, variables with initialisers, formal parameters, and directives made of words.

* Several declarators in one statement become one node each; ``.reg`` keeps plain names of one statement together.
* An initialiser is flattened: nested braces follow the dimensions. What it lacks at its end is zero. A group that is
  short inside it is refused: by the PTX ISA ("as in C") zeros fill the group, NVIDIA's assembler moves up what follows.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from umma_probe.errors import unknown_name
from umma_probe.ptx.constants import constant, integer, is_constant_start
from umma_probe.ptx.nodes import Directive, FloatImm, Param, RegDecl, SymbolInit, VarDecl

if TYPE_CHECKING:
    from umma_probe.ptx.lexer import TokenStream
    from umma_probe.ptx.nodes import InitValue, Pos

TYPES = frozenset(
    {
        *("b8", "b16", "b32", "b64", "b128"),
        *("u8", "u16", "u32", "u64"),
        *("s8", "s16", "s32", "s64"),
        *("f16", "f16x2", "bf16", "bf16x2", "tf32", "f32", "f64"),
        *("pred", "texref", "samplerref", "surfref"),
    }
)
"""Types that a declaration may have."""
SPACES = frozenset({"shared", "global", "const", "local", "param", "tex"})
"""State spaces of variables."""
LINKAGES = frozenset({"extern", "visible", "weak", "common"})

_PARAM_ATTRIBUTES = frozenset({"ptr", "const", "global", "local", "shared", "param"})
_SHARED_SUBSPACES = frozenset({"shared::cta", "shared::cluster", "param::entry", "param::func"})
_MAX_COUNT = 1 << 24
"""Bound on register ranges: more is damage, not a program."""
_INCOMPLETE = "write all its elements: the PTX ISA and NVIDIA's assembler disagree about what fills it up"


# --------------------------------------------------------------------------- parts
def _type(tokens: TokenStream) -> str:
    name = tokens.head[1:]
    if tokens.head[:1] != ".":
        raise tokens.expected("a type")
    if name not in TYPES:
        raise tokens.error(unknown_name("type", name, TYPES))
    tokens.take()
    return name


def _vector_length(tokens: TokenStream) -> int:
    if tokens.head in (".v2", ".v4", ".v8"):
        return int(tokens.take()[2:])
    return 1


def _alignment(tokens: TokenStream) -> int | None:
    if not tokens.accept(".align"):
        return None
    at = tokens.index
    value = integer(tokens)
    if value < 1 or value & (value - 1):
        raise tokens.error(f"alignment is {value}, must be a power of two", at)
    return value


def _dimension(tokens: TokenStream) -> int | None:
    """``[n]`` or ``[]``, the opening bracket already taken."""
    if tokens.accept("]"):
        return None
    at = tokens.index
    size = integer(tokens)
    if size < 0:
        raise tokens.error(f"array size is {size}, must not be negative", at)
    tokens.expect("]", "after the array size")
    return size


# --------------------------------------------------------------------------- registers
def registers(tokens: TokenStream, pos: Pos) -> list[RegDecl]:
    """``.reg [.v4] .type name, range<n>, ...;`` with ``.reg`` already taken."""
    vector = _vector_length(tokens)
    type_ = _type(tokens)
    found: list[RegDecl] = []
    plain: list[str] = []
    while True:
        name = tokens.expect_name("a register name")
        if tokens.accept("<"):
            if plain:
                found.append(RegDecl(type_, tuple(plain), None, vector, pos))
                plain = []
            found.append(RegDecl(type_, (name,), _count(tokens), vector, pos))
        else:
            plain.append(name)
        if not tokens.accept(","):
            break
    if plain:
        found.append(RegDecl(type_, tuple(plain), None, vector, pos))
    tokens.expect(";", "after the register declaration")
    return found


def _count(tokens: TokenStream) -> int:
    at = tokens.index
    text = tokens.take()
    if not text.isdigit() or len(text) > 12 or int(text) > _MAX_COUNT:
        raise tokens.error(f"register count must be a decimal number of at most {_MAX_COUNT}", at)
    tokens.expect(">", "after the register count")
    return int(text)


# --------------------------------------------------------------------------- variables
def variables(tokens: TokenStream, linkage: tuple[str, ...], attributes: tuple[str, ...], pos: Pos) -> list[VarDecl]:
    """``.space [.attribute(..)] [.align n] [.v4] .type name[dims] [= init], ...;``, the cursor at the space."""
    space = tokens.take()[1:]
    attributes = (*attributes, *attribute_list(tokens))
    align = _alignment(tokens)
    vector = _vector_length(tokens)
    type_ = _type(tokens)
    found: list[VarDecl] = []
    while True:
        name = tokens.expect_name("a variable name")
        dims: list[int | None] = []
        while tokens.accept("["):
            dims.append(_dimension(tokens))
        init = _initialiser(tokens, tuple(dims), vector) if tokens.accept("=") else ()
        found.append(VarDecl(space, type_, name, tuple(dims), align, vector, init, linkage, attributes, pos))
        if not tokens.accept(","):
            break
    tokens.expect(";", "after the declaration")
    return found


def attribute_list(tokens: TokenStream) -> tuple[str, ...]:
    """``.attribute(.managed, .unified(1, 2))`` as the text of each attribute, without blanks."""
    if not tokens.accept(".attribute"):
        return ()
    tokens.expect("(", "after .attribute")
    found = [""]
    depth = 0
    while tokens.head != ")" or depth:
        text = tokens.take()
        if text in ("", ";", "{", "}"):
            raise tokens.expected("')' after the attributes")
        depth += (text == "(") - (text == ")")
        if text == "," and not depth:
            found.append("")
        else:
            found[-1] += text
    tokens.take()
    return tuple(found)


def _initialiser(tokens: TokenStream, dims: tuple[int | None, ...], vector: int) -> tuple[InitValue, ...]:
    shape = (*dims, vector) if vector > 1 else dims
    if not shape:
        return (_init_value(tokens),)
    if None in shape[1:]:
        raise tokens.error("only the first array size may be left open")
    return tuple(_init_group(tokens, shape))


def _init_group(tokens: TokenStream, shape: tuple[int | None, ...]) -> list[InitValue]:
    """One ``{...}`` of that shape, its groups in a row."""
    start = tokens.index
    tokens.expect("{", "before the initial values")
    values: list[InitValue] = []
    if tokens.accept("}"):
        return values
    inner = prod(size or 0 for size in shape[1:])
    count = 0
    while True:
        if len(shape) == 1:
            values.append(_init_value(tokens))
        elif len(values) < count * inner:
            raise tokens.error("the group before this one is incomplete", hint=_INCOMPLETE)
        else:
            values += _init_group(tokens, shape[1:])
        count += 1
        if not tokens.accept(","):
            break
    tokens.expect("}", "after the initial values")
    if shape[0] is not None and count > shape[0]:
        raise tokens.error(f"initialiser has {count} elements, must have at most {shape[0]}", start)
    return values


def _init_value(tokens: TokenStream) -> InitValue:
    if tokens.head == "generic" or not (is_constant_start(tokens.head) or tokens.head == "!"):
        return _symbol_address(tokens, None)
    value = constant(tokens)
    if isinstance(value, FloatImm):
        return value
    if tokens.accept("("):
        masked = _symbol_address(tokens, value.value)
        tokens.expect(")", "after the masked address")
        return masked
    return value.value


def _symbol_address(tokens: TokenStream, mask: int | None) -> SymbolInit:
    generic = tokens.head == "generic" and tokens.following == "("
    if generic:
        tokens.index += 2
    symbol = tokens.expect_name("an initial value")
    if generic:
        tokens.expect(")", "after the symbol")
    offset = integer(tokens) if tokens.head in ("+", "-") else 0
    return SymbolInit(symbol, generic, offset, mask)


# --------------------------------------------------------------------------- parameters
def parameters(tokens: TokenStream) -> tuple[Param, ...]:
    """``( .param .u64 .ptr .global .align 8 name, .param .align 64 .b8 name[128], .reg .b32 name )``."""
    tokens.expect("(", "before the parameters")
    found: list[Param] = []
    if tokens.accept(")"):
        return ()
    found.append(_parameter(tokens))
    while tokens.accept(","):
        found.append(_parameter(tokens))
    tokens.expect(")", "after the parameters")
    return tuple(found)


def _parameter(tokens: TokenStream) -> Param:
    pos = tokens.position()
    if tokens.head not in (".param", ".reg"):
        raise tokens.expected(".param or .reg")
    space = tokens.take()[1:]
    align = _alignment(tokens)
    type_ = _type(tokens)
    attributes: list[str] = []
    while tokens.head[:1] == ".":
        if tokens.head == ".align":
            attributes.append(f"align {_alignment(tokens)}")
        elif tokens.head[1:] in _PARAM_ATTRIBUTES:
            attributes.append(tokens.take()[1:])
        else:
            raise tokens.error(unknown_name("parameter attribute", tokens.head[1:], _PARAM_ATTRIBUTES))
    name = tokens.expect_name("a parameter name")
    size = (_dimension(tokens) or 0) if tokens.accept("[") else None
    return Param(type_, name, size, align, tuple(attributes), space, pos)


# --------------------------------------------------------------------------- directives
def word_list(tokens: TokenStream) -> tuple[str, ...]:
    """Names, numbers and strings with commas between; signs are kept with their number. It may be empty."""
    words: list[str] = []
    while _is_word(tokens.head):
        words.append(tokens.take())
        if not tokens.accept(","):
            break
        if not _is_word(tokens.head):
            raise tokens.expected("another word after the comma")
    return tuple(words)


def _is_word(text: str) -> bool:
    return bool(text) and (text[0].isalnum() or text[0] in '"_$%')


def directive(tokens: TokenStream, label: str = "") -> Directive:
    """``.name words`` at the cursor; the semicolon, if one belongs there, is left."""
    pos = tokens.position()
    name = tokens.take()[1:]
    return Directive(name, word_list(tokens), label, pos)
