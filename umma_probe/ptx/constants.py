"""Literals and constant expressions.

Rules (PTX ISA, "Constants" and "Constant Expressions"; where it is silent, what NVIDIA's assembler computes):

* Integers are 64 bits wide: decimal, ``0x``, ``0b`` or octal (leading 0), with an optional ``U``. One without ``U``
  that needs bit 63 counts as unsigned inside an expression.
* Operators follow C, and one unsigned side makes the result unsigned. ``~ & | ^ %`` take both sides as unsigned. Shifts
  keep the type of their left side and count modulo 64 (the assembler; the document does not say).
* ``0f`` and 8 hex digits is a 32-bit pattern, ``0d`` and 16 a 64-bit one; both stand alone, without a sign. Decimal
  floating literals are 64 bits wide and know ``+ - * /`` and comparisons among themselves.
* ``WARP_SZ`` is 32. ``(.s64)`` and ``(.u64)`` are casts.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from umma_probe.ptx.nodes import FloatImm, IntImm

if TYPE_CHECKING:
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
_ENDS = frozenset({",", ";", "]", "}", ")", ""})

_Value = tuple[int, bool] | float
"""An integer and whether it is unsigned, or a floating-point number."""


def _wrap(value: int, unsigned: bool) -> tuple[int, bool]:
    value %= _WORD_64
    if not unsigned and value >= _WORD_64 >> 1:
        value -= _WORD_64
    return value, unsigned


def _typed(number: int, unsigned: bool) -> tuple[int, bool]:
    """With the flag set where the number itself needs bit 63."""
    return number, unsigned or number >= _WORD_64 >> 1


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")
_PRECEDENCE = {operator: level for level, row in enumerate(_LEVELS, start=1) for operator in row.split()}
_LOGIC: dict[str, Callable[[float, float], bool]] = {
    "||": lambda a, b: bool(a) or bool(b),
    "&&": lambda a, b: bool(a) and bool(b),
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
}
_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "%": lambda a, b: a % b,
}
_FLOATING: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


def is_constant_start(text: str) -> bool:
    """Whether a constant expression may start with that token (``!`` too, but then it may also be ``!%p``)."""
    return bool(text) and (text[0] in "0123456789-+~(" or text == "WARP_SZ" or (text[0] == "." and text[1:2].isdigit()))


def constant(tokens: TokenStream) -> IntImm | FloatImm:
    """A constant expression at the cursor.

    :raises PtxSyntaxError: it is malformed, out of range, or divides by zero.
    """
    pos = tokens.position()
    text = tokens.head
    if text.isdigit() and tokens.following in _ENDS:
        return IntImm(*_integer(tokens), pos)
    if match := _FLOAT_BITS.fullmatch(text):
        tokens.take()
        single = match["single"]
        return FloatImm(int(single or match["double"], 16), 32 if single else 64, pos)
    value = _ternary(tokens, 0)
    if isinstance(value, float):
        return FloatImm(int.from_bytes(struct.pack(">d", value), "big"), 64, pos)
    return IntImm(*value, pos)


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
def _floating(tokens: TokenStream) -> float:
    value = float(tokens.head)
    if math.isinf(value):
        raise tokens.error("the floating-point constant does not fit into 64 bits")
    tokens.take()
    return value


def _integer(tokens: TokenStream) -> tuple[int, bool]:
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
    at = tokens.index
    condition = _binary(tokens, 1, depth)
    if tokens.head != "?":
        return condition
    number = _integral(tokens, at, condition)[0]
    if depth > _MAX_DEPTH:
        raise tokens.error("the constant expression is nested too deeply")
    tokens.take()
    chosen = _ternary(tokens, depth + 1)
    tokens.expect(":", "in the constant expression")
    other = _ternary(tokens, depth + 1)
    return chosen if number else other


def _binary(tokens: TokenStream, lowest: int, depth: int) -> _Value:
    left = _unary(tokens, depth)
    while _PRECEDENCE.get(tokens.head, 0) >= lowest:
        at = tokens.index
        operator = tokens.take()
        right = _binary(tokens, _PRECEDENCE[operator] + 1, depth)
        left = _apply(tokens, at, left, right)
    return left


def _integral(tokens: TokenStream, at: int, value: _Value) -> tuple[int, bool]:
    if isinstance(value, float):
        raise tokens.error("an integer is needed here in the constant expression", at)
    return value


def _apply(tokens: TokenStream, at: int, left: _Value, right: _Value) -> _Value:
    operator = tokens.texts[at]
    if isinstance(left, float) and isinstance(right, float):
        return _apply_floating(tokens, at, left, right)
    a, b = _typed(*_integral(tokens, at, left)), _typed(*_integral(tokens, at, right))
    if operator in ("/", "%") and b[0] == 0:
        raise tokens.error("division by zero in a constant expression", at)
    if operator == "<<":
        return _wrap(a[0] << b[0] % 64, a[1])
    if operator == ">>":
        return _wrap(a[0] >> b[0] % 64, a[1])
    unsigned = a[1] or b[1] or operator in _UNSIGNED
    x, y = _wrap(a[0], unsigned)[0], _wrap(b[0], unsigned)[0]
    if operator in _LOGIC:
        return int(_LOGIC[operator](x, y)), False
    return _wrap((_UNSIGNED if operator in _UNSIGNED else _ARITHMETIC)[operator](x, y), unsigned)


def _apply_floating(tokens: TokenStream, at: int, left: float, right: float) -> _Value:
    operator = tokens.texts[at]
    if operator in _LOGIC and operator not in ("||", "&&"):
        return int(_LOGIC[operator](left, right)), False
    if operator not in _FLOATING:
        raise tokens.error(f"'{operator}' needs integers", at)
    if operator == "/" and right == 0:
        raise tokens.error("division by zero in a constant expression", at)
    return _FLOATING[operator](left, right)


def _unary(tokens: TokenStream, depth: int) -> _Value:
    operators: list[int] = []
    while tokens.head in ("-", "+", "~", "!") or _is_cast(tokens):
        operators.append(tokens.index)
        if tokens.take() == "(":
            tokens.take()
            tokens.expect(")", "after the cast")
    value = _primary(tokens, depth)
    for at in reversed(operators):
        value = _apply_unary(tokens, at, value)
    return value


def _is_cast(tokens: TokenStream) -> bool:
    return tokens.head == "(" and tokens.following in (".s64", ".u64")


def _apply_unary(tokens: TokenStream, at: int, value: _Value) -> _Value:
    operator = tokens.texts[at]
    if operator == "+":
        return value
    if isinstance(value, float) and operator == "-":
        return -value
    number, flag = _integral(tokens, at, value)
    if operator == "-":
        # the lowest signed number is written as the negative of one that alone would be unsigned
        lowest = number == _WORD_64 >> 1 and not flag
        return (-number, False) if lowest else _wrap(-number, _typed(number, flag)[1])
    if operator == "~":
        return _wrap(~number, True)
    if operator == "!":
        return int(not number), False
    return _wrap(number, tokens.texts[at + 1] == ".u64")


def _primary(tokens: TokenStream, depth: int) -> _Value:
    if tokens.accept("WARP_SZ"):
        return WARP_SIZE, False
    if _DECIMAL.fullmatch(tokens.head):
        return _floating(tokens)
    if tokens.head != "(":
        return _integer(tokens)
    if depth > _MAX_DEPTH:
        raise tokens.error("the constant expression is nested too deeply")
    tokens.take()
    value = _ternary(tokens, depth + 1)
    tokens.expect(")", "in the constant expression")
    return value
