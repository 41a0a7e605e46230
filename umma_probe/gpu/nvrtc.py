"""CUDA C++ to PTX or to a cubin, in memory, with NVRTC: no toolkit, no driver, no GPU.

PTX (for the model) stops after the front end: ``--gpu-architecture=compute_XX`` skips the assembler and gives the
same text. A GPU gets a cubin, because a driver refuses PTX of a later ISA than its own but loads any cubin
of its major version. ``-lineinfo`` is always on: every diagnosis wants source lines.

When a source includes a header that its own directories lack, those that NVRTC carries join the search path, and there
are stand-ins for what host compilers have (``gpu.stand_ins``).

``cuda.bindings`` is imported on the first compilation, never before; ``cuda.core`` is not needed here.
"""

from __future__ import annotations

import importlib
import json
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from umma_probe import __version__
from umma_probe.errors import ConfigError, DeviceUnavailable, InternalError
from umma_probe.gpu.cache import CompileCache, cache_root, digest
from umma_probe.gpu.headers import bundled_headers
from umma_probe.gpu.includes import IncludeClosure, include_closure
from umma_probe.gpu.nvrtc_log import compile_error
from umma_probe.gpu.stand_ins import stand_ins

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind = Literal["ptx", "cubin"]

_ARCH = re.compile(r"sm_(?P<number>\d{2,3})(?P<suffix>[af]?)")
_DEFAULT_OPTIONS = ("-lineinfo", "--std=c++17", "--device-as-default-execution-space")
_SYNONYMS = {"-std": "--std", "-arch": "--gpu-architecture", "--generate-line-info": "-lineinfo"}
_INSTALL = "pip install 'nvidia-cuda-nvrtc>=13,<14'"


@dataclass(frozen=True)
class Compiled:
    """What NVRTC made."""

    data: bytes | str
    """PTX as text, a cubin as bytes."""
    log: str
    """Warnings, or empty."""
    arch: str
    nvrtc_version: tuple[int, int]
    seconds: float
    """Wall time of this call; a cache hit is as fast as it was."""
    cached: bool = False

    @property
    def ptx(self) -> str:
        """The PTX text; only for ``kind="ptx"``."""
        if not isinstance(self.data, str):
            raise InternalError("this compilation made a cubin, not PTX")
        return self.data

    @property
    def cubin(self) -> bytes:
        """The cubin; only for ``kind="cubin"``."""
        if not isinstance(self.data, bytes):
            raise InternalError("this compilation made PTX, not a cubin")
        return self.data


def compile_source(
    source: str,
    name: str,
    *,
    arch: str,
    kind: Kind,
    options: Sequence[str] = (),
    include_dirs: Sequence[Path] = (),
) -> Compiled:
    """Compile one CUDA C++ translation unit.

    :param name: shown in diagnostics and in the PTX's ``.file``; the source's path where it has one, so that its
        quoted includes are found beside it.
    :param arch: ``sm_100a`` and the like.
    :param options: for NVRTC; one that repeats a default (``--std``) replaces it.
    :raises CompileError: the source is wrong; carries the whole log and the first offending line.
    :raises ConfigError: ``arch`` is no architecture's name, or an option is unknown.
    :raises DeviceUnavailable: there is no NVRTC, or it does not know the architecture.
    """
    start = time.perf_counter()
    nvrtc = load_nvrtc()
    version = _version(nvrtc)
    _check_arch(nvrtc, arch, version)
    directories = [Path(name).absolute().parent, *(Path(directory).absolute() for directory in include_dirs)]
    closure = include_closure(source, directories[0], directories[1:])
    headers = stand_ins(closure.missing)
    if closure.missing:
        directories += bundled_headers(nvrtc, version)
    arguments = _arguments(arch, kind, options, directories)
    key = _key(source, name, arguments, version, closure)
    cache = CompileCache(None if closure.opaque else cache_root())
    if (blob := cache.get(key)) is not None:
        return replace(_unpack(blob, kind, arch, version), seconds=time.perf_counter() - start, cached=True)
    data, log = _run(nvrtc, source, name, arch, kind, arguments, headers)
    result = Compiled(data, log, arch, version, time.perf_counter() - start)
    cache.put(key, _pack(result))
    return result


def nvrtc_version() -> tuple[int, int]:
    """Major and minor version, which is that of its CUDA.

    :raises DeviceUnavailable: there is no NVRTC.
    """
    return _version(load_nvrtc())


def supported_archs() -> list[str]:
    """Base architectures that this NVRTC can compile for, such as ``sm_100``, ascending.

    :raises DeviceUnavailable: there is no NVRTC.
    """
    return [f"sm_{number}" for number in _supported_numbers(load_nvrtc())]


