"""The operands of a product: two passes in which every element of D names its place, and one of random values.

The coded passes are exact in float64 and in the tensor core alike. The random pass is for the arithmetic, and tells
hypotheses apart: coded rows look alike in all K tiles but the first, random ones do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from umma_probe.harness.coding import CodedPass, coded_passes, raw_codes
from umma_probe.spec.encoding import decode_to_float64
from umma_probe.spec.formats import FORMATS

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

_SEED = 20250101
_DROPPED = {"bf16": 16, "tf32": 13}
"""Low bits of an f32 that the format does not have."""


@dataclass(frozen=True, eq=False)
class Pass:
    """The operands of one launch: values (M, K) and (N, K)."""

    name: str
    a: Floats
    b: Floats
    a_type: str
    b_type: str
    coded: CodedPass | None = None

    @cached_property
    def a_codes(self) -> Codes:
        """Raw element codes (M, K), as the kernel wants them."""
        return np.asarray(raw_codes(self.a, self.a_type))

    @cached_property
    def b_codes(self) -> Codes:
        """Raw element codes (N, K)."""
        return np.asarray(raw_codes(self.b, self.b_type))

    @property
    def reference(self) -> Floats:
        """D (M, N) in float64."""
        return np.asarray(self.a @ self.b.T)


def gemm_passes(
    m: int, n: int, tile_k: int, tiles: int, types: tuple[str, str, str], *, salt: int = 0
) -> tuple[Pass, Pass, Pass]:
    """Row, column and random pass.

    :param types: of A, B and D.
    :param salt: another value gives other random operands.
    :raises ConfigError: D cannot hold the coded sums exactly.
    """
    a_type, b_type, d_type = types
    k = tile_k * tiles
    row, column = coded_passes(m, n, tile_k, tiles, a_type, b_type, d_type)
    return (
        Pass("row", row.a, row.b, a_type, b_type, row),
        Pass("column", column.a, column.b, a_type, b_type, column),
        Pass(
            "random", random_values((m, k), a_type, salt + 1), random_values((n, k), b_type, salt + 2), a_type, b_type
        ),
    )


@lru_cache(maxsize=32)
def random_values(shape: tuple[int, int], type_: str, salt: int) -> Floats:
    """Standard normal values rounded to the format, or any finite ones of the formats of 8 bits and fewer."""
    draw = np.random.default_rng(_SEED + salt)
    if FORMATS[type_].bits <= 8:
        finite = decode_to_float64(np.arange(1 << FORMATS[type_].bits), type_)
        return draw.choice(finite[np.isfinite(finite)], shape)
    values = draw.standard_normal(shape).astype(np.float32)
    if type_ == "f16":
        return values.astype(np.float16).astype(np.float64)
    dropped = np.uint32(_DROPPED[type_])
    return (values.view(np.uint32) >> dropped << dropped).view(np.float32).astype(np.float64)
