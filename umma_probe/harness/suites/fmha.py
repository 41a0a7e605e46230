"""``fmha``: fused attention against float64, element by element, with the intermediate values on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.fmha.budget import budget
from umma_probe.harness.fmha.compare import Comparison, compare, cosine, ulp_distance, ulp_histogram
from umma_probe.harness.fmha.error_map import error_map
from umma_probe.harness.fmha.inputs import Tensors, draw
from umma_probe.harness.fmha.limits import COSINE_LIMIT, Limits, derivation, limits
from umma_probe.harness.fmha.operand_hole import plant, recognise
from umma_probe.harness.fmha.problem import THREADS, TILE, FmhaProblem
from umma_probe.harness.fmha.reference import Reference, attention
from umma_probe.harness.fmha.stages import DUMPS, StageResult, chosen, compare_stages, dump_shape
from umma_probe.harness.suite import Argument, Experiment, Judgement, LaunchPlan, Mapped, Output, Outputs, passed
from umma_probe.record.accuracy import Accuracy, StageAccuracy, TileAccuracy
from umma_probe.record.schema import Check, Diagnosis

if TYPE_CHECKING:
    import numpy.typing as npt

NULL = np.uint64(0)
_STAGE_TITLES = {
    "s": "S = Q K^T",
    "row_max": "row maximum",
    "row_sum": "row sum",
    "p": "P",
    "o_unscaled": "O before the division",
}


def problem_of(params: Mapping[str, Any]) -> FmhaProblem:
    """The problem that the options describe."""
    return FmhaProblem(
        hd=params["hd"],
        dtype=params["dtype"],
        seq_q=params["seq_q"],
        seq_k=params["seq_k"],
        heads=params["heads"],
        kv_heads=params["kv_heads"] or params["heads"],
        batch=params["batch"],
        causal=params["causal"],
        pv_n=0 if params["pv_n"] == "hd" else int(params["pv_n"]),
        p_in_tmem=params["p"] == "tmem",
        dump_stages=params["stage"] != "none",
    )


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """Inputs, kernel and launch; see ``Suite.prepare``."""
    problem = problem_of(params)
    filled = {**params, "kv_heads": problem.kv_heads}
    if problems := problem.problems():  # not even by force: there is no such kernel
        raise ConfigError("; ".join(item.message for item in problems), ref=str(problems[0].ref))
    tensors = draw(problem, params["inputs"], seed)
    given = plant(problem, tensors, params["inject"]) if params["inject"] else tensors
    smem = budget(problem).smem_bytes
    plan = LaunchPlan("fmha", _arguments(problem, given), problem.grid, (THREADS,), dynamic_smem=smem)
    expected = {"EXPECTED_SMEM_BYTES": smem, "EXPECTED_PANEL_COLUMNS": problem.panel_columns}
    defines = {**problem.defines(), **expected}
    judged = partial(judge, problem, tensors, chosen(params["stage"]))
    return Experiment(filled, [], defines, [plan], judged, findings=_findings(problem))


def _findings(problem: FmhaProblem) -> tuple[str, ...]:
    """The recorded findings that were made with this head dimension and form of PV."""
    if problem.sub_tile == 16:
        return ("n16-sub-tiles",)
    return ("skipped-columns",) if problem.hd == problem.sub_tile == 64 else ()


def _arguments(problem: FmhaProblem, tensors: Tensors) -> list[Argument]:
    q, kv = problem.tensor_map(problem.q_shape), problem.tensor_map(problem.kv_shape)
    maps = [Mapped(tensors.q, q), Mapped(tensors.k, kv), Mapped(tensors.v, kv)]
    outputs = [Output("o", problem.q_shape, np.uint16), Output("lse", problem.q_shape[:3], np.float32)]
    sizes = [np.uint32(problem.seq_q), np.uint32(problem.seq_k), np.uint32(problem.heads_per_kv_head)]
    dumps = [Output(name, *dump_shape(problem, name)) if problem.dump_stages else NULL for name in DUMPS]
    return [*maps, *outputs, *sizes, problem.scale_log2, *dumps]


def judge(problem: FmhaProblem, tensors: Tensors, stages: tuple[str, ...], outputs: Sequence[Outputs]) -> Judgement:
    """What O, LSE and the intermediate values show."""
    (output,) = outputs
    reference = attention(problem, tensors)
    bound = limits(problem, tensors, reference)
    o = output["o"].view(problem.element)
    compared, lse = compare(reference.o, o, bound.o), compare(reference.lse, output["lse"], bound.lse)
    distance = ulp_distance(reference.o, o)
    results = list(compare_stages(problem, reference, bound, output, stages))
    whole = float(cosine(compared.expected, compared.actual))
    checks = [*_stage_checks(results), *_checks(problem, compared, lse, whole)]
    failed = any(check.verdict == "fail" for check in checks)
    accuracy = Accuracy(
        limit=derivation(problem),
        tiles=_tiles(problem, compared, distance),
        column_max_abs_error=[float(x) for x in compared.error.max(axis=(0, 1, 2))],
        column_cosine=[float(x) for x in cosine(compared.expected, compared.actual, (0, 1, 2))],
        ulp_histogram=ulp_histogram(distance),
        stages=[_stage_record(result) for result in results],
        error_map=error_map(problem, compared) if compared.wrong.any() else None,
    )
    metrics = {**_metrics(compared, lse, distance, whole, accuracy), "flop": problem.flop}
    diagnosis = _diagnosis(problem, tensors, reference, compared, bound, results) if failed else None
    return Judgement(checks, metrics=metrics, accuracy=accuracy, diagnosis=diagnosis, notes=_notes(compared))


# ---------------------------------------------------------------------- checks
def _checks(problem: FmhaProblem, compared: Comparison, lse: Comparison, whole: float) -> list[Check]:
    return [
        passed("cosine", whole >= COSINE_LIMIT, f"at least {COSINE_LIMIT}", f"{whole:.8f}"),
        _within("O", compared),
        _within("LSE", lse),
    ]


def _within(name: str, compared: Comparison) -> Check:
    count = int(compared.wrong.sum())
    actual = f"max error {compared.max_error:.3g}, {compared.limit_used:.0%} of its limit"
    message = ""
    if count:
        at = compared.first_wrong
        message = (
            f"{count} of {compared.expected.size} elements; first at {list(at)}: expected {compared.expected[at]:.6g}, "
            f"actual {compared.actual[at]:.6g}, limit {compared.limit[at]:.3g}"
        )
    return passed(name, not count, "every element within its limit", actual, message)


def _stage_checks(results: Sequence[StageResult]) -> list[Check]:
    return [_within(_STAGE_TITLES[result.name], result.comparison) for result in results]


def _stage_record(result: StageResult) -> StageAccuracy:
    compared = result.comparison
    count = int(compared.wrong.sum())
    return StageAccuracy(
        name=_STAGE_TITLES[result.name],
        verdict="fail" if count else "pass",
        elements=compared.expected.size,
        max_abs_error=compared.max_error,
        limit_used=compared.limit_used,
        wrong=count,
        first_wrong=list(compared.first_wrong) if count else [],
    )


# ---------------------------------------------------------------------- figures
def _tiles(problem: FmhaProblem, compared: Comparison, distance: npt.NDArray[np.int64]) -> list[TileAccuracy]:
    found = []
    for batch in range(problem.batch):
        for head in range(problem.heads):
            for first in range(0, problem.seq_q, TILE):
                place = (batch, head, slice(first, first + TILE))
                part = compared.part(place)
                found.append(
                    TileAccuracy(
                        batch=batch,
                        head=head,
                        rows=f"{first}-{first + len(part.expected) - 1}",
                        cosine=float(cosine(part.expected, part.actual)),
                        max_abs_error=part.max_error,
                        max_ulp=int(distance[place].max(initial=0)),
                        limit_used=part.limit_used,
                        wrong=int(part.wrong.sum()),
                    )
                )
    return found


def _metrics(compared: Comparison, lse: Comparison, distance: npt.NDArray[np.int64], whole: float,
             accuracy: Accuracy) -> dict[str, float]:  # fmt: skip
    return {
        "cosine": whole,
        "min_tile_cosine": min(tile.cosine for tile in accuracy.tiles),
        "min_column_cosine": min(accuracy.column_cosine),
        "max_abs_error": compared.max_error,
        "max_rel_error": compared.max_relative,
        "max_ulp": float(distance.max(initial=0)),
        "limit_used": compared.limit_used,
        "lse_max_abs_error": lse.max_error,
        "wrong_elements": float(compared.wrong.sum()),
    }


def _notes(compared: Comparison) -> list[str]:
    expected, actual = np.isnan(compared.expected), np.isnan(compared.actual)
    if not expected.any() and not actual.any():
        return []
    rows = int(expected.any(axis=-1).sum())
    word = "as they must be" if (expected == actual).all() else f"not the {int(expected.sum())} that must be"
    return [f"NaN in the inputs: {int(actual.sum())} elements of O are NaN ({rows} rows expected), {word}."]


# ---------------------------------------------------------------------- cause
def _diagnosis(problem: FmhaProblem, tensors: Tensors, reference: Reference, compared: Comparison, bound: Limits,
               results: Sequence[StageResult]) -> Diagnosis | None:  # fmt: skip
    hole = recognise(problem, tensors, reference, compared, bound.o)
    if hole is not None:
        return hole
    for position, result in enumerate(results):
        if result.comparison.wrong.any():
            right = [_STAGE_TITLES[before.name] for before in results[:position]]
            evidence = [f"right before it: {', '.join(right) or 'nothing was checked'}"]
            return Diagnosis(f"the first wrong stage is {_STAGE_TITLES[result.name]}", "certain", evidence)
    return None
