"""``tmem-layout``: where one ``tcgen05.mma`` puts each element of D, against the documented accumulator layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.coding import CodedPass, coded_passes, decode_d, raw_codes
from umma_probe.harness.diagnose import diagnose_layout
from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.experiment import KERNEL, experiment, plan_of
from umma_probe.harness.occupancy import NOWHERE, Observation, place
from umma_probe.harness.placement import SmemPlacement, default_swizzle, place_operand
from umma_probe.harness.readback import Readback, disagreement, joined, readbacks_of
from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Output, Outputs, passed
from umma_probe.layouts.smem_operand import operand_problems
from umma_probe.layouts.tmem_accumulator import (
    RULES,
    AccumulatorMap,
    RecoveredLayout,
    accumulator_map,
    recover_layout,
    select_layout,
)
from umma_probe.layouts.tmem_operand import operand_a_map
from umma_probe.record.schema import CellState, Check, TmemRecord
from umma_probe.record.sets import format_set
from umma_probe.spec.descriptors import Swizzle, decode_smem_desc, encode_idesc
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS, check_shape
from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES
from umma_probe.spec.problems import Problem
from umma_probe.spec.shapes import MmaCase, source_conflicts
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.harness.occupancy import BoolArray, IntArray, Words

_TMEM = documented("Tensor Memory", "128 lanes by 512 columns per CTA")
_LANES = documented("Data Path Layout Organization", "lanes at which D may begin")
_DEFAULT_TYPES = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8"}
_A_COLUMNS_PER_TILE = 8


@dataclass(frozen=True)
class LayoutCase:
    """The parameters, with the defaults that depend on others filled in."""

    m: int
    n: int
    kind: str
    a_type: str
    b_type: str
    d_type: str
    ws: bool
    a_source: str
    a_major: str
    b_major: str
    swizzle: str | None
    """For both operands; None for each one's usual."""
    k_tiles: int
    taddr_column: int
    taddr_lane: int
    readback: str

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> LayoutCase:
        """Fill in the defaults."""
        kind = KINDS[params["kind"]]
        a_type = params["a_type"] or _DEFAULT_TYPES[kind.name]
        filled = {
            "a_type": a_type,
            "b_type": params["b_type"] or a_type,
            "d_type": params["d_type"] or kind.d_types[-1],
        }
        return cls(**{name: value for name, value in {**params, **filled}.items() if name != "inject"})

    @property
    def a_in_tmem(self) -> bool:
        """Whether A is read from Tensor Memory."""
        return self.a_source == "tmem"

    @cached_property
    def readbacks(self) -> tuple[Readback, ...]:
        """Two, and of a D of 16 bits one that packs."""
        return readbacks_of(self.readback, self.d_type)

    @cached_property
    def a(self) -> SmemPlacement:
        """A in shared memory (unused if it is in Tensor Memory)."""
        return self._placed(self.a_type, self.m, self.a_major)

    @cached_property
    def b(self) -> SmemPlacement:
        """B in shared memory."""
        return self._placed(self.b_type, self.n, self.b_major)

    def _placed(self, type_: str, rows: int, major: str) -> SmemPlacement:
        swizzle = Swizzle.from_text(self.swizzle) if self.swizzle else default_swizzle(type_, major)
        return place_operand(self.kind, type_, rows, self.k_tiles, major, swizzle)

    @cached_property
    def map(self) -> AccumulatorMap | None:
        """The documented layout; None for a shape or lane that no document covers."""
        try:
            return accumulator_map(self.m, self.n, ws=self.ws, lane_base=self.taddr_lane)
        except ConfigError:
            return None

    @property
    def layout(self) -> str:
        """Name of the documented layout, or ``none``."""
        return RecoveredLayout(self.map.layout, self.taddr_lane).name if self.map else "none"

    @property
    def d_columns(self) -> int:
        """Columns of D."""
        return self.map.columns_used if self.map else self.n

    @property
    def a_column(self) -> int:
        """First column of A in Tensor Memory: behind D if there is room, else at the very front."""
        behind = -(-(self.taddr_column + self.d_columns) // 16) * 16
        return behind if behind + self.a_columns <= TMEM_COLUMNS else 0

    @property
    def a_columns(self) -> int:
        """Columns of A in Tensor Memory."""
        return _A_COLUMNS_PER_TILE * self.k_tiles if self.a_in_tmem else 0


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """Operands, descriptors and launches; see ``Suite.prepare``. ``seed`` counts with a planted fault only."""
    case = LayoutCase.of(params)
    problems = list(_problems(case, arch))
    kind = KINDS[case.kind]
    for field, name, known in (("a_type", case.a_type, kind.operand_types), ("b_type", case.b_type, kind.operand_types),
                               ("d_type", case.d_type, kind.d_types)):  # fmt: skip
        if name not in known:  # not even by force: the kernel stages elements of the kind's own width
            raise ConfigError(
                f"{field} is {name}, must be {' or '.join(known)} under kind::{kind.name}", ref=str(kind.refs[0])
            )
    passes = coded_passes(case.m, case.n, kind.k_dense, case.k_tiles, case.a_type, case.b_type, case.d_type)
    idesc = encode_idesc(case.kind, a_type=case.a_type, b_type=case.b_type, d_type=case.d_type, m=case.m, n=case.n,
                         a_major=case.a_major, b_major=case.b_major, force=True)  # fmt: skip
    filled = {**params, "a_type": case.a_type, "b_type": case.b_type, "d_type": case.d_type,
              "swizzle": case.b.swizzle.text, "idesc": f"{idesc:#010x}"}  # fmt: skip
    if params.get("inject"):
        return _with_fault(case, filled, problems, arch, seed)
    return Experiment(
        params=filled,
        problems=problems,
        defines=_defines(case),
        launches=[_launch(case, coded, idesc) for coded in passes],
        judge=lambda outputs: judge(case, passes, outputs),
    )


def _with_fault(
    case: LayoutCase, params: Mapping[str, Any], problems: Sequence[Problem], arch: str, seed: int
) -> Experiment:
    """The same MMA by the kernel that can be told anything, and that reads shared memory back as well."""
    same = GemmCase.of(
        m=case.m, n=case.n, k=case.k_tiles * KINDS[case.kind].k_dense, kind=case.kind, a_type=case.a_type,
        b_type=case.b_type, d_type=case.d_type, a_major=case.a_major, b_major=case.b_major, swizzle=case.swizzle or "",
        ws=case.ws, a_source=case.a_source, column=case.taddr_column, lane=case.taddr_lane, readback=case.readback,
    )  # fmt: skip
    plan = plan_of(same, same.recipe(), None, params["inject"], arch, seed)
    return replace(experiment(plan, params, problems), source=KERNEL)


def _problems(case: LayoutCase, arch: str) -> Iterator[Problem]:
    yield from check_shape(case.kind, m=case.m, n=case.n, a_type=case.a_type, b_type=case.b_type, d_type=case.d_type,
                           ws=case.ws, a_major=case.a_major, b_major=case.b_major, a_source=case.a_source,
                           arch=arch)  # fmt: skip
    last = TMEM_COLUMNS - case.d_columns
    if case.taddr_column > last:
        yield Problem(
            "taddr_column",
            f"taddr-column is {case.taddr_column}, must be at most {last}: D takes {case.d_columns}",
            _TMEM,
        )
    elif case.a_in_tmem and case.a_column + case.a_columns > case.taddr_column and case.a_column < case.taddr_column:
        yield Problem(
            "taddr_column", f"taddr-column is {case.taddr_column}, must leave {case.a_columns} columns for A", _TMEM
        )
    if case.map is None:
        yield from _lane_problem(case)
    row = KINDS[case.kind]
    operands = (
        [("b", case.b_type, case.b)] if case.a_in_tmem else [("a", case.a_type, case.a), ("b", case.b_type, case.b)]
    )
    for operand, type_, placed in operands:
        if type_ not in row.operand_types:
            continue
        bits, packing = FORMATS[type_].container_bits, row.packing(type_)
        for problem in operand_problems(decode_smem_desc(placed.desc), placed.major, bits, packing, row.k_dense):
            yield Problem(problem.field, f"{operand.upper()}: {problem.message}", problem.ref)


def _lane_problem(case: LayoutCase) -> Iterator[Problem]:
    try:
        rule = RULES[select_layout(case.m, case.n, ws=case.ws)]
    except ConfigError:
        return  # the shape itself is the problem, and is reported as such
    if case.taddr_lane not in rule.lane_bases:
        legal = " or ".join(map(str, rule.lane_bases))
        yield Problem(
            "taddr_lane", f"taddr-lane is {case.taddr_lane}, must be {legal} for layout {rule.layout.value}", _LANES
        )


def _defines(case: LayoutCase) -> dict[str, object]:
    defines: dict[str, object] = {
        "KIND": case.kind,
        "WS": int(case.ws),
        "A_IN_TMEM": int(case.a_in_tmem),
        "A_BITS": FORMATS[case.a_type].container_bits,
        "B_BITS": FORMATS[case.b_type].container_bits,
        **case.a.defines("A"),
        **case.b.defines("B"),
    }
    for index, readback in enumerate(case.readbacks):
        defines[f"LOAD_SHAPE_{index}"], defines[f"REGISTERS_{index}"] = readback.defines
    return defines


def _launch(case: LayoutCase, coded: CodedPass, idesc: int) -> LaunchPlan:
    b_smem = 0 if case.a_in_tmem else case.a.size
    return LaunchPlan(
        entry="tmem_layout",
        args=[
            Input(np.asarray(raw_codes(coded.a, case.a_type))),
            Input(np.asarray(raw_codes(coded.b, case.b_type))),
            *(Output(f"dump_{index}", readback.dump_shape) for index, readback in enumerate(case.readbacks)),
            *([Input(np.zeros(1, np.uint32))] if len(case.readbacks) == 2 else []),  # no third dump
            case.a.struct(0),
            case.b.struct(b_smem),
            np.uint32(idesc),
            np.uint32(case.k_tiles),
            np.uint32(case.taddr_lane << 16 | case.taddr_column),
            np.uint32(case.a_column),
        ],
        dynamic_smem=b_smem + case.b.size,
        label=f"{coded.name} pass",
    )


# ------------------------------------------------------------------------------------------------------------ judgement


def judge(case: LayoutCase, passes: Sequence[CodedPass], outputs: Sequence[Outputs]) -> Judgement:
    """What the dumps show, against the documents."""
    words = [
        np.stack([readback.words(output[f"dump_{index}"]) for output in outputs])
        for index, readback in enumerate(case.readbacks)
    ]
    observed = observe(case, passes, words[0])
    recovered = _recover(case, observed)
    checks = list(_checks(case, observed, words, recovered.name))
    readbacks = list(zip(case.readbacks, words, strict=True))
    failed = any(check.verdict == "fail" for check in checks)
    return Judgement(
        checks=checks,
        tmem=TmemRecord(TMEM_LANES, TMEM_COLUMNS, observed.cells(), case.layout, recovered.name, observed.digests()),
        occupancy=observed.occupancy(),
        diagnosis=diagnose_layout(observed, readbacks, recovered.name, case.layout) if failed else None,
        notes=_notes(case),
    )


def observe(case: LayoutCase, passes: Sequence[CodedPass], words: Words) -> Observation:
    """Each cell's words as an element of D, beside the element that belongs there.

    :param words: (passes, 128, 512).
    """
    values = decode_d(words, case.d_type)
    shape = (TMEM_LANES, TMEM_COLUMNS)
    expected_m, expected_n = np.full(shape, NOWHERE, np.int64), np.full(shape, NOWHERE, np.int64)
    if case.map is not None and case.taddr_column + case.d_columns <= TMEM_COLUMNS:
        m_at, n_at = case.map.inverse
        d_place = slice(case.taddr_column, case.taddr_column + case.d_columns)
        expected_m[:, d_place], expected_n[:, d_place] = m_at[0], n_at[0]
    return Observation(
        words=words,
        zero=np.asarray((values == 0).all(axis=0)),
        found_m=passes[0].coordinate(values[0]),
        found_n=passes[1].coordinate(values[1]),
        expected_m=expected_m,
        expected_n=expected_n,
        operand=_operand_unchanged(case, passes, words),
    )


def _operand_cells(case: LayoutCase, coded: CodedPass) -> tuple[BoolArray, Words]:
    """Where A lies in Tensor Memory and the words it has there, by ``layouts.tmem_operand``."""
    mask, expected = np.zeros((TMEM_LANES, TMEM_COLUMNS), np.bool_), np.zeros((TMEM_LANES, TMEM_COLUMNS), np.uint32)
    if not case.a_in_tmem or case.map is None:
        return mask, expected
    container = max(FORMATS[case.a_type].container_bits, 8)
    codes = np.asarray(raw_codes(coded.a, case.a_type)).astype(np.uint32)
    held = operand_a_map(case.m, codes.shape[1], FORMATS[case.a_type].container_bits, container_bits=container,
                         ws=case.ws, lane_base=case.taddr_lane)  # fmt: skip
    for offset in held.copies:
        lane, column = held.lane + offset, held.column + case.a_column
        mask[lane, column] = True
        np.bitwise_or.at(expected, (lane, column), codes << held.bit.astype(np.uint32))
    return mask, expected


def _operand_unchanged(case: LayoutCase, passes: Sequence[CodedPass], words: Words) -> BoolArray:
    unchanged = np.ones((TMEM_LANES, TMEM_COLUMNS), np.bool_)
    for coded, read in zip(passes, words, strict=True):
        mask, expected = _operand_cells(case, coded)
        unchanged &= mask & (read == expected)
    return unchanged


def _recover(case: LayoutCase, observed: Observation) -> RecoveredLayout:
    named = (observed.found_m != NOWHERE) & (observed.found_n != NOWHERE) & ~observed.operand
    found_m: IntArray = np.where(named, observed.found_m, NOWHERE)[:, case.taddr_column :]
    found_n: IntArray = np.where(named, observed.found_n, NOWHERE)[:, case.taddr_column :]
    return recover_layout(found_m, found_n, m=case.m, n=case.n)


def _checks(case: LayoutCase, observed: Observation, words: Sequence[Words], recovered: str) -> Iterator[Check]:
    differs = np.asarray(disagreement(case.readbacks, words).any(axis=0))
    yield passed("readback", not differs.any(), f"{joined(case.readbacks)} agree",
                 "agree" if not differs.any() else f"{int(differs.sum())} cells differ",
                 place(differs))  # fmt: skip
    if case.map is None:
        yield Check("layout", "undecided", "-", recovered, "no document says where D of this form lies")
        return
    for state, message in (
        (CellState.MISSING, "still hold the sentinel: not written"),
        (CellState.ZERO, "were written, with zero"),
        (CellState.MISPLACED, "hold another element of D"),
        (CellState.WRONG, "hold no element of D"),
        (CellState.UNEXPECTED, "changed although no element belongs there"),
    ):
        cells = observed.at(state)
        count = int(cells.sum())
        actual = "no cell" if not count else f"{count} cell{'' if count == 1 else 's'}"
        yield passed(state.name.lower(), not count, "no cell", actual, f"{place(cells)} {message}")
    if case.a_in_tmem:
        wanted = TMEM_LANES // (2 if case.map and RULES[case.map.layout].half_of_lanes else 1) * case.a_columns
        count = int(observed.operand.sum())
        yield passed("operand-a", count == wanted, f"{wanted} cells unchanged", f"{count} cells unchanged",
                     "A in Tensor Memory changed, or was not stored as documented")  # fmt: skip
    yield passed("layout", recovered == case.layout, case.layout, recovered, "the recovered map is another one")


def _notes(case: LayoutCase) -> list[str]:
    mma = MmaCase(case.kind, case.m, case.n, 1, case.ws, False, case.a_type, case.b_type, case.a_source)
    notes = [str(conflict) for conflict in source_conflicts(mma)]
    if case.a_in_tmem:
        held = format_set(range(case.a_column, case.a_column + case.a_columns))
        notes.append(f"A lies in Tensor Memory columns {held}.")
    return notes
