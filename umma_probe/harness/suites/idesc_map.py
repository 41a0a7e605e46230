"""``idesc-map``: for one instruction descriptor, the map from cells to elements of D that an MMA really has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError
from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.experiment import experiment, plan_of
from umma_probe.harness.occupancy import columns, lanes
from umma_probe.record.schema import CellState
from umma_probe.spec.idesc import decode_idesc, idesc_problems
from umma_probe.spec.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umma_probe.harness.gemm.trial import Trial
    from umma_probe.harness.occupancy import Observation
    from umma_probe.harness.suite import Experiment
    from umma_probe.record.schema import Check
    from umma_probe.spec.problems import Problem

_PLAIN = ("f16", "tf32", "f8f6f4", "i8")


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """See ``Suite.prepare``; a raw descriptor takes the place of all options that it encodes."""
    word = _word(params["idesc"])
    encoded = _from_word(params["kind"], word) if word is not None else _from_options(params)
    if encoded["kind"] not in _PLAIN:
        raise ConfigError(f"kind is {encoded['kind']}, must be one of {', '.join(_PLAIN)}")
    k = KINDS[encoded["kind"]].k_dense * params["k_tiles"]
    case = GemmCase.of(**encoded, k=k, ws=params["ws"], a_source=params["a_source"], column=0,
                       readback=params["readback"])  # fmt: skip
    clean = case.recipe(word)
    problems = list(case.problems(arch)) + (_word_problems(case, word, arch) if word is not None else [])
    plan = plan_of(case, clean, None, params["inject"], arch, seed)
    filled = {**params, **encoded, "a_type": case.a_type, "b_type": case.b_type, "d_type": case.d_type,
              "idesc": f"{clean.idesc:#010x}"}  # fmt: skip
    return experiment(plan, filled, problems, _map)


def _word(text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(text, 0)
    except ValueError:
        raise ConfigError(f"idesc is '{text}', must be a number such as 0x08100490") from None


def _from_options(params: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "m": params["m"], "n": params["n"], "kind": params["kind"], "a_type": params["a_type"] or "",
        "b_type": params["b_type"] or "", "d_type": params["d_type"] or "", "a_major": params["a_major"],
        "b_major": params["b_major"],
    }  # fmt: skip


def _from_word(kind: str, word: int) -> dict[str, Any]:
    fields = decode_idesc(kind, word)
    if None in (fields.a_type, fields.b_type, fields.d_type):
        raise ConfigError(f"idesc {word:#010x} has undefined types under kind::{kind}: "
                          + "; ".join(problem.message for problem in fields.problems))  # fmt: skip
    if fields.negate_a or fields.negate_b:
        raise ConfigError(f"idesc {word:#010x} negates an operand, must not: D could not name its places")
    names = ("m", "n", "a_type", "b_type", "d_type", "a_major", "b_major")
    return {"kind": kind, **{name: getattr(fields, name) for name in names}}


def _word_problems(case: GemmCase, word: int, arch: str) -> list[Problem]:
    known = [problem.message for problem in case.problems(arch)]
    found = idesc_problems(case.kind, word, cta_group=1, ws=case.ws, sparse=False, a_source=case.a_source, arch=arch)
    return [problem for problem in found if problem.message not in known]


def _map(trial: Trial, observed: Observation) -> tuple[list[Check], list[str]]:
    """The recovered map in words: which columns hold which n, and which lanes which m."""
    right = observed.at(CellState.RIGHT)
    if not right.any():
        return [], ["no element of D is at its place"]
    names = [f"N {n} in columns {columns(right & (observed.expected_n == n))}" for n in (0, trial.clean.n - 1)]
    names += [f"M {m} in lanes {lanes(right & (observed.expected_m == m))}" for m in (0, trial.clean.m - 1)]
    whole = int(right.sum()) == trial.clean.m * trial.clean.n
    return [], [f"{'All' if whole else 'Some'} elements are at their places: " + ", ".join(names) + "."]
