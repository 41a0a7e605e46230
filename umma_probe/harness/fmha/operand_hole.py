"""The operand hole: elements of V that the MMA reads as zero. Planting one, and recognising one from O alone.

Elements are numbered as in one K=16 slice of the B operand in [n][k] order: column d of O and key k of the slice are
element 16 d + k. The same elements are missing in every slice.

Recognition: without holes O[:, d] is the sum of 16 parts, one for each key number k modulo 16. The parts that are
really in it follow from the rows by least squares, since there are more rows than parts: weight 1 for what is there, 0
for a hole. The hole is certain when V with exactly these elements at zero gives O back within its limits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from umma_probe.errors import ConfigError, RecordError
from umma_probe.harness.fmha.compare import Comparison
from umma_probe.harness.fmha.inputs import Tensors
from umma_probe.harness.fmha.problem import FmhaProblem
from umma_probe.harness.fmha.reference import F64, Reference, spread_heads
from umma_probe.record.schema import Diagnosis
from umma_probe.record.sets import format_set, named_set, parse_set

SLICE = 16
"""K of one MMA."""
_NAME = "operand-hole"
_WEIGHT_TOLERANCE = 0.25


def plant(problem: FmhaProblem, tensors: Tensors, fault: str) -> Tensors:
    """The inputs as the kernel gets them with the fault ``operand-hole:RANGES`` planted.

    :raises ConfigError: another fault, or elements outside the slice.
    """
    name, _, ranges = fault.partition(":")
    if name != _NAME or not ranges:
        raise ConfigError(f"inject is '{fault}', must be {_NAME}:RANGES, for instance {_NAME}:512-575,768-831")
    last = problem.hd * SLICE - 1
    try:
        elements = np.array(parse_set(ranges), np.int64)
    except RecordError as error:
        raise ConfigError(f"inject is '{fault}': {error.message}, numbers from 0 to {last}") from error
    if elements.max(initial=0) > last:
        raise ConfigError(f"inject is '{fault}': element {elements.max()}, must be at most {last}: 16 keys x hd "
                          f"{problem.hd}")  # fmt: skip
    v = tensors.v.copy()
    v[hole_mask(problem, elements)] = 0
    return replace(tensors, v=v)


def hole_mask(problem: FmhaProblem, elements: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which elements of V these are, in the shape of V."""
    of_slice = np.zeros((problem.hd, SLICE), np.bool_)
    of_slice[elements // SLICE, elements % SLICE] = True
    keys = np.arange(problem.seq_k) % SLICE
    return np.broadcast_to(of_slice[:, keys].T, problem.kv_shape)


def recognise(
    problem: FmhaProblem, tensors: Tensors, reference: Reference, compared: Comparison, limit: F64
) -> Diagnosis | None:
    """The hole that explains every wrong element of O, or None."""
    wrong_columns = np.flatnonzero(compared.wrong.any(axis=(0, 1, 2)))
    if not len(wrong_columns):
        return None
    elements = _missing(problem, tensors, reference, compared.actual, wrong_columns)
    if not len(elements):
        return None
    explained = _without(problem, tensors, reference, elements)
    agrees = np.abs(explained - compared.actual) <= limit
    if not agrees.all():
        return None
    zero = np.flatnonzero((compared.actual == 0).all(axis=(0, 1, 2)) & (compared.expected != 0).any(axis=(0, 1, 2)))
    right = problem.hd - len(wrong_columns)
    evidence = [
        f"wrong in every tile: {named_set('column', wrong_columns)} of O; right: the other {right}",
        f"V with elements {format_set(elements)} of each K=16 slice (16 * column + key % 16) at zero gives all "
        f"{compared.actual.size} elements of O within their limits",
    ]
    if len(zero):
        evidence.insert(1, f"zero: {named_set('column', zero)}; the MMA wrote there, and added nothing up")
    return Diagnosis("operand hole in V: the MMA read zeros there; no column of the accumulator is skipped", "certain",
                     evidence)  # fmt: skip


def _probabilities(problem: FmhaProblem, reference: Reference) -> F64:
    """(batch, head, query, key), each row divided by its sum."""
    x = reference.scaled(problem)
    with np.errstate(all="ignore"):
        p = np.exp2(x - reference.row_max[..., None])
        return np.nan_to_num(p / reference.row_sum[..., None])


def _missing(
    problem: FmhaProblem, tensors: Tensors, reference: Reference, actual: F64, columns: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Elements with weight 0; empty where some weight is neither 0 nor 1."""
    p, v = _probabilities(problem, reference), spread_heads(tensors.v, problem)
    present = min(SLICE, problem.seq_k)
    keys = np.arange(problem.seq_k) % SLICE
    found: list[int] = []
    for d in columns.tolist():
        parts = np.stack([(p * np.where(keys == k, v[..., None, :, d], 0.0)).sum(-1) for k in range(present)], -1)
        weights, *_ = np.linalg.lstsq(parts.reshape(-1, present), actual[..., d].reshape(-1), rcond=None)
        if (np.minimum(np.abs(weights), np.abs(weights - 1)) > _WEIGHT_TOLERANCE).any():
            return np.zeros(0, np.int64)
        found += [SLICE * d + k for k in range(present) if weights[k] < _WEIGHT_TOLERANCE]
    return np.array(found, np.int64)


def _without(problem: FmhaProblem, tensors: Tensors, reference: Reference, elements: npt.NDArray[np.int64]) -> F64:
    """O as it is with these elements of V at zero."""
    v = np.where(hole_mask(problem, elements), 0.0, tensors.v.astype(np.float64))
    spread: F64 = np.repeat(v, problem.heads_per_kv_head, axis=1)
    result: F64 = _probabilities(problem, reference) @ spread
    return result
