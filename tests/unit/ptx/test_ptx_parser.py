"""Every construct gives exactly the node that its text says; expectations are written by hand."""

from __future__ import annotations

import pytest
from ptx_texts import HEADER, VECTORS, kernel, module_of

from umma_probe.ptx.nodes import (
    Address,
    Block,
    Directive,
    Element,
    File,
    FloatImm,
    Function,
    Group,
    Guard,
    Instruction,
    IntImm,
    Label,
    Loc,
    Name,
    Not,
    Offset,
    Operand,
    Pair,
    Param,
    Pos,
    RegDecl,
    Section,
    Sink,
    Statement,
    SymbolInit,
    VarDecl,
    Vector,
)
from umma_probe.ptx.parser import parse

N = Name


def statements(text: str) -> tuple[Statement, ...]:
    return kernel(text)[2].body


def instruction(text: str) -> Instruction:
    (node,) = statements(text)
    assert isinstance(node, Instruction)
    return node


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("%r1", N("%r1")),
        ("%tid.x", N("%tid.x")),
        ("%cluster_ctaid.y", N("%cluster_ctaid.y")),
        ("%v.x", Element(N("%v"), "x")),
        ("complete", N("complete")),
        ("WARP_SZ", IntImm(32)),
        ("0x10", IntImm(16)),
        ("(1<<3)+4", IntImm(12)),
        ("-1", IntImm(-1)),
        ("5U", IntImm(5, unsigned=True)),
        ("0f3F800000", FloatImm(0x3F800000, 32)),
        ("_", Sink()),
        ("!%p1", Not(N("%p1"))),
        ("! p", Not(N("p"))),
        ("!0", IntImm(1)),
        ("{%r1}", Vector((N("%r1"),))),
        ("{ %r1,_, 3 }", Vector((N("%r1"), Sink(), IntImm(3)))),
        ("%r1|%p1", Pair(N("%r1"), N("%p1"))),
        ("_|p", Pair(Sink(), N("p"))),
        ("p | q", Pair(N("p"), N("q"))),
        ("sym+8", Offset(N("sym"), 8)),
        ("sym+-8", Offset(N("sym"), -8)),
        ("sym[3]", Element(N("sym"), "3")),
        ("%r1.b3", Element(N("%r1"), "b3")),
        ("%r1.h0", Element(N("%r1"), "h0")),
        ("[%r1]", Address(N("%r1"))),
        ("[%r1+4]", Address(N("%r1"), 4)),
        ("[ %r1 + 0 ]", Address(N("%r1"))),
        ("[%rd1+-8]", Address(N("%rd1"), -8)),
        ("[%rd1-8]", Address(N("%rd1"), -8)),
        ("[sym+(1<<3)+4]", Address(N("sym"), 12)),
        ("[1234]", Address(IntImm(1234))),
        ("[%rd, {%r1, %r2}]", Address(N("%rd"), 0, (Vector((N("%r1"), N("%r2"))),))),
        ("[t, s, {%f1}]", Address(N("t"), 0, (N("s"), Vector((N("%f1"),))))),
    ],
)
def test_operand(text: str, operand: Operand) -> None:
    assert instruction(f"op.b32 {text};") == Instruction("op", ("b32",), (operand,))
    assert instruction(f"op.b32 %d, {text}, 1;").operands == (N("%d"), operand, IntImm(1))


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        ("@%p1", Guard("%p1")),
        ("@!%p1", Guard("%p1", negated=True)),
        ("@ p", Guard("p")),
        ("@ !\tp", Guard("p", negated=True)),
    ],
)
def test_guard(text: str, guard: Guard) -> None:
    assert instruction(f"{text} ret;") == Instruction("ret", (), (), guard)


@pytest.mark.parametrize(
    ("text", "opcode", "modifiers"),
    [
        ("tcgen05.wait::ld.sync.aligned", "tcgen05", ("wait::ld", "sync", "aligned")),
        ("fence.mbarrier_init.release.cluster ", "fence", ("mbarrier_init", "release", "cluster")),
        ("add .s32", "add", ("s32",)),
        ("mma.sync.aligned.m16n8k16.row.col.f32", "mma", ("sync", "aligned", "m16n8k16", "row", "col", "f32")),
        ("op.32x32b .x1 .5", "op", ("32x32b", "x1", "5")),
    ],
)
def test_opcode(text: str, opcode: str, modifiers: tuple[str, ...]) -> None:
    assert instruction(text + ";") == Instruction(opcode, modifiers, ())


