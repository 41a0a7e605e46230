"""What every launch takes, whatever runs it: dimensions, arguments, a time limit; from Python values to what a
kernel gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from umma_probe.errors import ConfigError

DEFAULT_TIMEOUT_S = 60.0
"""Of a launch, until it is taken to hang."""
Dims = int | Sequence[int]
AddressOf = Callable[[Any], int | None]
"""The address of a buffer of the device; None for what is none."""


def dims(what: str, value: Dims) -> tuple[int, int, int]:
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
