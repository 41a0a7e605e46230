"""``fence-order``: the round trip store, MMA, load, with one wait or fence left out: what comes too early or too late.

D = 1 + m + 256 a + 4096 b, a and b being the round (modulo 16) whose A and B were multiplied. A value is right, or made
of the A or the B of another round or of no A at all (a store came too late), or the D of an earlier or later round (the
load came too early or too late), or the sentinel (the load came before any MMA).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.harness.coding import decode_d
from umma_probe.harness.fills import sentinel_words
from umma_probe.harness.suite import Experiment, Judgement, LaunchPlan, Output, Outputs, passed
from umma_probe.harness.wording import counted
from umma_probe.record.sets import format_set
from umma_probe.spec.descriptors import Problem, encode_idesc, encode_smem_desc
from umma_probe.spec.machine import TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umma_probe.harness.suite import Array
    from umma_probe.record.schema import Check

_M, _N = 128, 8
_CYCLE = 16
"""Rounds after which the values repeat."""
_NAN = 0x7FFFFFFF
"""What the tensor core makes of the sentinel, which is Inf or NaN as bf16."""
_FINDINGS = ("fence-after-mma",)
_STEPS = {
    "none": "NO_STEP",
    "wait-st": "ST_WAIT",
    "proxy-fence": "PROXY",
    "fence-before-mma": "FENCE_BEFORE_MMA",
    "fence-after-barrier": "FENCE_AFTER_BARRIER",
    "commit-wait": "COMMIT",
    "fence-after-commit": "FENCE_AFTER_COMMIT",
    "wait-ld": "LD_WAIT",
    "fence-before-reuse": "FENCE_BEFORE_REUSE",
}


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """One launch; nothing is random and no target differs."""
    rounds = params["rounds"]
    return Experiment(
        params=params,
        problems=list[Problem](),
        defines={"OMIT": _STEPS[params["leave_out"]]},
        launches=[
            LaunchPlan(
                entry="fence_order",
                args=[
                    Output("out", (rounds, TMEM_LANES, _N)),
                    np.uint32(rounds),
                    np.uint64(encode_smem_desc(start_bytes=0, lbo_bytes=128, sbo_bytes=128)),
                    np.uint32(encode_idesc("f16", a_type="bf16", b_type="bf16", d_type="f32", m=_M, n=_N)),
                ],
            )
        ],
        judge=lambda outputs: judge(params["leave_out"], outputs),
        findings=_FINDINGS,
    )


def judge(left_out: str, outputs: Sequence[Outputs]) -> Judgement:
    """Which rounds are right, and what the others are made of."""
    (output,) = outputs
    kinds = classify(output["out"])
    wrong = (kinds["right"] < _M * _N).sum()
    checks = [_check(name, counts) for name, counts in kinds.items() if name != "right"]
    notes = []
    if left_out != "none":
        visible = (
            f"visible in {counted(wrong, 'round')}" if wrong else "not visible here, which does not make it needless"
        )
        notes.append(f"{left_out} was left out: {visible}")
    metrics = {"rounds": float(len(kinds["right"])), "rounds_wrong": float(wrong)}
    return Judgement(checks=checks, notes=notes, metrics=metrics)


def classify(out: Array) -> dict[str, Array]:
    """How many values of each round (rounds,) are right, and what the others are.

    :param out: words of D (rounds, 128, 8).
    """
    values = decode_d(out, "f32")
    known = np.isfinite(values) & (values >= 1) & (values < _CYCLE * 4096)
    whole = np.where(known, values - 1, 0).astype(np.int64)
    row, a, b = whole % 256, whole // 256 % _CYCLE, whole // 4096
    this = (np.arange(len(out)) % _CYCLE)[:, None, None]
    named = known & (row == np.arange(_M)[:, None])
    one_round = named & (a == b) & (a != this)
    later = (a - this) % _CYCLE < _CYCLE // 2
    conditions = {
        "right": named & (a == this) & (b == this),
        "stale-a": named & (a != this) & (b == this),
        "stale-b": named & (a == this) & (b != this),
        "old-d": one_round & ~later,
        "next-d": one_round & later,
        "no-a": out == _NAN,
        "sentinel": out == sentinel_words()[:, :_N],
    }
    conditions["other"] = ~np.any(list(conditions.values()), axis=0)
    return {name: at.sum(axis=(1, 2)) for name, at in conditions.items()}


_MEANINGS = {
    "stale-a": "the MMA read A of another round: the store to Tensor Memory came too late",
    "stale-b": "the MMA read B of another round: the store to shared memory came too late",
    "old-d": "the load brought D of an earlier round: it came before the MMA",
    "next-d": "the load brought D of a later round: it came after the next MMA",
    "no-a": "the MMA read the sentinel as A and made NaN of it: no store had come yet",
    "sentinel": "the load brought the sentinel: it came before the first MMA",
    "other": "values that no round has",
}


def _check(name: str, counts: Array) -> Check:
    rounds = np.flatnonzero(counts)
    return passed(name, not len(rounds), "no round", counted(len(rounds), "round"),
                  f"{_MEANINGS[name]}; rounds {format_set(rounds)}, {counted(counts.sum(), 'value')}")  # fmt: skip
