"""``tmem-all-lanes``: every lane and column after an MMA, and where else a value lies that is not where it belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.experiment import experiment, plan_of
from umma_probe.harness.occupancy import NOWHERE
from umma_probe.harness.suite import passed
from umma_probe.record.schema import CellState
from umma_probe.record.sets import format_set
from umma_probe.spec.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umma_probe.harness.gemm.trial import Trial
    from umma_probe.harness.occupancy import Observation
    from umma_probe.harness.suite import Experiment
    from umma_probe.record.schema import Check

_LISTED = 16
"""So many values of D are searched for in words; the counts are of all."""


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """See ``Suite.prepare``."""
    case = GemmCase.of(
        m=params["m"], n=params["n"], k=params["k"] or KINDS[params["kind"]].k_dense, kind=params["kind"],
        a_type=params["type"] or "", swizzle=params["swizzle"], ws=params["ws"],
        lane=params["taddr_lane"], column=params["taddr_column"],
        readback=params["readback"],
    )  # fmt: skip
    plan = plan_of(case, case.recipe(), None, params["inject"], arch, seed)
    filled = {**params, "k": case.k, "type": case.a_type, "idesc": f"{plan.clean.idesc:#010x}"}
    return experiment(plan, filled, list(case.problems(arch)), _search)


def _search(_: Trial, observed: Observation) -> tuple[list[Check], list[str]]:
    """Look for every element of D that is not at its place in all of Tensor Memory."""
    lost = observed.expected & ~observed.at(CellState.RIGHT)
    elements = list(zip(observed.expected_m[lost], observed.expected_n[lost], strict=True))
    places = _places(observed)
    nowhere = sum(1 for element in elements if element not in places)
    wanted = "every value at its place"
    check = passed("search", not elements, wanted,
                   wanted if not elements else f"{nowhere} of {len(elements)} lost values are nowhere",
                   "values that are not at their place were searched for in all lanes and columns")  # fmt: skip
    return [check], _sentences(lost, observed, places)


def _places(observed: Observation) -> dict[tuple[Any, Any], tuple[int, int]]:
    named = np.argwhere((observed.found_m != NOWHERE) & (observed.found_n != NOWHERE) & ~observed.operand)
    return {
        (observed.found_m[lane, column], observed.found_n[lane, column]): (int(lane), int(column))
        for lane, column in named[::-1]
    }


def _lost_columns(lost: np.ndarray, observed: Observation) -> list[int]:
    return sorted({int(n) for n in observed.expected_n[lost]})


def _sentences(lost: np.ndarray, observed: Observation, places: Mapping[tuple[Any, Any], tuple[int, int]]) -> list[str]:
    """``value expected at d=32 found at lane L, column C``; columns whose same rows are nowhere share a sentence."""
    somewhere: list[str] = []
    nowhere: dict[str, list[int]] = {}
    for d in _lost_columns(lost, observed):
        wanted = [(m, d) for m in observed.expected_m[lost & (observed.expected_n == d)]]
        found = [(m, places[m, d]) for m, _ in wanted if (m, d) in places]
        rows = format_set(sorted(int(m) for m, _ in wanted))
        if not found:
            nowhere.setdefault(rows, []).append(d)
            continue
        row, (lane, column) = min(found)
        rest = f", {len(wanted) - len(found)} rows nowhere" if len(found) < len(wanted) else ""
        somewhere.append(
            f"value expected at d={d} (row {row} of rows {rows}) found at lane {lane}, column {column}{rest}"
        )
    lines = [f"values expected at d={format_set(ds)} (rows {rows}) found nowhere" for rows, ds in nowhere.items()]
    lines += somewhere
    return lines[:_LISTED] + ([f"... and {len(lines) - _LISTED} more of these"] if len(lines) > _LISTED else [])
