"""Which values of an address field can explain a few elements of D: a fast sieve before whole predictions.

There are 16384 strides and start addresses. For the sieve only a few elements (m, n) of the random pass are worked out
in float64, for all values at once: those rows of the suspected operand are fetched under each value, the other operand
is as staged. Values that give what D holds there go on to the exact comparison.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.harness.coding import decode_d
from umma_probe.harness.gemm.predict import Unpredictable, d_cells, fetch_addresses
from umma_probe.layouts.swizzle import swizzle_address
from umma_probe.spec.encoding import decode_to_float64
from umma_probe.spec.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umma_probe.harness.gemm.passes import Codes
    from umma_probe.harness.gemm.trial import Seen, Trial

_VALUES = np.arange(0, 1 << 18, 16)
_ROWS = 16
_TOLERANCE = 2e-3
_KEPT = 64
_SPAN = 4096
"""A value whose effect on an address no carry into the descriptor's other fields disturbs."""
_TABLE_BITS = 16


def likely_values(trial: Trial, name: str, field: str) -> list[int]:
    """Values of ``lbo``, ``sbo``, ``smem``, ``step`` or ``jump`` of operand ``name`` that pass the sieve, in order.

    The clean value is not among them. At most 64: more means that the field does not matter here.
    """
    seen = next(seen for seen in trial.seen if seen.codes.coded is None)
    read = trial.clean.operand(name).read
    clean_value = getattr(read, field)
    step = 32 if field in ("step", "jump") else 16
    try:
        if not _matters(trial, name, field, seen.image.base):
            return []
        possible = _sieve(trial, seen, name, field, _VALUES[_VALUES % step == 0])
    except Unpredictable:
        return []
    return [int(value) for value in possible if value != clean_value][:_KEPT]


def _matters(trial: Trial, name: str, field: str, base: int) -> bool:
    """Whether any picked element is fetched from elsewhere under another value."""
    rows, tiles = _picked_rows(trial, name), range(trial.clean.tiles)
    return any(_line(trial, name, field, tile, int(row), base)[1].any() for tile in tiles for row in rows)


def _picked_rows(trial: Trial, name: str) -> np.ndarray:
    """Rows of the suspected operand, of the first sub-tile: spread over groups of eight and over the whole."""
    rows = trial.clean.m if name == "a" else trial.clean.n
    return np.unique(np.linspace(0, rows - 1, min(_ROWS, rows)).astype(np.int64))


def _observed(trial: Trial, seen: Seen, name: str) -> Iterator[tuple[int, float]]:
    """Picked rows of the suspect with D's value there (row 0 of the other operand); numbers only: an F16 overflows."""
    clean = trial.clean
    lanes, columns = d_cells(clean.m, clean.n, clean.ws, clean.d_lane, clean.d_column)
    values = decode_d(trial.words(seen), clean.d_type)[lanes, columns]
    rows = _picked_rows(trial, name)
    picked = values[rows, 0] if name == "a" else values[0, rows]
    finite = np.isfinite(picked)
    if not finite.any():
        raise Unpredictable("D holds no numbers")
    return zip(rows[finite].tolist(), picked[finite].tolist(), strict=True)


def _sieve(trial: Trial, seen: Seen, name: str, field: str, values: np.ndarray) -> np.ndarray:
    """Those of ``values`` that give what D holds; row by row, so that most are dropped early."""
    clean, tile_k = trial.clean, trial.clean.tile_k
    other = (seen.codes.b if name == "a" else seen.codes.a)[0]
    for row, wanted in _observed(trial, seen, name):
        total, size, known = np.zeros(len(values)), np.zeros(len(values)), np.ones(len(values), np.bool_)
        for tile in range(clean.tiles):
            fetched, inside = _fetched(trial, seen, name, field, values, tile, row)
            products = fetched * other[tile * tile_k : (tile + 1) * tile_k]
            with np.errstate(invalid="ignore"):
                total += products.sum(axis=1)
                size += np.abs(products).sum(axis=1)
            known &= inside
        values = values[known & (np.abs(total - wanted) <= _TOLERANCE * np.maximum(size, 1e-6))]
        if not len(values):
            break
    return values


def _fetched(
    trial: Trial, seen: Seen, name: str, field: str, values: np.ndarray, tile: int, row: int
) -> tuple[np.ndarray, np.ndarray]:
    """Elements (values, k) of one row and K tile under each value, and which values stay inside shared memory."""
    clean, image = trial.clean, seen.image
    staged = clean.operand(name)
    addresses = _addresses(trial, name, field, values, tile, row, image.base)
    first = addresses // 8 - image.base
    inside = np.asarray((first.min(axis=1) >= 0) & (first.max(axis=1) + 4 <= len(image.data)))
    safe = np.where(inside[:, None], addresses, 8 * image.base)
    return _decoded(image.gather(safe, staged.bits), staged.type_), inside


def _decoded(codes: Codes, type_: str) -> np.ndarray:
    """Values of codes, by table where there are few."""
    if FORMATS[type_].container_bits > _TABLE_BITS:
        return decode_to_float64(codes, type_)
    return np.asarray(_table(type_)[codes])


@lru_cache(maxsize=8)
def _table(type_: str) -> np.ndarray:
    return decode_to_float64(np.arange(1 << FORMATS[type_].container_bits), type_)


def _addresses(trial: Trial, name: str, field: str, values: np.ndarray, tile: int, row: int, base: int) -> np.ndarray:
    """Bit addresses (values, k)."""
    origin, slope = _line(trial, name, field, tile, row, base)
    at = origin[None] + values[:, None] * slope[None]
    return np.asarray(swizzle_address(at // 8, trial.clean.operand(name).read.swizzle) * 8 + at % 8)


def _line(trial: Trial, name: str, field: str, tile: int, row: int, base: int) -> tuple[np.ndarray, np.ndarray]:
    """Bit address (k) before the swizzle: linear in the field's value, so two fetches give origin and slope."""
    clean = trial.clean
    staged = clean.operand(name)

    def linear(value: int) -> np.ndarray:
        desc = staged.read.changed(**{field: value}).descriptor(base, tile, 0)
        fetched = fetch_addresses(clean.kind, staged, desc, staged.placed.major, row + 1, clean.tile_k)[row]
        unswizzled = swizzle_address(fetched // 8, staged.read.swizzle)  # its own inverse
        return np.asarray(unswizzled * 8 + fetched % 8)

    origin = linear(0)
    return origin, (linear(_SPAN) - origin) // _SPAN
