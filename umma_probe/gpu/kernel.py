"""Loaded code and its kernels: what the driver knows of them, and how they are launched."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError, DeviceError, DeviceTimeout, unknown_name
from umma_probe.gpu.driver import call
from umma_probe.gpu.launch import (
    PORTABLE_CLUSTER,
    KernelFacts,
    LaunchShape,
    PackedArguments,
    check_launch,
)
from umma_probe.gpu.memory import address_on
from umma_probe.gpu.printf import printed_text
from umma_probe.launch_values import DEFAULT_TIMEOUT_S, dims

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.gpu.context import GpuContext
    from umma_probe.launch_values import Dims


@dataclass(frozen=True)
class LaunchResult:
    """A launch that finished."""

    shape: LaunchShape
    gpu_seconds: float
    """Between two events around the kernel."""
    printed: str = ""
    """What it said by printf; it went to stderr too."""


class GpuModule:
    """Loaded code; ``module["entry"]`` is a kernel."""

    def __init__(self, device: GpuContext, handle: Any) -> None:
        self.device = device
        self._handle = handle
        self._kernels: dict[str, GpuKernel] = {}

    def entries(self) -> list[str]:
        """Names of the kernels."""
        self.device.activate()
        api = self.device.api
        count = int(call(api, "cuModuleGetFunctionCount", self._handle))
        functions = call(api, "cuModuleEnumerateFunctions", count, self._handle) if count else []
        return [call(api, "cuFuncGetName", function).decode() for function in functions]

    def __getitem__(self, name: str) -> GpuKernel:
        if name not in self._kernels:
            if name not in (names := self.entries()):
                raise ConfigError(unknown_name("kernel", name, names))
            handle = call(self.device.api, "cuModuleGetFunction", self._handle, name.encode())
            self._kernels[name] = GpuKernel(self, name, handle)
        return self._kernels[name]


class GpuKernel:
    """One entry point."""

    def __init__(self, module: GpuModule, name: str, handle: Any) -> None:
        self.module = module  # keeps the code loaded
        self.device = module.device
        self._handle = handle
        self.facts = self._read_facts(name)

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
    ) -> LaunchResult:
        """Run the kernel and wait for it.

        :param cluster: CTAs a cluster; by default the kernel's ``__cluster_dims__``, else no clusters.
        :param dynamic_smem: bytes; more than 48 KiB is asked for as the driver wants it.
        :param cooperative: all CTAs are there at once, or the driver refuses.
        :param args: in order: buffers (their address), NumPy scalars, bytes of a struct, tensor maps.
        :param timeout: seconds until a hang is declared; None waits for ever.
        :raises ConfigError: a limit is exceeded, or an argument does not fit; nothing ran.
        :raises DeviceError: the kernel faulted.
        :raises DeviceTimeout: it did not finish.
        """
        implied = self.facts.required_cluster or (1, 1, 1)
        shape = LaunchShape(
            dims("grid", grid),
            dims("block", block),
            dims("cluster", cluster) if cluster is not None else implied,
            int(dynamic_smem),
            cooperative,
        )
        check_launch(shape, self.facts, self.device.limits)
        packed = PackedArguments(args, self.facts, partial(address_on, self.device))
        self.device.activate()
        return self._run(shape, packed, timeout)

    def _run(self, shape: LaunchShape, packed: PackedArguments, timeout: float | None) -> LaunchResult:
        api = self.device.api
        doing = f"kernel '{self.facts.name}' ({shape}) on {self.device.title}"
        self._allow(shape)
        begin, end = call(api, "cuEventCreate", 0), call(api, "cuEventCreate", 0)
        call(api, "cuEventRecord", begin, None)
        call(api, "cuLaunchKernelEx", self._config(shape), self._handle, packed.address, 0, doing=doing)
        call(api, "cuEventRecord", end, None)
        printed = self._finish(end, timeout, doing)
        seconds = call(api, "cuEventElapsedTime", begin, end) * 1e-3
        for event in (begin, end):
            call(api, "cuEventDestroy", event)
        return LaunchResult(shape, float(seconds), printed)

    def _finish(self, end: Any, timeout: float | None, doing: str) -> str:
        """Wait for the event; what the kernel printed, also if it faulted after that."""
        try:
            self.device.wait(end, timeout, doing)
        except DeviceTimeout:
            raise  # it still runs
        except DeviceError:
            sys.stderr.write(printed_text(self.device.api))
            raise
        printed = printed_text(self.device.api)
        sys.stderr.write(printed)
        return printed

    def _allow(self, shape: LaunchShape) -> None:
        """Opt in to what a plain launch may not use."""
        api = self.device.api
        attribute = api.CUfunction_attribute
        smem = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call(api, "cuFuncSetAttribute", self._handle, smem, shape.dynamic_smem)
        if prod(shape.cluster) > PORTABLE_CLUSTER:
            any_size = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            call(api, "cuFuncSetAttribute", self._handle, any_size, 1)

    def _config(self, shape: LaunchShape) -> Any:
        api = self.device.api
        config = api.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = shape.block
        config.sharedMemBytes = shape.dynamic_smem
        attributes = []
        if self.facts.required_cluster is None and shape.cluster != (1, 1, 1):
            cluster = api.CUlaunchAttribute()
            cluster.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            cluster.value.clusterDim.x, cluster.value.clusterDim.y, cluster.value.clusterDim.z = shape.cluster
            attributes.append(cluster)
        if shape.cooperative:
            together = api.CUlaunchAttribute()
            together.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            together.value.cooperative = 1
            attributes.append(together)
        config.attrs = attributes
        config.numAttrs = len(attributes)
        return config

    def _read_facts(self, name: str) -> KernelFacts:
        api = self.device.api

        def attribute(key: str) -> int:
            member = getattr(api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{key}")
            return int(call(api, "cuFuncGetAttribute", member, self._handle))

        width = attribute("REQUIRED_CLUSTER_WIDTH")
        height, depth = attribute("REQUIRED_CLUSTER_HEIGHT"), attribute("REQUIRED_CLUSTER_DEPTH")
        return KernelFacts(
            name=name,
            max_threads=attribute("MAX_THREADS_PER_BLOCK"),
            static_smem_bytes=attribute("SHARED_SIZE_BYTES"),
            registers=attribute("NUM_REGS"),
            parameters=self._read_parameters(),
            required_cluster=(width, height, depth) if width else None,
        )

    def _read_parameters(self) -> tuple[tuple[int, int], ...]:
        """(offset, size) of each parameter; the driver has no count, it refuses the first index that is not there."""
        found: list[tuple[int, int]] = []
        while True:
            status, offset, size = self.device.api.cuFuncGetParamInfo(self._handle, len(found))
            if int(status) != 0:
                return tuple(found)
            found.append((int(offset), int(size)))
