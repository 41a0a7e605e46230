"""``umma-probe list``: the probes, what each shows and needs, its options, and what each outcome would mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from umma_probe.cli.output import Output, format_options
from umma_probe.cli.rendering import heading, render
from umma_probe.errors import ConfigError, ExitCode
from umma_probe.harness.manifest import load_probe, probe_names

if TYPE_CHECKING:
    from rich.console import RenderableType

    from umma_probe.harness.manifest import ProbeContract, ProbeOption

SCHEMA_VERSION = 1
_NEEDS = {
    "tmem": "Tensor Memory (the model has it)",
    "cluster": "thread block clusters",
    "wgmma": "wgmma: sm_90a (the model has it)",
}


@click.command("list")
@click.argument("probe", required=False)
@click.option("--faults", is_flag=True, help="The faults that --inject of the MMA probes plants, and their arguments.")
@format_options("text", "json")
def command(probe: str | None, faults: bool, output: Output) -> int:
    """List the probes, or describe one."""
    if faults:
        return _faults(probe, output)
    contracts = [load_probe(name) for name in ([probe] if probe else probe_names())]
    document = {
        "schema_version": SCHEMA_VERSION,
        "command": "list",
        "probes": [_document(contract) for contract in contracts],
    }
    detailed = probe is not None or len(contracts) == 1
    output.emit(document, text=lambda: render(*(part for item in contracts for part in _text(item, detailed))))
    return ExitCode.OK


def _faults(probe: str | None, output: Output) -> int:
    if probe is not None:
        raise ConfigError(f"list: --faults is the same for all probes, must be without '{probe}'")
    from umma_probe.harness.inject import FAULTS  # it needs NumPy; the list itself starts fast

    known = list(FAULTS.values())
    document = {
        "schema_version": SCHEMA_VERSION,
        "command": "list",
        "faults": [{"name": fault.name, "args": fault.args, "help": fault.help} for fault in known],
    }
    lines = [line for fault in known for line in (Text(fault.usage, style="bold"), Text(f"    {fault.help}"))]
    note = Text("umma-probe run PROBE --inject NAME:ARGS. What stands in [ ] may be left out, | is or; ranges are such "
                "as 3,8-15; operand b is meant where none is named.", style="dim")  # fmt: skip
    output.emit(document, text=lambda: render(*lines, Text(""), note))
    return ExitCode.OK


def _document(contract: ProbeContract) -> dict[str, Any]:
    return {
        "name": contract.name,
        "title": contract.title,
        "shows": contract.shows,
        "needs": list(contract.needs),
        "options": [_option(option) for option in contract.options],
        "outcomes": [{"when": outcome.when, "means": outcome.means} for outcome in contract.outcomes],
        "sources": [str(ref) for ref in contract.refs],
    }


def _option(option: ProbeOption) -> dict[str, Any]:
    document: dict[str, Any] = {key: getattr(option, key) for key in ("name", "type", "default", "help")}
    if option.choices:
        document["choices"] = list(option.choices)
    return document | {key: value for key in ("min", "max") if (value := getattr(option, key)) is not None}


def _text(contract: ProbeContract, detailed: bool) -> list[RenderableType]:
    parts: list[RenderableType] = [
        heading(contract.name, contract.title),
        Padding(Text(contract.shows), (0, 0, 0, 2)),
        Text(f"  needs: {', '.join(_NEEDS[need] for need in contract.needs) or 'nothing'}", style="dim"),
    ]
    if not detailed:
        names = " ".join(f"--{option.name}" for option in contract.options)
        return [*parts, Padding(Text(f"options: {names}", style="dim"), (0, 0, 0, 2)), Text("")]
    options = Table.grid(padding=(0, 2))
    options.add_column(no_wrap=True)
    options.add_column(overflow="fold")
    for option in contract.options:
        options.add_row(Text(f"--{option.name}"), Text(_describe(option)))
    outcomes = Table.grid(padding=(0, 2))
    outcomes.add_column(ratio=2)
    outcomes.add_column(ratio=3)
    for outcome in contract.outcomes:
        outcomes.add_row(Text(f"If {outcome.when}"), Text(outcome.means, style="dim"))
    parts += [Text(""), Text("Options", style="bold"), Padding(options, (0, 0, 0, 2))]
    parts += [Text(""), Text("What each outcome means", style="bold"), Padding(outcomes, (0, 0, 0, 2))]
    parts += [Text(""), Text("Sources", style="bold"), *(Text(f"  · {ref}", style="dim") for ref in contract.refs)]
    return parts


def _describe(option: ProbeOption) -> str:
    parts = [option.help]
    if option.choices:
        parts.append(f"({' | '.join(option.choices)})")
    if option.default not in (None, False):
        parts.append(f"[default: {option.default}]")
    return " ".join(parts)