def test_no_blank_before_operands() -> None:
    expected = (Vector((N("%r1"),)), Address(N("%r2")))
    assert instruction("tcgen05.ld.sync.aligned.32x32b.x1.b32{%r1},[%r2];").operands == expected


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("call.uni (retval0), f, (param0, param1);",
         (Group((N("retval0"),)), N("f"), Group((N("param0"), N("param1"))))),
        ("call (ret), %fptr, (a), proto;", (Group((N("ret"),)), N("%fptr"), Group((N("a"),)), N("proto"))),
        ("call f, ();", (N("f"), Group(()))),
        ("call f;", (N("f"),)),
        ("call f, (%r1, 5);", (N("f"), Group((N("%r1"), IntImm(5))))),
    ],
)  # fmt: skip
def test_call(text: str, operands: tuple[Operand, ...]) -> None:
    assert instruction(text).operands == operands


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        (".reg .pred p, q;", [RegDecl("pred", ("p", "q"))]),
        (".reg.b32 %r<4>;", [RegDecl("b32", ("%r",), 4)]),
        (".reg .b32 a, b<2>, c;", [RegDecl("b32", ("a",)), RegDecl("b32", ("b",), 2), RegDecl("b32", ("c",))]),
        (".reg .v4 .b32 %v;", [RegDecl("b32", ("%v",), None, 4)]),
        (".reg .b128 clc_result;", [RegDecl("b128", ("clc_result",))]),
        (".param .align 16 .b8 p[384];", [VarDecl("param", "b8", "p", (384,), 16)]),
        (".shared .b32 a, b[2][3];", [VarDecl("shared", "b32", "a"), VarDecl("shared", "b32", "b", (2, 3))]),
        (".loc 1 20 9", [Loc(1, 20, 9)]),
        (".loc 2 107 3, function_name $L__i+4, inlined_at 1 18 3",
         [Loc(2, 107, 3, "function_name $L__i+4, inlined_at 1 18 3")]),
        ('.pragma "nounroll";', [Directive("pragma", ('"nounroll"',))]),
        ("ts: .branchtargets A, B,\n A;", [Directive("branchtargets", ("A", "B", "A"), "ts")]),
        ("p : .callprototype (.param .b32 _) _ (.param .b32 _);",
         [Directive("callprototype", ("(", ".param", ".b32", "_", ")", "_", "(", ".param", ".b32", "_", ")"), "p")]),
        ("A: B: ret;", [Label("A"), Label("B"), Instruction("ret", (), ())]),
        ("{ret;}", [Block((Instruction("ret", (), ()),))]),
        ("{ { } ; } ;;", [Block((Block(()),))]),
    ],
)  # fmt: skip
def test_statement(text: str, nodes: list[Statement]) -> None:
    assert list(statements(text)) == nodes


