from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_texts import VECTORS

from umma_probe.errors import PtxSyntaxError
from umma_probe.ptx.constants import constant, integer
from umma_probe.ptx.lexer import TokenStream
from umma_probe.ptx.nodes import FloatImm, IntImm

_ASSEMBLED = json.loads((VECTORS / "constant_expressions.json").read_text())["cases"]


def evaluate(text: str) -> IntImm | FloatImm:
    tokens = TokenStream(text + ";")
    value = constant(tokens)
    tokens.expect(";")
    return value


@pytest.mark.parametrize(("text", "word"), _ASSEMBLED)
def test_agrees_with_the_assembler(text: str, word: str | None) -> None:
    if word is None:
        with pytest.raises(PtxSyntaxError):
            evaluate(text)
    else:
        value = evaluate(text)
        assert isinstance(value, IntImm)
        assert value.value % (1 << 64) == int(word, 16)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0f3F800000", FloatImm(0x3F800000, 32)),
        ("0Fff800000", FloatImm(0xFF800000, 32)),
        ("0d3FF0000000000000", FloatImm(0x3FF0000000000000, 64)),
        ("1.0", FloatImm(0x3FF0000000000000, 64)),
        ("-0.5", FloatImm(0xBFE0000000000000, 64)),
        (".25", FloatImm(0x3FD0000000000000, 64)),
        ("1e3", FloatImm(0x408F400000000000, 64)),
        ("1.0/3.0", FloatImm(0x3FD5555555555555, 64)),
        ("-(1.5+2.0)", FloatImm(0xC00C000000000000, 64)),
        ("1.0<2.0", IntImm(1)),
        ("7U", IntImm(7, unsigned=True)),
        ("-7", IntImm(-7)),
        ("-9223372036854775808", IntImm(-(2**63))),
        ("18446744073709551615", IntImm(2**64 - 1)),
    ],
)
def test_kind_and_sign(text: str, value: IntImm | FloatImm) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("08", 1, "expected a number, found '08'"),
        ("1+0x", 3, "expected a number, found '0x'"),
        ("4 / (2-2)", 3, "division by zero in a constant expression"),
        ("18446744073709551616", 1, "an integer constant has at most 64 bits"),
        ("9" * 5000, 1, "an integer constant has at most 64 bits"),
        ("1e400", 1, "the floating-point constant does not fit into 64 bits"),
        ("(1+2", 5, "expected ')' in the constant expression, found ';'"),
        ("1?2", 4, "expected ':' in the constant expression, found ';'"),
        ("1.0+2", 4, "an integer is needed here in the constant expression"),
        ("1.0|2.0", 4, "'|' needs integers"),
        ("-0f3F800000", 2, "expected a number, found '0f3F800000'"),
        ("(" * 5000 + "1", 66, "the constant expression is nested too deeply"),
    ],
)
def test_faults_have_their_place(text: str, column: int, message: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        evaluate(text)
    assert caught.value.message == message
    assert caught.value.where is not None
    assert caught.value.where.column == column


def test_integer_refuses_a_float() -> None:
    with pytest.raises(PtxSyntaxError, match="expected an integer"):
        integer(TokenStream("1.5;"))


@settings(derandomize=True, max_examples=200)
@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=6), st.data())
def test_sums_and_products_match_python(numbers: list[int], data: st.DataObject) -> None:
    text = str(numbers[0])
    for number in numbers[1:]:
        text = f"({text}){data.draw(st.sampled_from('+-'))}{number}*{data.draw(st.integers(0, 9))}"
    value = evaluate(text)
    assert isinstance(value, IntImm)
    assert value.value == eval(text)
