"""What every launch takes, whatever runs it: its shape and what limits that, arguments, a time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any

from umma_probe.errors import ConfigError

DEFAULT_TIMEOUT_S = 60.0
"""Of a launch, until it is taken to hang."""
Dims = int | Sequence[int]
Shape = tuple[int, int, int]
_AXES = "xyz"
AddressOf = Callable[[Any], int | None]
"""The address of a buffer of the device; None for what is none."""


def dims(what: str, value: Dims) -> Shape:
    """One to three positive sizes, x first; the rest are 1.

    :raises ConfigError: more than three, none, or one below 1.
    """
    try:
        sizes = [index(size) for size in (value if isinstance(value, Sequence) else (value,))]
    except TypeError:
        sizes = []
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise ConfigError(f"{what} is {value!r}, must be one to three integers of at least 1")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


@dataclass(frozen=True)
class LaunchLimits:
    """What a device allows of any launch."""

    max_threads: int
    max_block: Shape
    max_grid: Shape
    max_smem_bytes: int
    """Static and dynamic shared memory of a CTA, with opt-in."""
    max_cluster: int
    """CTAs in a cluster, non-portable sizes included; 1 where there are no clusters."""


def limit_problems(
    limits: LaunchLimits, *, grid: Shape, block: Shape, cluster: Shape, dynamic_smem: int, static_smem: int
) -> Iterator[tuple[str, str]]:
    """Every limit that a launch exceeds: the parameter of ``launch``, and a sentence.

    :param static_smem: bytes of the kernel's own variables.
    """
    for what, sizes in (("grid", grid), ("block", block), ("cluster", cluster)):
        if min(sizes) < 1:
            yield what, f"{what} is {sizes}, must be at least 1 in each direction"
            return
    yield from _axis_problems("block", block, limits.max_block)
    if (threads := prod(block)) > limits.max_threads:
        yield "block", f"block has {threads} threads, must be at most {limits.max_threads}"
    yield from _axis_problems("grid", grid, limits.max_grid)
    size = prod(cluster)
    if size > 1 and limits.max_cluster <= 1:
        yield "cluster", "cluster is given, but this device has no clusters"
    elif size > limits.max_cluster:
        yield "cluster", f"cluster has {size} CTAs, must be at most {limits.max_cluster}"
    for axis, ctas, span in zip(_AXES, grid, cluster, strict=True):
        if ctas % span:
            yield "cluster", f"grid.{axis} is {ctas}, must be a multiple of cluster.{axis} = {span}"
    if dynamic_smem < 0:
        yield "dynamic_smem", f"dynamic_smem is {dynamic_smem} bytes, must be at least 0"
    elif dynamic_smem + static_smem > limits.max_smem_bytes:
        message = f"shared memory is {static_smem} static + {dynamic_smem} dynamic bytes"
        yield "dynamic_smem", f"{message}, must be at most {limits.max_smem_bytes}"


def _axis_problems(what: str, sizes: Shape, maximum: Shape) -> Iterator[tuple[str, str]]:
    for axis, size, limit in zip(_AXES, sizes, maximum, strict=True):
        if size > limit:
            yield what, f"{what}.{axis} is {size}, must be at most {limit}"


def argument_bytes(argument: Any, what: str, address_of: AddressOf) -> bytes:
    """The bytes that a kernel gets for one argument.

    :param argument: a buffer of the device (its address), a NumPy scalar, bytes of a struct, or an object that gives
        its bytes with ``tobytes()``, such as a tensor map.
    :param what: names it in an error.
    :raises ConfigError: a type without a width, such as a Python int, or another device's buffer.
    """
    import numpy as np  # not with the module: the command line imports it, and starts fast

    if isinstance(argument, bytes | bytearray | memoryview):
        return bytes(argument)
    if (address := address_of(argument)) is not None:
        return address.to_bytes(8, "little")
    if isinstance(argument, np.generic) or (hasattr(argument, "tobytes") and not isinstance(argument, np.ndarray)):
        return bytes(argument.tobytes())
    foreign = hasattr(argument, "address") and hasattr(argument, "nbytes")
    kind = "buffer of another device" if foreign else type(argument).__name__
    raise ConfigError(
        f"{what} is of type {kind}, must be a buffer of this device, a NumPy scalar, bytes or a tensor map",
        hint="np.int32(256) instead of 256; dev.array(x) instead of x",
    )
