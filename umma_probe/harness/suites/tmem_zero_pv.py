"""``tmem-zero-pv``: which columns the PV MMA writes, over zeros, the sentinel, or the stale scores of QK.

The setting is that of the recorded observation: no swizzle, K-major, 8x8 core matrices, LBO = rows * 16 bytes and
SBO = 128 bytes, one MMA for each 16 keys, each with its own slice of P and V; the accumulator at the columns of QK's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.experiment import experiment, plan_of
from umma_probe.record.schema import CellState
from umma_probe.record.sets import format_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umma_probe.harness.gemm.trial import Trial
    from umma_probe.harness.occupancy import Observation
    from umma_probe.harness.suite import Experiment
    from umma_probe.record.schema import Check

_ROWS = 128
_FINDING = "skipped-columns"


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """P (128, keys), V^T (hd, keys); see ``Suite.prepare``."""
    hd, keys = params["hd"], params["keys"]
    sub_n = hd if params["pv_n"] == "hd" else _sub_n(params["pv_n"], hd)
    case = GemmCase.of(m=_ROWS, n=hd, k=keys, swizzle="none", sub_n=sub_n, fill=params["fill"],
                       readback=params["readback"])  # fmt: skip
    scores = GemmCase.of(m=_ROWS, n=keys, k=hd, swizzle="none")
    problems = [*case.problems(arch), *(scores.problems(arch) if params["fill"] == "stale" else ())]
    before = (scores.recipe(), scores) if params["fill"] == "stale" else None
    plan = plan_of(case, case.recipe(), before, params["inject"], arch, seed)
    made = experiment(plan, {**params, "idesc": f"{plan.clean.idesc:#010x}"}, problems, _columns)
    return replace(made, findings=(_FINDING,))


def _sub_n(text: str, hd: int) -> int:
    if hd % int(text):
        raise ConfigError(f"pv-n is {text}, must divide hd, {hd}")
    return int(text)


def _columns(trial: Trial, observed: Observation) -> tuple[list[Check], list[str]]:
    """In words: how many columns of D are right in all lanes, and what the fill cannot tell."""
    right = observed.at(CellState.RIGHT) | ~observed.expected
    of_d = observed.expected.any(axis=0)
    good = np.flatnonzero(right.all(axis=0) & of_d)
    notes = [f"{len(good)} of {int(of_d.sum())} columns are right in all lanes: {format_set(good) or '-'}."]
    zero = observed.at(CellState.ZERO)
    if zero.any() and trial.clean.fill == "zero":
        notes.append("Tensor Memory held zero before: the picture alone does not say whether zero was written. "
                     "A launch of the same operands over the sentinel does, see the diagnosis.")  # fmt: skip
    elif zero.any():
        notes.append(f"Columns {format_set(np.flatnonzero(zero.any(axis=0)))} are written, with zero.")
    if trial.clean.fill == "stale":
        stale = format_set(np.flatnonzero((observed.untouched & ~observed.expected)[:, : trial.clean.k].any(axis=0)))
        notes.append(f"Columns {stale or '-'} hold stale scores of QK, as they should.")
    return [], notes
