"""``st-repeat``: repeated ``tcgen05.st``, side by side or to the same cells: what each cell holds at the end.

Side by side, each cell must hold what its one store brought. To the same cells it must be the last store's if every
store was waited for; else no document orders them, so that any of them will do and the report says which it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.fills import sentinel_words
from umma_probe.harness.occupancy import place
from umma_probe.harness.readback import THREADS, WARPS, Readback
from umma_probe.harness.suite import Experiment, Judgement, LaunchPlan, Output, Outputs, passed
from umma_probe.harness.wording import counted
from umma_probe.layouts.tmem_ldst import LdStMap, LdStShape, LdStSpec, ldst_map, parse
from umma_probe.record.schema import Check
from umma_probe.record.sets import format_set
from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES
from umma_probe.spec.problems import Problem
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.harness.suite import Array

_TMEM = documented("Tensor Memory", "128 lanes by 512 columns per CTA")
_READBACK = Readback(parse("32x32b.x32"))
_STORE_BIT = 12
"""From here up a word has the number of its store, from 1; below, thread and register."""
_TO_THE_SAME = 16


@dataclass(frozen=True)
class RepeatCase:
    """The parameters, with the count filled in."""

    spec: LdStSpec
    count: int
    same_place: bool
    wait_each: bool
    column: int

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> RepeatCase:
        """From the parameters; a form that does not exist is a wrong parameter."""
        spec = LdStSpec(LdStShape(params["shape"]), params["num"])
        same = params["place"] == "same"
        fit = max((TMEM_COLUMNS - params["column"]) // ldst_map(spec.shape, spec.num).columns_used, 1)
        count = params["count"] or (_TO_THE_SAME if same else fit)
        return cls(spec, count, same, params["wait"] == "each", params["column"])

    @cached_property
    def map(self) -> LdStMap:
        """Registers to cells."""
        return ldst_map(self.spec.shape, self.spec.num)

    @property
    def step(self) -> int:
        """Columns from one store to the next."""
        return 0 if self.same_place else self.map.columns_used

    @property
    def last_column(self) -> int:
        """The last column that is stored to."""
        return self.column + self.step * (self.count - 1) + self.map.columns_used - 1

    @cached_property
    def expected(self) -> tuple[Array, Array]:
        """(128, 512): the number of the store whose word belongs in a cell (the last one's), 0 for none; and the thread
        and register in it."""
        store, word = (np.zeros((TMEM_LANES, TMEM_COLUMNS), np.int64) for _ in range(2))
        thread, register = np.indices((THREADS, self.spec.registers))
        for number in range(self.count):
            for lane in range(0, TMEM_LANES, self.spec.shape.lanes):
                cells = lane + self.map.lane, self.column + self.step * number + self.map.column
                store[cells], word[cells] = number + 1, thread << 7 | register
        return store, word


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """One launch; nothing is random and no target differs."""
    case = RepeatCase.of(params)
    if case.last_column >= TMEM_COLUMNS:
        message = f"the last store reaches column {case.last_column}, must be at most {TMEM_COLUMNS - 1}"
        raise ConfigError(message, hint="give a smaller --count or --column", ref=str(_TMEM))
    return Experiment(
        params={**params, "count": case.count},
        problems=list[Problem](),
        defines={"SHAPE": case.spec.shape.value, "REGISTERS": case.spec.registers},
        launches=[
            LaunchPlan(
                entry="st_repeat",
                args=[
                    Output("dump", _READBACK.dump_shape),
                    *map(np.uint32, (case.count, case.step, case.column, case.wait_each)),
                ],
                block=(WARPS * THREADS,),
            )
        ],
        judge=lambda outputs: judge(case, outputs),
        findings=("st-16x256b-second-use",),
    )


def judge(case: RepeatCase, outputs: Sequence[Outputs]) -> Judgement:
    """What each cell holds."""
    (output,) = outputs
    words = _READBACK.words(output["dump"])
    return Judgement(list(_checks(case, words)))


def _checks(case: RepeatCase, words: Array) -> Iterator[Check]:
    store, word = case.expected
    written = store > 0
    untouched = words == sentinel_words()
    lost = written & untouched
    missing = np.unique(store[lost])
    yield passed("landed", not lost.any(), f"all {case.count} stores", counted(len(missing), "store") + " lost",
                 f"stores {format_set(missing - 1)} left the sentinel in {place(lost)}")  # fmt: skip
    stray = ~written & ~untouched
    yield passed("outside", not stray.any(), "no other cell", counted(stray.sum(), "cell") + " written", place(stray))
    found = words.astype(np.int64) >> _STORE_BIT
    foreign = written & ~untouched & (words & (1 << _STORE_BIT) - 1 != word)
    yield passed("registers", not foreign.any(), "each cell its own register", counted(foreign.sum(), "cell")
                 + " otherwise", place(foreign))  # fmt: skip
    early = written & ~untouched & ~foreign & (found != store)
    if case.same_place and not case.wait_each and early.any():
        yield Check("order", "undecided", "no document says", f"store {int(found[early].min()) - 1} was left in a cell",
                    "no document orders stores with no wait between them")  # fmt: skip
        return
    yield passed("order", not early.any(), "the last store's word", counted(early.sum(), "cell") + " of an earlier one",
                 place(early))  # fmt: skip
