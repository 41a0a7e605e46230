"""The arguments of a launch case: their bytes, and whether they are what the kernel takes.

A wrong number or size is an error on every target; where the device tells the parameters' types, so is a whole number
for a floating parameter and the reverse: the bits would fit, and mean something else. ``b32`` and the like, and
``bytes``, say that the bits are meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.launch_case.dtypes import CASE_TYPES
from umma_probe.spec.tensor_map import TENSOR_MAP_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umma_probe.backends.base import Buffer, Kernel, Parameter, TensorMap
    from umma_probe.harness.launch_case.schema import Argument, LaunchCase, Pointers

POINTER_BYTES = 8


def argument(given: Argument, buffers: Mapping[str, Buffer], maps: Mapping[str, TensorMap]) -> Any:
    """What ``launch`` takes for one argument."""
    if given.tensor_map:
        return maps[given.tensor_map]
    if given.buffer:
        return np.uint64(buffers[given.buffer].address + given.offset)
    data = bytearray(given.data)
    write_pointers(data, given.pointers, buffers)
    for at, name in given.maps:
        data[at : at + TENSOR_MAP_BYTES] = maps[name].tobytes()
    return bytes(data)


def write_pointers(data: bytearray, pointers: Pointers, buffers: Mapping[str, Buffer]) -> None:
    """Put the addresses of buffers into a struct."""
    for at, name, offset in pointers:
        data[at : at + POINTER_BYTES] = (buffers[name].address + offset).to_bytes(POINTER_BYTES, "little")


def check_arguments(case: LaunchCase, kernel: Kernel) -> None:
    """Compare the arguments with the kernel's parameters, where the device tells them.

    :raises ConfigError: another number, size or kind; with the place in the case.
    """
    parameters = kernel.parameters()
    if parameters is None:
        return
    takes = f"kernel '{case.entry}' takes ({', '.join(map(str, parameters))})"
    if len(case.args) != len(parameters):
        raise ConfigError(
            f"args: {len(case.args)} arguments, must be {len(parameters)}: {takes}", where=case.args_where
        )
    for index, (given, parameter) in enumerate(zip(case.args, parameters, strict=True)):
        if problem := _problem(given, parameter):
            raise ConfigError(f"args[{index}]: {problem}: {takes}", where=given.where)


def _problem(given: Argument, parameter: Parameter) -> str:
    what, size = _described(given)
    if size != parameter.size_bytes:
        return f"{what} has {size} bytes, must have {parameter.size_bytes}"
    type_ = CASE_TYPES.get(given.dtype)
    if type_ is None or given.dtype.startswith("b") or parameter.type[0] not in "fsu":
        return ""
    if (type_.format is not None) != (parameter.type[0] == "f"):
        return f"{what} is given for a parameter of type {parameter.type} (b{8 * size} where the bits are meant)"
    return ""


def _described(given: Argument) -> tuple[str, int]:
    if given.tensor_map:
        return f"tensor map '{given.tensor_map}'", TENSOR_MAP_BYTES
    if given.buffer:
        return f"the address of buffer '{given.buffer}'", POINTER_BYTES
    return f"a value of type {given.dtype}" if given.dtype else "the struct", len(given.data)


__all__ = ["POINTER_BYTES", "argument", "check_arguments", "write_pointers"]
