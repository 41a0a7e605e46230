"""Text to tree to text to tree; and no text at all brings the front end down."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_texts import CASES, HEADER, VECTORS, vector_files

from umma_probe.errors import PtxSyntaxError
from umma_probe.ptx.nodes import (
    Address,
    Block,
    Directive,
    Element,
    FloatImm,
    Function,
    Group,
    Guard,
    Instruction,
    IntImm,
    Label,
    Loc,
    Module,
    Name,
    Not,
    Offset,
    Pair,
    Param,
    RegDecl,
    Sink,
    SymbolInit,
    VarDecl,
    Vector,
)
from umma_probe.ptx.parser import parse
from umma_probe.ptx.printer import print_module
from umma_probe.ptx.scopes import resolve

_FIXED = settings(derandomize=True, max_examples=150, deadline=None)


def assert_round_trip(module: Module) -> None:
    text = print_module(module)
    again = parse(text)
    assert again == module
    assert print_module(again) == text


@pytest.mark.parametrize("path", vector_files(), ids=lambda path: path.stem)
def test_vectors(path: Path) -> None:
    assert_round_trip(parse(path.read_text(), str(path)))


@pytest.mark.skipif(not CASES.is_dir(), reason="no launch cases beside the checkout")
def test_launch_cases() -> None:
    paths = sorted(CASES.glob("*/*.ptx"))
    assert paths
    for path in paths:
        assert_round_trip(parse(path.read_text(), str(path)))


def test_canonical_text() -> None:
    text = """
