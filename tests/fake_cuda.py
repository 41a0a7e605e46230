"""A driver at the boundary of ``cuda.bindings.driver``: same calls, same tuples, no GPU.

It keeps memory in bytes objects and records launches, so that tests can see exactly what a real driver would get.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

# the real NVRTC binding looks into the driver's module when it is imported, so it must come before any stand-in
import cuda.bindings.nvrtc  # noqa: F401


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_TENSOR_MEMORY_LEAK = 721


OK = Status.CUDA_SUCCESS


class Names:
    """Stands for an enum of the bindings: each member is its own name."""

    def __getattr__(self, name: str) -> str:
        return name


@dataclass
class FakeGpu:
    name: str
    compute_capability: tuple[int, int]
    memory_bytes: int = 1 << 37
    sm_count: int = 132
    smem_bytes: int = 227 << 10


H200 = FakeGpu("NVIDIA H200", (9, 0), 150109880320)
B200 = FakeGpu("NVIDIA B200", (10, 0), 180 << 30, 148)
RTX = FakeGpu("NVIDIA RTX PRO 6000", (12, 0), 96 << 30, 188, 99 << 10)


@dataclass
class FakeKernel:
    """What the cubin would say."""

    parameters: list[tuple[int, int]] = field(default_factory=list)
    max_threads: int = 1024
    static_smem: int = 0
    cluster: tuple[int, int, int] = (0, 0, 0)


@dataclass
class Launch:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    smem: int
    cluster: tuple[int, int, int] | None
    arguments: list[bytes]
    cooperative: bool = False


class MissingLibrary:
    """Bindings on a machine without libcuda.so.1: each call fails as cuda.bindings does."""

    CUdevice_attribute = Names()

    def __getattr__(self, name: str) -> Any:
        def fail(*_: object) -> object:
            raise RuntimeError('"cuda" is an NVIDIA driver library and can only be found via system search.')

        return fail


class FakeDriver:
    CUdevice_attribute = Names()
    CUfunction_attribute = Names()
    CUjit_option = Names()
    CUlaunchAttributeID = Names()

    def __init__(self, *gpus: FakeGpu, cuda: int = 13000, kernels: dict[str, FakeKernel] | None = None) -> None:
        self.gpus = gpus
        self.cuda = cuda
        self.kernels = kernels or {}
        self.memory: dict[int, bytearray] = {}
        self.freed: list[int] = []
        self.launches: list[Launch] = []
        self.function_attributes: dict[str, int] = {}
        self.event_statuses: list[Status] = []
        """What the next queries of an event answer; then success."""
        self.load_status = OK
        self.says = ""
        """What the kernel prints: it comes out on stdout when the context is synchronised."""

    # ---- discovery
    def cuInit(self, flags: int) -> tuple[Status]:  # noqa: N802
        return (OK if self.gpus else Status.CUDA_ERROR_NO_DEVICE,)

    def cuDriverGetVersion(self) -> tuple[Status, int]:  # noqa: N802
        return OK, self.cuda

    def cuDeviceGetCount(self) -> tuple[Status, int]:  # noqa: N802
        return OK, len(self.gpus)

    def cuDeviceGet(self, ordinal: int) -> tuple[Status, int]:  # noqa: N802
        return OK, ordinal

    def cuDeviceGetName(self, length: int, device: int) -> tuple[Status, bytes]:  # noqa: N802
        return OK, self.gpus[device].name.encode().ljust(length, b"\0")

    def cuDeviceGetUuid(self, device: int) -> tuple[Status, SimpleNamespace]:  # noqa: N802
        return OK, SimpleNamespace(bytes=bytes(range(16)))

    def cuDeviceTotalMem(self, device: int) -> tuple[Status, int]:  # noqa: N802
        return OK, self.gpus[device].memory_bytes

    def cuDeviceGetAttribute(self, attribute: str, device: int) -> tuple[Status, int]:  # noqa: N802
        gpu = self.gpus[device]
        values = {
            "COMPUTE_CAPABILITY_MAJOR": gpu.compute_capability[0],
            "COMPUTE_CAPABILITY_MINOR": gpu.compute_capability[1],
            "MULTIPROCESSOR_COUNT": gpu.sm_count,
            "MAX_THREADS_PER_BLOCK": 1024,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": gpu.smem_bytes,
            "CLUSTER_LAUNCH": int(gpu.compute_capability >= (9, 0)),
            **{f"MAX_BLOCK_DIM_{axis}": size for axis, size in zip("XYZ", (1024, 1024, 64), strict=True)},
            **{f"MAX_GRID_DIM_{axis}": size for axis, size in zip("XYZ", (2**31 - 1, 65535, 65535), strict=True)},
        }
        return OK, values[attribute.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    # ---- context and memory
    def cuCtxCreate(self, parameters: None, flags: int, device: int) -> tuple[Status, str]:  # noqa: N802
        return OK, "context"

    def cuCtxSetCurrent(self, context: str) -> tuple[Status]:  # noqa: N802
        return (OK,)

    def cuCtxSynchronize(self) -> tuple[Status]:  # noqa: N802
        os.write(1, self.says.encode())
        self.says = ""
        return (OK,)

    def cuMemAlloc(self, size: int) -> tuple[Status, int]:  # noqa: N802
        address = 0x7F00_0000_0000 + 0x1_0000_0000 * len(self.memory)
        self.memory[address] = bytearray(size)
        return OK, address

    def cuMemFree(self, address: int) -> tuple[Status]:  # noqa: N802
        self.freed.append(address)
        return (OK,)

    def cuMemcpyHtoD(self, target: int, source: int, size: int) -> tuple[Status]:  # noqa: N802
        self.memory[target][:size] = ctypes.string_at(source, size)
        return (OK,)

    def cuMemcpyDtoH(self, target: int, source: int, size: int) -> tuple[Status]:  # noqa: N802
        ctypes.memmove(target, bytes(self.memory[source]), size)
        return (OK,)

    # ---- code
    def cuModuleLoadData(self, image: bytes) -> tuple[Status, str]:  # noqa: N802
        return self.load_status, "module"

    def cuModuleGetFunctionCount(self, module: str) -> tuple[Status, int]:  # noqa: N802
        return OK, len(self.kernels)

    def cuModuleEnumerateFunctions(self, count: int, module: str) -> tuple[Status, list[str]]:  # noqa: N802
        return OK, list(self.kernels)[:count]

    def cuFuncGetName(self, function: str) -> tuple[Status, bytes]:  # noqa: N802
        return OK, function.encode()

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[Status, str]:  # noqa: N802
        return OK, name.decode()

    def cuFuncGetParamInfo(self, function: str, index: int) -> tuple[Status, int, int]:  # noqa: N802
        parameters = self.kernels[function].parameters
        return (OK, *parameters[index]) if index < len(parameters) else (Status.CUDA_ERROR_INVALID_VALUE, 0, 0)

    def cuFuncGetAttribute(self, attribute: str, function: str) -> tuple[Status, int]:  # noqa: N802
        kernel = self.kernels[function]
        width, height, depth = kernel.cluster
        values = {
            "MAX_THREADS_PER_BLOCK": kernel.max_threads,
            "SHARED_SIZE_BYTES": kernel.static_smem,
            "NUM_REGS": 64,
            "REQUIRED_CLUSTER_WIDTH": width,
            "REQUIRED_CLUSTER_HEIGHT": height,
            "REQUIRED_CLUSTER_DEPTH": depth,
        }
        return OK, values[attribute.removeprefix("CU_FUNC_ATTRIBUTE_")]

    def cuFuncSetAttribute(self, function: str, attribute: str, value: int) -> tuple[Status]:  # noqa: N802
        self.function_attributes[attribute.removeprefix("CU_FUNC_ATTRIBUTE_")] = value
        return (OK,)

    # ---- launches
    def CUlaunchConfig(self) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(attrs=[])

    def CUlaunchAttribute(self) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))

    def cuLaunchKernelEx(self, config: Any, function: str, parameters: int, extra: int) -> tuple[Status]:  # noqa: N802
        sizes = [size for _, size in self.kernels[function].parameters]
        pointers = (ctypes.c_void_p * len(sizes)).from_address(parameters) if sizes else []
        attributes = {attribute.id: attribute.value for attribute in config.attrs}
        cluster = getattr(attributes.get("CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"), "clusterDim", None)
        together = getattr(attributes.get("CU_LAUNCH_ATTRIBUTE_COOPERATIVE"), "cooperative", 0)
        self.launches.append(
            Launch(
                (config.gridDimX, config.gridDimY, config.gridDimZ),
                (config.blockDimX, config.blockDimY, config.blockDimZ),
                config.sharedMemBytes,
                (cluster.x, cluster.y, cluster.z) if cluster else None,
                [ctypes.string_at(pointer, size) for pointer, size in zip(pointers, sizes, strict=True)],
                bool(together),
            )
        )
        return (OK,)

    def cuEventCreate(self, flags: int) -> tuple[Status, str]:  # noqa: N802
        return OK, "event"

    def cuEventRecord(self, event: str, stream: None) -> tuple[Status]:  # noqa: N802
        return (OK,)

    def cuEventQuery(self, event: str) -> tuple[Status]:  # noqa: N802
        return (self.event_statuses.pop(0) if self.event_statuses else OK,)

    def cuEventElapsedTime(self, begin: str, end: str) -> tuple[Status, float]:  # noqa: N802
        return OK, 0.25

    def cuEventDestroy(self, event: str) -> tuple[Status]:  # noqa: N802
        return (OK,)
