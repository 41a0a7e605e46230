"""``umma-probe ldst``: ``tcgen05.ld``/``st``, (thread, register) to (lane, column) and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.text import Text

from umma_probe.cli.output import Output, format_options
from umma_probe.cli.params import Integers
from umma_probe.cli.rendering import counted, grid, heading, render, sources, span
from umma_probe.errors import ConfigError, ExitCode
from umma_probe.layouts import tmem_ldst as ldst

if TYPE_CHECKING:
    from collections.abc import Iterator

PICTURE_COLUMNS = 8


@click.command()
@click.argument("shape")
@click.option("--pack", is_flag=True, help=".pack::16b (ld) or .unpack::16b (st): two 16-bit columns a register.")
@click.option("--half-split", type=int, metavar="S", help="16x32bx2: columns between the halves; default: neighbours.")
@click.option("--at", type=Integers("THREAD,REGISTER"), help="Only this register.")
@click.option("--cell", type=Integers("LANE,COLUMN"), help="Which registers this cell goes to.")
@format_options("text", "json", "csv")
def command(
    shape: str,
    pack: bool,
    half_split: int | None,
    at: tuple[int, ...] | None,
    cell: tuple[int, ...] | None,
    output: Output,
) -> int:
    """Where each register of tcgen05.ld or tcgen05.st lies in Tensor Memory.

    SHAPE is .shape.num as PTX spells it: 32x32b.x8, 16x64b.x1, 16x128b.x4, 16x256b.x2, 16x32bx2.x16. Lanes and columns
    are relative to the address operand, lanes also to the warp's 32.
    """
    spec = ldst.parse(shape)
    placed = ldst.ldst_map(spec.shape, spec.num, pack=pack or spec.pack, half_split=half_split)
    if at is not None and cell is not None:
        raise ConfigError("--at and --cell are both given, must be one of them")
    if at is not None:
        _emit_register(placed, at[0], at[1], output)
    elif cell is not None:
        _emit_cell(placed, cell[0], cell[1], output)
    else:
        _emit_all(placed, output)
    return ExitCode.OK


def _emit_all(placed: ldst.LdStMap, output: Output) -> None:
    document: dict[str, Any] = {
        "shape": str(placed.spec),
        "registers": placed.registers,
        "lane": placed.lane.tolist(),
        "column": placed.column.tolist(),
    }
    if placed.column_high is not None:
        document["column_high"] = placed.column_high.tolist()
    if placed.half_split is not None:
        document["half_split"] = placed.half_split
    document["refs"] = [str(ref) for ref in placed.spec.shape.refs]
    header = ["thread", "register", "lane", "column"] + (["column_high"] if placed.column_high is not None else [])
    output.emit(document, text=lambda: _text(placed), table=lambda: (header, _rows(placed)))


def _rows(placed: ldst.LdStMap) -> Iterator[list[int]]:
    for thread, register in np.ndindex(*placed.lane.shape):
        yield [thread, register, *_place(placed, thread, register).values()]


def _place(placed: ldst.LdStMap, thread: int, register: int) -> dict[str, int]:
    place = {"lane": int(placed.lane[thread, register]), "column": int(placed.column[thread, register])}
    if placed.column_high is not None:
        place["column_high"] = int(placed.column_high[thread, register])
    return place


def _emit_register(placed: ldst.LdStMap, thread: int, register: int, output: Output) -> None:
    for name, value, limit in (("thread", thread, ldst.WARP), ("register", register, placed.registers)):
        if not 0 <= value < limit:
            raise ConfigError(f"--at: {name} is {value}, must be 0 to {limit - 1} for {placed.spec}")
    one = {"thread": thread, "register": register, **_place(placed, thread, register)}
    where = f"lane {one['lane']}, column {one['column']}"
    if "column_high" in one:
        where += f" (bits 0-15) and {one['column_high']} (bits 16-31)"
    output.emit(
        one,
        text=lambda: f"thread {thread}, register {register}  ⇄  {where}",
        table=lambda: (list(one), [list(one.values())]),
    )


def _emit_cell(placed: ldst.LdStMap, lane: int, column: int, output: Output) -> None:
    holders = placed.holders(lane, column)
    rows = [(h.thread, h.register, h.low_bit, h.bits) for h in holders]
    header = ("thread", "register", "low_bit", "bits")
    document = {"lane": lane, "column": column, "holders": [dict(zip(header, row, strict=True)) for row in rows]}
    names = [f"thread {h.thread}, register {h.register}{_bits(h)}" for h in holders] or ["no register"]
    output.emit(
        document,
        text=lambda: f"lane {lane}, column {column}  ⇄  {' and '.join(names)}",
        table=lambda: (header, rows),
    )


def _bits(holder: ldst.Holder) -> str:
    if holder.bits == 32:
        return ""
    return f" bits {span(holder.low_bit, holder.low_bit + holder.bits - 1)}"


def _text(placed: ldst.LdStMap) -> str:
    spec = placed.spec
    shown = min(placed.columns_used, PICTURE_COLUMNS)
    lanes = sorted({int(lane) for lane in np.unique(placed.lane)})
    picture = ((lane, *(_cell(placed, lane, column) for column in range(shown))) for lane in lanes)
    more = f"; {span(shown, placed.columns_used - 1)} go on so" if shown < placed.columns_used else ""
    split = "" if placed.half_split is None else f", second half {counted(placed.half_split, 'column')} further"
    return render(
        heading(f"tcgen05.ld/st {spec}", f"{counted(placed.registers, 'register')} a thread"),
        Text(
            f"{len(lanes)} lanes, {counted(placed.columns_used, 'column')}{split}{more}. "
            "T3:1 is register 1 of thread 3."
        ),
        grid(("lane", *(f"col {column}" for column in range(shown))), picture),
        sources(spec.shape.refs),
    )


def _cell(placed: ldst.LdStMap, lane: int, column: int) -> str:
    half = {0: "", 16: ".hi"} if placed.column_high is None else {0: ".lo", 16: ".hi"}
    return " ".join(f"T{h.thread}:{h.register}{half[h.low_bit]}" for h in placed.holders(lane, column)) or "·"
