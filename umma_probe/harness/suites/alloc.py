"""``alloc``: allocation of Tensor Memory, as documented and against the rules.

As documented: a block is a power of two of at least 32 columns and all lanes; ``alloc`` blocks while there is no room;
sizes of a CTA must not grow; all must be freed. Which of the free columns it takes is not documented and is noted.
A misuse should fault; on the model those that PTX leaves undefined are undecided. A leak faults nobody: a CTA that
exits with columns keeps those that come after it waiting, unless something frees them; no document says whether. On the
model the columns of a CTA are its own, and the leak is a finding of the sanitizer.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.harness.suite import Experiment, Judgement, LaunchPlan, Output, Outputs, noted, passed
from umma_probe.harness.wording import counted
from umma_probe.record.schema import Check
from umma_probe.record.sets import format_set
from umma_probe.spec.descriptors import encode_idesc
from umma_probe.spec.machine import TMEM_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.errors import UmmaProbeError
    from umma_probe.harness.suite import Array

_BLOCKS = (256, 128, 64, 32, 32)
_FREED = 3
"""Index of the block that makes room for the waiting warp."""
_UNIT = 32
_OTHER_WARP = 32 << 16
_LANE_8 = 8 << 16

_LEAK = "leak"


class Act(IntEnum):
    """``Misuse`` of the kernel."""

    SIZE = 0
    GROWING = 1
    RELINQUISHED = 2
    FREE_TWICE = 3
    FREE_OTHER = 4
    LOAD = 5
    LOAD_FREED = 6
    STORE = 7
    DENSE_MMA = 8
    SPARSE_MMA = 9
    COPY = 10


# misuse: what is done, columns, other columns, offset of an address, whether the instruction descriptor says sparse
_MISUSES: dict[str, tuple[Act, int, int, int, bool]] = {
    "granularity": (Act.SIZE, 48, 0, 0, False),
    "no-columns": (Act.SIZE, 0, 0, 0, False),
    "too-many": (Act.SIZE, 1024, 0, 0, False),
    "growing": (Act.GROWING, 32, 64, 0, False),
    "relinquished": (Act.RELINQUISHED, 32, 0, 0, False),
    "free-twice": (Act.FREE_TWICE, 32, 0, 0, False),
    "free-inside": (Act.FREE_OTHER, 64, 32, 32, False),
    "free-size": (Act.FREE_OTHER, 64, 32, 0, False),
    "unallocated": (Act.LOAD, 32, 0, 32, False),
    "freed": (Act.LOAD_FREED, 32, 0, 0, False),
    "out-of-bounds": (Act.LOAD, 512, 0, 512, False),
    "lane-alignment": (Act.LOAD, 32, 0, _LANE_8, False),
    "store-lane": (Act.STORE, 32, 0, _LANE_8, False),
    "other-warp": (Act.LOAD, 32, 0, _OTHER_WARP, False),
    "mma-unallocated": (Act.DENSE_MMA, 32, 0, 32, False),
    "cp-unallocated": (Act.COPY, 32, 0, 32, False),
    "sparse-idesc": (Act.DENSE_MMA, 32, 0, 0, True),
    "dense-idesc": (Act.SPARSE_MMA, 32, 0, 0, False),
}


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """The two proper launches, the one that should fault, or those of a leak."""
    misuse = params["misuse"]
    if misuse in _MISUSES:
        return Experiment(params, [], {}, [_misuse(misuse)], lambda outputs: _not_noticed(misuse),
                          judge_fault=lambda error: _noticed(misuse, error))  # fmt: skip
    if misuse == _LEAK:
        return Experiment(params, [], {}, _leak(params["ctas"]), judge_leak)
    return Experiment(params, [], {}, _proper(params), judge)


def _proper(params: Mapping[str, Any]) -> list[LaunchPlan]:
    ctas = params["ctas"]
    return [
        LaunchPlan(entry="alloc_order", args=[Output("taken", (len(_BLOCKS) + 3,))], block=(64,), label="order"),
        LaunchPlan(
            entry="alloc_share",
            args=[Output("taken", (ctas,)), Output("foreign", (ctas, 128)), np.uint32(params["columns"])],
            grid=(ctas,),
            label="sharing",
        ),
    ]


def _misuse(name: str) -> LaunchPlan:
    *numbers, sparse = _MISUSES[name]
    idesc = encode_idesc("f16", a_type="bf16", b_type="bf16", d_type="f32", m=128, n=16, sparse=sparse)
    return LaunchPlan(
        entry="alloc_misuse",
        args=[Output("out", (32,)), *map(np.uint32, (*numbers, idesc))],
        block=(32,),
        dynamic_smem=8192,
        label=name,
    )


def _leak(ctas: int) -> list[LaunchPlan]:
    """Twice the same: what the first launch leaves, the second finds."""
    return [
        LaunchPlan(entry="alloc_leak", args=[Output("taken", (ctas,))], grid=(ctas,), block=(32,), label=label)
        for label in ("leak", "after the leak")
    ]


def judge_leak(outputs: Sequence[Outputs]) -> Judgement:
    """It came to an end: whoever allocated after a CTA had exited got columns."""
    bases = np.concatenate([output["taken"] for output in outputs])
    words = f"all {len(bases)} CTAs got all columns" if not bases.any() else f"addresses {format_set(np.unique(bases))}"
    return Judgement([noted("left-columns", words)])


def _noticed(misuse: str, error: UmmaProbeError) -> Judgement:
    return Judgement([passed("refused", True, "a fault", error.title)], notes=[f"{misuse}: {error.message}"])


def _not_noticed(misuse: str) -> Judgement:
    return Judgement([passed("refused", False, "a fault", "ran to its end", f"{misuse} was not noticed")])


def judge(outputs: Sequence[Outputs]) -> Judgement:
    """What was allocated where, and whether anyone was disturbed."""
    order, sharing = outputs
    taken = order["taken"]
    sizes, places = ", ".join(map(str, _BLOCKS)), ", ".join(map(str, taken[: len(_BLOCKS)]))
    note = f"blocks of {sizes} columns were put at {places}, the one after all were freed at {taken[-1]}"
    return Judgement(
        [*_order_checks(taken), *_sharing_checks(sharing)], notes=[f"{note} (no document says which are taken first)"]
    )


def _order_checks(taken: Array) -> Iterator[Check]:
    blocks = taken[: len(_BLOCKS)].astype(np.int64)
    waited, freed, again = (int(word) for word in taken[len(_BLOCKS) :])
    bases = [*blocks.tolist(), waited, again]
    odd = [base for base in bases if base % _UNIT or base >= TMEM_COLUMNS]
    yield passed("addresses", not odd, "lane 0, a multiple of 32 columns", counted(len(odd), "address") + " otherwise",
                 ", ".join(map(hex, odd)))  # fmt: skip
    columns = [column for base, size in zip(blocks, _BLOCKS, strict=True) for column in range(base, base + size)]
    yield passed("disjoint", sorted(columns) == list(range(TMEM_COLUMNS)), f"columns 0-{TMEM_COLUMNS - 1} once each",
                 f"columns {format_set(columns)}", "blocks overlap, or reach beyond")  # fmt: skip
    yield passed("blocks", freed == 1, "waits until columns are free", "waited" if freed == 1 else "did not wait",
                 "alloc returned while every column was taken")  # fmt: skip
    yield passed("reuse", waited == int(blocks[_FREED]), f"the freed block at {blocks[_FREED]}", f"at {waited}")


def _sharing_checks(sharing: Outputs) -> Iterator[Check]:
    disturbed = np.flatnonzero(sharing["foreign"].any(axis=1))
    yield passed("isolation", not len(disturbed), "every CTA finds its own marks", counted(len(disturbed), "CTA")
                 + " disturbed", f"CTAs {format_set(disturbed)}")  # fmt: skip
