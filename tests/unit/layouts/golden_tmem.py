"""Reads the layout tables that NVIDIA's CuTe gives (``tests/vectors/*.json.gz``; ``_meta`` names the commit).

A map over two indices is stored as two lists whose sum it is; a list of zeros is written as 0. ``fnv1a64`` is a hash
over the exhaustive list, with the offset basis that its writer used (not the usual one).
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

VECTORS = Path(__file__).parents[2] / "vectors"
BASIS, PRIME = 1469598103934665603, 0x100000001B3


@cache
def golden(name: str) -> list[dict[str, Any]]:
    with gzip.open(VECTORS / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        cases: list[dict[str, Any]] = json.load(file)["cases"]
    return cases


def expand(case: dict[str, Any], what: str, shape: tuple[int, int], axes: str) -> np.ndarray:
    """``what`` (lane, col, ...) as an array of ``shape``; ``axes`` names the two lists, for instance ``m n``."""
    parts = []
    for axis, length in zip(axes.split(), shape, strict=True):
        values = case[f"{what}_{axis}"]
        parts.append(np.zeros(length, np.int64) if values == 0 else np.array(values))
        assert len(parts[-1]) == length
    return parts[0][:, None] + parts[1][None, :]


def fnv1a64(words: np.ndarray) -> str:
    value = BASIS
    for byte in words.astype("<u4").tobytes():
        value = ((value ^ byte) * PRIME) & (2**64 - 1)
    return f"{value:016x}"
