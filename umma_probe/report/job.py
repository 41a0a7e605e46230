"""The summary of a bring-up job, in Markdown: what ran, what failed, silicon against model, and maps worth a look."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from umma_probe.record.store import loads
from umma_probe.report.formats import View, render
from umma_probe.report.sweep.words import CASE_HEADER, GROUP_HEADER, case_row, group_rows, target_line, verdict_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from umma_probe.harness.ci import JobResult
    from umma_probe.harness.sweep.outcome import CaseResult, SweepResult
    from umma_probe.harness.sweep.witnesses import Comparison

_MAPS = 3
"""So many maps of failed cases are shown; with none failed, one of a case that passed."""
_ROWS = 50


def summary(job: JobResult) -> str:
    """A document."""
    return "\n".join(_lines(job)) + "\n"


def _lines(job: JobResult) -> Iterator[str]:
    yield f"# umma-probe: {job.verdict}\n"
    for sweep in job.sweeps:
        yield f"- **{sweep.name}** on {target_line(sweep)}: {verdict_line(sweep)}"
    for comparison in job.comparisons:
        yield f"- **{comparison.name}**, silicon against model: {_counted(comparison)}"
    for sweep in job.sweeps:
        yield from _sweep(sweep)
    for comparison in job.comparisons:
        yield from _comparison(comparison)
    yield from _maps(job.sweeps)


def _counted(comparison: Comparison) -> str:
    counts = ", ".join(f"{number} {word}" for word, number in comparison.counts.items() if number)
    return f"{len(comparison.testimonies)} cases, {counts}; {len(comparison.disagreeing)} disagree"


def _sweep(sweep: SweepResult) -> Iterator[str]:
    yield f"\n## {sweep.name}: {sweep.title}\n"
    yield from _table(GROUP_HEADER, group_rows(sweep))
    bad = [entry for entry in sweep.results if not entry.ok]
    if bad:
        yield f"\n### Not as expected{_shown(len(bad))}\n"
        yield from _table(CASE_HEADER, map(case_row, bad[:_ROWS]))


def _comparison(comparison: Comparison) -> Iterator[str]:
    if not comparison.disagreeing:
        return
    yield f"\n## {comparison.name}: silicon and model disagree{_shown(len(comparison.disagreeing))}\n"
    header = ("case", "silicon", "model", "outputs", "which")
    yield from _table(header, ((entry.silicon.name, entry.silicon.record.verdict, entry.model.record.verdict,
                                entry.bits, ", ".join(entry.differing))
                               for entry in comparison.disagreeing[:_ROWS]))  # fmt: skip


def _shown(total: int) -> str:
    return f" (the first {_ROWS} of {total})" if total > _ROWS else ""


def _maps(sweeps: Sequence[SweepResult]) -> Iterator[str]:
    drawn = [entry for sweep in sweeps for entry in sweep.results if "tmem" in entry.facts]
    chosen = [entry for entry in drawn if not entry.ok][:_MAPS] or drawn[:1]
    if chosen:
        yield "\n## Maps"
    for entry in chosen:
        yield from _folded(entry)


def _folded(entry: CaseResult) -> Iterator[str]:
    report = loads(json.dumps(entry.record.report), entry.name)
    text = render(report, "markdown", View()).replace("\n# ", "\n### ").replace("\n## ", "\n#### ")
    yield f"\n<details><summary>{entry.name}: {entry.state}</summary>\n\n##{text}\n\n</details>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in row) + " |"
