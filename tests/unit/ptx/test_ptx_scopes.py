from __future__ import annotations

from pathlib import Path

import pytest
from ptx_texts import CASES, VECTORS, kernel, module_of, vector_files

from umma_probe.ptx.nodes import Function, SymbolInit
from umma_probe.ptx.parser import parse
from umma_probe.ptx.printer import print_statement
from umma_probe.ptx.scopes import FlatFunction, RegType, resolve


def flat(body: str, head: str = ".entry k()") -> FlatFunction:
    module, function, _ = kernel(body, head)
    return resolve(function, module)


def lines(function: FlatFunction) -> list[str]:
    return [print_statement(instruction) for instruction in function.instructions]


def test_equal_names_of_two_scopes_are_two() -> None:
    wait = "{ .reg .pred complete; waitLoop: op.b32 complete, %r1; @!complete bra.uni waitLoop; }\n"
    function = flat(".reg .b32 %r<2>;\n" + wait + wait + "ret;")
    assert lines(function) == [
        "op.b32 complete@1, %r1;",
        "@!complete@1 bra.uni waitLoop@1;",
        "op.b32 complete@2, %r1;",
        "@!complete@2 bra.uni waitLoop@2;",
        "ret;",
    ]
    assert function.labels == {"waitLoop@1": 0, "waitLoop@2": 2}
    assert function.registers == {"complete@1": RegType("pred"), "%r1": RegType("b32"), "complete@2": RegType("pred")}


def test_inner_name_hides_the_outer_from_its_declaration_on() -> None:
    function = flat(".reg .b32 a;\n{ mov.b32 a, 1; .reg .f32 a; mov.f32 a, 2; }")
    assert lines(function) == ["mov.b32 a, 1;", "mov.f32 a@1, 2;"]
    assert function.registers == {"a": RegType("b32"), "a@1": RegType("f32")}


def test_inner_range_hides_the_outer_as_far_as_it_goes() -> None:
    function = flat(".reg .b32 %r<3>;\n{ mov.b32 %r1, %r2; .reg .f32 %r<2>; mov.f32 %r1, %r2; }")
    assert lines(function) == ["mov.b32 %r1, %r2;", "mov.f32 %r1@1, %r2;"]
    assert function.registers["%r1@1"] == RegType("f32")


def test_every_operand_form_is_renamed() -> None:
    declarations = ".reg .b32 a, b; .reg .v2 .b32 v; .reg .pred p; .shared .b32 s;"
    uses = "op a|p, {b, a, _}, [a+4, {b}], [s], !p, v.x, s+4, [8], 5, 0f00000000; call (a), k, (b);"
    function = flat(f"{{ {declarations} {uses} }}")
    assert lines(function) == [
        "op a@1|p@1, {b@1, a@1, _}, [a@1+4, {b@1}], [s@1], !p@1, v@1.x, s@1+4, [8], 5, 0f00000000;",
        "call (a@1), k, (b@1);",
    ]
    assert function.registers["v@1"] == RegType("b32", 2)


def test_labels_are_seen_before_they_stand_and_from_inner_scopes() -> None:
    function = flat("bra END; { { bra END; } bra END; } L: END:")
    assert lines(function) == ["bra END;"] * 3
    assert function.labels == {"L": 3, "END": 3}


def test_branch_targets() -> None:
    function = flat(".reg .b32 i;\n{ ts: .branchtargets B, A, B; brx.idx i, ts; }\nA: ret;\nB: exit;")
    assert function.branch_targets == {"ts@1": (2, 1, 2)}
    assert lines(function)[0] == "brx.idx i, ts@1;"


def test_variables_of_all_scopes_are_hoisted() -> None:
    function = flat(".shared .b64 bar;\n{ .shared .b64 bar; .param .b32 p; .global .u64 g = generic(bar); st [p], 1; }")
    assert [(v.space, v.name) for v in function.variables] == [
        ("shared", "bar"), ("shared", "bar@1"), ("param", "p@1"), ("global", "g@1")]  # fmt: skip
    assert function.variables[3].init == (SymbolInit("bar@1", generic=True),)


def test_register_parameters_are_registers() -> None:
    module = module_of(".func (.reg .b32 r) f (.reg .f32 a, .param .b32 b) { mov.b32 r, a; ret; }")
    function = module.function("f")
    assert function is not None
    resolved = resolve(function, module)
    assert resolved.registers == {"r": RegType("b32"), "a": RegType("f32")}
    assert not resolved.is_entry


def test_range_names_have_no_leading_zero_and_may_end_in_digits() -> None:
    function = flat(".reg .b32 %r<12>, x1<3>;\nmov.b32 %r0, %r11;\nmov.b32 x12, x10;")
    assert list(function.registers) == ["%r0", "%r11", "x12", "x10"]


def test_module_symbols_and_special_registers_stay() -> None:
    module = module_of(
        ".global .b32 g; .func f; .entry k { .reg .b32 a; { mov.b32 a, g; call f; mov.u32 a, %tid.x; } }"
    )
    resolved = resolve(module.entries[0], module)
    assert lines(resolved) == ["mov.b32 a, g;", "call f;", "mov.u32 a, %tid.x;"]
    assert list(resolved.registers) == ["a"]


def test_directives_and_prototypes_are_kept() -> None:
    function = flat('ret;\n.pragma "nounroll";\n{ pr: .callprototype _ (); } ret;', ".entry k() .maxntid 64")
    assert [directive.name for directive in function.directives] == ["maxntid"]
    assert [(index, directive.words) for index, directive in function.pragmas] == [(1, ('"nounroll"',))]
    assert list(function.prototypes) == ["pr@1"]


def test_places_and_source_lines_survive_renaming() -> None:
    function = flat(".loc 1 9 0\n{ .reg .b32 a;\n  mov.b32 a, 1; }")
    (instruction,) = function.instructions
    assert (instruction.pos.line, instruction.pos.column, instruction.source) == (8, 3, (1, 9))
    assert (instruction.operands[0].pos.line, instruction.operands[0].pos.column) == (8, 11)


def test_constructs_file() -> None:
    module = parse((VECTORS / "constructs.ptx").read_text())
    function = module.function("constructs")
    assert function is not None
    resolved = resolve(function, module)
    end = len(resolved.instructions) - 1
    assert resolved.branch_targets == {"$L_brx_0": (end, end, end)}
    assert resolved.labels["$L__BB0_3"] == end
    assert {name.partition("@")[0] for name in resolved.labels} >= {"waitLoop", "LAB_WAIT", "DONE"}
    assert sum(name.startswith("waitLoop@") for name in resolved.labels) == 2


@pytest.mark.parametrize(
    "path", [*vector_files(), *sorted(CASES.glob("*/kernel.ptx"))], ids=lambda p: p.parent.name + p.stem
)
def test_every_known_function_resolves(path: Path) -> None:
    module = parse(path.read_text(), str(path))
    for function in module.items:
        if isinstance(function, Function) and function.body is not None:
            resolved = resolve(function, module)
            assert all(0 <= index <= len(resolved.instructions) for index in resolved.labels.values())
            assert len(set(resolved.labels)) == len(resolved.labels)
