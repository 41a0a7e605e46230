"""The CUDA driver API, at the one boundary where the rest of ``gpu/`` meets it.

``cuda.bindings.driver`` answers every call with a tuple ``(status, *results)``. ``call`` unwraps it and turns a bad
status into an explained error. The module itself is the API object, so a test puts a stand-in with the same shape
in its place. Importing the bindings needs no driver; the first call does.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol, cast

from umma_probe.errors import DeviceUnavailable
from umma_probe.gpu.explain import explained

MINIMUM_CUDA = (13, 0)
"""The oldest driver that loads what NVRTC 13 makes: cubins are compatible within a major version."""


class DriverApi(Protocol):
    """What the environment report needs of the driver; launching needs more and takes the module as it is."""

    CUdevice_attribute: Any

    def cuInit(self, flags: int, /) -> Any:  # noqa: N802 - the API's own names
        """Start the driver."""
        ...

    def cuDriverGetVersion(self) -> Any:  # noqa: N802
        """CUDA version of the driver: 1000 * major + 10 * minor."""
        ...

    def cuDeviceGetCount(self) -> Any:  # noqa: N802
        """Number of visible devices."""
        ...

    def cuDeviceGet(self, ordinal: int, /) -> Any:  # noqa: N802
        """Handle of one device."""
        ...

    def cuDeviceGetName(self, length: int, device: Any, /) -> Any:  # noqa: N802
        """Name, as bytes padded with zeros."""
        ...

    def cuDeviceGetUuid(self, device: Any, /) -> Any:  # noqa: N802
        """Object whose ``bytes`` are the UUID."""
        ...

    def cuDeviceGetAttribute(self, attribute: Any, device: Any, /) -> Any:  # noqa: N802
        """One integer of ``CUdevice_attribute``."""
        ...

    def cuDeviceTotalMem(self, device: Any, /) -> Any:  # noqa: N802
        """Memory in bytes."""
        ...


def load_driver() -> DriverApi:
    """The bindings of the driver API; whether there is a driver shows on the first call.

    :raises DeviceUnavailable: the Python bindings cannot be imported.
    """
    try:
        return cast(DriverApi, importlib.import_module("cuda.bindings.driver"))
    except ImportError as error:
        raise DeviceUnavailable(
            f"the CUDA driver's Python bindings cannot be imported ({error})", hint="pip install 'cuda-python>=13,<14'"
        ) from error


def call(api: Any, function: str, *arguments: Any, doing: str = "") -> Any:
    """Call the driver and return its result: None, one value, or a tuple.

    :param doing: what it was for, in words: part of the error.
    :raises UmmaProbeError: of the class that fits the status; see ``explain``.
    """
    try:
        status, *results = getattr(api, function)(*arguments)
    except RuntimeError as error:  # cuda.bindings: no libcuda, or one that lacks the function
        raise _unloadable(function, error) from error
    if int(status) != 0:
        raise explained(status_name(status), function, doing)
    if not results:
        return None
    return results[0] if len(results) == 1 else tuple(results)


def status_name(status: Any) -> str:
    """``CUDA_ERROR_...`` of a status, also of one that these bindings do not know."""
    return str(getattr(status, "name", f"CUresult {int(status)}"))


def _unloadable(function: str, error: RuntimeError) -> DeviceUnavailable:
    if "not found" in str(error) and function in str(error):
        return DeviceUnavailable(
            f"the CUDA driver lacks {function}: it is too old for CUDA {MINIMUM_CUDA[0]}",
            hint="install a driver of version 580 or later",
        )
    return DeviceUnavailable(
        "no CUDA driver (libcuda.so.1 not found)",
        hint="install NVIDIA's driver, 580 or later; in a container, start it with --gpus all",
    )