.entry k(.param .align 8 .b8 p[4],.param .u64 .ptr .global .align 1 q) .maxntid 0x80,1 {
.reg.pred a;{.reg .b32 %r<3>;L:@ !a  mov .b32 %r1,0x10;}
ld.v2.b32 {%r1,_},[ %r2 + 0 ];call(r),f,(x); mov.f32 f, -0.5; }
"""
    assert print_module(parse(HEADER + text)) == HEADER + (
        "\n"
        ".entry k(.param .align 8 .b8 p[4], .param .u64 .ptr .global .align 1 q)\n"
        ".maxntid 0x80, 1\n"
        "{\n"
        "\t.reg .pred a;\n"
        "\t{\n"
        "\t\t.reg .b32 %r<3>;\n"
        "\tL:\n"
        "\t\t@!a mov.b32 %r1, 16;\n"
        "\t}\n"
        "\tld.v2.b32 {%r1, _}, [%r2];\n"
        "\tcall (r), f, (x);\n"
        "\tmov.f32 f, 0dBFE0000000000000;\n"
        "}\n"
    )


# --------------------------------------------------------------------------- generated trees
_identifiers = st.from_regex(r"\A(?:[A-Za-z][A-Za-z0-9_$]{0,6}|[_$%][A-Za-z0-9_$]{1,6})\Z").filter(
    lambda text: text not in ("WARP_SZ", "generic")
)
_names = _identifiers.map(Name)
_words = st.from_regex(r"\A[a-z0-9]{1,5}(?:::[a-z0-9]{1,5})?\Z")
_types = st.sampled_from(["b8", "b32", "u64", "f32", "pred", "b128"])
_int64 = st.integers(-(2**63), 2**64 - 1)
_ints = st.one_of(_int64.map(IntImm), st.integers(0, 2**64 - 1).map(lambda value: IntImm(value, unsigned=True)))
_floats = st.one_of(
    st.integers(0, 2**32 - 1).map(lambda bits: FloatImm(bits, 32)),
    st.integers(0, 2**64 - 1).map(lambda bits: FloatImm(bits, 64)),
)
_offsets = st.integers(-(2**31), 2**31)
_simple = st.one_of(
    _names,
    _ints,
    _floats,
    st.just(Sink()),
    _names.map(Not),
    st.builds(Element, _names, st.sampled_from(["x", "y", "z", "w", "3"])),
    st.builds(Offset, _names, _offsets),
    st.builds(Pair, st.one_of(_names, st.just(Sink())), _names),
)
_vectors = st.lists(_simple, min_size=1, max_size=4).map(lambda items: Vector(tuple(items)))
_addresses = st.one_of(
    st.builds(Address, _names, _offsets, st.lists(st.one_of(_simple, _vectors), max_size=2).map(tuple)),
    st.builds(Address, _int64.map(IntImm)),
)
_operands = st.one_of(_simple, _vectors, _addresses)
_guards = st.one_of(st.none(), st.builds(Guard, _identifiers, st.booleans()))
_opcodes = st.from_regex(r"\A[a-z][a-z0-9]{0,5}\Z").filter(lambda text: text != "call")
_instructions = st.builds(
    Instruction,
    _opcodes,
    st.lists(_words, max_size=4).map(tuple),
    st.lists(_operands, max_size=4).map(tuple),
    _guards,
)
_groups = st.lists(_simple, max_size=3).map(lambda items: Group(tuple(items)))
_calls = st.builds(
    Instruction,
    st.just("call"),
    st.sampled_from([(), ("uni",)]),
    st.tuples(_groups, _names, _groups),
    _guards,
)
_registers = st.one_of(
    st.builds(
        RegDecl,
        _types,
        st.lists(_identifiers, min_size=1, max_size=3).map(tuple),
        st.none(),
        st.sampled_from([1, 2, 4]),
    ),
    st.builds(RegDecl, _types, _identifiers.map(lambda name: (name,)), st.integers(0, 2000)),
)
_init_values = st.one_of(
    _int64, _floats, st.builds(SymbolInit, _identifiers, st.booleans(), _offsets, st.sampled_from([None, 0xFF, 0xFF00]))
)


@st.composite
def _variables(draw: st.DrawFn) -> VarDecl:
    inner = draw(st.lists(st.integers(1, 3), max_size=2))
    vector = draw(st.sampled_from([1, 2, 4]))
    dims = [draw(st.sampled_from([None, 2, 3])), *inner] if inner or draw(st.booleans()) else []
    room = vector
    for size in dims:
        room *= 3 if size is None else size
    values = draw(st.lists(_init_values, max_size=min(room, 6)))
    if not dims and vector == 1:
        values = values[:1]
    return VarDecl(
        space=draw(st.sampled_from(["shared", "global", "const", "local", "shared::cta"])),
        type=draw(_types),
        name=draw(_identifiers),
        dims=tuple(dims),
        align=draw(st.sampled_from([None, 1, 16])),
        vector=vector,
        init=tuple(values),
        linkage=draw(st.sampled_from([(), ("extern",), ("visible",)])),
    )


_directives = st.one_of(
    st.just(Directive("pragma", ('"nounroll"',))),
    st.builds(
        Directive, st.just("branchtargets"), st.lists(_identifiers, min_size=1, max_size=3).map(tuple), _identifiers
    ),
)
_locs = st.builds(
    Loc, st.integers(0, 9), st.integers(0, 9999), st.integers(0, 99), st.sampled_from(["", "inlined_at 1 2 3"])
)
_statements = st.recursive(
    st.one_of(_instructions, _calls, _identifiers.map(Label), _registers, _variables(), _directives, _locs),
    lambda inner: st.lists(inner, max_size=4).map(lambda body: Block(tuple(body))),
    max_leaves=6,
)
_params = st.builds(
    Param,
    _types,
    _identifiers,
    st.sampled_from([None, 0, 64]),
    st.sampled_from([None, 8]),
    st.sampled_from([(), ("ptr",), ("ptr", "global", "align 4")]),
    st.sampled_from(["param", "reg"]),
)
_param_lists = st.lists(_params, max_size=2).map(tuple)
_heads = st.lists(st.sampled_from([Directive("maxntid", ("128", "1")), Directive("noreturn")]), max_size=2).map(tuple)


@st.composite
def _functions(draw: st.DrawFn) -> Function:
    is_entry = draw(st.booleans())
    return Function(
        name=draw(_identifiers),
        is_entry=is_entry,
        params=draw(_param_lists),
        results=() if is_entry else draw(_param_lists),
        directives=draw(_heads),
        linkage=draw(st.sampled_from([(), ("visible",), ("weak",)])),
        body=draw(st.one_of(st.none(), st.lists(_statements, max_size=4).map(lambda body: Block(tuple(body))))),
    )


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.one_of(_functions(), _variables()), max_size=3))
def test_generated_trees(items: list[Function | VarDecl]) -> None:
    assert_round_trip(Module((9, 0), ("sm_100a",), 64, tuple(items)))


# --------------------------------------------------------------------------- damaged texts
_CONSTRUCTS = (VECTORS / "constructs.ptx").read_text()


def parse_and_resolve(text: str) -> None:
    """Only a PtxSyntaxError with a place inside the text may come out."""
    try:
        module = parse(text)
        for item in module.items:
            if isinstance(item, Function) and item.body is not None:
                resolve(item, module)
    except PtxSyntaxError as error:
        found = error
    else:
        return
    assert found.where is not None
    assert 1 <= found.where.line <= text.count("\n") + 1
    assert found.where.column >= 1
    assert "^" in found.render() or not found.where.source_line


@_FIXED
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    parse_and_resolve(text)
    parse_and_resolve(HEADER + ".entry k {" + text)


_SNIPPETS = st.sampled_from(
    [
        *"{}()[];,.:@!|%_<>-+=",
        *('"', "\n", "\t", "\\", "é", "\x00"),
        *("", "::", "/*", "//", "0x", "1e", "a.b.c", "99999999999999999999", ".reg", ".loc", ".section", "call"),
    ]
)


@_FIXED
@given(st.lists(st.tuples(st.integers(0, len(_CONSTRUCTS)), st.integers(0, 12), _SNIPPETS), min_size=1, max_size=3))
def test_damaged_text(edits: list[tuple[int, int, str]]) -> None:
    text = _CONSTRUCTS
    for start, length, snippet in edits:
        text = text[:start] + snippet + text[start + length :]
    parse_and_resolve(text)


def test_text_that_breaks_off() -> None:
    for end in range(0, len(_CONSTRUCTS), 23):
        parse_and_resolve(_CONSTRUCTS[:end])


@pytest.mark.parametrize(
    "body",
    [
        "{" * 100_000,
        "mov a, " + "(" * 100_000,
        "mov a, " + "-" * 100_000 + "1;",
        "mov a, " + "[" * 100_000,
        "mov a, " + "a|" * 100_000,
        "mov a, " + "1?" * 100_000,
        "mov a, 1" + "+1" * 50_000 + ";",
        "mov a, 1<<99999999999999;",
        ".reg .b32 %r<99999999999999>;",
        ".shared .b8 a[99999999999][99999999999] = {{1}};",
        "mov %r" + "1" * 100_000 + ", 1;",
        ".reg .b32 %r<5>; mov %r" + "1" * 100_000 + ", 1;",
        "/*" * 50_000,
        '"' * 50_000,
        "a" * 100_000 + ";",
        "a" + ".b" * 50_000 + ";",
        "L:" * 20_000 + "ret;}",
    ],
    ids=lambda body: body[:24].replace("\n", " "),
)
def test_extreme_text_ends_soon(body: str) -> None:
    start = time.monotonic()
    parse_and_resolve(HEADER + ".entry k {" + body)
    assert time.monotonic() - start < 5