@pytest.mark.parametrize(
    ("text", "node"),
    [
        (".extern .shared .align 16 .b8 smem[];", VarDecl("shared", "b8", "smem", (None,), 16, linkage=("extern",))),
        (".global .b32 g = 7;", VarDecl("global", "b32", "g", init=(7,))),
        (".global .b8 g[4] = {104, -1};", VarDecl("global", "b8", "g", (4,), init=(104, -1))),
        (".global .s32 g[2][3] = {{1,2,3},{4}};", VarDecl("global", "s32", "g", (2, 3), init=(1, 2, 3, 4))),
        (".global .s32 g[][2] = {{1,2},{3,4}};", VarDecl("global", "s32", "g", (None, 2), init=(1, 2, 3, 4))),
        (".global .v2 .b32 g[2] = {{1,2}};", VarDecl("global", "b32", "g", (2,), None, 2, (1, 2))),
        (".const .f32 c = 0f3F800000;", VarDecl("const", "f32", "c", init=(FloatImm(0x3F800000, 32),))),
        (".global .u64 g[2] = {s, generic(s)+4};",
         VarDecl("global", "u64", "g", (2,), init=(SymbolInit("s"), SymbolInit("s", True, 4)))),
        (".global .u8 g[2] = {0xFF(s), 0xFF00(generic(s)+4)};",
         VarDecl("global", "u8", "g", (2,), init=(SymbolInit("s", mask=0xFF), SymbolInit("s", True, 4, 0xFF00)))),
        (".visible .global .attribute(.managed) .align 4 .b32 g;",
         VarDecl("global", "b32", "g", align=4, linkage=("visible",), attributes=(".managed",))),
        ('.file 1 "a b.cu", 17, 4;', File(1, "a b.cu", "17, 4")),
        (".section .debug_str {\n$L_x:\n.b8 1 // {\n{}\n}", Section(".debug_str", "$L_x:\n.b8 1 // {\n{}")),
        (".section .debug_macinfo { }", Section(".debug_macinfo", "")),
        (".alias a, b;", Directive("alias", ("a", "b"))),
        ("@@DWARF .byte 0x2b, 1", Directive("@@", ("DWARF", ".byte", "0x2b", ",", "1"))),
        (".func f;", Function("f", False, ())),
        (".entry k(.param .u64 .ptr .global .align 8 p, .param .align 64 .b8 m[128]);",
         Function("k", True, (Param("u64", "p", None, None, ("ptr", "global", "align 8")),
                              Param("b8", "m", 128, 64)))),
        (".extern .func (.reg .b32 r) f (.reg .b32 a, .param .align 8 .b8 rest[]) .noreturn ;",
         Function("f", False, (Param("b32", "a", space="reg"), Param("b8", "rest", 0, 8)),
                  (Param("b32", "r", space="reg"),), (Directive("noreturn"),), ("extern",))),
        (".entry k .maxntid 128, 1, 1 .reqnctapercluster 2 .maxclusterrank 8 .explicitcluster { }",
         Function("k", True, (), (), (Directive("maxntid", ("128", "1", "1")), Directive("reqnctapercluster", ("2",)),
                                      Directive("maxclusterrank", ("8",)), Directive("explicitcluster")),
                  body=Block(()))),
    ],
)  # fmt: skip
def test_module_item(text: str, node: object) -> None:
    assert list(module_of(text).items) == [node]


def test_header() -> None:
    module = parse(".version 9.4\n.target sm_100a, debug\n.address_size 64", "x.ptx")
    assert (module.version, module.target, module.address_size, module.file) == (
        (9, 4),
        ("sm_100a", "debug"),
        64,
        "x.ptx",
    )


def test_instruction_knows_its_source_line_also_in_inline_assembly() -> None:
    body = statements("bar.sync 0;\n.loc 1 5 0\nret;\n{\n.loc 2 9 1\nL:\n.loc 2 10 1\nmov.b32 a, b;\n}\nexit;")
    block = body[3]
    assert isinstance(block, Block)
    found = [node for node in (*body, *block.body) if isinstance(node, Instruction)]
    assert [(node.opcode, node.source) for node in found] == [
        ("bar", None), ("ret", (1, 5)), ("exit", (2, 10)), ("mov", (2, 10))]  # fmt: skip


def test_source_line_does_not_leak_into_the_next_function() -> None:
    module = module_of(".func a { .loc 1 5 0\n ret; } .func b { ret; }")
    function = module.function("b")
    assert function is not None
    assert function.body == Block((Instruction("ret", (), ()),))
    assert isinstance(function.body.body[0], Instruction)
    assert function.body.body[0].source is None


def test_positions() -> None:
    node = parse(HEADER + ".entry k {\n\t@%p add.s32 \t%r1,\n [%r2], {%r3};\n}").entries[0]
    assert node.pos == Pos(4, 1)
    assert node.body is not None
    (add,) = node.body.body
    assert isinstance(add, Instruction)
    register, address, vector = add.operands
    assert isinstance(address, Address)
    assert isinstance(vector, Vector)
    assert add.guard is not None
    places = [add.guard.pos, add.pos, register.pos, address.pos, address.base.pos, vector.pos, vector.items[0].pos]
    assert places == [Pos(5, 3), Pos(5, 6), Pos(5, 15), Pos(6, 2), Pos(6, 3), Pos(6, 9), Pos(6, 10)]


def test_constructs_file() -> None:
    module = parse((VECTORS / "constructs.ptx").read_text())
    assert module.files == {1: "kernel.cu", 2: "path/with blank/header.cuh"}
    assert [entry.name for entry in module.entries] == ["empty", "constructs"]
    kernel_node = module.function("constructs")
    assert kernel_node is not None
    assert [(p.type, p.size, p.attributes) for p in kernel_node.params] == [
        ("b8", 128, ()), ("u64", None, ("ptr", "global", "align 16")), ("u64", None, ("ptr",)),
        ("u32", None, ()), ("f32", None, ())]  # fmt: skip
    assert kernel_node.body is not None
    assert sum(isinstance(node, Block) for node in kernel_node.body.body) == 7
