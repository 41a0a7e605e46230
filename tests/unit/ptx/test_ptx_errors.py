"""Faults of a text are reported with the exact line and column, and with the nearest names."""

from __future__ import annotations

import pytest
from ptx_texts import HEADER, kernel

from umma_probe.errors import PtxSyntaxError
from umma_probe.ptx.parser import parse
from umma_probe.ptx.scopes import resolve

_HEAD_LINES = HEADER.count("\n")


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        (".entry k {\n\tmov.b32 %r1 %r2;\n}", 2, 14, "expected ',' or ';' after the operand, found '%r2'"),
        (".entry k {\n\tret\n}", 3, 1, "expected an operand, found '}'"),
        (".entry k {\n  ret;\n", 3, 1, "the scope is never closed: '}' is missing"),
        (".entry k {\n  ld.b32 %r1, [%r2 4];\n}", 2, 20, "expected ']' after the address, found '4'"),
        (".entry k {\n  ld.b32 %r1, [];\n}", 2, 16,
         "expected a register, a symbol or a number as the address, found ']'"),
        (".entry k {\n  mov.b64 {%r1, %r2, %rd1;\n}", 2, 26, "expected '}' after the vector, found ';'"),
        (".entry k {\n  mov.b32 %r1, ;\n}", 2, 16, "expected an operand, found ';'"),
        (".entry k {\n  mov.b32 %r1, %v.q;\n}", 2, 16,
         "'%v.q' is no operand; after a register only .x .y .z .w may stand"),
        (".entry k {\n  @ 5 ret;\n}", 2, 5, "expected the guard predicate, found '5'"),
        (".entry k {\n  .regg .b32 a;\n}", 2, 3, "unknown directive 'regg'; did you mean reg?"),
        (".entry k {\n  .reg .b33 a;\n}", 2, 8, "unknown type 'b33'; did you mean b32?"),
        (".entry k {\n  .reg .b32 a<x>;\n}", 2, 15, "register count must be a decimal number of at most 16777216"),
        (".entry k {\n  .branchtargets A;\n}", 2, 3, ".branchtargets needs a label before it"),
        (".entry k {\n  .loc 1 2\n  ret;\n}", 3, 3, "expected a number, found 'ret'"),
        (".entry k .maxntd 128 { }", 1, 10, "unknown function directive 'maxntd'; did you mean maxntid, maxnreg?"),
        (".entry k (.param .b32 a .param .b32 b) { }", 1, 25, "expected ')' after the parameters, found '.param'"),
        (".entry k (.local .b32 a) { }", 1, 11, "expected .param or .reg, found '.local'"),
        (".entry k\n", 2, 1, "expected '{' or ';' after the function head, found the end of the text"),
        (".globl .b32 a;", 1, 1, "unknown directive 'globl'; did you mean global, local?"),
        (".global .align 3 .b32 a;", 1, 16, "alignment is 3, must be a power of two"),
        (".global .b32 a[2] = {1, 2, 3};", 1, 21, "initialiser has 3 elements, must have at most 2"),
        (".global .b32 a[2] = {1, };", 1, 25, "expected an initial value, found '}'"),
        (".global .b32 a[2][2] = {{1}, {2}};", 1, 30, "the group before this one is incomplete"),
        (".global .b32 a[2][2] = {1, 2};", 1, 25, "expected '{' before the initial values, found '1'"),
        (".global .b32 a", 1, 15, "expected ';' after the declaration, found the end of the text"),
        ("ret;", 1, 1, "expected a function, a variable or a directive, found 'ret'"),
        (".section .debug_str {", 1, 22, "expected '}' after the section, found the end of the text"),
        (".entry k " + "{" * 200, 1, 111, "scopes are nested more than 100 deep"),
        (".entry k {\n mov.b32 a, " + "{" * 200, 2, 46, "the operand is nested too deeply"),
    ],
)  # fmt: skip
def test_place_and_message(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(HEADER + text, "k.ptx")
    error = caught.value
    assert error.message == message
    assert error.where is not None
    assert (error.where.file, error.where.line - _HEAD_LINES, error.where.column) == ("k.ptx", line, column)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected '.version' at the start of the module, found the end of the text"),
        (".version 9\n", 10, "expected a version such as 9.0, found '9'"),
        (".version 9.0\n.address_size 64", 1, "expected '.target' after the version, found '.address_size'"),
        (".version 9.0 .target sm_100a .address_size 16", 44, ".address_size is 16, must be 32 or 64"),
    ],
)
def test_module_header(text: str, column: int, message: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text)
    assert caught.value.message == message
    assert caught.value.where is not None
    assert caught.value.where.column == column


