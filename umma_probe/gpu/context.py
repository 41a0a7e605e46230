"""The CUDA context of one GPU: what a kernel and a buffer need of it, and waiting that ends or explains why not.

A launch waits by polling an event, never by a blocking call, so that a kernel that hangs becomes ``DeviceTimeout``
instead of a process that cannot be interrupted. A fault or a hang costs the CUDA context: it is remembered,
and every later call on the device says so rather than repeating the driver's stale status. Only a new process
gets rid of a kernel that hangs; callers that go on after one run their launches in a worker.
"""

from __future__ import annotations

import time
from typing import Any

from umma_probe.errors import DeviceError, DeviceTimeout, DeviceUnavailable
from umma_probe.gpu.driver import call, load_driver, status_name
from umma_probe.gpu.explain import explained
from umma_probe.gpu.info import Gpu, describe_gpu
from umma_probe.gpu.launch import PORTABLE_CLUSTER
from umma_probe.launch_values import DEFAULT_TIMEOUT_S, LaunchLimits, Shape
from umma_probe.spec.machine import ARCHS

_POLL_FIRST_S, _POLL_LAST_S = 20e-6, 2e-3


class GpuContext:
    """A context of its own on one GPU.

    :param ordinal: as the driver counts.
    :param api: the driver's binding; tests give a stand-in.
    :raises DeviceUnavailable: no driver, no such GPU.
    """

    def __init__(self, ordinal: int = 0, api: Any = None) -> None:
        self.api: Any = load_driver() if api is None else api
        call(self.api, "cuInit", 0)
        count = int(call(self.api, "cuDeviceGetCount"))
        if not 0 <= ordinal < count:
            raise DeviceUnavailable(f"GPU {ordinal} does not exist: the driver sees {count}", hint="umma-probe doctor")
        self.info: Gpu = describe_gpu(self.api, ordinal)
        self._handle = call(self.api, "cuDeviceGet", ordinal)
        self._context = call(self.api, "cuCtxCreate", None, 0, self._handle, doing=f"a context on GPU {ordinal}")
        self.limits = self._read_limits()
        self.lost: DeviceError | None = None
        """The fault or hang that cost the context, if one did."""

    @property
    def arch(self) -> str:
        """The architecture to compile for: ``sm_90a``, ``sm_100a``."""
        return self.info.native_arch

    @property
    def title(self) -> str:
        """For messages: ``GPU 0, NVIDIA B200 (sm_100)``."""
        return f"GPU {self.info.index}, {self.info.name} ({self.info.arch})"

    def activate(self) -> None:
        """Make the context current on this thread.

        :raises DeviceError: the context is lost.
        """
        if self.lost is not None:
            raise type(self.lost)(
                f"GPU {self.info.index}: the context was lost to an earlier error: {self.lost.message}",
                hint="start a new process for the next kernel",
            )
        call(self.api, "cuCtxSetCurrent", self._context)

    def synchronize(self, timeout: float | None = DEFAULT_TIMEOUT_S, doing: str = "the work on the GPU") -> None:
        """Wait for everything launched.

        :param timeout: seconds; None waits for ever.
        :raises DeviceTimeout: it takes longer.
        :raises DeviceError: a kernel faulted.
        """
        self.activate()
        event = call(self.api, "cuEventCreate", 0)
        call(self.api, "cuEventRecord", event, None)
        self.wait(event, timeout, doing)
        call(self.api, "cuEventDestroy", event)

    def wait(self, event: Any, timeout: float | None, doing: str) -> None:
        """Poll ``event`` until it is reached; a failure costs the context."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _POLL_FIRST_S
        while True:
            (status,) = self.api.cuEventQuery(event)
            name = status_name(status)
            if int(status) == 0:
                return
            if name != "CUDA_ERROR_NOT_READY":
                raise self._lose(explained(name, "cuEventQuery", doing))
            if deadline is not None and time.monotonic() > deadline:
                raise self._lose(_timed_out(doing, timeout))
            time.sleep(pause)
            pause = min(pause * 2, _POLL_LAST_S)

    def _lose(self, error: Exception) -> Exception:
        if isinstance(error, DeviceError):
            self.lost = error
        return error

    def _read_limits(self) -> LaunchLimits:
        def attribute(name: str) -> int:
            key = getattr(self.api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(call(self.api, "cuDeviceGetAttribute", key, self._handle))

        def axes(name: str) -> Shape:
            return attribute(f"{name}_X"), attribute(f"{name}_Y"), attribute(f"{name}_Z")

        return LaunchLimits(
            max_threads=attribute("MAX_THREADS_PER_BLOCK"),
            max_block=axes("MAX_BLOCK_DIM"),
            max_grid=axes("MAX_GRID_DIM"),
            max_smem_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            max_cluster=_max_cluster(self.arch) if attribute("CLUSTER_LAUNCH") else 1,
        )


def _max_cluster(arch: str) -> int:
    """Of a device that has clusters; what every one of them takes where the chip is not known."""
    row = ARCHS.get(arch)
    return row.max_cluster_ctas if row is not None else PORTABLE_CLUSTER


def _timed_out(doing: str, timeout: float | None) -> DeviceTimeout:
    return DeviceTimeout(
        f"{doing}: not finished after {timeout:g} s",
        hint="a wait that never ends: an mbarrier short of arrivals or bytes, a phase bit off by one, a commit "
        "that was never issued, a cluster peer that never came. --target model says who waits, on what",
    )
