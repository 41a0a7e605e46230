"""``umma-probe sweep CONFIG.yaml``: many cases, in parallel, resumable, one report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from umma_probe.assets import asset_dir, asset_file
from umma_probe.cli.output import Output, format_options
from umma_probe.errors import ConfigError

if TYPE_CHECKING:
    from umma_probe.harness.sweep.outcome import SweepResult
    from umma_probe.harness.sweep.run import SweepPlan

FORMATS = ("text", "json", "markdown", "html", "junit")


@click.command(epilog="Exit code: 0 all as expected, 1 any that ran came out otherwise, else that of the worst.")
@click.argument("config")
@click.option("--jobs", "-j", type=click.IntRange(1, 1024), help="Workers.  [default: one a core, or one a GPU]")
@click.option(
    "--target",
    default="auto",
    show_default=True,
    metavar="auto|model|cuda:N|cuda:0,cuda:1|cuda:all",
    help="What runs the kernels.",
)
@click.option("--arch", default="", metavar="ARCH", help="Target to compile for.  [default: the GPU's, or sm_100a]")
@click.option(
    "--resume/--fresh",
    default=None,
    help="Take every stored result, or none.  [default: go on with an interrupted sweep]",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="UMMA_PROBE_STATE",
    metavar="DIR",
    help="Where the journal lies.  [default: ~/.local/state/umma-probe/sweeps]",
)
@click.option(
    "--compare-devices", is_flag=True, help="Run every case on each GPU of the target, and say which GPU differs."
)
@click.option("--dry-run", is_flag=True, help="Check the config and list its cases; run nothing.")
@format_options(*FORMATS)
def command(
    config: str,
    jobs: int | None,
    target: str,
    arch: str,
    resume: bool | None,
    state: Path | None,
    compare_devices: bool,
    dry_run: bool,
    output: Output,
) -> int:
    """Run every case of CONFIG: a file, or the name of one that is supplied (smoke, bringup, ...).

    Workers run the cases; one that hangs or dies costs only its own case. Each result is stored as it comes: run the
    same command again after an interruption and it goes on where it was.
    """
    from umma_probe.harness.sweep.run import plan_sweep, run_sweep

    plan = plan_sweep(find_config(config), target=target, arch=arch)
    if dry_run:
        lines = [f"{case.group}: {case.label}" for case in plan.cases]
        output.emit(
            {"command": "sweep", "name": plan.config.name, "total": len(lines), "cases": lines},
            text=lambda: "\n".join([*lines, f"{len(lines)} cases"]),
        )
        return 0
    if compare_devices:
        return _compare_devices(plan, state, output)
    from umma_probe.cli.sweep_view import SweepProgress

    with SweepProgress() as progress:
        result = run_sweep(plan, watcher=progress, jobs=jobs, state_dir=state, resume=resume)
    output.write(_rendered(result, output))
    return int(result.exit_code)


def _compare_devices(plan: SweepPlan, state: Path | None, output: Output) -> int:
    from umma_probe.cli.sweep_view import SweepProgress
    from umma_probe.harness.sweep.devices import compare_devices

    if output.format not in ("text", "json"):
        raise ConfigError(f"--format is {output.format}, must be text or json with --compare-devices")
    with SweepProgress() as progress:
        comparison = compare_devices(plan, watcher=progress, state_dir=state)
    verdict = "pass" if comparison.exit_code == 0 else "fail"
    output.emit(comparison.to_json(), text=lambda: "\n".join([*comparison.lines(), f"verdict: {verdict}"]))
    return int(comparison.exit_code)


def _rendered(result: SweepResult, output: Output) -> str:
    if output.format == "text":
        from umma_probe.cli.sweep_view import sweep_text

        return sweep_text(result)
    from umma_probe.report.sweep import render

    return render(result, output.format)


def find_config(name: str) -> Path:
    """A file, or a supplied config by name.

    :raises ConfigError: neither; the nearest supplied names are given.
    """
    path = Path(name)
    if path.is_file():
        return path
    if path.suffix or len(path.parts) > 1:
        supplied = asset_dir("configs") / path.name
        if path.parts[:-1] not in ((), ("configs",)) or not supplied.is_file():
            raise ConfigError(f"there is no file {name}", hint="umma-probe sweep smoke runs a supplied config")
        return supplied
    return asset_file("configs", f"{name}.yaml")
