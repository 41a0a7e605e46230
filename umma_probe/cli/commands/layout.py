"""``umma-probe layout``: element to Tensor Memory cell and back, for accumulators, operand A and scale factors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.text import Text

from umma_probe.cli.output import Output, format_options
from umma_probe.cli.params import Integers
from umma_probe.cli.rendering import counted, grid, heading, render, sources, span
from umma_probe.errors import ConfigError, ExitCode, unknown_name
from umma_probe.layouts import scale_factors as sf
from umma_probe.layouts import tmem_accumulator as acc
from umma_probe.layouts import tmem_operand as operand
from umma_probe.spec.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from umma_probe.spec.sources import Ref

A_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "s8", "u8")


@click.group()
def command() -> None:
    """Element to Tensor Memory cell and back.

    Columns count from the address that the MMA is given; lanes are Tensor Memory lanes.
    """


@dataclass(frozen=True)
class _View:
    """One map as every calculator here shows it: whole, one element, or one cell."""

    element: tuple[str, str]
    """Names of the element's indices."""
    place: dict[str, acc.IntArray]
    """``cta`` first, then the parts of the place in the order of ``--cell``."""
    inverse: Callable[..., tuple[int, int] | None]
    """Place (``cta`` last) to element."""
    text: Callable[[], str]
    refs: tuple[Ref, ...]
    head: dict[str, Any] = field(default_factory=dict)
    tail: dict[str, Any] = field(default_factory=dict)
    copies: tuple[int, ...] = (0,)
    """Lane offsets at which the same element lies."""

    def emit(self, at: tuple[int, ...] | None, cell: tuple[int, ...] | None, output: Output) -> None:
        """Answer ``--at`` or ``--cell``, else give the whole map."""
        if at is not None and cell is not None:
            raise ConfigError("--at and --cell are both given, must be one of them")
        if at is not None:
            self._emit_one(at, {name: int(array[self._checked(at)]) for name, array in self.place.items()}, output)
        elif cell is not None:
            *parts, cta = cell
            names = [name for name in self.place if name != "cta"]
            self._emit_one(self.inverse(*parts, cta), {"cta": cta, **dict(zip(names, parts, strict=True))}, output)
        else:
            self._emit_all(output)

    def _checked(self, at: tuple[int, ...]) -> tuple[int, ...]:
        for name, value, limit in zip(self.element, at, self.place["lane"].shape, strict=True):
            if not 0 <= value < limit:
                raise ConfigError(f"--at: {name} is {value}, must be 0 to {limit - 1}")
        return at

    def _emit_one(self, element: tuple[int, ...] | None, place: dict[str, int], output: Output) -> None:
        indices = (None, None) if element is None else element
        one = {**self.head, **dict(zip(self.element, indices, strict=True)), **place, **self.tail}
        name = ", ".join(f"{k} {v}" for k, v in zip(self.element, indices, strict=True)) if element else "no element"
        where = ", ".join(f"{'CTA' if part == 'cta' else part} {value}" for part, value in place.items())
        where += f"  ·  {_copies(self.copies)}" if len(self.copies) > 1 else ""
        output.emit(one, text=lambda: f"{name}  ⇄  {where}", table=lambda: (list(one), [list(map(str, one.values()))]))

    def _emit_all(self, output: Output) -> None:
        document = {
            **self.head,
            **{name: array.tolist() for name, array in self.place.items()},
            **self.tail,
            "refs": [str(ref) for ref in self.refs],
        }
        header = (*self.element, *self.place)
        output.emit(document, text=self.text, table=lambda: (header, _rows(*self.place.values())))


def _copies(copies: tuple[int, ...]) -> str:
    if len(copies) == 1:
        return "one copy"
    return f"{len(copies)} copies, at lane + {', '.join(map(str, copies))}"


def _rows(*arrays: acc.IntArray) -> Iterator[tuple[int, ...]]:
    """Index and values of arrays of one shape, row-major."""
    for index in np.ndindex(*arrays[0].shape):
        yield (*index, *(int(array[index]) for array in arrays))


