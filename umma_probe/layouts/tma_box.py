"""The boxes of TMA: which bytes of a tensor a copy touches, and where each lies in shared memory.

A copy is a list of rows along the fastest dimension. In tile mode the rows are those of the bounding box, dimension 1
fastest; a traversal stride s takes every s-th position of the box. In gather4 and scatter4 mode there are four rows,
named one by one. In im2col mode a row is a pixel: the walk starts at the coordinates, steps through W, then H, then D
inside the corners of the box, then to the next image, and the offsets of the instruction are added to every pixel.

An interleaved tensor, (N, C/8, H, W, 8 channels) for instance, has slices of 16 or 32 bytes where others have elements:
dimension 0 is W and counts slices, and the last dimension but one is the number of the slice in its pixel. A copy takes
one slice of each pixel, whatever size its box has in that dimension; in im2col mode the corners and offsets are those
of dimensions 0 and up, and a pixel is one slice, whatever number of channels it has. Its rows are single slices.

Rows follow each other in shared memory without gaps, except under a swizzle whose span is wider than the row: then
each row takes a whole span. Groups of 16 elements of the padded types take 16 bytes, the elements first. What lies
outside the tensor is filled on a load and left out of a store. The swizzle acts on bits of the absolute shared address.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.layouts.base import register_layout
from umma_probe.spec.sources import Evidence, Ref, documented
from umma_probe.spec.tensor_map import GUIDE, INTERLEAVED, SWIZZLE_REF, SWIZZLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from umma_probe.spec.tensor_map import Im2col, TensorMapFields

    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]

LINE_SHIFT = 7
"""A line of shared memory has 128 bytes; its number picks the row of a swizzle pattern."""
CHUNK_BYTES = 16
PADDED_GROUP = 16
"""Elements that share 16 bytes of shared memory in the padded types."""
GATHERED_ROWS = 4

register_layout(
    "tma-box",
    "element of a tensor map's box to its bytes in global and in shared memory",
    documented("Tensors: Tiled Mode, Im2col mode"),
    SWIZZLE_REF,
    GUIDE,
    Ref(
        "silicon-h200",
        "tma.json",
        Evidence.MEASURED,
        "a row narrower than the swizzle span takes a whole span; an im2col traversal stride starts again at the lower "
        "corner of each row of pixels",
    ),
    INTERLEAVED,
)


class Access(Enum):
    """How the coordinates of an instruction are read."""

    TILE = "tile"
    ROWS = "tile::gather4"
    """Also ``tile::scatter4``: one column, four rows."""
    IM2COL = "im2col"


@dataclass(frozen=True)
class BoxPlan:
    """One copy in units of ``unit`` bytes; all arrays are (rows, units of a row)."""

    unit: int
    """16 where everything is aligned to that, else 1."""
    source: IntArray
    """Unit in global memory, from the map's address."""
    inside: BoolArray
    """False where the tensor ends."""
    place: IntArray
    """Unit in shared memory from the start of the copy, before the swizzle."""
    tx_bytes: int
    """Bytes that count as copied, filled ones included and gaps not."""


