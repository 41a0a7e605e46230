"""A GPU as a device: cubins from the same source, launched through the driver. Nothing of CUDA is imported before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umma_probe.backends.base import (
    DeviceIdentity,
    LaunchOutcome,
    TmemSnapshot,
    array_of_numbers,
    source_text,
)
from umma_probe.errors import ConfigError, DeviceUnavailable
from umma_probe.launch_values import DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from umma_probe.gpu.device import GpuDevice
    from umma_probe.gpu.kernel import GpuKernel, GpuModule
    from umma_probe.gpu.memory import DeviceBuffer
    from umma_probe.gpu.tensor_map import TensorMap
    from umma_probe.launch_values import Dims


class CudaDevice:
    """One GPU.

    :param ordinal: as the driver counts.
    :param arch: to compile for; empty for the GPU's own.
    :raises DeviceUnavailable: no driver, no such GPU, or it cannot run code for ``arch``.
    """

    def __init__(self, ordinal: int = 0, arch: str = "") -> None:
        from umma_probe.gpu.device import GpuDevice

        self.gpu: GpuDevice = GpuDevice(ordinal)
        self.arch = arch or self.gpu.arch
        if reason := self.gpu.info.why_not(self.arch):
            raise DeviceUnavailable(reason, hint="leave out --arch, or use --target model")

    @property
    def identity(self) -> DeviceIdentity:
        """What it is."""
        info = self.gpu.info
        return DeviceIdentity(
            "cuda", f"GPU {info.index}: {info.name}", self.arch, driver=_driver_version(), versions={"uuid": info.uuid}
        )

    def compile(
        self, source: str, name: str = "kernel.cu", *, options: Sequence[str] = (), include_dirs: Sequence[Path] = ()
    ) -> CudaModule:
        """Compile CUDA C++ to a cubin and load it.

        :raises CompileError: NVRTC refused the source.
        """
        text = source_text("compile", source)
        return CudaModule(self.gpu.compile(text, name, arch=self.arch, options=options, include_dirs=include_dirs))

    def load_ptx(self, text: str, name: str = "<ptx>") -> CudaModule:
        """Assemble PTX with the driver, and load it."""
        return CudaModule(self.gpu.load_ptx(source_text("load_ptx", text)))

    def array(self, values: npt.NDArray[Any], name: str = "") -> DeviceBuffer:
        """Device memory with a copy of ``values``; a GPU has no use for a name.

        :raises ConfigError: it is no array of numbers.
        """
        return self.gpu.array(array_of_numbers(values))

    def tensor_map(self, buffer: DeviceBuffer, **fields: Any) -> TensorMap:
        """A tiled map, or an im2col one where ``pixels_per_column`` is among the fields; encoded by the driver.

        :raises ConfigError: an unknown word, or what the driver refuses.
        """
        return self.gpu.tensor_map(buffer, **fields)

    def tmem_all(self) -> dict[int, TmemSnapshot]:
        """Not on a GPU.

        :raises ConfigError: always.
        """
        return {0: self.tmem()}

    def tmem(self, cta: int = 0) -> TmemSnapshot:
        """Not on a GPU.

        :raises ConfigError: always.
        """
        raise ConfigError(
            "tmem: a GPU shows its Tensor Memory only to a kernel, must be the model",
            hint="up.device('model'), or a probe that dumps it, such as tmem-layout",
        )


class CudaModule:
    """Loaded code; ``module["entry"]`` is a kernel."""

    def __init__(self, module: GpuModule) -> None:
        self._module = module

    def entries(self) -> list[str]:
        """Names of the kernels."""
        return self._module.entries()

    def __getitem__(self, entry: str) -> CudaKernel:
        return CudaKernel(self._module[entry])


class CudaKernel:
    """One entry point."""

    def __init__(self, kernel: GpuKernel) -> None:
        self._kernel = kernel

    def parameters(self) -> None:
        """The driver is not asked."""

    def launch(
        self,
        *,
        grid: Dims,
        block: Dims,
        cluster: Dims | None = None,
        dynamic_smem: int = 0,
        cooperative: bool = False,
        args: Sequence[Any] = (),
        timeout: float | None = DEFAULT_TIMEOUT_S,
    ) -> LaunchOutcome:
        """Run it to its end; see ``Kernel.launch``."""
        result = self._kernel.launch(
            grid=grid, block=block, cluster=cluster, dynamic_smem=dynamic_smem, cooperative=cooperative, args=args,
            timeout=timeout,
        )  # fmt: skip
        return LaunchOutcome(result.gpu_seconds, printed=result.printed)


def _driver_version() -> str | None:
    from umma_probe.gpu.info import Driver, probe_environment

    driver = probe_environment().driver
    return (driver.version or "unknown") if isinstance(driver, Driver) else None