def _form_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--lane-base", type=int, default=0, show_default=True, help="Lane of the address: 0 or 16."),
        click.option("--sparse", is_flag=True, help="Sparse A (.sp)."),
        click.option("--ws", is_flag=True, help="Weight-stationary form (.ws)."),
        click.option("--cta-group", type=click.IntRange(1, 2), default=1, show_default=True),
    ):
        function = option(function)
    return function


# -- accumulator ------------------------------------------------------------------------------------------------------


@command.command("acc")
@click.option("--m", type=int, required=True, help="M of the instruction.")
@click.option("--n", type=int, required=True, help="N of the instruction.")
@_form_options
@click.option("--at", type=Integers("M,N"), help="Only this element.")
@click.option("--cell", type=Integers("LANE,COLUMN,CTA", 2), help="Which element lies in this cell.")
@format_options("text", "json", "csv")
def accumulator(
    m: int, n: int, at: tuple[int, ...] | None, cell: tuple[int, ...] | None, output: Output, **form: Any
) -> int:
    """Accumulator D: (m, n) to CTA, lane, column.

    The layout (A to G) follows from M, --cta-group, --ws and --sparse.
    """
    placed = acc.accumulator_map(m, n, **form)
    conflicts = acc.disagreements(m, cta_group=form["cta_group"], sparse=form["sparse"])
    tail: dict[str, Any] = {}
    if at is None and cell is None:
        tail = {"columns_used": placed.columns_used, "disagreements": [_conflict(row) for row in conflicts]}
    _View(
        ("m", "n"),
        {"cta": placed.cta, "lane": placed.lane, "column": placed.column},
        placed.element_at,
        lambda: _accumulator_text(placed, conflicts),
        acc.RULES[placed.layout].refs,
        {"layout": placed.layout.value},
        tail,
    ).emit(at, cell, output)
    return ExitCode.OK


def _conflict(row: acc.Disagreement) -> dict[str, Any]:
    claims = [{"layout": layout.value, "ref": str(ref)} for layout, ref in row.claims]
    return {"case": row.case, "chosen": row.chosen.value, "claims": claims, "settled_by": row.settled_by}


