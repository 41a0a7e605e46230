"""``pair-map``: one ``tcgen05.mma`` of two CTAs: where D lies, who brings which operand rows, whom the commit tells.

Each CTA stages the half of A's rows and of B's rows that belongs to it; every element of D names its row and its
column, so that a wrong split shows as wrong names. Sparse A keeps the first half of every group of elements, whatever
the layout of the metadata. A in Tensor Memory lies in the lanes of D, twice where D is cut into two halves of N
(layout B); that both copies are there does not show that both are read. The lane mask has eight words; that 0 to 3 are
the lanes of the first CTA is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.coding import CodedPass, coded_passes, decode_d, raw_codes
from umma_probe.harness.fills import sentinel_words
from umma_probe.harness.occupancy import NOWHERE, place
from umma_probe.harness.placement import SmemPlacement, place_operand
from umma_probe.harness.readback import Readback
from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Output, Outputs, passed
from umma_probe.harness.wording import counted
from umma_probe.layouts.tmem_accumulator import RULES, AccumulatorMap, accumulator_map, disagreements, recover_layout
from umma_probe.layouts.tmem_ldst import parse
from umma_probe.record.schema import Check
from umma_probe.spec.descriptors import Problem, Swizzle, encode_idesc
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS, check_shape
from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.harness.suite import Array

_TYPES = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8"}
_READBACK = Readback(parse("32x32b.x32"))
_CTAS = 2
_METADATA = slice(384, 416)
"""Columns of the kernel's metadata."""
_METADATA_WORD = 0x44444444
_A = slice(416, 424)
"""Columns of the kernel's A in Tensor Memory."""
_MASK_WORDS = 8
_LANES_OF_A_WORD = 32


