"""``ws-mask``: the zero-column mask of ``tcgen05.mma.ws``, column by column, against the runs that it describes.

The mask cuts N into one, two or four parts (M = 128, 64, 32). Each is a sequence of runs, zeroed and used in turn:
which comes first and how much shorter the first is, each part says itself; the lengths are common to all. A start count
that would use up the first run leaves one column of it (assumed). D's column n takes column n + shift of B, so that B
has rows beyond N.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.coding import CodedPass, coded_passes, decode_d, raw_codes
from umma_probe.harness.fills import sentinel_words
from umma_probe.harness.occupancy import place
from umma_probe.harness.placement import place_operand
from umma_probe.harness.readback import Readback
from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Output, Outputs, passed
from umma_probe.harness.wording import counted
from umma_probe.layouts.tmem_accumulator import AccumulatorMap, accumulator_map
from umma_probe.layouts.tmem_ldst import parse
from umma_probe.record.schema import Check
from umma_probe.record.sets import format_set
from umma_probe.spec.descriptors import MAX_SHIFTS, Problem, Swizzle, encode_idesc
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS, check_shape
from umma_probe.spec.zero_column_mask import MASK_REFS, ZERO_COLUMN_MASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.harness.suite import Array

_READBACK = Readback(parse("32x32b.x32"))
_TYPES = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8"}


@dataclass(frozen=True)
class MaskCase:
    """The parameters, with lists as tuples of four."""

    m: int
    n: int
    kind: str
    zero_run: int
    used_run: int
    zero_first: tuple[int, ...]
    start: tuple[int, ...]
    shift: int
    disabled: bool

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> MaskCase:
        """Read the lists.

        :raises ConfigError: not one to four numbers, or one out of its field.
        """
        lists = {
            "zero_first": _four("zero-first", params["zero_first"], 1),
            "start": _four("start", params["start"], 255),
        }
        return cls(**{**params, "m": int(params["m"]), "n": int(params["n"]), **lists})

    @property
    def parts(self) -> int:
        """Sub-masks that count."""
        return 128 // self.m

    @property
    def type(self) -> str:
        """Of both operands."""
        return _TYPES[self.kind]

    @property
    def d_type(self) -> str:
        """Of D."""
        return KINDS[self.kind].d_types[-1]

    @property
    def max_shift(self) -> int:
        """What the instruction descriptor allows: the least that will do."""
        return min((limit for limit in MAX_SHIFTS if limit >= self.shift), default=max(MAX_SHIFTS))

    @property
    def mask(self) -> int:
        """The descriptor."""
        fields = {f"start_count_{part}": count for part, count in enumerate(self.start)}
        fields |= {f"first_span_{part}": flag for part, flag in enumerate(self.zero_first)}
        return ZERO_COLUMN_MASK.encode({**fields, "enable": int(not self.disabled), "skip_span": self.zero_run - 1,
                               "use_span": self.used_run - 1, "column_shift": self.shift})  # fmt: skip

    @property
    def b_rows(self) -> int:
        """Rows of B in shared memory."""
        return -(-(self.n + self.shift) // 8) * 8

    @cached_property
    def zeroed(self) -> Array:
        """Which columns of D are zero, (N,), run by run."""
        zeroed: list[bool] = []
        for part in range(self.parts):
            columns: list[bool] = []
            zero, cut = bool(self.zero_first[part]), self.start[part]
            while len(columns) < self.n // self.parts:
                length = self.zero_run if zero else self.used_run
                columns += [zero] * max(length - cut, 1)
                zero, cut = not zero, 0
            zeroed += columns[: self.n // self.parts]
        return np.array(zeroed) & (not self.disabled)

    @cached_property
    def map(self) -> AccumulatorMap:
        """Where D lies."""
        return accumulator_map(self.m, self.n, ws=True)


def _four(name: str, text: str, limit: int) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) > 4 or not all(part.strip().isdigit() and int(part) <= limit for part in parts):
        raise ConfigError(f"{name} is '{text}', must be one to four numbers from 0 to {limit}")
    return tuple(int(part) for part in parts) + (0,) * (4 - len(parts))


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """Two launches, one that names rows and one that names columns of B; nothing is random."""
    case = MaskCase.of(params)
    k = KINDS[case.kind].k_dense
    passes = coded_passes(case.m, case.b_rows, k, 1, case.type, case.type, case.d_type)
    idesc = encode_idesc(case.kind, a_type=case.type, b_type=case.type, d_type=case.d_type, m=case.m, n=case.n,
                         max_shift=case.max_shift)  # fmt: skip
    bits = FORMATS[case.type].container_bits
    return Experiment(
        params={**params, "mask": f"{case.mask:#018x}", "idesc": f"{idesc:#010x}"},
        problems=list(_problems(case, arch)),
        defines={"KIND": case.kind, "A_BITS": bits, "B_BITS": bits},
        launches=[_launch(case, coded, idesc) for coded in passes],
        judge=lambda outputs: judge(case, passes, outputs),
        findings=("conflict-zero-mask-spans",),
    )


def _problems(case: MaskCase, arch: str) -> Iterator[Problem]:
    yield from check_shape(case.kind, m=case.m, n=case.n, a_type=case.type, b_type=case.type, d_type=case.d_type,
                           ws=True, arch=arch)  # fmt: skip
    limit = 16 if case.m == 32 else 32
    if case.shift > limit:
        yield Problem("shift", f"shift is {case.shift}, must be at most {limit} for M = {case.m}", MASK_REFS[0])


def _launch(case: MaskCase, coded: CodedPass, idesc: int) -> LaunchPlan:
    a = place_operand(case.kind, case.type, case.m, 1, "k", Swizzle.NONE)
    b = place_operand(case.kind, case.type, case.b_rows, 1, "k", Swizzle.NONE)
    return LaunchPlan(
        entry="ws_mask",
        args=[
            Input(np.asarray(raw_codes(coded.a, case.type))),
            Input(np.asarray(raw_codes(coded.b, case.type))),
            Output("dump", _READBACK.dump_shape),
            a.struct(0),
            b.struct(a.size),
            np.uint32(idesc),
            np.uint64(case.mask),
        ],
        dynamic_smem=a.size + b.size,
        label=f"{coded.name} pass",
    )


def judge(case: MaskCase, passes: Sequence[CodedPass], outputs: Sequence[Outputs]) -> Judgement:
    """The columns that are zero, and those of B that the others name."""
    words = np.stack([_READBACK.words(output["dump"]) for output in outputs])
    values = decode_d(words[:, case.map.lane, case.map.column], case.d_type)  # (pass, M, N)
    return Judgement(checks=list(_checks(case, passes, words, values)))


def _checks(case: MaskCase, passes: Sequence[CodedPass], words: Array, values: Array) -> Iterator[Check]:
    zero = (values == 0).all(axis=(0, 1))
    yield passed(
        "zeroed", bool((zero == case.zeroed).all()), _columns(case.zeroed), _columns(zero), _exchanged(case, zero)
    )
    partly = (values == 0).any(axis=(0, 1)) & ~zero
    yield passed("whole-columns", not partly.any(), "no column partly zero", _columns(partly))
    used = ~zero
    rows, taken = passes[0].coordinate(values[0]), passes[1].coordinate(values[1])
    wanted = np.arange(case.n) + case.shift
    moved = used & (taken != wanted).any(axis=0)
    example = f"column {np.flatnonzero(moved)[0]} takes column {taken[0, moved][0]}" if moved.any() else ""
    yield passed("shift", not moved.any(), f"column n takes column n + {case.shift} of B",
                 _columns(moved) + " otherwise", example)  # fmt: skip
    wrong_rows = used & (rows != np.arange(case.m)[:, None]).any(axis=0)
    yield passed(
        "rows", not wrong_rows.any(), f"as in layout {case.map.layout.value}", _columns(wrong_rows) + " otherwise"
    )
    outside = (words != sentinel_words()).any(axis=0)
    outside[case.map.lane, case.map.column] = False
    yield passed("outside", not outside.any(), "no cell written", counted(outside.sum(), "cell") + " written",
                 place(outside))  # fmt: skip


def _columns(at: Array) -> str:
    return f"columns {format_set(np.flatnonzero(at))}" if at.any() else "no column"


def _exchanged(case: MaskCase, zero: Array) -> str:
    if (zero == ~case.zeroed).all():
        return "zeroed and used columns are exchanged: the spans are as the field table names them"
    return "other columns are zero than the mask describes"
