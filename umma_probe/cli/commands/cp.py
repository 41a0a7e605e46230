"""``umma-probe cp``: ``tcgen05.cp``, the source of every Tensor Memory cell that it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from umma_probe.cli.output import Output, format_options
from umma_probe.cli.params import Integers
from umma_probe.cli.rendering import counted, grid, heading, render, sources, span
from umma_probe.errors import ConfigError, ExitCode
from umma_probe.layouts import tmem_cp as cp

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command()
@click.argument("shape")
@click.option("--decompress", metavar="FORMAT", help="Source format: b6x16_p32 or b4x16_p64.")
@click.option("--cell", type=Integers("LANE,COLUMN"), help="Only this destination cell.")
@click.option("--at", type=Integers("ROW,BYTE"), help="Which cells this source byte goes to.")
@format_options("text", "json", "csv")
def command(
    shape: str, decompress: str | None, cell: tuple[int, ...] | None, at: tuple[int, ...] | None, output: Output
) -> int:
    """Where each cell that tcgen05.cp writes comes from.

    SHAPE is shape and multicast as PTX spells them: 128x256b, 4x256b, 128x128b, 64x128b.warpx2::02_13,
    64x128b.warpx2::01_23, 32x128b.warpx4. The source is rows of 16 or 32 bytes; lanes and columns are relative to the
    address operand.
    """
    placed = cp.cp_map(shape, decompress)
    if at is not None and cell is not None:
        raise ConfigError("--at and --cell are both given, must be one of them")
    if cell is not None:
        _emit_cell(placed, cell[0], cell[1], output)
    elif at is not None:
        _emit_source(placed, at[0], at[1], output)
    else:
        _emit_all(placed, output)
    return ExitCode.OK


def _emit_all(placed: cp.CpMap, output: Output) -> None:
    columns = {"lane": placed.lane, "column": placed.column, "row": placed.row, "byte": placed.byte}
    lists = {name: array.tolist() for name, array in columns.items()}
    document: dict[str, Any] = {
        "shape": placed.spec.shape.name,
        "decompress": placed.spec.decompression.name if placed.spec.decompression else None,
        **lists,
        "source_bytes": placed.source_bytes,
        "source": [
            [[row, byte + i] for i in range(placed.source_bytes)]
            for row, byte in zip(lists["row"], lists["byte"], strict=True)
        ],
        "refs": [str(ref) for ref in placed.refs],
    }
    output.emit(document, text=lambda: _text(placed), table=lambda: (list(lists), zip(*lists.values(), strict=True)))


def _emit_cell(placed: cp.CpMap, lane: int, column: int, output: Output) -> None:
    source = placed.source_of(lane, column)
    text = f"row {source[0][0]}, bytes {span(source[0][1], source[-1][1])}" if source else "not written"
    output.emit(
        {"lane": lane, "column": column, "source": [list(pair) for pair in source]},
        text=lambda: f"lane {lane}, column {column}  ⇄  {text}",
        table=lambda: (("row", "byte"), source),
    )


def _emit_source(placed: cp.CpMap, row: int, byte: int, output: Output) -> None:
    cells = placed.cells_of(row, byte)
    text = "; ".join(f"lane {lane}, column {column}" for lane, column in cells) or "no cell"
    output.emit(
        {"row": row, "byte": byte, "cells": [list(cell) for cell in cells]},
        text=lambda: f"row {row}, byte {byte}  ⇄  {text}",
        table=lambda: (("lane", "column"), cells),
    )


def _text(placed: cp.CpMap) -> str:
    shape, decompression = placed.spec.shape, placed.spec.decompression
    columns = [
        (column, span(pairs[0][1], pairs[-1][1]))
        for column in range(shape.columns)
        if (pairs := placed.source_of(0, column))
    ]
    times = f", {len(shape.copies)} times" if len(shape.copies) > 1 else ""
    return render(
        heading(f"tcgen05.cp {placed.spec}", f"{counted(shape.rows, 'row')} of {shape.row_bytes} bytes{times}"),
        Text(_unpacking(decompression) if decompression else "Each 32-bit column takes 4 source bytes as they are."),
        grid(("lanes", "source rows"), _lane_runs(placed)),
        grid(("column", "bytes of the row"), columns),
        sources(placed.refs),
    )


def _unpacking(how: cp.Decompression) -> str:
    last = how.low_bit + how.value_bits - 1
    return (
        f"A 16-byte chunk holds 16 values of {how.value_bits} bits, which become 16 bytes, "
        f"in bits {span(how.low_bit, last)} of each (assumed)."
    )


def _lane_runs(placed: cp.CpMap) -> Iterator[tuple[str, str]]:
    """Runs in which lane and source row grow together, within a 32-lane partition."""
    pairs = sorted(set(zip(placed.lane.tolist(), placed.row.tolist(), strict=True)))
    start = 0
    for i in range(1, len(pairs) + 1):
        if i < len(pairs) and pairs[i][0] % 32 and pairs[i] == (pairs[i - 1][0] + 1, pairs[i - 1][1] + 1):
            continue
        (first_lane, first_row), (last_lane, last_row) = pairs[start], pairs[i - 1]
        yield span(first_lane, last_lane), span(first_row, last_row)
        start = i
