"""Functions that the driver supplies to device code: ``vprintf``, ``__assertfail``, ``malloc``, ``free``.

``vprintf`` takes a format string and a buffer of arguments, each aligned to its own size: integers as wide as their
length modifier says, floating values as doubles, strings as pointers (CUDA C++ Programming Guide, "Formatted Output").
``malloc`` gives 16-byte aligned pieces of a heap of 8 MB, or null where that is full; a piece lives until it is freed,
longer than its kernel; freeing what ``malloc`` did not give, or twice, is undefined (there, "Dynamic Global Memory
Allocation and Operations"), so here a fault.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from umma_probe.errors import DeviceError, NotModelled, PtxSyntaxError, unknown_name
from umma_probe.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.variables import VariableLayout
    from umma_probe.model.threads.frame import Frame

Binder: TypeAlias = "Callable[[list[str], list[str], VariableLayout], Executor]"

INTRINSICS: Registry[Binder] = Registry("device function")
_MAX_STRING = 4096
_PARAMETERS = {"vprintf": (1, 2), "__assertfail": (0, 5), "malloc": (1, 1), "free": (0, 1)}
"""Of each function: results, parameters."""


def intrinsic(name: str, results: list[str], arguments: list[str], layout: VariableLayout) -> Executor:
    """The executor of a call to a function that the module does not define.

    :raises NotModelled: unknown function.
    :raises PtxSyntaxError: it has other parameters.
    """
    binder = INTRINSICS.get(name)
    if binder is None:
        raise NotModelled(unknown_name("device function", name, INTRINSICS))
    wanted = _PARAMETERS[name]
    if (len(results), len(arguments)) != wanted:
        found = f"{len(results)} results and {len(arguments)} parameters"
        raise PtxSyntaxError(f"call of {name}: {found}, must be {wanted[0]} and {wanted[1]}")
    for parameter in (*results, *arguments):
        if parameter not in layout.variables:
            raise NotModelled(f"call of {name}: parameter {parameter} is not a .param variable")
    return binder(results, arguments, layout)


# ---------------------------------------------------------------------- memory of one thread
def _read(f: Frame, space: str, address: int, size: int) -> bytes:
    """Bytes that the one running thread sees, read one by one: no alignment is asked of them."""
    load = f.launch.memory.load
    return bytes(int(load(f, space, np.array([address + i]), 1)[0, 0]) for i in range(size))


def _argument(f: Frame, layout: VariableLayout, name: str) -> int:
    variable = layout.variables[name]
    return int.from_bytes(_read(f, "local", variable.address, variable.size_bytes), "little")


def _string(f: Frame, address: int) -> str:
    data = bytearray()
    while len(data) < _MAX_STRING:
        (byte,) = _read(f, "generic", address + len(data), 1)
        if byte == 0:
            break
        data.append(byte)
    return data.decode("utf-8", "replace")


def _one_by_one(run: Callable[[Frame, int], None]) -> Executor:
    """Call ``run(f, thread)`` with each running thread selected alone."""

    def execute(f: Frame) -> None:
        sel, threads = f.sel, f.threads.tolist()
        for thread in threads:
            f.select(slice(thread, thread + 1))
            run(f, thread)
        f.select(sel)

    return execute


# ---------------------------------------------------------------------- vprintf
_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|j|z|t)?([diouxXcsfFeEgGaAp%])")
_WIDE = ("l", "ll", "j", "z", "t")


class _Arguments:
    """The argument buffer of one call."""

    def __init__(self, f: Frame, address: int) -> None:
        self._frame = f
        self._base = address
        self._offset = 0
        self.taken = 0

    def take(self, size: int) -> bytes:
        self.taken += 1
        self._offset = -(-self._offset // size) * size
        data = _read(self._frame, "generic", self._base + self._offset, size)
        self._offset += size
        return data

    def integer(self, size: int, *, signed: bool) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def double(self) -> float:
        return float(struct.unpack("<d", self.take(8))[0])


def format_text(f: Frame, text: str, buffer: int) -> tuple[str, int]:
    """``printf`` of ``text`` with the arguments at ``buffer``: (result, number of arguments)."""
    arguments = _Arguments(f, buffer)

    def convert(match: re.Match[str]) -> str:
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        spec = "%" + flags
        for prefix, field in (("", width), (".", precision)):
            if field == "*":
                field = str(arguments.integer(4, signed=True))
            if field is not None:
                spec += prefix + field
        return _convert_one(f, arguments, spec, length, kind)

    return _CONVERSION.sub(convert, text), arguments.taken


def _convert_one(f: Frame, arguments: _Arguments, spec: str, length: str | None, kind: str) -> str:
    size = 8 if length in _WIDE else 4
    match kind:
        case "d" | "i":
            return (spec + "d") % arguments.integer(size, signed=True)
        case "u" | "o" | "x" | "X":
            return (spec + kind.replace("u", "d")) % arguments.integer(size, signed=False)
        case "c":
            return (spec + "c") % (arguments.integer(4, signed=False) & 0xFF)
        case "s":
            return (spec + "s") % _string(f, arguments.integer(8, signed=False))
        case "p":
            return (spec + "s") % hex(arguments.integer(8, signed=False))
        case "a" | "A":
            return (spec + "s") % arguments.double().hex()
        case _:
            return (spec + kind) % arguments.double()


def _vprintf(results: list[str], arguments: list[str], layout: VariableLayout) -> Executor:
    def run(f: Frame, thread: int) -> None:
        text, count = format_text(f, _string(f, _argument(f, layout, arguments[0])), _argument(f, layout, arguments[1]))
        f.launch.print(text)
        place = np.array([layout.variables[results[0]].address])
        f.launch.memory.store(f, "local", place, np.array([[count]], np.uint32))

    return _one_by_one(run)


# ---------------------------------------------------------------------- the others
def _assert_fail(results: list[str], arguments: list[str], layout: VariableLayout) -> Executor:
    def run(f: Frame, thread: int) -> None:
        message, file, line, function, _ = (_argument(f, layout, name) for name in arguments)
        f.fault(
            DeviceError,
            f"{_string(f, file)}:{line}: {_string(f, function)}: assertion '{_string(f, message)}' failed",
            thread,
        )

    return _one_by_one(run)


# ---------------------------------------------------------------------- the device heap
_HEAP = "device heap"
_HEAP_BYTES = 8 << 20
_HEAP_ALIGNMENT = 16


def _malloc(results: list[str], arguments: list[str], layout: VariableLayout) -> Executor:
    def run(f: Frame, thread: int) -> None:
        heap, size = f.launch.global_memory, _argument(f, layout, arguments[0])
        used = sum(piece.size_bytes for piece in heap.allocations if piece.name == _HEAP)
        fits = 0 < size <= _HEAP_BYTES - used
        address = heap.allocate(size, _HEAP, _HEAP_ALIGNMENT).address if fits else 0
        place = np.array([layout.variables[results[0]].address])
        f.launch.memory.store(f, "local", place, np.array([[address]], np.uint64))

    return _one_by_one(run)


def _free(results: list[str], arguments: list[str], layout: VariableLayout) -> Executor:
    def run(f: Frame, thread: int) -> None:
        heap, address = f.launch.global_memory, _argument(f, layout, arguments[0])
        if not address:
            return
        piece = heap.find(address)
        if piece is None or piece.name != _HEAP or piece.address != address:
            f.fault(DeviceError, f"free of {address:#x}, which malloc did not give or which was freed", thread)
        heap.free(piece)

    return _one_by_one(run)


INTRINSICS.add("vprintf", _vprintf)
INTRINSICS.add("__assertfail", _assert_fail)
INTRINSICS.add("malloc", _malloc)
INTRINSICS.add("free", _free)