def plan_box(
    fields: TensorMapFields, access: Access, coordinates: Sequence[int], offsets: Sequence[int] = ()
) -> BoxPlan:
    """The bytes of one copy.

    :param coordinates: fastest dimension first; (column, row, row, row, row) for ``ROWS``. Any may be negative.
    :param offsets: of im2col, (W[, H[, D]]).
    """
    if fields.slice_bytes:
        return _plan_slices(fields, coordinates, offsets)
    outer = _outer_coordinates(fields, access, coordinates, offsets)
    dims = np.array(fields.global_dim[1:], np.int64)
    strides = np.array(fields.global_strides, np.int64)
    row_inside: BoolArray = np.all((outer >= 0) & (outer < dims), axis=1)
    start = coordinates[0] * fields.element.bits // 8
    limit = fields.global_dim[0] * fields.element.bits // 8
    unit = CHUNK_BYTES if _in_chunks(fields, start, limit) else 1
    inner = start // unit + np.arange(fields.inner_bytes // unit)
    inner_inside = (inner >= 0) & (inner < limit // unit)
    source = (outer @ strides // unit)[:, None] + inner
    place = _places(len(outer), fields.inner_bytes, _row_pitch(fields), _group_bytes(fields), unit)
    return BoxPlan(unit, source, row_inside[:, None] & inner_inside, place, len(outer) * fields.inner_bytes)


def _plan_slices(fields: TensorMapFields, coordinates: Sequence[int], offsets: Sequence[int]) -> BoxPlan:
    """The bytes of one copy of an interleaved tensor."""
    at = _slice_coordinates(fields, coordinates, offsets)
    strides = np.array((fields.slice_bytes, *fields.global_strides), np.int64)
    inside: BoolArray = np.all((at >= 0) & (at < np.array(fields.global_dim, np.int64)), axis=1)
    units = fields.slice_bytes // CHUNK_BYTES
    source = (at @ strides // CHUNK_BYTES)[:, None] + np.arange(units)
    place = np.arange(source.size, dtype=np.int64).reshape(source.shape)
    return BoxPlan(CHUNK_BYTES, source, np.repeat(inside[:, None], units, axis=1), place, source.size * CHUNK_BYTES)


def _slice_coordinates(fields: TensorMapFields, coordinates: Sequence[int], offsets: Sequence[int]) -> IntArray:
    """(slices, rank): where each slice stands in all dimensions."""
    pixel_axes = [*range(fields.rank - 2), fields.rank - 1]
    at = np.array(coordinates, np.int64)
    if fields.im2col is None:
        steps = _tile_steps(
            tuple(fields.box_dim[axis] for axis in pixel_axes),
            tuple(fields.element_strides[axis] for axis in pixel_axes),
        )
        at = np.repeat(at[None, :], len(steps), axis=0)
        at[:, pixel_axes] += steps
        return at
    pixels = _pixels(
        tuple(fields.global_dim[axis] for axis in pixel_axes[:-1]),
        tuple(fields.element_strides[axis] for axis in pixel_axes[:-1]),
        fields.im2col,
        tuple(int(at[axis]) for axis in pixel_axes),
    )
    at = np.repeat(at[None, :], len(pixels), axis=0)
    at[:, pixel_axes] = pixels + np.array([*offsets, 0], np.int64)
    return at


def _in_chunks(fields: TensorMapFields, start: int, limit: int) -> bool:
    whole = not (start % CHUNK_BYTES or limit % CHUNK_BYTES or fields.inner_bytes % CHUNK_BYTES)
    return whole and not fields.element.padded and not SWIZZLES[fields.swizzle].flip_8b


# ---------------------------------------------------------------------- shared memory
def _row_pitch(fields: TensorMapFields) -> int:
    row_bytes = fields.inner_elements * fields.element.shared_bits // 8
    return max(row_bytes, SWIZZLES[fields.swizzle].span_bytes)


def _group_bytes(fields: TensorMapFields) -> int:
    """Bytes of a group of elements before its gap; 0 without gaps."""
    return PADDED_GROUP * fields.element.bits // 8 if fields.element.padded else 0


@lru_cache(maxsize=256)
def _places(rows: int, row_bytes: int, pitch: int, group: int, unit: int) -> IntArray:
    within = np.arange(0, row_bytes, unit, dtype=np.int64)
    if group:
        within = within // group * CHUNK_BYTES + within % group
    places = (np.arange(rows, dtype=np.int64)[:, None] * pitch + within) // unit
    places.flags.writeable = False
    return places


def swizzle_shared(addresses: IntArray, swizzle: str) -> IntArray:
    """Where the byte at each shared address really lies; a map of its own inverse."""
    row = SWIZZLES[swizzle]
    if not row.row_mask:
        return addresses
    line = addresses >> LINE_SHIFT
    moved = addresses ^ ((line & row.row_mask) << row.chunk_shift)
    return moved ^ ((line & 1) << 3) if row.flip_8b else moved


# ---------------------------------------------------------------------- walks
def _outer_coordinates(
    fields: TensorMapFields, access: Access, coordinates: Sequence[int], offsets: Sequence[int]
) -> IntArray:
    """(rows, rank - 1): the coordinates of each row in the dimensions but the fastest."""
    if access is Access.ROWS:
        return np.array(coordinates[1:], np.int64)[:, None]
    if fields.im2col is not None:
        pixels = _pixels(fields.global_dim[1:-1], fields.element_strides[1:-1], fields.im2col, tuple(coordinates[1:]))
        return pixels + np.array([*offsets, *[0] * (fields.rank - 1 - len(offsets))], np.int64)
    return _tile_steps(fields.box_dim[1:], fields.element_strides[1:]) + np.array(coordinates[1:], np.int64)


@lru_cache(maxsize=256)
def _tile_steps(box: tuple[int, ...], strides: tuple[int, ...]) -> IntArray:
    counts = [-(-size // stride) for size, stride in zip(box, strides, strict=True)]
    index = np.arange(int(np.prod(counts, dtype=np.int64)))
    steps = np.empty((len(index), len(counts)), np.int64)
    for axis, (count, stride) in enumerate(zip(counts, strides, strict=True)):
        steps[:, axis] = index % count * stride
        index = index // count
    steps.flags.writeable = False
    return steps


@lru_cache(maxsize=256)
def _pixels(sizes: tuple[int, ...], strides: tuple[int, ...], im2col: Im2col, start: tuple[int, ...]) -> IntArray:
    """The filter bases that an im2col copy visits, (pixels, W[, H[, D]] and N), before the offsets are added.

    :param sizes: of the spatial dimensions, (W[, H[, D]]), ``strides`` their traversal strides; ``start`` has N too.
    """
    spatial = len(sizes)
    low = im2col.lower_corner
    last = [size - 1 + corner for size, corner in zip(sizes, im2col.upper_corner, strict=True)]
    base = list(start)
    visited = np.empty((im2col.pixels_per_column, spatial + 1), np.int64)
    for pixel in range(im2col.pixels_per_column):
        visited[pixel] = base
        for axis in range(spatial):
            base[axis] += strides[axis]
            if base[axis] <= last[axis]:
                break
            base[axis] = low[axis]
        else:
            base[spatial] += 1
    visited.flags.writeable = False
    return visited
