"""``umma-probe findings``: the recorded findings, and whether what they rest on still holds."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from umma_probe import __version__
from umma_probe.cli.output import Output, format_options
from umma_probe.cli.rendering import counted, heading, render
from umma_probe.errors import ExitCode
from umma_probe.findings.loader import findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType

    from umma_probe.findings.schema import Assembly, Bearing, Finding
    from umma_probe.findings.verify import Outcome, Verified


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """The recorded findings: what was observed, what was concluded, what re-checks it."""


# --------------------------------------------------------------------------------------------------------- list, show


@command.command("list")
@format_options("text", "json")
def list_(output: Output) -> int:
    """One line for each finding."""
    entries = findings().values()
    output.emit([entry.to_json() for entry in entries], text=lambda: _listing(entries))
    return ExitCode.OK


def _listing(entries: Sequence[Finding]) -> str:
    rows = [
        (entry.id, entry.status.value, entry.title, str(len(entry.bears_on) + len(entry.assembles) or ""))
        for entry in entries
    ]
    return render(heading("Findings", counted(len(rows), "entry").replace("entrys", "entries")),
                  _table(("id", "status", "about", "runs"), rows))  # fmt: skip


@command.command()
@click.argument("id_", metavar="ID")
@format_options("text", "json")
def show(id_: str, output: Output) -> int:
    """One finding, whole."""
    entry = findings()[id_]
    output.emit(entry.to_json(), text=lambda: render(*_parts(entry)))
    return ExitCode.OK


def _parts(entry: Finding) -> Iterator[RenderableType]:
    yield heading(entry.title, entry.status.value)
    observed_on = f"observed: {entry.date}" if entry.date != "unknown" else "date of the observation: unknown"
    yield Text(f"{entry.id} · {observed_on} · recorded {entry.recorded}", style="dim")
    yield from _section("Device", [entry.device])
    yield from _section("Origin", [entry.origin])
    yield from _section("Observed", entry.observed)
    yield from _section("Concluded", entry.concluded)
    yield from _section("What this cannot show", entry.cannot_show)
    yield from _section("Assessment", [entry.assessment])
    yield from _section("What would settle it", [entry.settled_by])
    yield from _section("Evidence", [*map(str, entry.refs), *(f"reports/{name}" for name in entry.reports)])
    yield from _section("Runs that bear on it", map(_run_line, entry.bears_on))
    yield from _section("Asked of the assembler", map(_assembly_line, entry.assembles))
    if (last := entry.last_verified) is not None:
        word = "held" if last.holds else "had changed"
        yield from _section("Last verified", [f"{last.date} on {last.target}, umma-probe {last.version}: {word}"])


def _section(title: str, lines: Iterable[str]) -> Iterator[RenderableType]:
    shown = [line for line in lines if line]
    if shown:
        yield Text("")
        yield Text(title, style="bold")
        if len(shown) == 1:
            yield Padding(Text(shown[0]), (0, 0, 0, 2))
            return
        table = Table.grid(padding=(0, 1, 0, 0))
        for line in shown:
            table.add_row(Text(" ·"), Text(line, overflow="fold"))
        yield table


def _run_line(case: Bearing) -> str:
    options = "".join(f" --{name.replace('_', '-')}" + ("" if value is True else f" {value}")
                      for name, value in case.params.items() if value is not False)  # fmt: skip
    command = f"umma-probe run {case.probe}{options}" + (f" --arch {case.arch}" if case.arch else "")
    lines = [command + (" --force" if case.force else "")]
    if case.answers:
        lines += [f"{'; '.join(map(str, answer.when))}: {answer.says}" for answer in case.answers]
    else:
        lines += ["; ".join(map(str, case.expect)), case.means]
    return "\n".join(lines)


def _assembly_line(case: Assembly) -> str:
    answer = "accepted" if case.accepted else "refused" + (f", '{case.says}'" if case.says else "")
    return f"{case.ptx} for {case.arch}\n{answer}\n{case.means}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in header:
        table.add_column(name, overflow="fold", no_wrap=name == "status")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


# -------------------------------------------------------------------------------------------------------------- verify


@command.command(epilog="Exit code: 0 everything still holds, 1 something changed, 3 the target is not here.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--target", default="auto", show_default=True, metavar="auto|model|cuda:N", help="What runs the probes.")
@click.option("--arch", default="", metavar="ARCH", help="Target to compile for.  [default: the GPU's, or sm_100a]")
@click.option("--write", is_flag=True, help="Note the outcome in the findings' files: status and last_verified alone.")
@format_options("text", "json")
def verify(ids: tuple[str, ...], target: str, arch: str, write: bool, output: Output) -> int:
    """Re-run what each finding rests on, and say whether it still holds.

    On the model this shows that the model still behaves as recorded; only a run on silicon changes a status.
    """
    registry = findings()
    chosen = [registry[name] for name in dict.fromkeys(ids)] or registry.values()
    results = [_verify(entry, target, arch) for entry in chosen]
    if write:
        for result in results:
            _write(result)
    output.emit(_document(results, write), text=lambda: _verdict_table(results))
    return ExitCode.OK if all(result.holds for result in results) else ExitCode.DIFFERS


def _verify(entry: Finding, target: str, arch: str) -> Verified:
    from umma_probe.findings.verify import verify as verify_finding
    from umma_probe.harness.single import run_probe

    return verify_finding(entry, run_probe, target=target, arch=arch, on_outcome=_say)


def _say(outcome: Outcome) -> None:
    """A line of progress, on a terminal."""
    if sys.stderr.isatty():
        click.echo(f"{'holds' if outcome.holds else 'changed'}: {outcome.label}", err=True)


def _write(result: Verified) -> None:
    from umma_probe.findings.edit import write_verification
    from umma_probe.findings.schema import Verification

    if result.outcomes:
        today = datetime.now(UTC).date().isoformat()
        note = Verification(today, result.target, result.holds, __version__)
        write_verification(result.finding, result.status, note)


def _document(results: Sequence[Verified], written: bool) -> dict[str, Any]:
    return {
        "command": "findings verify",
        "holds": all(result.holds for result in results),
        "written": written,
        "findings": [result.to_json() for result in results],
    }


def _verdict_table(results: Sequence[Verified]) -> str:
    rows: list[Sequence[str]] = []
    for result in results:
        rows.append((result.finding.id, result.finding.status.value, result.word, _detail(result)))
    seen = dict.fromkeys(outcome.target for result in results for outcome in result.outcomes)
    targets = "; ".join(seen) or "nothing was run"
    parts: list[RenderableType] = [heading("findings verify", targets)]
    parts.append(_table(("finding", "status", "result", "runs"), rows))
    changed = [result.finding.id for result in results if not result.holds]
    parts.append(Text(f"changed: {', '.join(changed)}" if changed else "everything still holds",
                      style="bold red" if changed else "bold green"))  # fmt: skip
    return render(*parts)


def _detail(result: Verified) -> str:
    """What changed; else the answers that no document decides, and how many runs there were."""
    lines = [f"{outcome.label}: {'; '.join(outcome.broken)}" for outcome in result.outcomes if not outcome.holds]
    if result.status != result.finding.status:
        lines.append(f"this makes it {result.status.value}")
    if lines:
        return "\n".join(lines)
    asked = sum(outcome.asked for outcome in result.outcomes)
    runs = len(result.outcomes) - asked
    counts = [counted(runs, "run")] * bool(runs) + [f"assembler asked {asked}x"] * bool(asked)
    return ", ".join(counts) or "none yet: see what would settle it"
