"""``tcgen05.cp``: which source byte in shared memory each Tensor Memory cell is written from.

The source is a matrix of rows of 16-byte chunks that a shared-memory descriptor addresses as a K-major operand; here it
is logical (row, byte). Destinations are relative to the address operand.

=======================  ===========  ====================================  =======
shape and multicast      source rows  source row to lanes                   columns
=======================  ===========  ====================================  =======
128x256b                 128          row                                   8
128x128b                 128          row                                   4
4x256b                   4            32 * row                              8
64x128b.warpx2::02_13    64           row and row + 64                      4
64x128b.warpx2::01_23    64           row % 32 + 64 * (row / 32), and + 32  4
32x128b.warpx4           32           row + 0, 32, 64, 96                   4
=======================  ===========  ====================================  =======

No other pair of shape and multicast exists. Each may decompress (``.b8x16.b6x16_p32``, ``.b8x16.b4x16_p64``): a source
chunk holds 16 values of 6 bits and 4 padding bytes, or 16 of 4 bits and 8 padding bytes, and becomes 16 bytes.

Evidence: shapes and multicasts are the PTX ISA's, and the assembler takes these and nothing else. The row maps follow
CuTe's traits (``copy_traits_sm100.hpp``). For 4x256b CuTe numbers the source rows 0, 32, 64, 96 (it writes one lane of
each partition); the source matrix has four rows. Where decompression puts a value inside its byte is a figure in the
PTX ISA: bits 2-5 for 4-bit and bits 0-5 for 6-bit values are assumed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from umma_probe.errors import ConfigError, unknown_name
from umma_probe.layouts.base import register_layout
from umma_probe.spec.sources import Evidence, Ref, assumed, documented, header

IntArray = npt.NDArray[np.int64]

COLUMN_BYTES = 4
CHUNK_BYTES = 16

_SHAPES = documented("tcgen05.cp: .shape and .multicast")
_TRAITS = header("cute/atom/copy_traits_sm100.hpp, SM100_UTCCP")
_ASSEMBLER = Ref(
    "assembler", "tcgen05.cp spellings", Evidence.MEASURED, "these 6 with and without decompression, no other"
)
_DECOMPRESSION = documented("Optional decompression of tcgen05.cp")
_VALUE_BITS = assumed(
    "Optional decompression, figures",
    "4-bit values in bits 2-5 of the byte, 6-bit in bits 0-5; copying all codes and reading them back settles it",
)


@dataclass(frozen=True)
class CpShape:
    """A legal pair of shape and multicast."""

    name: str
    rows: int
    row_bytes: int
    near: tuple[int, int]
    """Source row r goes to lane r % near[0] + near[1] * (r / near[0])."""
    copies: tuple[int, ...]
    """Lane offsets at which the same rows are written again."""

    @property
    def columns(self) -> int:
        """32-bit columns that are written."""
        return self.row_bytes // COLUMN_BYTES


# shape and multicast, source rows, bytes a row, rows to lanes, lane offsets of the copies
SHAPES: dict[str, CpShape] = {
    row.name: row
    for row in (
        CpShape("128x256b", 128, 32, (128, 0), (0,)),
        CpShape("128x128b", 128, 16, (128, 0), (0,)),
        CpShape("4x256b", 4, 32, (1, 32), (0,)),
        CpShape("64x128b.warpx2::02_13", 64, 16, (64, 0), (0, 64)),
        CpShape("64x128b.warpx2::01_23", 64, 16, (32, 64), (0, 32)),
        CpShape("32x128b.warpx4", 32, 16, (32, 0), (0, 32, 64, 96)),
    )
}

REFS = (_SHAPES, _TRAITS, _ASSEMBLER)
for _shape in SHAPES.values():
    register_layout(
        f"cp-{_shape.name}",
        f"tcgen05.cp .{_shape.name}: {_shape.rows} rows of {_shape.row_bytes} bytes, {len(_shape.copies)} time(s)",
        *REFS,
    )


@dataclass(frozen=True)
class Decompression:
    """``.dst_fmt.src_fmt``: how a 16-byte source chunk becomes 16 bytes."""

    name: str
    value_bits: int
    low_bit: int
    """Lowest bit of the value in its destination byte."""

    @property
    def source_bytes(self) -> int:
        """Source bytes that fill one 32-bit column."""
        return self.value_bits * COLUMN_BYTES // 8

    @property
    def refs(self) -> tuple[Ref, ...]:
        """Where it is written."""
        return (_DECOMPRESSION, _VALUE_BITS)


DECOMPRESSIONS: dict[str, Decompression] = {
    row.name: row for row in (Decompression("b6x16_p32", 6, 0), Decompression("b4x16_p64", 4, 2))
}
for _row in DECOMPRESSIONS.values():
    register_layout(
        f"cp-{_row.name}", f"tcgen05.cp .b8x16.{_row.name}: 16 values of {_row.value_bits} bits to bytes", *_row.refs
    )


_SPEC = re.compile(r"\.?(?P<shape>[0-9]+x[0-9]+b)(?P<multicast>\.warpx[0-9](?:::[0-9_]+)?)?(?P<format>\.b8x16\.\w+)?")


@dataclass(frozen=True)
class CpSpec:
    """A legal spelling: shape with multicast, and decompression if any."""

    shape: CpShape
    decompression: Decompression | None = None

    def __str__(self) -> str:
        return self.shape.name + (f".b8x16.{self.decompression.name}" if self.decompression else "")


def parse(text: str, decompress: str | None = None) -> CpSpec:
    """``32x128b.warpx4``, ``128x256b.b8x16.b6x16_p32``; ``decompress`` names the source format apart from the text.

    :raises ConfigError: a spelling that PTX does not have.
    """
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"cp is '{text}', must be SHAPE[.MULTICAST], for instance 32x128b.warpx4", ref=str(_SHAPES))
    name = match["shape"] + (match["multicast"] or "")
    if name not in SHAPES:
        raise ConfigError(_why_illegal(match["shape"], match["multicast"]), ref=str(_SHAPES))
    inline = match["format"].removeprefix(".b8x16.") if match["format"] else None
    if inline and decompress and inline != decompress:
        raise ConfigError(f"decompression is '{inline}' in the spelling and '{decompress}' beside it, must be one")
    source = (inline or decompress or "").removeprefix(".").removeprefix("b8x16.")
    if not source:
        return CpSpec(SHAPES[name])
    if source not in DECOMPRESSIONS:
        raise ConfigError(unknown_name("tcgen05.cp source format", source, DECOMPRESSIONS), ref=str(_DECOMPRESSION))
    return CpSpec(SHAPES[name], DECOMPRESSIONS[source])


def _why_illegal(shape: str, multicast: str | None) -> str:
    same_shape = [name for name in SHAPES if name.split(".", 1)[0] == shape]
    if not same_shape:
        return unknown_name("tcgen05.cp shape", shape, {name.split(".", 1)[0] for name in SHAPES})
    return f"{shape}: multicast is {multicast or 'none'}, must be spelled {' or '.join(same_shape)}"


@dataclass(frozen=True)
class CpMap:
    """Every 32-bit cell that the copy writes, in the order lane, column; one entry a cell.

    ``byte`` is the first of ``source_bytes`` consecutive bytes in source row ``row``.
    """

    spec: CpSpec
    lane: IntArray
    column: IntArray
    row: IntArray
    byte: IntArray

    @property
    def source_bytes(self) -> int:
        """Source bytes of one cell: 4, or 3 or 2 when decompressing."""
        return self.spec.decompression.source_bytes if self.spec.decompression else COLUMN_BYTES

    @property
    def refs(self) -> tuple[Ref, ...]:
        """Where the map is written."""
        return REFS + (self.spec.decompression.refs if self.spec.decompression else ())

    @cached_property
    def _index(self) -> dict[tuple[int, int], int]:
        return {cell: i for i, cell in enumerate(zip(self.lane.tolist(), self.column.tolist(), strict=True))}

    def source_of(self, lane: int, column: int) -> tuple[tuple[int, int], ...]:
        """The source (row, byte) pairs of a cell, lowest first; empty if the copy does not write it."""
        i = self._index.get((lane, column))
        if i is None:
            return ()
        row, first = int(self.row[i]), int(self.byte[i])
        return tuple((row, first + offset) for offset in range(self.source_bytes))

    def cells_of(self, row: int, byte: int) -> tuple[tuple[int, int], ...]:
        """The cells (lane, column) that a source byte goes to; empty for padding."""
        here = (self.row == row) & (self.byte <= byte) & (byte < self.byte + self.source_bytes)
        return tuple(zip(self.lane[here].tolist(), self.column[here].tolist(), strict=True))


def cp_map(text: str, decompress: str | None = None) -> CpMap:
    """Where each cell that ``tcgen05.cp`` writes comes from.

    :param text: shape and multicast as PTX spells them; may carry ``.b8x16.b6x16_p32`` or ``.b8x16.b4x16_p64``.
    :param decompress: ``b6x16_p32`` or ``b4x16_p64``.
    :raises ConfigError: a spelling that PTX does not have.
    """
    spec = parse(text, decompress)
    shape = spec.shape
    copies, rows, columns = np.indices((len(shape.copies), shape.rows, shape.columns), dtype=np.int64)
    near, stride = shape.near
    lane = rows % near + stride * (rows // near) + np.asarray(shape.copies, np.int64)[copies]
    width = spec.decompression.source_bytes if spec.decompression else COLUMN_BYTES
    columns_a_chunk = CHUNK_BYTES // COLUMN_BYTES
    byte = CHUNK_BYTES * (columns // columns_a_chunk) + width * (columns % columns_a_chunk)
    order = np.lexsort((columns.ravel(), lane.ravel()))
    return CpMap(spec, *(array.ravel()[order] for array in (lane, columns, rows, byte)))
