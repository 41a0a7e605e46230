"""A GPU as the rest of the project sees it: a context, and what is made in it: modules, memory, tensor maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.gpu.context import GpuContext
from umma_probe.gpu.driver import call, status_name
from umma_probe.gpu.explain import explained
from umma_probe.gpu.kernel import GpuModule
from umma_probe.gpu.memory import DeviceBuffer
from umma_probe.gpu.nvrtc import compile_source
from umma_probe.gpu.tensor_map import TensorMap, encode_tensor_map
from umma_probe.spec.tensor_map import fields_from_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import DTypeLike


class GpuDevice(GpuContext):
    """One GPU with a context of its own; see ``GpuContext``."""

    def compile(
        self,
        source: str,
        name: str = "kernel.cu",
        *,
        arch: str = "",
        options: Sequence[str] = (),
        include_dirs: Sequence[Path] = (),
    ) -> GpuModule:
        """Compile CUDA C++ for this GPU (or ``arch``) and load it.

        :raises CompileError: NVRTC refused the source.
        """
        made = compile_source(
            source, name, arch=arch or self.arch, kind="cubin", options=options, include_dirs=include_dirs
        )
        return self.load_cubin(made.cubin)

    def load_cubin(self, cubin: bytes) -> GpuModule:
        """Load machine code.

        :raises DeviceUnavailable: it is for another architecture.
        """
        self.activate()
        return GpuModule(self, call(self.api, "cuModuleLoadData", cubin, doing=f"loading a cubin on {self.title}"))

    def load_ptx(self, ptx: str) -> GpuModule:
        """Assemble PTX with the driver, and load it.

        :raises DeviceUnavailable: its ISA version is later than the driver's.
        :raises ConfigError: the assembler refused it; carries its log.
        """
        self.activate()
        option, log = self.api.CUjit_option, bytearray(16384)
        status, module = self.api.cuModuleLoadDataEx(
            ptx.encode() + b"\x00",
            2,
            [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
            [log, len(log)],
        )
        if int(status) == 0:
            return GpuModule(self, module)
        text = bytes(log).split(b"\x00")[0].decode("utf-8", "replace").strip()
        raise explained(status_name(status), "cuModuleLoadDataEx", f"assembling PTX\n{text}" if text else "")

    def array(self, values: np.ndarray[Any, Any]) -> DeviceBuffer:
        """Device memory with a copy of ``values``; any dtype, made C-contiguous."""
        host = np.ascontiguousarray(values)
        buffer = self.empty(values.shape, host.dtype)
        buffer.copy_from(host)
        return buffer

    def empty(self, shape: int | Sequence[int], dtype: DTypeLike) -> DeviceBuffer:
        """Uninitialised device memory."""
        return DeviceBuffer(self, np.empty(shape, dtype).shape, np.dtype(dtype))

    def tensor_map(self, buffer: DeviceBuffer, **fields: Any) -> TensorMap:
        """A tensor map of ``buffer``, tiled or im2col; the fields are the words of ``fields_from_words``."""
        self.activate()
        return encode_tensor_map(self.api, fields_from_words(buffer.address, fields))