@dataclass(frozen=True)
class PairCase:
    """The parameters."""

    m: int
    n: int
    kind: str
    sparse: bool
    lane: int
    disabled_word: int | None
    a_in_tmem: bool

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> PairCase:
        """From the parameters."""
        return cls(int(params["m"]), params["n"], params["kind"], params["sparse"], int(params["taddr_lane"]),
                   params["disabled_word"], params["a_source"] == "tmem")  # fmt: skip

    @property
    def type(self) -> str:
        """Of both operands."""
        return _TYPES[self.kind]

    @property
    def d_type(self) -> str:
        """Of D."""
        return KINDS[self.kind].d_types[-1]

    @property
    def k_stored(self) -> int:
        """Elements of a row of A."""
        return KINDS[self.kind].k_dense

    @cached_property
    def map(self) -> AccumulatorMap:
        """Where D lies, by the documents.

        :raises ConfigError: there is no such layout.
        """
        return accumulator_map(self.m, self.n, cta_group=2, sparse=self.sparse, lane_base=self.lane)

    @cached_property
    def placements(self) -> tuple[SmemPlacement, SmemPlacement]:
        """One CTA's halves of A and B; a row of sparse B is twice as long."""
        a = place_operand(self.kind, self.type, self.m // _CTAS, 1, "k", Swizzle.NONE)
        return a, place_operand(self.kind, self.type, self.n // _CTAS, 1 + self.sparse, "k", Swizzle.NONE)

    @cached_property
    def disabled(self) -> Array:
        """Cells that the mask leaves alone, (2, 128)."""
        lanes = np.zeros((_CTAS, TMEM_LANES), np.bool_)
        if self.disabled_word is not None:
            lanes.reshape(_MASK_WORDS, _LANES_OF_A_WORD)[self.disabled_word] = True
        return lanes

    def b_of(self, coded: CodedPass) -> Array:
        """B as it is staged: beside the kept elements of a sparse group, some that must not count."""
        if not self.sparse:
            return coded.b
        group = 2 if self.kind == "tf32" else 4
        kept = coded.b.reshape(self.n, -1, group // 2)
        return np.concatenate([kept, kept[..., ::-1]], axis=2).reshape(self.n, -1)


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """Two launches, one that names rows and one that names columns; nothing is random."""
    case = PairCase.of(params)
    problems = list(_problems(case, arch))
    if not problems:
        _ = case.map  # a lane that the layout does not have is a wrong parameter
    passes = coded_passes(case.m, case.n, case.k_stored, 1, case.type, case.type, case.d_type)
    idesc = encode_idesc(case.kind, a_type=case.type, b_type=case.type, d_type=case.d_type, m=case.m, n=case.n,
                         sparse=case.sparse, force=True)  # fmt: skip
    bits = FORMATS[case.type].container_bits
    return Experiment(
        params=params,
        problems=problems,
        defines={"KIND": case.kind, "SPARSE": int(case.sparse), "LANE_MASK": int(case.disabled_word is not None),
                 "A_IN_TMEM": int(case.a_in_tmem), "A_BITS": bits, "B_BITS": bits},
        launches=[_launch(case, coded, idesc) for coded in passes],
        judge=lambda outputs: judge(case, passes, outputs),
    )  # fmt: skip


def _problems(case: PairCase, arch: str) -> Iterator[Problem]:
    yield from check_shape(case.kind, m=case.m, n=case.n, a_type=case.type, b_type=case.type, d_type=case.d_type,
                           cta_group=2, sparse=case.sparse, a_source="tmem" if case.a_in_tmem else "smem",
                           arch=arch)  # fmt: skip
    if case.n % 16:
        raise ConfigError(f"n is {case.n}, must be a multiple of 16: each CTA stages half of it, 8 rows at a time")


def _launch(case: PairCase, coded: CodedPass, idesc: int) -> LaunchPlan:
    a, b = case.placements
    mask = np.zeros(_MASK_WORDS, np.uint32)
    if case.disabled_word is not None:
        mask[case.disabled_word] = 0xFFFFFFFF
    return LaunchPlan(
        entry="pair_map",
        args=[
            Input(np.asarray(raw_codes(coded.a, case.type))),
            Input(np.asarray(raw_codes(case.b_of(coded), case.type))),
            np.uint32(case.k_stored),
            np.uint32(case.k_stored * (1 + case.sparse)),
            Output("dump", (_CTAS, *_READBACK.dump_shape)),
            np.uint32(np.prod(_READBACK.dump_shape)),
            a.struct(0),
            b.struct(a.size),
            np.uint32(idesc),
            np.uint32(case.lane),
            mask.tobytes(),
        ],
        grid=(_CTAS,),
        cluster=(_CTAS,),
        dynamic_smem=a.size + b.size,
        label=f"{coded.name} pass",
    )


# ---------------------------------------------------------------------------------------------------------- judgement


def judge(case: PairCase, passes: Sequence[CodedPass], outputs: Sequence[Outputs]) -> Judgement:
    """What each CTA's Tensor Memory holds."""
    words = np.array([[_READBACK.words(dump) for dump in output["dump"]] for output in outputs])  # (pass, cta, ...)
    values = decode_d(words, case.d_type)
    found = np.stack([passes[0].coordinate(values[0]), passes[1].coordinate(values[1])])  # (m or n, cta, lane, column)
    notes = [f"{conflict.case}: {' or '.join(layout.value for layout, _ in conflict.claims)}, by different documents"
             for conflict in disagreements(case.m, cta_group=2, sparse=case.sparse)]  # fmt: skip
    return Judgement([check for cta in range(_CTAS) for check in _checks(case, cta, words[:, cta], found[:, cta])],
                     notes=notes)  # fmt: skip


def _expected(case: PairCase, cta: int) -> Array:
    """The element of each cell as (m, n), shape (2, 128, 512); -1 for none."""
    expected = np.full((2, TMEM_LANES, TMEM_COLUMNS), NOWHERE, np.int64)
    expected[:, :, : case.map.columns_used] = [at[cta] for at in case.map.inverse]
    expected[:, case.disabled[cta]] = NOWHERE
    return expected


def _checks(case: PairCase, cta: int, words: Array, found: Array) -> Iterator[Check]:
    expected = _expected(case, cta)
    belongs = expected[0] != NOWHERE
    untouched = (words == sentinel_words()).all(axis=0)
    missing = belongs & untouched
    yield passed(f"cta-{cta}-written", not missing.any(), f"{belongs.sum()} cells",
                 counted(missing.sum(), "cell") + " not", f"{place(missing)} still hold the sentinel")  # fmt: skip
    outside = ~belongs & ~untouched
    if case.sparse:
        outside[:, _METADATA] &= (words[:, :, _METADATA] != _METADATA_WORD).any(axis=0)
    if case.a_in_tmem:
        outside[:, _A] = False  # they are full of A
    yield passed(f"cta-{cta}-outside", not outside.any(), "no other cell", counted(outside.sum(), "cell") + " written",
                 place(outside))  # fmt: skip
    wrong = belongs & ~untouched & (found != expected).any(axis=0)
    message = ""
    if wrong.any():
        lane, column = (int(index) for index in np.argwhere(wrong)[0])
        names, wanted = found[:, lane, column].tolist(), expected[:, lane, column].tolist()
        message = f"{place(wrong)}; lane {lane}, column {column} names (m, n) = {names}, must name {wanted}"
    documented = f"layout {case.map.layout.value}"
    actual = _layout(case, cta, found, untouched) if wrong.any() else documented
    yield passed(f"cta-{cta}-elements", not wrong.any(), documented, actual, message)


def _layout(case: PairCase, cta: int, found: Array, untouched: Array) -> str:
    columns = max(case.n // rule.banks for rule in RULES.values() if rule.m == case.m and rule.cta_group == _CTAS)
    named = np.where(untouched | (found == NOWHERE).any(axis=0), NOWHERE, found)[:, :, :columns]
    return f"layout {recover_layout(named[0], named[1], m=case.m, n=case.n, cta=cta).name}"
