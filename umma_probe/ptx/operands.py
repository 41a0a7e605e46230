"""Operands: registers, constants, addresses, vectors, pairs, call lists.

* ``a.x`` is an element of a vector register, but the special vector registers (``%tid.x``) are plain names.
* Inside brackets an offset may follow in any spelling (``+4``, ``+-4``, `` + 0 ``), and further parts after commas:
  coordinates, descriptors.
* Parentheses are an argument list in ``call`` and a constant expression elsewhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from umma_probe.ptx.constants import constant, integer, is_constant_start
from umma_probe.ptx.nodes import Address, Element, Group, IntImm, Name, Not, Offset, Pair, Sink, Vector
from umma_probe.ptx.special_registers import SPECIAL_VECTORS

if TYPE_CHECKING:
    from umma_probe.ptx.lexer import TokenStream
    from umma_probe.ptx.nodes import Operand

_NAME_START = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$%")
_ELEMENT = re.compile(r"([\w$%]+)\.([xyzwrgba]|b[0-3]|h[01])", re.ASCII)
"""An element of a vector register, or the byte or half of a register that a video instruction takes."""
_MAX_DEPTH = 32


def operand(tokens: TokenStream, *, in_call: bool = False, depth: int = 0) -> Operand:
    """One operand at the cursor.

    :raises PtxSyntaxError: none is there, or it is malformed.
    """
    head = tokens.texts[tokens.index]
    first = head[:1]
    if first in _NAME_START and head != "WARP_SZ":
        return _named(tokens, depth)
    if depth > _MAX_DEPTH:
        raise tokens.error("the operand is nested too deeply")
    if first == "[":
        return _address(tokens, depth)
    if first == "{":
        return _vector(tokens, depth)
    if first == "(" and in_call:
        return _group(tokens, depth)
    if first == "!" and tokens.following[:1] in _NAME_START:
        pos = tokens.position()
        tokens.take()
        return Not(Name(tokens.expect_name("a predicate"), pos), pos)
    if first == "!" or is_constant_start(head):
        return constant(tokens)
    raise tokens.expected("an operand")


def _named(tokens: TokenStream, depth: int) -> Operand:
    index = tokens.index
    pos = tokens.position(index)
    text = tokens.texts[index]
    after = tokens.texts[index + 1]
    tokens.index = index + 1
    result: Operand
    if "." in text or "::" in text:
        result = _dotted(tokens, text, index)
    elif text == "_":
        result = Sink(pos)
    else:
        result = Name(text, pos)
    if after == "," or after == ";" or after == "}":
        return result
    if after == "|":
        tokens.take()
        if depth > _MAX_DEPTH or tokens.head[:1] not in _NAME_START:
            raise tokens.expected("the second register of the pair")
        return Pair(result, _named(tokens, depth + 1), pos)
    if isinstance(result, Name):
        if after in ("+", "-"):
            return Offset(result, integer(tokens), pos)
        if after == "[":
            return _indexed(tokens, result)
    return result


def _dotted(tokens: TokenStream, text: str, index: int) -> Name | Element:
    pos = tokens.position(index)
    match = _ELEMENT.fullmatch(text)
    if match is None:
        raise tokens.error(f"'{text}' is no operand; after a register only .x .y .z .w may stand", index)
    if match[1] in SPECIAL_VECTORS:
        return Name(text, pos)
    return Element(Name(match[1], pos), match[2], pos)


def _indexed(tokens: TokenStream, base: Name) -> Element:
    tokens.take()
    index = integer(tokens)
    tokens.expect("]", "after the array index")
    return Element(base, str(index), base.pos)


def _address(tokens: TokenStream, depth: int) -> Address:
    pos = tokens.position()
    tokens.take()
    head = tokens.head
    base: Name | IntImm
    offset = 0
    if head[:1] in _NAME_START and head != "WARP_SZ":
        base = Name(head, tokens.position())
        if "." in head or "::" in head or head == "_":
            raise tokens.expected("a register, a symbol or a number as the address")
        tokens.take()
        if tokens.head in ("+", "-"):
            offset = integer(tokens)
    elif is_constant_start(head):
        start = tokens.position()
        base = IntImm(integer(tokens), pos=start)
    else:
        raise tokens.expected("a register, a symbol or a number as the address")
    coords: list[Operand] = []
    while tokens.accept(","):
        coords.append(operand(tokens, depth=depth + 1))
    tokens.expect("]", "after the address")
    return Address(base, offset, tuple(coords), pos)


def _vector(tokens: TokenStream, depth: int) -> Vector:
    pos = tokens.position()
    return Vector(_items(tokens, "}", "after the vector", depth, in_call=False), pos)


def _group(tokens: TokenStream, depth: int) -> Group:
    pos = tokens.position()
    if tokens.following == ")":
        tokens.index += 2
        return Group((), pos)
    return Group(_items(tokens, ")", "after the argument list", depth, in_call=True), pos)


def _items(tokens: TokenStream, closing: str, after: str, depth: int, *, in_call: bool) -> tuple[Operand, ...]:
    tokens.index += 1
    items = [operand(tokens, in_call=in_call, depth=depth + 1)]
    while tokens.accept(","):
        items.append(operand(tokens, in_call=in_call, depth=depth + 1))
    tokens.expect(closing, after)
    return tuple(items)
