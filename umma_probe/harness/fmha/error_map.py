"""Where the wrong elements are: the first wrong tile of O as rows by columns."""

from __future__ import annotations

import numpy as np

from umma_probe.harness.fmha.compare import Comparison
from umma_probe.harness.fmha.problem import TILE, FmhaProblem
from umma_probe.record.accuracy import ErrorMap

RIGHT, WRONG, ZERO, NAN = ".", "x", "0", "n"
_WORST_LAST = (RIGHT, ZERO, WRONG, NAN)
_ROWS_PER_LINE = 8
_MOST_CHARS = 128


def error_map(problem: FmhaProblem, compared: Comparison) -> ErrorMap:
    """The tile that holds the first wrong element."""
    batch, head, row, _ = compared.first_wrong
    first = row // TILE * TILE
    place = (batch, head, slice(first, first + TILE))
    wrong, actual = compared.wrong[place], compared.actual[place]
    rank = np.where(wrong, 2, 0)
    rank[wrong & (actual == 0)] = 1
    rank[wrong & np.isnan(actual)] = 3
    per_char = -(-problem.hd // _MOST_CHARS)
    lines = []
    for start in range(0, len(rank), _ROWS_PER_LINE):
        block = rank[start : start + _ROWS_PER_LINE]
        worst = [int(block[:, column : column + per_char].max()) for column in range(0, problem.hd, per_char)]
        lines.append("".join(_WORST_LAST[w] for w in worst))
    return ErrorMap(batch, head, first, _ROWS_PER_LINE, per_char, lines)
