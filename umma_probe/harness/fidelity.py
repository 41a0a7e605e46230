"""How well each instruction of the model is known, from its own references and from the recorded differential.

- *measured*: forms of it ran on silicon with drawn operands and gave the model's bits (``reports/fidelity-*.json``), or
  a reference of it is a measurement.
- *approximate*: the documents bound its error, the model gives the true result; the largest distance seen is told.
- *assumed*: it fills a gap in the documents. *documented*: none of these.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from umma_probe.assets import asset_dir
from umma_probe.errors import NotModelled
from umma_probe.model import ops
from umma_probe.model.code.decode import OPERATIONS, Operation, find_operation
from umma_probe.model.code.program_builder import BRANCHES, Refusal
from umma_probe.model.machine import Machine
from umma_probe.ptx import nodes
from umma_probe.ptx.parser import parse
from umma_probe.spec.sources import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

BRANCH_PATTERNS = ("bra{.uni}", "brx.idx{.uni}", "call{.uni}", "ret{.uni}", "exit")
"""Decoded by the program's structure, not by a pattern."""

_H200 = "NVIDIA H200, reports/silicon-h200"
PROBED = {
    "wgmma.": f"{_H200}: probes wgmma-layout, wgmma-desc-map, wgmma-numerics, bit for bit",
    "cp.async.bulk.tensor.{dim}.": f"{_H200}: probe tma-map, byte for byte",
    "mbarrier.": f"{_H200}: probe mbarrier, every answer",
}
"""Start of a pattern to the probes that ran it on silicon and on the model, with the same outputs."""


@dataclass(frozen=True)
class InstructionRow:
    """One pattern."""

    pattern: str
    evidence: str
    """``measured``, ``documented``, ``approximate`` or ``assumed``."""
    detail: str
    refs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class MissingInstruction:
    """An instruction of a file that the model refuses; without text, a fault of a kernel as a whole."""

    text: str
    count: int
    line: int
    message: str
    reason: str
    """``not modelled``, or ``illegal``: the PTX ISA does not have it."""
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass
class _Measured:
    """What the recorded differentials say of one pattern."""

    where: str = ""
    forms: int = 0
    operand_sets: int = 0
    mismatches: int = 0
    max_ulp: int = 0
    max_abs_error: float = 0.0

    @property
    def distance(self) -> str:
        """How far an approximate result was off: absolutely where the bound is absolute, else in ulp."""
        if self.max_abs_error:
            return f"at most {self.max_abs_error:.2g}"
        if self.max_ulp >= 1 << 32:
            return f"at most {self.max_ulp >> 32} unit of the upper word"
        return f"at most {self.max_ulp} ulp"


def instruction_rows() -> list[InstructionRow]:
    """All patterns, by opcode."""
    ops.load_all()
    measured = _measurements()
    rows = [_row(operation, measured.get(operation.pattern)) for operation in _operations()]
    rows += [InstructionRow(pattern, "documented", "control flow", ()) for pattern in BRANCH_PATTERNS]
    return sorted(rows, key=lambda row: row.pattern)


def _operations() -> Iterator[Operation]:
    for operations in OPERATIONS.values():
        yield from operations


def _row(operation: Operation, measured: _Measured | None) -> InstructionRow:
    refs = tuple(str(ref) for ref in operation.refs)
    if operation.approximate:
        seen = f"; {measured.distance} from {measured.where}" if measured and measured.forms else ""
        return InstructionRow(operation.pattern, "approximate", f"within {operation.approximate}{seen}", refs)
    if measured is not None and measured.forms:
        sets = f"{measured.forms} form{'s' if measured.forms > 1 else ''}, {measured.operand_sets} operand sets"
        wrong = f", {measured.mismatches} differ" if measured.mismatches else ", bit for bit"
        return InstructionRow(operation.pattern, "measured", f"{measured.where}: {sets}{wrong}", refs)
    if probed := next((text for start, text in PROBED.items() if operation.pattern.startswith(start)), ""):
        return InstructionRow(operation.pattern, "measured", probed, refs)
    for level in (Evidence.ASSUMED, Evidence.MEASURED):
        notes = [ref.note for ref in operation.refs if ref.evidence is level]
        if notes:
            return InstructionRow(operation.pattern, level.value, notes[0], refs)
    return InstructionRow(operation.pattern, "documented", "", refs)


@lru_cache(maxsize=1)
def _measurements() -> dict[str, _Measured]:
    """Pattern to what the recorded differentials say."""
    found: dict[str, _Measured] = {}
    for path in sorted(asset_dir("reports").glob("fidelity-*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        for entry in data["entries"]:
            instruction = _parsed(entry["ptx"])
            if instruction is None:
                continue
            operation, _ = find_operation(instruction.opcode, instruction.modifiers)
            row = found.setdefault(operation.pattern, _Measured(data["gpu"]["name"]))
            row.forms += 1
            row.operand_sets += entry["operand_sets"]
            row.mismatches += entry["mismatches"]
            row.max_ulp = max(row.max_ulp, entry.get("max_ulp", 0))
            row.max_abs_error = max(row.max_abs_error, entry.get("max_abs_error", 0.0))
    return found


@lru_cache(maxsize=4096)
def _parsed(text: str) -> nodes.Instruction | None:
    """The instruction of a line of PTX; None for what is no single one."""
    head = text.split()[0].rstrip(";") if text.split() else ""
    words = head.split(".")
    return nodes.Instruction(words[0], tuple(words[1:]), ()) if words[0] in OPERATIONS else None


def missing_instructions(text: str, name: str) -> list[MissingInstruction]:
    """What the model would refuse of a PTX text before a thread runs.

    In kernels and in what these call, that is everything that decoding finds; in functions that no kernel calls,
    instructions without a pattern.

    :raises PtxSyntaxError: the text is not PTX.
    """
    ops.load_all()
    refusals = Machine().load(text, name).refusals()
    seen: set[tuple[int, int]] = set()
    found: dict[tuple[str, str], MissingInstruction] = {}
    for refusal in [*refusals, *_without_pattern(parse(text, name))]:
        instruction, error = refusal.instruction, refusal.error
        line = instruction.pos.line if instruction else error.where.line if error.where else 0
        place = (line, instruction.pos.column if instruction else 0)
        if place in seen:
            continue
        seen.add(place)
        what = instruction.text if instruction else ""
        known = found.get((what, error.message))
        found[what, error.message] = MissingInstruction(
            what,
            known.count + 1 if known else 1,
            known.line if known else line,
            error.message,
            "not modelled" if isinstance(error, NotModelled) else "illegal",
            error.hint,
        )
    return sorted(found.values(), key=lambda row: (-row.count, row.text))


def _without_pattern(tree: Any) -> Iterator[Refusal]:
    for instruction in _instructions(tree):
        if instruction.opcode not in BRANCHES:
            try:
                find_operation(instruction.opcode, instruction.modifiers)
            except NotModelled as error:
                yield Refusal(instruction, error)


def _instructions(tree: Any) -> Iterator[nodes.Instruction]:
    """All instructions of a module, in nested scopes too."""
    for function in (item for item in tree.items if isinstance(item, nodes.Function)):
        stack = list(reversed(function.body.body if function.body is not None else ()))
        while stack:
            item = stack.pop()
            if isinstance(item, nodes.Instruction):
                yield item
            elif isinstance(item, nodes.Block):
                stack.extend(reversed(item.body))
