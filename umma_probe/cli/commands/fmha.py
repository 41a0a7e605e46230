"""``umma-probe fmha``: fused attention on this target, with a pass/fail report."""

from __future__ import annotations

from typing import Any

import click

from umma_probe.cli.console import view_of
from umma_probe.cli.options import probe_option, probe_options
from umma_probe.cli.output import Output, format_options
from umma_probe.errors import ExitCode
from umma_probe.harness.manifest import load_probe
from umma_probe.report.formats import FORMATS, render

_CONTRACT = load_probe("fmha")


@probe_options
@click.option("--explain", is_flag=True, help="Show the Tensor Memory and shared-memory budgets; run nothing.")
@format_options(*FORMATS)
def _fmha(output: Output, explain: bool, **options: Any) -> int:
    params = {option.key: options.pop(option.key) for option in _CONTRACT.options}
    if explain:
        return _explain(params, output)
    from umma_probe.harness.reporting import exit_code
    from umma_probe.harness.single import run_probe

    report = run_probe(_CONTRACT.name, params, **options)
    report.command = "fmha"
    output.write(render(report, output.format, view_of(output)))
    return exit_code(report)


def _explain(params: dict[str, Any], output: Output) -> int:
    from umma_probe.cli.fmha_budget import budget_json, budget_text
    from umma_probe.errors import ConfigError
    from umma_probe.harness.suites.fmha import problem_of

    problem = problem_of(_CONTRACT.resolve(params))
    if problems := problem.problems():
        raise ConfigError("; ".join(item.message for item in problems), ref=str(problems[0].ref))
    output.emit(budget_json(problem), text=lambda: budget_text(problem))
    return ExitCode.OK


command = click.Command(
    "fmha",
    params=[
        *(probe_option(option) for option in _CONTRACT.options),
        *reversed(getattr(_fmha, "__click_params__", [])),
    ],
    callback=_fmha,
    help=f"{_CONTRACT.title}: a pass/fail report.\n\n{_CONTRACT.shows}",
    short_help=_CONTRACT.title,
    context_settings={"help_option_names": ["-h", "--help"]},
)
