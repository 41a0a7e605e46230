"""``qk-gemm``: S = Q * K^T of an attention tile; both operands in shared memory, a loop over the head dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.experiment import experiment, plan_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umma_probe.harness.suite import Experiment


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """Q (rows, hd), K (keys, hd); see ``Suite.prepare``."""
    case = GemmCase.of(
        m=params["rows"], n=params["keys"], k=params["hd"], kind=params["kind"], a_type=params["type"] or "",
        swizzle=params["swizzle"], column=params["column"], readback=params["readback"],
    )  # fmt: skip
    plan = plan_of(case, case.recipe(), None, params["inject"], arch, seed)
    filled = {**params, "type": case.a_type, "idesc": f"{plan.clean.idesc:#010x}"}
    return experiment(plan, filled, list(case.problems(arch)))
