"""Literals and constant expressions.

Rules (PTX ISA, "Constants" and "Constant Expressions"):

* Integers are 64 bits wide: decimal, ``0x``, ``0b`` or octal (leading 0), with an optional ``U``. One without ``U``
  that needs bit 63 counts as unsigned inside an expression. Operators follow C; one unsigned side makes the result
  unsigned.
* ``0f`` and 8 hex digits is a 32-bit pattern, ``0d`` and 16 a 64-bit one; other floating literals are 64 bits wide.
* ``WARP_SZ`` is 32. ``(.s64)`` and ``(.u64)`` are casts.
* Only the sign may be applied to a floating literal here; compilers write no other floating expression.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from umma_probe.ptx.nodes import FloatImm, IntImm

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.ptx.lexer import TokenStream

WARP_SIZE = 32
"""``WARP_SZ``."""

_INTEGER = re.compile(
    r"(?:0[xX](?P<x>[0-9A-Fa-f]+)|0[bB](?P<b>[01]+)|(?P<o>0[0-7]+)|(?P<d>0|[1-9]\d*))(?P<u>U?)", re.ASCII
)
_BASES = {"x": 16, "b": 2, "o": 8, "d": 10}
_FLOAT_BITS = re.compile(r"0[fF](?P<single>[0-9A-Fa-f]{8})|0[dD](?P<double>[0-9A-Fa-f]{16})", re.ASCII)
_DECIMAL = re.compile(r"(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+", re.ASCII)
_WORD_64 = 1 << 64
_MAX_LITERAL_CHARS = 80
_MAX_DEPTH = 64

_Value = tuple[int, bool]
"""Value and whether it is unsigned."""


def _wrap(value: int, unsigned: bool) -> _Value:
    value %= _WORD_64
    if not unsigned and value >= _WORD_64 >> 1:
        value -= _WORD_64
    return value, unsigned


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: int(bool(a) or bool(b))),
    "&&": (2, lambda a, b: int(bool(a) and bool(b))),
    "|": (3, lambda a, b: a | b),
    "^": (4, lambda a, b: a ^ b),
    "&": (5, lambda a, b: a & b),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">": (7, lambda a, b: int(a > b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, lambda a, b: a << b),
    ">>": (8, lambda a, b: a >> b),
    "+": (9, lambda a, b: a + b),
    "-": (9, lambda a, b: a - b),
    "*": (10, lambda a, b: a * b),
    "/": (10, _quotient),
    "%": (10, lambda a, b: a - _quotient(a, b) * b),
}
"""Operator to (precedence, function on the exact values)."""
_COMPARISONS = frozenset({"||", "&&", "==", "!=", "<", "<=", ">", ">="})


def is_constant_start(text: str) -> bool:
    """Whether a constant expression may start with that token (``!`` too, but then it may also be ``!%p``)."""
    return bool(text) and (text[0] in "0123456789-+~(" or text == "WARP_SZ" or (text[0] == "." and text[1:2].isdigit()))


def constant(tokens: TokenStream) -> IntImm | FloatImm:
    """A constant expression at the cursor.

    :raises PtxSyntaxError: it is malformed, out of range, or divides by zero.
    """
    if tokens.following in ",;]})" and tokens.head.isdigit():
        pos = tokens.position()
        return IntImm(*_integer(tokens), pos)
    start = tokens.index
    pos = tokens.position()
    floating = _signed_float(tokens)
    if floating is not None:
        return FloatImm(*floating, pos)
    tokens.index = start
    value, unsigned = _ternary(tokens, 0)
    return IntImm(value, unsigned, pos)


def integer(tokens: TokenStream) -> int:
    """An integer constant expression at the cursor.

    :raises PtxSyntaxError: it is no integer.
    """
    start = tokens.index
    value = constant(tokens)
    if isinstance(value, FloatImm):
        raise tokens.error("expected an integer, found a floating-point constant", start)
    return value.value


# --------------------------------------------------------------------------- literals
def _signed_float(tokens: TokenStream) -> tuple[int, int] | None:
    negative = False
    while tokens.head in ("+", "-"):
        negative ^= tokens.take() == "-"
    text = tokens.head
    if match := _FLOAT_BITS.fullmatch(text):
        width = 32 if match["single"] else 64
        bits = int(match["single"] or match["double"], 16)
    elif _DECIMAL.fullmatch(text):
        width = 64
        bits = int.from_bytes(struct.pack(">d", float(text)), "big")
    else:
        return None
    tokens.take()
    return bits ^ (negative << (width - 1)), width


def _integer(tokens: TokenStream) -> _Value:
    text = tokens.head
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise tokens.expected("a number")
    base = match.lastgroup if match.lastgroup != "u" else next(key for key in _BASES if match[key])
    value = int(match[base or "d"], _BASES[base or "d"]) if len(text) <= _MAX_LITERAL_CHARS else _WORD_64
    if value >= _WORD_64:
        raise tokens.error("an integer constant has at most 64 bits")
    tokens.take()
    return value, bool(match["u"])


# --------------------------------------------------------------------------- expressions
def _ternary(tokens: TokenStream, depth: int) -> _Value:
    condition = _binary(tokens, 1, depth)
    if not tokens.accept("?"):
        return condition
    if depth > _MAX_DEPTH:
        raise tokens.error("the constant expression is nested too deeply")
    chosen = _ternary(tokens, depth + 1)
    tokens.expect(":", "in the constant expression")
    other = _ternary(tokens, depth + 1)
    return chosen if condition[0] else other


def _binary(tokens: TokenStream, lowest: int, depth: int) -> _Value:
    left = _unary(tokens, depth)
    while tokens.head in _BINARY and _BINARY[tokens.head][0] >= lowest:
        at = tokens.index
        operator = tokens.take()
        right = _binary(tokens, _BINARY[operator][0] + 1, depth)
        left = _apply(tokens, at, left, right)
    return left


def _apply(tokens: TokenStream, at: int, left: _Value, right: _Value) -> _Value:
    operator = tokens.texts[at]
    if operator in ("/", "%") and right[0] == 0:
        raise tokens.error("division by zero in a constant expression", at)
    if operator in ("<<", ">>"):
        if not 0 <= right[0] <= 63:
            raise tokens.error(f"shift amount is {right[0]}, must be 0 to 63", at)
        return _wrap(_BINARY[operator][1](_typed(left)[0], right[0]), _typed(left)[1])
    if operator in _COMPARISONS:
        return _BINARY[operator][1](*_common(left, right)[:2]), False
    a, b, unsigned = _common(left, right)
    return _wrap(_BINARY[operator][1](a, b), unsigned)


def _typed(value: _Value) -> _Value:
    return value[0], value[1] or value[0] >= _WORD_64 >> 1


def _common(left: _Value, right: _Value) -> tuple[int, int, bool]:
    unsigned = _typed(left)[1] or _typed(right)[1]
    return _wrap(left[0], unsigned)[0], _wrap(right[0], unsigned)[0], unsigned


def _unary(tokens: TokenStream, depth: int) -> _Value:
    operators: list[str] = []
    while tokens.head in ("-", "+", "~", "!") or _is_cast(tokens):
        operators.append(_cast(tokens) if tokens.head == "(" else tokens.take())
    value = _primary(tokens, depth)
    for operator in reversed(operators):
        value = _apply_unary(operator, value)
    return value


def _apply_unary(operator: str, value: _Value) -> _Value:
    number, unsigned = _typed(value)
    if operator == "-":
        # the lowest signed number is written as the negative of one that alone would be unsigned
        lowest = number == _WORD_64 >> 1 and not value[1]
        return (-number, False) if lowest else _wrap(-number, unsigned)
    if operator == "~":
        return _wrap(~number, unsigned)
    if operator == "!":
        return int(not number), False
    if operator == "+":
        return value
    return _wrap(number, operator == ".u64")


def _is_cast(tokens: TokenStream) -> bool:
    return tokens.head == "(" and tokens.following in (".s64", ".u64")


def _cast(tokens: TokenStream) -> str:
    tokens.take()
    kind = tokens.take()
    tokens.expect(")", "after the cast")
    return kind


def _primary(tokens: TokenStream, depth: int) -> _Value:
    if tokens.accept("WARP_SZ"):
        return WARP_SIZE, False
    if tokens.head != "(":
        return _integer(tokens)
    if depth > _MAX_DEPTH:
        raise tokens.error("the constant expression is nested too deeply")
    tokens.take()
    value = _ternary(tokens, depth + 1)
    tokens.expect(")", "in the constant expression")
    return value
