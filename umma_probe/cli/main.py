"""Entry point: the verbs, loaded on demand, and the one place where errors become exit codes."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import Any

import click

from umma_probe import __version__
from umma_probe.cli.output import discard_stdout
from umma_probe.errors import ConfigError, ExitCode, InternalError, UmmaProbeError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a write to a full or failing place says."""

# verb -> (module under cli/commands, one line of help). Help never imports a verb.
VERBS: dict[str, tuple[str, str]] = {
    "run": ("run", "Compile, run, dump and diff one probe."),
    "fmha": ("fmha", "Fused attention on this target: a pass/fail report."),
    "exec": ("exec", "Run any kernel that a launch-case file describes; check its outputs."),
    "sweep": ("sweep", "Many cases from a config: parallel, resumable, one report."),
    "ci": ("ci", "A bring-up job into a folder: sweeps, silicon against model, summary."),
    "model": ("model", "The CPU model: which instructions it has, and how well each is known."),
    "findings": ("findings", "The recorded findings; verify re-runs what each rests on."),
    "diff": ("diff", "Two reports: what differs, first differing cell."),
    "list": ("list", "The probes: options, what each shows, what each needs."),
    "doctor": ("doctor", "What is here: GPU, driver, NVRTC; what can run where."),
    "layout": ("layout", "Element to Tensor Memory cell and back: accumulators, A operand, scale factors."),
    "ldst": ("ldst", "tcgen05.ld/st: (thread, register) to (lane, column) and back."),
    "cp": ("cp", "tcgen05.cp: the source of every destination cell."),
    "idesc": ("idesc", "Encode and decode instruction descriptors."),
    "smem-desc": ("smem_desc", "Encode and decode shared-memory descriptors; show what the MMA fetches."),
    "dot": ("dot", "The word that the tensor core gives for one dot product."),
}


class _Interrupted(Exception):
    """Somebody pressed Ctrl-C."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module and return its ``command``."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"umma_probe.cli.commands.{VERBS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the nearest verbs in the error."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in VERBS:
            from umma_probe.errors import unknown_name

            raise ConfigError(unknown_name("command", name, VERBS), hint="umma-probe --help")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """As click does it, but for Ctrl-C, which click would answer with an empty line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise _Interrupted from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help table, without importing the verbs."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="umma-probe")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.pass_context
def main(ctx: click.Context, debug: bool) -> None:
    """See what a tensor-core kernel really did to Tensor Memory.

    On a B200, or with no GPU on a built-in CPU model that executes the kernel's PTX.
    """
    ctx.obj = {"debug": debug}


def run(argv: list[str] | None = None) -> None:
    """Console entry: run the verb and leave with the contract's exit code."""
    # before NumPy is imported: the model's matrices are small, and BLAS threads that spin on busy cores cost
    # more than they give
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (>&-): the exit code still answers
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # lives as long as the process
    args = sys.argv[1:] if argv is None else argv
    debug = "--debug" in args or bool(os.environ.get("UMMA_PROBE_DEBUG"))
    sys.exit(_exit_code(args, debug))


def _exit_code(args: list[str], debug: bool) -> int:
    try:
        result: Any = main.main(args=args, prog_name="umma-probe", standalone_mode=False)
        return int(result) if isinstance(result, int) else ExitCode.OK
    except UmmaProbeError as error:
        if debug:
            raise
        click.echo(error.render(), err=True)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return ExitCode.USAGE
    except click.ClickException as error:
        click.echo(_in_our_form(error).render(), err=True)
        return ExitCode.USAGE
    except (_Interrupted, click.Abort, KeyboardInterrupt):
        # behind the terminal's own ^C
        click.echo("\ninterrupted" if sys.stderr.isatty() else "interrupted", err=True)
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, SystemExit):  # click leaves with SystemExit when a reader of its own words is gone
        discard_stdout()  # the reader went away: nothing more to say, and no traceback at shutdown
        return ExitCode.OK
    except OSError as error:
        if error.errno not in _NO_ROOM:
            return _bug(error, debug)
        discard_stdout()
        click.echo(ConfigError(f"cannot write to stdout: {error.strerror}").render(), err=True)
        return ExitCode.USAGE
    except Exception as error:  # the last resort: a bug of ours is reported as one, with exit code 70
        return _bug(error, debug)


def _bug(error: Exception, debug: bool) -> int:
    if debug:
        raise error
    bug = InternalError(
        f"{type(error).__name__}: {error}", hint="this is a bug of umma-probe; --debug shows the traceback"
    )
    click.echo(bug.render(), err=True)
    return ExitCode.INTERNAL


def _in_our_form(error: click.ClickException) -> ConfigError:
    """A refusal by the option parser in the words of every other one."""
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message.replace("a valid integer range", "an integer").replace("a valid float range", "a number")
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context is not None else "umma-probe"
    return ConfigError(f"{message[:1].lower()}{message[1:]}", hint=f"{command} --help")


if __name__ == "__main__":
    run()