def load_nvrtc() -> Any:
    """The binding module, with its library loaded.

    :raises DeviceUnavailable: the bindings or the library are missing; the hint says how to install them.
    """
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError as error:
        raise DeviceUnavailable(
            f"NVRTC: the Python bindings cannot be imported ({error})", hint="pip install 'cuda-python>=13,<14'"
        ) from error
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError as error:  # cuda.pathfinder's DynamicLibNotFoundError, or a symbol that is missing
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise DeviceUnavailable(f"NVRTC: libnvrtc cannot be loaded ({first_line})", hint=_INSTALL) from error
    return nvrtc


def _version(nvrtc: Any) -> tuple[int, int]:
    status, major, minor = nvrtc.nvrtcVersion()
    _expect_success(nvrtc, status, "nvrtcVersion")
    return int(major), int(minor)


def _supported_numbers(nvrtc: Any) -> list[int]:
    status, numbers = nvrtc.nvrtcGetSupportedArchs()
    _expect_success(nvrtc, status, "nvrtcGetSupportedArchs")
    return sorted(int(number) for number in numbers)


def _expect_success(nvrtc: Any, status: Any, call: str) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise InternalError(f"{call} answered {status.name}")


def _check_arch(nvrtc: Any, arch: str, version: tuple[int, int]) -> None:
    match = _ARCH.fullmatch(arch)
    known = _supported_numbers(nvrtc)
    listed = ", ".join(f"sm_{number}" for number in known)
    if match is None:
        raise ConfigError(f"architecture is '{arch}', must be sm_ and a number, then a or f where it has variants",
                          hint=f"for instance sm_100a; this NVRTC knows {listed}")  # fmt: skip
    if int(match["number"]) not in known:
        raise DeviceUnavailable(
            f"NVRTC {version[0]}.{version[1]} cannot compile for {arch}; it knows {listed}",
            hint=f"a later NVRTC may: {_INSTALL.replace('install', 'install -U')}",
        )


def _arguments(arch: str, kind: Kind, options: Sequence[str], directories: Sequence[Path]) -> list[str]:
    given = {_option_key(option) for option in options}
    if "--gpu-architecture" in given:
        raise ConfigError("nvrtc_options: the architecture is given by arch (--arch), not among the options")
    target = arch.replace("sm_", "compute_") if kind == "ptx" else arch
    defaults = [option for option in _DEFAULT_OPTIONS if _option_key(option) not in given]
    includes = [f"--include-path={directory}" for directory in directories]
    return [f"--gpu-architecture={target}", *defaults, *options, *includes]


def _option_key(option: str) -> str:
    head = option.split("=", 1)[0].strip()
    return _SYNONYMS.get(head, head)


def _run(
    nvrtc: Any, source: str, name: str, arch: str, kind: Kind, arguments: Sequence[str], headers: Mapping[str, str]
) -> tuple[bytes | str, str]:
    texts, names = ([text.encode() for text in part] for part in (headers.values(), headers))
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), len(headers), texts, names)
    _expect_success(nvrtc, status, "nvrtcCreateProgram")
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(arguments), [argument.encode() for argument in arguments])
        log = _text(nvrtc, program, "ProgramLog").strip()
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            raise ConfigError(f"{name}: {log}", hint=f"NVRTC was given: {' '.join(arguments)}")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            ptx = _text(nvrtc, program, "PTX")
            raise compile_error(log or status.name, source=source, name=name, arch=arch, ptx=ptx)
        data = _text(nvrtc, program, "PTX") if kind == "ptx" else _blob(nvrtc, program, "CUBIN")
        return data, log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _blob(nvrtc: Any, program: Any, what: str) -> bytes:
    """One of the program's outputs: ``PTX``, ``CUBIN`` or ``ProgramLog``."""
    status, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    _expect_success(nvrtc, status, f"nvrtcGet{what}Size")
    buffer = bytearray(size)
    if size:
        (status,) = getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
        _expect_success(nvrtc, status, f"nvrtcGet{what}")
    return bytes(buffer)


def _text(nvrtc: Any, program: Any, what: str) -> str:
    return _blob(nvrtc, program, what).rstrip(b"\x00").decode("utf-8", "replace")


def _key(source: str, name: str, arguments: Sequence[str], version: tuple[int, int], closure: IncludeClosure) -> str:
    """Everything that the output depends on; the absolute name is part of it through ``.file``."""
    parts: list[str | bytes] = [__version__, f"{version[0]}.{version[1]}", str(Path(name).absolute()), source]
    parts += [
        "arguments",
        *arguments,
        "missing",
        *sorted(closure.missing),
        *stand_ins(closure.missing).values(),
        "files",
    ]
    for path in sorted(closure.files):
        parts += [str(path), closure.files[path]]
    return digest(parts)


def _pack(result: Compiled) -> bytes:
    data = result.data.encode() if isinstance(result.data, str) else result.data
    return json.dumps({"log": result.log}).encode() + b"\n" + data


def _unpack(blob: bytes, kind: Kind, arch: str, version: tuple[int, int]) -> Compiled:
    head, data = blob.split(b"\n", 1)
    return Compiled(data.decode() if kind == "ptx" else data, json.loads(head)["log"], arch, version, 0.0)