def _accumulator_text(placed: acc.AccumulatorMap, conflicts: tuple[acc.Disagreement, ...]) -> str:
    rule = acc.RULES[placed.layout]
    m, n = placed.m, placed.n
    return render(
        heading(f"Layout {placed.layout.value}", rule.summary),
        Text(
            f"D is {m} x {n}: {counted(placed.columns_used, 'column')}, "
            f"{len(placed.lanes_used)} of {acc.LANES} lanes in each CTA; one 32-bit column an element"
        ),
        grid(("CTA", "lanes", f"columns {span(0, placed.columns_used - 1)} hold"), _lane_runs(placed)),
        grid(
            ("element", "CTA", "lane", "column", "taddr, if D starts at column 0"),
            (
                (f"D[{i}, {j}]", *_place(placed, i, j))
                for i, j in ((0, 0), (0, n - 1), (m // 2, 0), (m // 2, n // 2), (m - 1, 0), (m - 1, n - 1))
            ),
        ),
        *(_conflict_text(row) for row in conflicts),
        sources(rule.refs),
    )


def _place(placed: acc.AccumulatorMap, m: int, n: int) -> tuple[int, int, int, str]:
    lane, column = int(placed.lane[m, n]), int(placed.column[m, n])
    return int(placed.cta[m, n]), lane, column, f"0x{lane << 16 | column:08x}"


def _conflict_text(row: acc.Disagreement) -> Text:
    text = Text(f"The documents disagree for {row.case}; shown is layout {row.chosen.value}.", style="yellow")
    for layout, ref in row.claims:
        text.append(f"\n  layout {layout.value}: {ref}")
    return text.append(f"\n  settled by: {row.settled_by}\n")


def _lane_runs(placed: acc.AccumulatorMap) -> Iterator[tuple[int, str, str]]:
    """Runs of lanes in which row and lane grow together, over the same columns of D."""
    m_at, n_at = placed.inverse
    for cta in range(placed.ctas):
        starts = [0]
        for lane in range(1, acc.LANES):
            before, here = int(m_at[cta, lane - 1, 0]), int(m_at[cta, lane, 0])
            both_empty = before == here == acc.NOWHERE
            same_columns = n_at[cta, lane - 1, 0] == n_at[cta, lane, 0]
            if not both_empty and not (acc.NOWHERE != before == here - 1 and same_columns):
                starts.append(lane)
        for first, last in zip(starts, [start - 1 for start in starts[1:]] + [acc.LANES - 1], strict=True):
            m, n = int(m_at[cta, first, 0]), n_at[cta, first]
            held = "·" if m == acc.NOWHERE else f"D[{span(m, m + last - first)}, {span(int(n[0]), int(n[-1]))}]"
            yield cta, span(first, last), held


# -- operand A --------------------------------------------------------------------------------------------------------


@command.command("a")
@click.option("--m", type=int, required=True, help="M of the instruction.")
@click.option("--elem", required=True, metavar="TYPE", help=f"Type of A: {', '.join(A_TYPES)}.")
@click.option("--k", type=int, help="Values stored a row; default: what one MMA reads.")
@click.option("--container", type=click.Choice(["4", "8"]), help="e2m1: 4 as mxf4 packs it (default), 8 as f8f6f4.")
@_form_options
@click.option("--at", type=Integers("M,K"), help="Only this element.")
@click.option("--cell", type=Integers("LANE,COLUMN,BIT,CTA", 2), help="Which element lies at this bit of a cell.")
@format_options("text", "json", "csv")
def operand_a(
    m: int,
    elem: str,
    k: int | None,
    container: str | None,
    at: tuple[int, ...] | None,
    cell: tuple[int, ...] | None,
    output: Output,
    **form: Any,
) -> int:
    """Operand A in Tensor Memory: (m, k) to CTA, lane, column, bit, and its copies.

    A is K-major. With --sparse, k counts the kept values.
    """
    bits, packed = _element_bits(elem), int(container) if container else None
    stored = operand.mma_k(bits, packed) if k is None else k
    placed = operand.operand_a_map(m, stored, bits, container_bits=packed, **form)
    _View(
        ("m", "k"),
        {"cta": placed.cta, "lane": placed.lane, "column": placed.column, "bit": placed.bit},
        placed.element_at,
        lambda: _operand_text(placed, elem),
        placed.refs,
        {"layout": placed.layout.value},
        {"copies": [list(placed.copies)], "element_bits": bits},
        placed.copies,
    ).emit(at, cell, output)
    return ExitCode.OK


def _element_bits(elem: str) -> int:
    if elem not in A_TYPES:
        raise ConfigError(f"--elem: {unknown_name('type of A', elem, A_TYPES)}")
    row = FORMATS[elem]
    return row.container_bits if elem == "tf32" else row.bits


def _operand_text(placed: operand.OperandMap, elem: str) -> str:
    m, k = placed.lane.shape
    container = placed.container
    lanes = (
        (f"A[{i}, :]", placed.cta[i, 0], ", ".join(str(int(placed.lane[i, 0]) + copy) for copy in placed.copies))
        for i in sorted({0, 1, 15, 16, m // 2, m - 1})
    )
    columns = (
        (f"A[:, {j}]", placed.column[0, j], span(bit := int(placed.bit[0, j]), bit + container.element_bits - 1))
        for j in sorted({0, 1, 2, 3, 4, k // 2, k - 1})
    )
    values = counted(32 // container.container_bits, "value")
    return render(
        heading(f"A in Tensor Memory, layout {placed.layout.value}", f"{elem}, {_copies(placed.copies)}"),
        Text(f"A is {m} x {k}, K-major: {counted(placed.columns_used, 'column')} of {values}"),
        grid(("row", "CTA", "lanes"), lanes),
        grid(("value", "column", "bits"), columns),
        sources(placed.refs),
    )


# -- scale factors ----------------------------------------------------------------------------------------------------


@command.command("sf")
@click.option("--rows", type=int, required=True, help="Rows of the operand over all CTAs: M for SFA, N for SFB.")
@click.option("--scale-vec", type=click.Choice(["1", "2", "4", "3", "6"]), required=True,
              help="Scales a row for one MMA; 3 and 6 with K = 96.")  # fmt: skip
@click.option("--sf-id", type=int, default=0, show_default=True, help="Sub-column at which they start.")
@click.option("--cta-group", type=click.IntRange(1, 2), default=1, show_default=True)
@click.option("--operand", "operand_name", type=click.Choice(["a", "b"]), default="a", show_default=True)
@click.option("--split-n", is_flag=True, help="SFB of a 2-CTA MMA with M=128: N lies in two halves of the lanes.")
@click.option("--at", type=Integers("ROW,SCALE"), help="Only this scale.")
@click.option("--cell", type=Integers("LANE,COLUMN,BYTE,CTA", 2), help="Which scale lies in this byte of a cell.")
@format_options("text", "json", "csv")
def scale(
    rows: int,
    scale_vec: str,
    operand_name: str,
    at: tuple[int, ...] | None,
    cell: tuple[int, ...] | None,
    output: Output,
    **form: Any,
) -> int:
    """Scale factors of one MMA: (row, scale) to CTA, lane, column, byte, and their copies.

    With --cta-group 2, each CTA holds the SFA rows of its half of M; both hold all of SFB.
    """
    placed = sf.scale_factor_map(rows, int(scale_vec), operand=sf.ScaleOperand(operand_name), **form)
    _View(
        ("row", "scale"),
        {"cta": placed.cta, "lane": placed.lane, "column": placed.column, "byte": placed.byte},
        placed.scale_at,
        lambda: _scale_text(placed),
        placed.refs,
        tail={"copies": list(placed.copies), "in_both_ctas": placed.in_both_ctas},
        copies=placed.copies,
    ).emit(at, cell, output)
    return ExitCode.OK


def _scale_text(placed: sf.ScaleFactorMap) -> str:
    rows, scales = placed.lane.shape
    picture = (
        (
            span(first, last),
            "both" if placed.in_both_ctas else placed.cta[first, 0],
            ", ".join(span(int(placed.lane[first, 0]) + c, int(placed.lane[last, 0]) + c) for c in placed.copies),
            placed.column[first, 0],
        )
        for first, last in _row_runs(placed)
    )
    return render(
        heading("Scale factors in Tensor Memory", f".scale_vec::{scales}X, SF_ID {placed.sf_id}"),
        Text(f"{counted(rows, 'row')}: {counted(placed.columns_used, 'column')}, {_copies(placed.copies)}"),
        grid(("rows", "CTA", "lanes", "column"), picture),
        grid(("scale of the row", "byte of the column"), ((s, _scale_place(placed, s)) for s in range(scales))),
        sources(placed.refs),
    )


def _scale_place(placed: sf.ScaleFactorMap, scale_index: int) -> str:
    """The byte, and how many columns further on than scale 0 it lies, where that is not none."""
    further = placed.column[0, scale_index] - placed.column[0, 0]
    return f"{placed.byte[0, scale_index]}" + (f", {further} columns further on" if further else "")


def _row_runs(placed: sf.ScaleFactorMap) -> Iterator[tuple[int, int]]:
    """Runs of rows that fill one column, lane by lane."""
    first = 0
    for row in range(1, placed.lane.shape[0] + 1):
        if row < placed.lane.shape[0] and placed.lane[row, 0] == placed.lane[first, 0] + row - first:
            continue
        yield first, row - 1
        first = row
