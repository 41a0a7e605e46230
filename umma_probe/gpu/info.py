"""What this machine has for CUDA, and what can run where. Nothing here raises: what is missing is a value in words.

A kernel's target decides where its cubin runs (PTX ISA, ".target"; CUDA C++ Programming Guide, "Compute
Capabilities"): ``sm_XYa`` on compute capability X.Y alone, ``sm_XYf`` on the same family (same X, Y or later),
plain ``sm_XY`` on the same X, Y or later. Which chips have Tensor Memory is in ``spec.machine``.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError, DeviceUnavailable, UmmaProbeError
from umma_probe.gpu import nvrtc
from umma_probe.gpu.cache import cache_root
from umma_probe.gpu.driver import MINIMUM_CUDA, DriverApi, call, load_driver
from umma_probe.spec.machine import ARCHS

if TYPE_CHECKING:
    from collections.abc import Callable

_LIBRARIES = ("cuda-bindings", "cuda-python", "nvidia-cuda-nvrtc", "numpy", "ml_dtypes")
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")
_ARCH = re.compile(r"sm_(\d+)(\d)([af]?)")


@dataclass(frozen=True)
class Absent:
    """Something that is not here."""

    reason: str
    """In words, fit to stand alone: ``no CUDA driver (libcuda.so.1 not found)``."""
    fix: str
    """What to do about it."""


@dataclass(frozen=True)
class Driver:
    """A driver that can be used."""

    cuda_version: tuple[int, int]
    """The latest CUDA that it supports."""
    version: str
    """The kernel module's, such as 580.65.06; empty if it cannot be read."""


@dataclass(frozen=True)
class Gpu:
    """One device."""

    index: int
    name: str
    uuid: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    sm_count: int

    @property
    def arch(self) -> str:
        """``sm_90``."""
        major, minor = self.compute_capability
        return f"sm_{major}{minor}"

    @property
    def native_arch(self) -> str:
        """The target to compile for here: with the architecture-specific instructions, ``sm_90a``."""
        return self.arch + ("a" if self.compute_capability[0] >= 9 else "")

    @property
    def has_tensor_memory(self) -> bool:
        """Whether tcgen05 exists here."""
        row = ARCHS.get(self.native_arch)
        return row is not None and row.has_tmem

    def why_not(self, arch: str = "") -> str:
        """Why a tcgen05 kernel (or a cubin for ``arch``) cannot run here, in words; empty if it can."""
        if arch:
            return (
                "" if cubin_runs_on(arch, self.compute_capability) else f"GPU {self.index} is {self.arch}, not {arch}"
            )
        return "" if self.has_tensor_memory else f"GPU {self.index} is {self.arch}: no Tensor Memory"


@dataclass(frozen=True)
class Nvrtc:
    """The compiler."""

    version: tuple[int, int]
    archs: tuple[str, ...]


@dataclass(frozen=True)
class Environment:
    """Everything found."""

    driver: Driver | Absent
    gpus: tuple[Gpu, ...]
    no_gpu: Absent | None
    """Why ``gpus`` is empty; None if it is not."""
    nvrtc: Nvrtc | Absent
    libraries: dict[str, str]
    """Package to version, installed ones only."""
    python: str
    cache: str
    """Directory of the compile cache, or ``off``."""

    @property
    def model_ready(self) -> bool:
        """Whether probes can run on the built-in model: NVRTC compiles them, and nothing else is needed."""
        return isinstance(self.nvrtc, Nvrtc)

    def first_gpu(self, arch: str = "") -> Gpu | Absent:
        """The first GPU that runs tcgen05 kernels (or a cubin for ``arch``), or in one line why there is none."""
        if self.no_gpu is not None:
            return self.no_gpu
        for gpu in self.gpus:
            if not gpu.why_not(arch):
                return gpu
        fix = "the model runs it: --target model"
        return Absent("; ".join(gpu.why_not(arch) for gpu in self.gpus), fix)


