"""``umma-probe ci``: a bring-up job into a folder; the same in a workflow and out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from umma_probe.cli.commands.sweep import find_config
from umma_probe.errors import ConfigError

if TYPE_CHECKING:
    from umma_probe.harness.ci import JobResult

_DEFAULT_CONFIGS = ("bringup", "fmha")


@click.command(epilog="Exit code: 0 all as expected, 1 anything differs, else that of the worst case.")
@click.option("--out", "out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR",
              help="Where the results go: summary.md, job.json, and each config in every format.")  # fmt: skip
@click.option("--config", "configs", multiple=True, metavar="NAME|FILE",
              help="What runs; may stand several times.  [default: bringup and fmha]")  # fmt: skip
@click.option("--target", default="auto", show_default=True, metavar="auto|model|cuda:N|cuda:all",
              help="What runs the kernels; on a GPU the model runs beside it.")  # fmt: skip
@click.option("--arch", default="", metavar="ARCH", help="Target to compile for.  [default: the GPU's, or sm_100a]")
@click.option("--require", default="", metavar="ARCH", help="Fail with exit code 3 unless a GPU here runs this.")
@click.option("--jobs", "-j", type=click.IntRange(1, 1024), help="Workers.  [default: one a core, or one a GPU]")
@click.option("--no-model", is_flag=True, help="On a GPU: leave out the comparison with the model.")
def command(out: Path, configs: tuple[str, ...], target: str, arch: str, require: str, jobs: int | None,
            no_model: bool) -> int:  # fmt: skip
    """Run sweeps, compare silicon with the model, and write everything that a person or a CI job wants to see.

    stdout gets one line for each thing that is not as it should be, and the verdict.
    """
    from umma_probe.cli.sweep_view import SweepProgress
    from umma_probe.harness.ci import plan_job, run_job

    plans = plan_job([find_config(name) for name in configs or _DEFAULT_CONFIGS], target=target, arch=arch,
                     require=require)  # fmt: skip
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out: cannot make {out}: {error.strerror}") from error
    with SweepProgress() as progress:
        job = run_job(plans, watcher=progress, state_dir=out / "state", jobs=jobs, beside=not no_model)
    _write(job, out)
    for line in job.failures():
        click.echo(line)
    click.echo(f"verdict: {job.verdict} ({out / 'summary.md'})")
    return int(job.exit_code)


def _write(job: JobResult, out: Path) -> None:
    """All documents of a job."""
    from umma_probe.report.job import summary
    from umma_probe.report.sweep import render

    documents = {"summary.md": summary(job), "job.json": _json(job.to_json())}
    for sweep in job.sweeps:
        for format_, ending in (("json", "json"), ("html", "html"), ("markdown", "md"), ("junit", "xml")):
            documents[f"{sweep.name}.{ending}"] = render(sweep, format_)
    for comparison in job.comparisons:
        documents[f"{comparison.name}-witnesses.json"] = _json(comparison.to_json())
    for name, text in documents.items():
        (out / name).write_text(text, encoding="utf-8")


def _json(document: object) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
