"""``--target``: which device runs the kernel. ``auto`` takes the first GPU that can, else the model, and says why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from umma_probe.errors import ConfigError, DeviceUnavailable
from umma_probe.spec.machine import ARCHS
from umma_probe.spec.machine import arch as arch_row

if TYPE_CHECKING:
    from collections.abc import Collection

    from umma_probe.backends.base import Device

DEFAULT_MODEL_ARCH = "sm_100a"
_WGMMA_ARCH = "sm_90a"
_CUDA = re.compile(r"cuda(?::(\d+))?")


def open_target(target: str = "auto", *, arch: str = "", policy: str = "eager", needs: Collection[str] = ()) -> Device:
    """Open a device.

    :param target: ``auto``, ``model``, ``cuda`` or ``cuda:N``.
    :param arch: to compile for; empty for the GPU's own, ``sm_100a`` on the model.
    :param policy: of the model: ``eager``, ``lazy`` or ``random:SEED``.
    :param needs: refuse what lacks any of these: ``tmem``, ``wgmma``; other words are not looked at.
    :raises ConfigError: no such target, architecture or policy.
    :raises DeviceUnavailable: the target is not here, or lacks what is needed.
    """
    arch = arch or required_arch(needs)
    chosen = choose_target(target, arch=arch, needs=needs)
    if isinstance(chosen, int):
        return _open_gpu(chosen, arch, needs)
    from umma_probe.backends.model import ModelDevice

    return ModelDevice(arch or DEFAULT_MODEL_ARCH, policy, chosen)


def choose_target(target: str, *, arch: str = "", needs: Collection[str] = ()) -> int | str:
    """The number of a GPU; or for the model the reason, where ``auto`` took it for want of a GPU. Opens nothing.

    :raises ConfigError: no such target or architecture.
    :raises DeviceUnavailable: the architecture lacks what is needed.
    """
    match = _CUDA.fullmatch(target)
    if target not in ("auto", "model") and match is None:
        raise ConfigError(f"target is '{target}', must be auto, model, cuda or cuda:N")
    arch = arch or required_arch(needs)
    if arch:
        check_arch(arch, needs)
    if match is not None:
        return int(match[1] or 0)
    return _first_gpu(arch, needs) if target == "auto" else ""


def required_arch(needs: Collection[str]) -> str:
    """The architecture that the needs leave no choice about; else empty."""
    return _WGMMA_ARCH if "wgmma" in needs else ""


def check_arch(arch: str, needs: Collection[str]) -> None:
    """Whether kernels with these needs can be built for an architecture at all.

    :raises ConfigError: unknown, with the nearest names.
    :raises DeviceUnavailable: it lacks Tensor Memory, or ``wgmma``.
    """
    row = arch_row(arch)
    if "wgmma" in needs and not row.has_wgmma:
        raise DeviceUnavailable(f"{arch} has no wgmma, must be {_WGMMA_ARCH}", ref=str(row.refs[0]))
    if "tmem" in needs and not row.has_tmem:
        known = ", ".join(row.name for row in ARCHS.values() if row.has_tmem)
        raise DeviceUnavailable(f"{arch} has no Tensor Memory, must be one of {known}", ref=str(row.refs[0]))


def _open_gpu(ordinal: int, arch: str, needs: Collection[str]) -> Device:
    from umma_probe.backends.gpu import CudaDevice

    device = CudaDevice(ordinal, arch)
    if "tmem" in needs and not device.gpu.info.has_tensor_memory:
        raise DeviceUnavailable(device.gpu.info.why_not(), hint="--target model runs it on the CPU")
    return device


def _first_gpu(arch: str, needs: Collection[str]) -> int | str:
    """The index of a GPU that can run the kernel, or in one line why there is none."""
    from umma_probe.gpu.info import Absent, probe_environment

    environment = probe_environment()
    if "tmem" in needs or arch:
        found = environment.first_gpu(arch)
        return found.reason if isinstance(found, Absent) else found.index
    return environment.no_gpu.reason if environment.no_gpu is not None else environment.gpus[0].index
