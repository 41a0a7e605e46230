"""``umma-probe doctor``: what is here, what can run where, and how to fix what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from umma_probe import __version__
from umma_probe.cli.output import Output, format_options
from umma_probe.cli.rendering import heading, render
from umma_probe.errors import ExitCode
from umma_probe.gpu.info import Absent, Driver, Environment, Gpu, Nvrtc, cubin_runs_on, probe_environment
from umma_probe.spec.machine import ARCHS

if TYPE_CHECKING:
    from rich.console import RenderableType

SCHEMA_VERSION = 1


@click.command("doctor", short_help="What is here, what can run where, and how to fix what is missing.")
@click.option("--require", metavar="ARCH", help="Exit with 3 unless a GPU here runs code for ARCH, such as sm_100a.")
@format_options("text", "json")
def command(output: Output, require: str | None) -> int:
    """Look for GPU, driver and NVRTC; say what can run where, and how to fix what is missing.

    Exit code 0: probes can run, at least on the model. 3: NVRTC is missing, which compiles them (umma-probe exec runs
    PTX from elsewhere without), or no GPU here satisfies --require.
    """
    if require is not None:
        cubin_runs_on(require, (0, 0))  # a name that is no architecture is a usage error, before anything else
    environment = probe_environment()
    unmet = _unmet(environment, require)
    fixes = _fixes(environment, unmet)
    output.emit(_document(environment, require, unmet, fixes), text=lambda: _text(environment, require, unmet, fixes))
    return ExitCode.OK if environment.model_ready and unmet is None else ExitCode.ENVIRONMENT


def _unmet(environment: Environment, require: str | None) -> Absent | None:
    """Why ``--require`` is not met; None if it is, or if nothing is required."""
    if require is None:
        return None
    found = environment.first_gpu(require)
    if isinstance(found, Gpu):
        return None
    return Absent(found.reason, "" if environment.no_gpu else f"a GPU that runs {require} code{_chip(require)}")


def _chip(arch: str) -> str:
    row = ARCHS.get(arch)
    return f": {row.gpu}" if row is not None else ""


def _fixes(environment: Environment, unmet: Absent | None) -> list[dict[str, str]]:
    absents = [part for part in (environment.nvrtc, environment.no_gpu, unmet) if isinstance(part, Absent)]
    return list({part.reason: {"problem": part.reason, "fix": part.fix} for part in absents if part.fix}.values())


# ---------------------------------------------------------------------------------------------------------------- JSON


def _document(
    environment: Environment, require: str | None, unmet: Absent | None, fixes: list[dict[str, str]]
) -> dict[str, Any]:
    best = environment.first_gpu()
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "command": "doctor",
        "umma_probe": __version__,
        "target": _auto_target(environment),
        "reason": "" if isinstance(best, Gpu) else best.reason,
        "model": {"available": environment.model_ready, "archs": _model_archs(environment)},
        "driver": _driver(environment.driver),
        "gpus": [_gpu(gpu) for gpu in environment.gpus],
        "no_gpu": environment.no_gpu.reason if environment.no_gpu else "",
        "nvrtc": _nvrtc(environment.nvrtc),
        "libraries": environment.libraries,
        "python": environment.python,
        "cache": environment.cache,
        "fixes": fixes,
    }
    if require is not None:
        document["require"] = {"arch": require, "met": unmet is None, "reason": unmet.reason if unmet else ""}
    return document


def _auto_target(environment: Environment) -> str | None:
    """What ``--target auto`` takes for probes; nothing without NVRTC, which compiles them."""
    if not environment.model_ready:
        return None
    best = environment.first_gpu()
    return f"cuda:{best.index}" if isinstance(best, Gpu) else "model"


def _driver(driver: Driver | Absent) -> dict[str, Any]:
    if isinstance(driver, Absent):
        return {"available": False, "reason": driver.reason}
    return {"available": True, "version": driver.version, "cuda": _dotted(driver.cuda_version)}


def _nvrtc(nvrtc: Nvrtc | Absent) -> dict[str, Any]:
    if isinstance(nvrtc, Absent):
        return {"available": False, "reason": nvrtc.reason}
    return {"available": True, "version": _dotted(nvrtc.version), "archs": list(nvrtc.archs)}


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "name": gpu.name,
        "uuid": gpu.uuid,
        "arch": gpu.native_arch,
        "compute_capability": _dotted(gpu.compute_capability),
        "memory_bytes": gpu.memory_bytes,
        "sm_count": gpu.sm_count,
        "tensor_memory": gpu.has_tensor_memory,
        "reason": gpu.why_not(),
    }


def _model_archs(environment: Environment) -> list[str]:
    """Targets with Tensor Memory that the NVRTC here can compile for."""
    if isinstance(environment.nvrtc, Absent):
        return []
    known = set(environment.nvrtc.archs)
    return [arch.name for arch in ARCHS.values() if arch.has_tmem and arch.name.rstrip("af") in known]


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


# ---------------------------------------------------------------------------------------------------------------- text


def _text(environment: Environment, require: str | None, unmet: Absent | None, fixes: list[dict[str, str]]) -> str:
    parts: list[RenderableType] = [heading("umma-probe doctor", __version__)]
    parts += _section("What is here", _found(environment))
    parts += _section("What can run where", _targets(environment))
    if fixes:
        parts += _section("To fix", [("", fix["problem"], fix["fix"]) for fix in fixes])
    if require is not None:
        answer = ("ok", require, "met") if unmet is None else ("no", require, f"not met: {unmet.reason}")
        parts += _section("Required", [answer])
    return render(*parts)


_PTX_ONLY = "no probes, which NVRTC compiles; a case with a .ptx file runs (umma-probe exec)"
_STYLES = {"ok": "green", "no": "red"}


def _section(title: str, rows: list[tuple[str, str, str]]) -> list[RenderableType]:
    """A title and rows of (``ok``, ``no`` or nothing; name; text); the text wraps, nothing is cut off."""
    table = Table.grid(padding=(0, 2))
    table.add_column(width=4, justify="right")
    table.add_column(max_width=44, overflow="fold")
    table.add_column(overflow="fold")
    for state, name, text in rows:
        table.add_row(Text(state, style=_STYLES.get(state, "")), Text(name), Text(text))
    return [Text(""), Text(title, style="bold"), table]


def _found(environment: Environment) -> list[tuple[str, str, str]]:
    driver, nvrtc = environment.driver, environment.nvrtc
    rows = [
        ("no", "NVRTC", nvrtc.reason) if isinstance(nvrtc, Absent) else ("ok", "NVRTC", _dotted(nvrtc.version)),
        ("no", "driver", driver.reason)
        if isinstance(driver, Absent)
        else ("ok", "driver", f"{driver.version} (CUDA {_dotted(driver.cuda_version)})".lstrip()),
    ]
    for gpu in environment.gpus:
        size = f"{gpu.sm_count} SMs, {gpu.memory_bytes / 2**30:.0f} GiB"
        rows.append(("ok", f"GPU {gpu.index}", f"{gpu.name}, {gpu.arch}, {size}"))
    if environment.no_gpu is not None and isinstance(driver, Driver):
        rows.append(("no", "GPU", environment.no_gpu.reason))
    libraries = ", ".join(f"{name} {version}" for name, version in environment.libraries.items())
    return [*rows, ("", "Python", environment.python), ("", "packages", libraries), ("", "cache", environment.cache)]


def _targets(environment: Environment) -> list[tuple[str, str, str]]:
    archs = _model_archs(environment)
    rows = [("ok", "model", f"probes, for {', '.join(archs)}") if archs else ("no", "model", _PTX_ONLY)]
    for gpu in environment.gpus:
        reason = f"no tcgen05 ({gpu.arch}: no Tensor Memory)" if gpu.why_not() else "" if archs else _PTX_ONLY
        rows.append(("no" if reason else "ok", f"cuda:{gpu.index}", reason or f"probes, for {gpu.native_arch}"))
    best = environment.first_gpu()
    chosen = f"cuda:{best.index}" if isinstance(best, Gpu) else f"the model: {best.reason}"
    return [*rows, ("", "auto", chosen)]
