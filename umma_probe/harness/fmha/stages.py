"""Intermediate values of the kernel against their references, in the order in which the kernel makes them.

The first stage that is wrong is where to look; those behind it are wrong because of it. The kernel writes whole tiles,
of the KV tiles that it visits; what it does not visit is not compared. P is relative to the running row maximum at its
own tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umma_probe.harness.fmha.compare import Comparison, compare
from umma_probe.harness.fmha.limits import F32_UNIT, LN_2, Limits
from umma_probe.harness.fmha.problem import TILE, FmhaProblem
from umma_probe.harness.fmha.reference import Reference, running_softmax

STAGES = {"qk": ("s",), "softmax": ("row_max", "row_sum", "p"), "pv": ("o_unscaled",)}
"""What each word of ``--stage`` compares."""
DUMPS = ("s", "row_max", "row_sum", "p", "o_unscaled")
"""Names of the kernel's debug buffers, in the order of its parameters."""


def chosen(stage: str) -> tuple[str, ...]:
    """The values that a word of ``--stage`` compares, in the kernel's order."""
    if stage == "all":
        return tuple(name for names in STAGES.values() for name in names)
    return STAGES.get(stage, ())


def dump_shape(problem: FmhaProblem, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape (batch, head, rows of all tiles, ...) and type of a debug buffer."""
    rows = (problem.batch, problem.heads, problem.q_tiles * TILE)
    tiles = problem.kv_tiles
    f32 = np.dtype(np.float32)
    match name:
        case "s":
            return (*rows, tiles * TILE), f32
        case "p":
            return (*rows, tiles * TILE), np.dtype(np.uint16)
        case "o_unscaled":
            return (*rows, problem.hd), f32
        case _:
            return (*rows, tiles), f32


@dataclass(frozen=True)
class StageResult:
    """One compared value."""

    name: str
    comparison: Comparison


def compare_stages(
    problem: FmhaProblem,
    reference: Reference,
    limits: Limits,
    dumps: Mapping[str, npt.NDArray[Any]],
    names: tuple[str, ...],
) -> Iterator[StageResult]:
    """Each chosen value against its reference."""
    running = running_softmax(problem, reference)
    tile_visited = np.less(np.arange(problem.kv_tiles), problem.visited_tiles()[:, None])
    key_visited = np.repeat(tile_visited, TILE, axis=1)[:, : problem.seq_k]
    # one f32 rounding of the maximum, which the running values are relative to
    origin = np.expm1(LN_2 * F32_UNIT * np.abs(np.nan_to_num(running.row_max, posinf=0.0, neginf=0.0)))
    unit = limits.unit
    for name in names:
        actual = dumps[name][:, :, : problem.seq_q]
        match name:
            case "s":
                yield _stage(name, reference.s, actual[..., : problem.seq_k], limits.s, key_visited)
            case "row_max":
                score = np.log2(1 + limits.p_relative)[..., None]
                limit = score + 2 * F32_UNIT * np.abs(running.row_max)
                yield _stage(name, running.row_max, actual, limit, tile_visited)
            case "row_sum":
                limit = (limits.sum_relative[..., None] + origin) * running.row_sum
                yield _stage(name, running.row_sum, actual, limit, tile_visited)
            case "p":
                spread = np.repeat(origin, TILE, axis=-1)[..., : problem.seq_k]
                limit = (limits.p_relative[..., None] + spread + unit) * running.p + limits.p_floor
                yield _stage(name, running.p, actual.view(problem.element)[..., : problem.seq_k], limit, key_visited)
            case "o_unscaled":
                row_visited = np.broadcast_to(np.greater(problem.visited_tiles(), 0)[:, None], reference.o.shape)
                expected = reference.o * np.where(reference.row_sum == 0, 1.0, reference.row_sum)[..., None]
                yield _stage(name, expected, actual, limits.o_unscaled, row_visited)


def _stage(
    name: str, expected: npt.NDArray[Any], actual: npt.NDArray[Any], limit: npt.NDArray[Any], visited: npt.NDArray[Any]
) -> StageResult:
    """Compare where the kernel has been; elsewhere the value counts as right."""
    return StageResult(name, compare(np.where(visited, expected, 0.0), np.where(visited, actual, 0), limit))