def test_caret_stands_under_the_token_behind_tabs() -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(HEADER + ".entry k {\r\n\tmov.b32 \t%r1 %r2;\r\n}", "k.ptx")
    lines = caught.value.render().splitlines()
    assert lines[1] == "  at k.ptx:5:15"
    assert lines[3].index("^") == lines[2].index("%r2")


@pytest.mark.parametrize(
    ("body", "place", "message"),
    [
        ("bra DOME;\nDONE: ret;", (6, 5), "label 'DOME' is not declared; did you mean DONE?"),
        ("bra L;\n{ L: ret; }", (6, 5), "label 'L' is not declared"),
        ("{ A: bra B; }\n{ B: ret; }", (6, 10), "label 'B' is not declared"),
        (".reg .pred p;\nbra p;", (7, 5), "label 'p' is not declared"),
        (".reg .b32 %r<3>;\n\tmov.b32 %r1, %r3;", (7, 15), "register '%r3' is outside '.reg .b32 %r<3>' of line 6"),
        (
            ".reg .b32 %total;\nmov.b32 %total, %totl;",
            (7, 17),
            "register '%totl' is not declared; did you mean %total?",
        ),
        ("mov.b32 %tid.x, %laneidd;", (6, 17), "register '%laneidd' is not declared; did you mean %laneid, %ntid?"),
        (".reg .b32 %r<3>;\nmov.b32 %r01, 1;", (7, 9), "register '%r01' is outside '.reg .b32 %r<3>' of line 6"),
        ("mov.b32 %foo, 1;", (6, 9), "register '%foo' is not declared"),
        ("@%p1 ret;", (6, 2), "register '%p1' is not declared; did you mean %pm1, %pm1_64?"),
        ("@!complete ret;", (6, 3), "name 'complete' is not declared"),
        ("mov.b32 a, 1;\n.reg .b32 a;", (6, 9), "name 'a' is not declared"),
        ("ld.b32 %tid.x, [barier];", (6, 17), "name 'barier' is not declared"),
        (".reg .b32 a;\n .reg .b32 a;", (7, 2), "'a' is declared twice in this scope"),
        (".reg .b32 %r<3>;\n.reg .f32 %r2;", (7, 1), "'%r2' is declared twice in this scope"),
        (".reg .f32 %r2;\n.reg .b32 %r<3>;", (7, 1), "'%r2' of '%r<3>' is declared twice"),
        (".reg .b32 %r<3>;\n.reg .b32 %r<5>;", (7, 1), "'%r<...>' is declared twice in this scope"),
        (".reg .b32 L;\nL: ret;", (6, 1), "'L' is declared twice in this scope"),
        ("L: ret;\nL: ret;", (7, 1), "'L' is declared twice in this scope"),
        (".shared .b32 n;\n.reg .b32 n;", (7, 1), "'n' is declared twice in this scope"),
        (".reg .b32 i;\nbrx.idx i, ts;\nts: .branchtargets L; L: ret;", (7, 12), "name 'ts' is not declared"),
        ("ts: .branchtargets L1, L2; L1: ret;", (6, 5), "label 'L2' is not declared"),
    ],
)
def test_names(body: str, place: tuple[int, int], message: str) -> None:
    module, function, _ = kernel(body)
    with pytest.raises(PtxSyntaxError) as caught:
        resolve(function, module)
    where = caught.value.where
    assert caught.value.message == message
    assert where is not None
    assert (where.file, where.line, where.column) == ("t.ptx", *place)
    assert where.source_line == module.text.split("\n")[place[0] - 1]


def test_parameter_shares_the_scope_of_the_body() -> None:
    module, function, _ = kernel(".reg .b32 a;", ".entry k(.param .b32 a)")
    with pytest.raises(PtxSyntaxError, match="'a' is declared twice"):
        resolve(function, module)


def test_prototype_has_nothing_to_resolve() -> None:
    module = parse(HEADER + ".extern .func f;")
    function = module.function("f")
    assert function is not None
    with pytest.raises(PtxSyntaxError, match="function 'f' has no body"):
        resolve(function, module)
