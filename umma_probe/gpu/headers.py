"""The CUDA and CCCL headers that NVRTC 13.5 carries in its library: ``cuda_fp16.h`` needs no toolkit."""

from __future__ import annotations

import atexit
import functools
import tempfile
from pathlib import Path
from typing import Any

from umma_probe.gpu.cache import cache_root


def bundled_headers(nvrtc: Any, version: tuple[int, int]) -> list[Path]:
    """Include directories with those headers, unpacked once beside the compile cache; empty where NVRTC has none."""
    if not hasattr(nvrtc, "nvrtcInstallBundledHeaders"):
        return []
    name = f"nvrtc-headers-{version[0]}.{version[1]}"
    root = cache_root()
    if root is not None and (found := _install(nvrtc, root / name)):
        return found
    return _install(nvrtc, _scratch() / name)


def _install(nvrtc: Any, directory: Path) -> list[Path]:
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        status, *_ = nvrtc.nvrtcInstallBundledHeaders(str(directory).encode(), 0)
    except (OSError, RuntimeError):  # a cache that cannot be written; bindings that are newer than the library
        return []
    return [directory, directory / "cccl"] if status == nvrtc.nvrtcResult.NVRTC_SUCCESS else []


@functools.cache
def _scratch() -> Path:
    """A directory that goes with the process."""
    holder = tempfile.TemporaryDirectory(prefix="umma-probe-")
    atexit.register(holder.cleanup)
    return Path(holder.name)
