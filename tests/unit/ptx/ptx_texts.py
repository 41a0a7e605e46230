"""Where PTX texts for these tests lie, and small texts around one statement."""

from __future__ import annotations

from pathlib import Path

from umma_probe.ptx.nodes import Block, Function, Module
from umma_probe.ptx.parser import parse

_TOP = Path(__file__).resolve().parents[3]
VECTORS = _TOP / "tests" / "vectors" / "ptx"
CASES = _TOP.parent / "shared" / "cases"

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def vector_files() -> list[Path]:
    return sorted(VECTORS.glob("*.ptx"))


def module_of(text: str) -> Module:
    return parse(HEADER + text, "t.ptx")


def kernel(body: str, head: str = ".visible .entry k()") -> tuple[Module, Function, Block]:
    module = module_of(f"{head}\n{{\n{body}\n}}\n")
    function = module.function("k")
    assert function is not None
    assert function.body is not None
    return module, function, function.body
