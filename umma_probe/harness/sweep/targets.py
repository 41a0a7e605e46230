"""Which devices a sweep's workers use. All devices of one sweep are of one kind, so that its results are one table."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from umma_probe.backends.target import DEFAULT_MODEL_ARCH, check_arch, required_arch
from umma_probe.errors import ConfigError, DeviceUnavailable
from umma_probe.gpu.info import Absent, Driver, probe_environment

if TYPE_CHECKING:
    from collections.abc import Collection

    from umma_probe.gpu.info import Environment, Gpu

_GPUS = re.compile(r"cuda(:\d+)?(,cuda:\d+)*")


@dataclass(frozen=True)
class TargetPlan:
    """The devices, and what a report and a case's identity say about them."""

    workers: tuple[str, ...]
    """Target of each worker in turn: ``model``, or one ``cuda:N`` for each GPU."""
    kind: str
    name: str
    arch: str
    nvrtc: str
    driver: str | None = None
    reason: str = ""
    """Why ``auto`` chose the model."""
    uuids: tuple[str, ...] = ()
    """Of the GPU of each worker."""

    @property
    def on_model(self) -> bool:
        """Whether this is the model."""
        return self.kind == "model"

    @property
    def jobs(self) -> int:
        """Usual number of workers: one a core, or one a GPU."""
        return len(os.sched_getaffinity(0)) if self.on_model else len(self.workers)

    def key(self) -> dict[str, str]:
        """What a result depends on; which of several equal GPUs ran it is no part."""
        return {"kind": self.kind, "name": self.name, "arch": self.arch, "nvrtc": self.nvrtc,
                "driver": self.driver or ""}  # fmt: skip


def plan_targets(
    target: str, arch: str = "", environment: Environment | None = None, *, needs: Collection[str] = ("tmem",)
) -> TargetPlan:
    """Choose the devices without opening them.

    :param target: ``auto``, ``model``, ``cuda:N``, several (``cuda:0,cuda:1``) or ``cuda:all``.
    :param needs: what the probes need: ``tmem``, ``wgmma``; other words are not looked at.
    :raises ConfigError: no such target or architecture; GPUs of different kinds, or needs that no GPU has together.
    :raises DeviceUnavailable: no NVRTC, no such GPU, or one that lacks what is needed.
    """
    mixed = {"tmem", "wgmma"} <= set(needs)
    if mixed and target != "model":
        raise ConfigError("some cases need Tensor Memory, others wgmma, and no GPU has both", hint="--target model")
    if not mixed and (arch := arch or required_arch(needs)):
        check_arch(arch, needs)
    any_gpu = not arch and "tmem" not in needs
    if target not in ("auto", "model", "cuda:all") and not _GPUS.fullmatch(target):
        raise ConfigError(f"target is '{target}', must be auto, model, cuda:N, cuda:0,cuda:1 or cuda:all")
    here = environment or probe_environment()
    if isinstance(here.nvrtc, Absent):
        raise DeviceUnavailable(here.nvrtc.reason, hint=here.nvrtc.fix)
    nvrtc = ".".join(map(str, here.nvrtc.version))
    if target == "model":
        return _model(arch, nvrtc)
    if target == "auto":
        first = here.gpus[0] if any_gpu and here.gpus else here.first_gpu(arch)
        return (
            _model(arch, nvrtc, first.reason)
            if isinstance(first, Absent)
            else _gpus([first], arch, nvrtc, here, any_gpu)
        )
    return _gpus(_named(target, here), arch, nvrtc, here, any_gpu)


def _model(arch: str, nvrtc: str, reason: str = "") -> TargetPlan:
    return TargetPlan(("model",), "model", "CPU model", arch or DEFAULT_MODEL_ARCH, nvrtc, None, reason)


def _named(target: str, here: Environment) -> list[Gpu]:
    if here.no_gpu is not None:
        raise DeviceUnavailable(here.no_gpu.reason, hint="--target model runs it on the CPU")
    if target == "cuda:all":
        return list(here.gpus)
    ordinals = [int(part.partition(":")[2] or 0) for part in target.split(",")]
    for ordinal in ordinals:
        if ordinal >= len(here.gpus):
            raise DeviceUnavailable(f"there is no GPU {ordinal}, there are {len(here.gpus)}", hint="umma-probe doctor")
        if ordinals.count(ordinal) > 1:
            raise ConfigError(f"target is '{target}': GPU {ordinal} stands twice")
    return [here.gpus[ordinal] for ordinal in ordinals]


def _gpus(gpus: list[Gpu], arch: str, nvrtc: str, here: Environment, any_gpu: bool) -> TargetPlan:
    for gpu in gpus:
        if not any_gpu and (reason := gpu.why_not(arch)):
            raise DeviceUnavailable(reason, hint="--target model runs it on the CPU")
    first = gpus[0]
    if any((gpu.name, gpu.native_arch) != (first.name, first.native_arch) for gpu in gpus):
        names = ", ".join(f"{gpu.index} is a {gpu.name}" for gpu in gpus)
        raise ConfigError(f"the GPUs of one sweep must be of one kind: {names}", hint="a sweep for each kind")
    driver = here.driver.version if isinstance(here.driver, Driver) else None
    workers = tuple(f"cuda:{gpu.index}" for gpu in gpus)
    uuids = tuple(gpu.uuid for gpu in gpus)
    return TargetPlan(workers, "cuda", first.name, arch or first.native_arch, nvrtc, driver, uuids=uuids)
