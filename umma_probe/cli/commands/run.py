"""``umma-probe run PROBE``: one probe; its options come from its contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from umma_probe.cli.console import view_of
from umma_probe.cli.options import probe_option, probe_options
from umma_probe.cli.output import Output, format_options
from umma_probe.errors import ConfigError, unknown_name
from umma_probe.harness.manifest import load_probe, probe_names
from umma_probe.report.formats import FORMATS, render

if TYPE_CHECKING:
    from umma_probe.harness.manifest import ProbeContract


class ProbeGroup(click.Group):
    """One command for each contract in ``probes/``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The probes by name."""
        return probe_names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command that a contract describes."""
        return probe_command(load_probe(cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the nearest probes in the error."""
        name = args[0] if args else ""
        if name.replace("_", "-") not in (names := probe_names()):
            raise ConfigError(unknown_name("probe", name, names), hint="umma-probe list")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The probes with their titles."""
        with formatter.section("Probes"):
            formatter.write_dl([(name, load_probe(name).title) for name in probe_names()])


def probe_command(contract: ProbeContract) -> click.Command:
    """The command of one probe: its own options first, then those of every run."""

    @probe_options
    @format_options(*FORMATS)
    def run(output: Output, **options: Any) -> int:
        return _run(contract, output, options)

    common: list[click.Parameter] = list(reversed(getattr(run, "__click_params__", [])))
    return click.Command(
        contract.name,
        params=[*(probe_option(option) for option in contract.options), *common],
        callback=run,
        help=f"{contract.title}.\n\n{contract.shows}",
        epilog=_outcomes(contract),
        short_help=contract.title,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _run(contract: ProbeContract, output: Output, options: dict[str, Any]) -> int:
    from umma_probe.harness.reporting import exit_code
    from umma_probe.harness.single import run_probe

    params = {option.key: options.pop(option.key) for option in contract.options}
    report = run_probe(contract.name, params, **options)
    output.write(render(report, output.format, view_of(output)))
    return exit_code(report)


def _outcomes(contract: ProbeContract) -> str:
    lines = [f"- If {outcome.when}: {outcome.means}" for outcome in contract.outcomes]
    return "\n\n".join(["What each outcome means:", *lines])


@click.command(
    cls=ProbeGroup,
    subcommand_metavar="PROBE [OPTIONS]",
    options_metavar="",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def command() -> None:
    """Compile, run, dump and diff one probe."""
