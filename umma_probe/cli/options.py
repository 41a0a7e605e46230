"""Options that several verbs share, and options made from a probe's contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from umma_probe.launch_values import DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.harness.manifest import ProbeOption

F = TypeVar("F", bound="Callable[..., Any]")

MAX_SECONDS = 10**6


class Seconds(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """A time limit: more than 0, and such that a timer can be set to it (``nan`` and ``inf`` are not)."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read and check it."""
        try:
            seconds = float(value)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= MAX_SECONDS:
            self.fail(f"'{value}' must be more than 0 and at most {MAX_SECONDS} seconds", param, ctx)
        return seconds


_TARGET_OPTIONS = (
    click.option(
        "--target",
        default="auto",
        show_default=True,
        metavar="auto|model|cuda|cuda:N",
        help="What runs the kernel; auto is the first GPU that can, else the CPU model.",
    ),
    click.option("--arch", default="", metavar="ARCH", help="Target to compile for.  [default: the GPU's, or sm_100a]"),
    click.option(
        "--policy",
        default="eager",
        show_default=True,
        metavar="eager|lazy|random:SEED",
        help="Model only: when asynchronous operations take effect.",
    ),
    click.option(
        "--timeout",
        type=Seconds(),
        default=DEFAULT_TIMEOUT_S,
        show_default=True,
        metavar="SECONDS",
        help="After this a kernel counts as hanging.",
    ),
)
_PROBE_OPTIONS = (
    click.option("--seed", type=int, default=0, show_default=True, help="Of everything that is drawn at random."),
    click.option("--force", is_flag=True, help="Run what the documents forbid."),
)


def target_options(function: F) -> F:
    """``--target``, ``--arch``, ``--policy`` and ``--timeout``: of everything that runs a kernel."""
    for option in reversed(_TARGET_OPTIONS):
        function = option(function)
    return function


def probe_options(function: F) -> F:
    """The target's options, ``--seed`` and ``--force``: of everything that runs a probe."""
    for option in reversed(_PROBE_OPTIONS):
        function = option(function)
    return target_options(function)


def probe_option(option: ProbeOption) -> click.Option:
    """The command-line form of one option of a contract; the contract checks the value."""
    flag = option.type == "flag"
    kinds: dict[str, Any] = {"int": int, "text": str, "choice": click.Choice(option.choices, case_sensitive=False)}
    return click.Option(
        [f"--{option.name}"],
        help=option.help,
        is_flag=flag,
        type=None if flag else kinds[option.type],
        default=option.default,
        show_default=option.default is not None and not flag,
    )
