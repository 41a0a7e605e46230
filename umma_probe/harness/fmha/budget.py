"""Where the kernel puts things: columns of Tensor Memory and bytes of shared memory, by use.

The same sums as in ``probes/fmha_config.cuh``; the kernel is compiled with the total given here and refuses another.
"""

from __future__ import annotations

from dataclasses import dataclass

from umma_probe.harness.fmha.problem import TILE, FmhaProblem
from umma_probe.spec.machine import KIB, TMEM_COLUMNS

MAX_SMEM_BYTES = 227 * KIB
_BARRIER_ROOM = 1 * KIB
_MOST_STAGES = 4
_PATTERN_BYTES = 1024
_ELEMENT_BYTES = 2


@dataclass(frozen=True)
class Use:
    """A piece of memory: where it begins, how large it is, what lies there."""

    name: str
    start: int
    size: int
    what: str

    @property
    def last(self) -> int:
        """Inclusive."""
        return self.start + self.size - 1


@dataclass(frozen=True)
class Budget:
    """All uses; ``tmem`` in columns (of all 128 lanes), ``smem`` in bytes."""

    tmem: tuple[Use, ...]
    smem: tuple[Use, ...]
    stages: int
    """Tiles in the K/V ring."""
    allocated_columns: int

    @property
    def used_columns(self) -> int:
        """Columns that hold something."""
        return max(use.last for use in self.tmem) + 1

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        end = max(use.last for use in self.smem) + 1
        return -(-end // _PATTERN_BYTES) * _PATTERN_BYTES


def budget(problem: FmhaProblem) -> Budget:
    """The budget of a kernel."""
    used = 2 * TILE + problem.hd
    columns = 32
    while columns < used:
        columns *= 2
    stages = _stages(problem)
    return Budget(_tmem(problem), _smem(problem, stages), stages, min(columns, TMEM_COLUMNS))


def _tile_bytes(problem: FmhaProblem) -> int:
    return TILE * problem.hd * _ELEMENT_BYTES


def _p_bytes(problem: FmhaProblem) -> int:
    return 0 if problem.p_in_tmem else TILE * TILE * _ELEMENT_BYTES


def _stages(problem: FmhaProblem) -> int:
    tile = _tile_bytes(problem)
    return min(_MOST_STAGES, (MAX_SMEM_BYTES - _BARRIER_ROOM - tile - _p_bytes(problem)) // tile)


def _tmem(problem: FmhaProblem) -> tuple[Use, ...]:
    p = f", then P of the same tile in the first {TILE // 2}: two elements a column" if problem.p_in_tmem else ""
    return (
        Use("S(even)", 0, TILE, f"f32 scores of even KV tiles{p}"),
        Use("S(odd)", TILE, TILE, f"f32 scores of odd KV tiles{p}"),
        Use("O", 2 * TILE, problem.hd, "f32 output, not yet divided by the row sums"),
    )


def _smem(problem: FmhaProblem, stages: int) -> tuple[Use, ...]:
    tile, swizzle = _tile_bytes(problem), 2 * problem.panel_columns
    layout = f"{problem.hd // problem.panel_columns} panel(s) of 128 rows x {swizzle} bytes, swizzle {swizzle}B"
    pieces: list[tuple[str, int, str]] = []
    if not problem.p_in_tmem:
        pieces.append(("P", _p_bytes(problem), "2 panels of 128 rows x 128 bytes, swizzle 128B, K-major"))
    pieces.append(("Q", tile, f"{layout}, K-major"))
    pieces += [(f"ring[{i}]", tile, f"{layout}; K K-major, V MN-major") for i in range(stages)]
    barriers = 1 + 2 * stages + 2 + 1 + 1
    pieces.append(("mbarriers", 8 * barriers, f"{barriers} of 8 bytes"))
    pieces.append(("tmem", 4, "address that tcgen05.alloc wrote"))
    uses, start = [], 0
    for name, size, what in pieces:
        uses.append(Use(name, start, size, what))
        start += size
    return tuple(uses)
