"""``umma-probe fmha --explain``: what lies where in Tensor Memory and shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from umma_probe.cli.rendering import heading, render
from umma_probe.harness.fmha.budget import MAX_SMEM_BYTES, budget
from umma_probe.harness.fmha.limits import derivation
from umma_probe.spec.machine import KIB, TMEM_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umma_probe.harness.fmha.budget import Use
    from umma_probe.harness.fmha.problem import FmhaProblem


def budget_json(problem: FmhaProblem) -> dict[str, Any]:
    """Tensor Memory in columns, shared memory in bytes."""
    plan = budget(problem)
    return {
        "command": "fmha",
        "tmem": {"allocated_columns": plan.allocated_columns, "uses": _rows(plan.tmem)},
        "smem": {"bytes": plan.smem_bytes, "limit_bytes": MAX_SMEM_BYTES, "uses": _rows(plan.smem)},
        "ring_stages": plan.stages,
        "limit": derivation(problem),
    }


def _rows(uses: Iterable[Use]) -> list[dict[str, Any]]:
    return [{"name": use.name, "start": use.start, "size": use.size, "what": use.what} for use in uses]


def budget_text(problem: FmhaProblem) -> str:
    """Two tables."""
    plan = budget(problem)
    return render(
        heading(
            f"Tensor Memory: {plan.used_columns} columns used, {plan.allocated_columns} of {TMEM_COLUMNS} allocated "
            "(a power of two)"
        ),
        _table("columns", plan.tmem),
        heading(
            f"Shared memory: {plan.smem_bytes / KIB:g} of {MAX_SMEM_BYTES // KIB} KiB, {plan.stages} tiles in the ring"
        ),
        _table("bytes", plan.smem),
        heading("Limit of an element of O"),
        Text(derivation(problem)),
    )


def _table(unit: str, uses: Iterable[Use]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("use")
    table.add_column(unit)
    table.add_column("size", justify="right")
    table.add_column("what")
    for use in uses:
        table.add_row(use.name, f"{use.start}-{use.last}", str(use.size), use.what)
    return table
