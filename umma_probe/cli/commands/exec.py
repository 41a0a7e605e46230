"""``umma-probe exec CASE.yaml``: any kernel that a launch-case file describes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from umma_probe.cli.console import view_of
from umma_probe.cli.options import target_options
from umma_probe.cli.output import Output, check_writable, format_options
from umma_probe.report.formats import FORMATS, render

if TYPE_CHECKING:
    from typing import Any


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("case_file", metavar="CASE.yaml", type=click.Path(path_type=Path))
@click.option("--dump-tmem", type=click.Path(path_type=Path), metavar="FILE.npz",
              help="Write Tensor Memory of the first 64 CTAs as it was when each exited, or the kernel failed "
              "(model).")  # fmt: skip
@click.option("--save-outputs", type=click.Path(path_type=Path), metavar="DIR",
              help="Write every buffer's final bytes there.")  # fmt: skip
@click.option("--trace", "trace_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Write what each asynchronous operation did when: a line each, or a timeline for Perfetto "
              "if FILE ends in .json (model).")  # fmt: skip
@click.option("--strict", is_flag=True,
              help="Fail on everything that PTX forbids, also on what kernels known to work do.")  # fmt: skip
@click.option("--jobs", "-j", type=click.IntRange(1, 1024), default=1, show_default=True,
              help="Up to so many processes run CTAs that have nothing to do with each other (model).")  # fmt: skip
@target_options
@format_options(*FORMATS)
def command(case_file: Path, dump_tmem: Path | None, save_outputs: Path | None, trace_file: Path | None, output: Output,
            **options: Any) -> int:  # fmt: skip
    """Run the kernel of a launch-case file and check its outputs."""
    from umma_probe.backends.model import ModelDevice
    from umma_probe.harness.launch_case import report as cases
    from umma_probe.harness.launch_case.schema import load_case
    from umma_probe.harness.reporting import exit_code
    from umma_probe.harness.single import exec_case
    from umma_probe.model.trace import Trace

    for option, path in (("--dump-tmem", dump_tmem), ("--trace", trace_file)):
        if path is not None:
            check_writable(option, path)
    if save_outputs is not None:
        check_writable("--save-outputs", save_outputs, folder=True)
    trace = Trace() if trace_file is not None else None
    model_only = {"--trace": trace is not None, "--dump-tmem": dump_tmem is not None, "--jobs": options["jobs"] != 1}
    report, result, device = exec_case(case_file, trace=trace, model_only=model_only, **options)
    if isinstance(device, ModelDevice) and device.alone:
        click.echo(f"--jobs: one process, since {device.alone}", err=True)
    if trace is not None and trace_file is not None:
        cases.save_trace(trace_file, trace)
    if result is not None and save_outputs is not None:
        cases.save_outputs(save_outputs, load_case(case_file), result)
    if dump_tmem is not None and isinstance(device, ModelDevice) and device.launched:
        cases.save_tmem(dump_tmem, device)
    output.write(render(report, output.format, view_of(output)))
    return exit_code(report)
