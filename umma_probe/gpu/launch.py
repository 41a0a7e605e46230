"""A kernel launch as data: dimensions, limits, arguments. Pure; nothing here calls the driver.

The driver answers every bad launch with CUDA_ERROR_INVALID_VALUE. So the limits are checked here, where the
offending number can be named. A kernel's parameters are known from the cubin (offset and size each), so a wrong count
or size of arguments is an error before the launch, not a fault in it.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError, LaunchShapeError
from umma_probe.launch_values import argument_bytes, limit_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from umma_probe.launch_values import AddressOf, LaunchLimits, Shape

PORTABLE_CLUSTER = 8
"""CTAs that every device with clusters takes (CUDA C++ Programming Guide, "Thread Block Clusters")."""


@dataclass(frozen=True)
class KernelFacts:
    """What the loaded kernel says of itself."""

    name: str
    max_threads: int
    """Threads a block that its registers (and ``__launch_bounds__``) allow."""
    static_smem_bytes: int
    registers: int
    parameters: tuple[tuple[int, int], ...]
    """(offset, size) in bytes of each parameter."""
    required_cluster: Shape | None = None
    """From ``__cluster_dims__``, if it has them."""


@dataclass(frozen=True)
class LaunchShape:
    """Dimensions of a launch, x first."""

    grid: Shape
    block: Shape
    cluster: Shape
    dynamic_smem: int = 0
    """Bytes."""
    cooperative: bool = False
    """All CTAs at once."""

    def __str__(self) -> str:
        parts = [f"{what} {'x'.join(map(str, dims))}" for what, dims in (("grid", self.grid), ("block", self.block))]
        if prod(self.cluster) > 1:
            parts.append(f"cluster {'x'.join(map(str, self.cluster))}")
        if self.dynamic_smem:
            parts.append(f"{self.dynamic_smem} bytes of dynamic shared memory")
        if self.cooperative:
            parts.append("cooperative")
        return ", ".join(parts)


def check_launch(shape: LaunchShape, kernel: KernelFacts, limits: LaunchLimits) -> None:
    """Refuse what the driver would refuse, and say which number is wrong.

    :raises LaunchShapeError: with every limit that is exceeded.
    """
    problems = [
        *limit_problems(limits, grid=shape.grid, block=shape.block, cluster=shape.cluster,
                        dynamic_smem=shape.dynamic_smem, static_smem=kernel.static_smem_bytes),
        *_kernel_problems(shape, kernel, limits),
    ]  # fmt: skip
    if problems:
        raise LaunchShapeError(f"kernel '{kernel.name}' cannot be launched with {shape}", problems)


def _kernel_problems(shape: LaunchShape, kernel: KernelFacts, limits: LaunchLimits) -> Iterator[tuple[str, str]]:
    threads = prod(shape.block)
    if kernel.max_threads < threads <= limits.max_threads:
        why = f"the kernel's {kernel.registers} registers (or its __launch_bounds__) allow {kernel.max_threads}"
        yield "block", f"block has {threads} threads, but {why}"
    if kernel.required_cluster is not None and shape.cluster != kernel.required_cluster:
        wanted = "x".join(map(str, kernel.required_cluster))
        yield "cluster", f"cluster differs from the kernel's __cluster_dims__, {wanted}"


class PackedArguments:
    """Arguments laid out for ``cuLaunchKernelEx``: an array of pointers to the bytes of each.

    Keep it alive until the launch call has returned.
    """

    def __init__(self, arguments: Sequence[Any], kernel: KernelFacts, address_of: AddressOf) -> None:
        """Check the arguments against the kernel's parameters.

        :raises ConfigError: a wrong count, size or type; names the first that is wrong.
        """
        if len(arguments) != len(kernel.parameters):
            raise ConfigError(
                f"kernel '{kernel.name}' takes {len(kernel.parameters)} arguments, {len(arguments)} given"
            )
        self._storage = [
            ctypes.create_string_buffer(
                _checked(argument, f"argument {index} of kernel '{kernel.name}'", size, address_of), size
            )
            for index, (argument, (_, size)) in enumerate(zip(arguments, kernel.parameters, strict=True))
        ]
        self._pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(item) for item in self._storage))

    @property
    def address(self) -> int:
        """Of the pointer array."""
        return ctypes.addressof(self._pointers) if self._storage else 0


def _checked(argument: Any, what: str, size: int, address_of: AddressOf) -> bytes:
    data = argument_bytes(argument, what, address_of)
    if len(data) != size:
        raise ConfigError(
            f"{what} is {len(data)} bytes ({type(argument).__name__}), must be {size}",
            hint="give scalars as NumPy scalars of the parameter's type, np.int32(256), and structs as bytes",
        )
    return data
