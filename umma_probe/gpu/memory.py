"""Device memory that knows its shape, its dtype and when it may be freed."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.gpu.driver import call

if TYPE_CHECKING:
    from umma_probe.gpu.context import GpuContext


class DeviceBuffer:
    """Device memory with a shape and a dtype; freed with the object."""

    def __init__(self, device: GpuContext, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        device.activate()
        self.device = device
        self.shape = shape
        self.dtype = dtype
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        doing = f"allocating {self.nbytes} bytes"
        self.address = int(call(device.api, "cuMemAlloc", max(self.nbytes, 1), doing=doing))
        self._free = weakref.finalize(self, _release, device, self.address)
        self._free.atexit = False  # the process's end frees everything, and must not wait for a kernel that hangs

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host."""
        self.device.activate()
        host = np.empty(self.shape, self.dtype)
        if self.nbytes:
            call(self.device.api, "cuMemcpyDtoH", host.ctypes.data, self.address, self.nbytes)
        return host

    def copy_from(self, values: np.ndarray[Any, Any]) -> None:
        """Overwrite with ``values``, of the same size in bytes.

        :raises ConfigError: the sizes differ.
        """
        host = np.ascontiguousarray(values)
        if host.nbytes != self.nbytes:
            raise ConfigError(f"copy_from: the array has {host.nbytes} bytes, must have {self.nbytes}")
        self.device.activate()
        if self.nbytes:
            call(self.device.api, "cuMemcpyHtoD", self.address, host.ctypes.data, self.nbytes)


def address_on(device: GpuContext, argument: Any) -> int | None:
    """The address of a buffer of this device; None for everything else."""
    return argument.address if isinstance(argument, DeviceBuffer) and argument.device is device else None


def _release(device: GpuContext, address: int) -> None:
    """Free, unless the context is lost: its memory went with it, and the call could wait for ever."""
    if device.lost is None:
        call(device.api, "cuCtxSetCurrent", device._context)
        call(device.api, "cuMemFree", address)