def cubin_runs_on(arch: str, compute_capability: tuple[int, int]) -> bool:
    """Whether a cubin compiled for ``arch`` loads on a device.

    :raises ConfigError: ``arch`` is no architecture's name.
    """
    match = _ARCH.fullmatch(arch)
    if match is None:
        raise ConfigError(f"architecture is '{arch}', must be sm_ and a number, for instance sm_100a")
    wanted = int(match[1]), int(match[2])
    if match[3] == "a":
        return wanted == compute_capability
    return wanted[0] == compute_capability[0] and wanted[1] <= compute_capability[1]


def probe_environment(load: Callable[[], DriverApi] = load_driver, kernel_module: Path = _KERNEL_MODULE) -> Environment:
    """Look at the machine.

    :param load: gives the driver API; a test gives its own.
    :param kernel_module: the file in which the kernel module tells its version.
    """
    driver, gpus, no_gpu = _look_at_driver(load, kernel_module)
    root = cache_root()
    return Environment(
        driver=driver,
        gpus=gpus,
        no_gpu=no_gpu,
        nvrtc=_look_at_nvrtc(),
        libraries=_library_versions(),
        python=".".join(str(part) for part in sys.version_info[:3]),
        cache=str(root) if root is not None else "off",
    )


def _look_at_driver(
    load: Callable[[], DriverApi], kernel_module: Path
) -> tuple[Driver | Absent, tuple[Gpu, ...], Absent | None]:
    version = _module_version(kernel_module)
    try:
        api = load()
        cuda = int(call(api, "cuDriverGetVersion"))
    except UmmaProbeError as error:
        absent = Absent(error.message, error.hint)
        return absent, (), absent
    driver = Driver((cuda // 1000, cuda % 1000 // 10), version)
    if driver.cuda_version < MINIMUM_CUDA:
        absent = _too_old(driver)
        return absent, (), absent
    try:
        call(api, "cuInit", 0)
        gpus = tuple(describe_gpu(api, index) for index in range(int(call(api, "cuDeviceGetCount"))))
    except UmmaProbeError as error:
        return driver, (), Absent(error.message, error.hint)
    return driver, gpus, None if gpus else Absent("the CUDA driver sees no GPU", "see nvidia-smi; CUDA_VISIBLE_DEVICES")


def _too_old(driver: Driver) -> Absent:
    major, minor = driver.cuda_version
    name = f"driver {driver.version.split('.')[0]}" if driver.version else "the driver"
    return Absent(
        f"{name} is too old for CUDA {MINIMUM_CUDA[0]} (it supports CUDA {major}.{minor})",
        "install a driver of version 580 or later",
    )


def _module_version(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", text, re.MULTILINE)
    return match[1] if match else ""


def describe_gpu(api: DriverApi, index: int) -> Gpu:
    """Ask the driver about one device.

    :raises UmmaProbeError: the driver refuses; see ``explain``.
    """
    device = call(api, "cuDeviceGet", index)

    def attribute(name: str) -> int:
        return int(call(api, "cuDeviceGetAttribute", getattr(api.CUdevice_attribute, name), device))

    return Gpu(
        index=index,
        name=bytes(call(api, "cuDeviceGetName", 256, device)).split(b"\x00")[0].decode("utf-8", "replace"),
        uuid=_uuid(call(api, "cuDeviceGetUuid", device)),
        compute_capability=(
            attribute("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR"),
            attribute("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"),
        ),
        memory_bytes=int(call(api, "cuDeviceTotalMem", device)),
        sm_count=attribute("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"),
    )


def _uuid(value: Any) -> str:
    digits = bytes(value.bytes).hex()
    return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _look_at_nvrtc() -> Nvrtc | Absent:
    try:
        return Nvrtc(nvrtc.nvrtc_version(), tuple(nvrtc.supported_archs()))
    except DeviceUnavailable as error:
        return Absent(error.message, error.hint)


def _library_versions() -> dict[str, str]:
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
