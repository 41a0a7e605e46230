"""``pv-gemm``: O = P * V of an attention tile; P in Tensor Memory (packed) or shared memory, a loop over the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.experiment import experiment, plan_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umma_probe.harness.suite import Experiment


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """P (rows, keys), V as (hd, keys): MN-major V is [key][hd] in memory; see ``Suite.prepare``."""
    case = GemmCase.of(
        m=params["rows"], n=params["hd"], k=params["keys"], kind=params["kind"], a_type=params["type"] or "",
        a_source=params["p_source"], b_major=params["v_major"], swizzle=params["swizzle"] or "",
        sub_n=params["pv_n"] or 0, column=params["column"], readback=params["readback"],
    )  # fmt: skip
    plan = plan_of(case, case.recipe(), None, params["inject"], arch, seed)
    filled = {**params, "type": case.a_type, "swizzle": plan.clean.b.placed.swizzle.text,
              "idesc": f"{plan.clean.idesc:#010x}"}  # fmt: skip
    notes = []
    if plan.clean.a_in_tmem:
        last = plan.clean.a_column + 8 * plan.clean.tiles - 1
        notes.append(f"P lies packed in Tensor Memory columns {plan.clean.a_column}-{last}.")
    return experiment(plan, filled, list(case.problems(arch)), lambda *_: ([], notes))
