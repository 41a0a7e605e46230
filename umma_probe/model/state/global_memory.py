"""Global memory: the device allocations of a machine, in one arena from ``GLOBAL_BASE``.

Between two allocations lies a gap that belongs to none, so that an overrun is an illegal address, and an address is
never handed out twice.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.model.state.bytes import Bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.model.numbers.values import Array

GLOBAL_BASE = 0x10_0000_0000


@dataclass(frozen=True, slots=True)
class Allocation:
    """A range of global memory."""

    address: int
    size_bytes: int
    name: str


class GlobalMemory:
    """All device allocations of a machine, in one arena."""

    def __init__(self) -> None:
        self.bytes = Bytes(1 << 16)
        self._starts: list[int] = []
        self._allocations: list[Allocation] = []
        self._end = GLOBAL_BASE + 512
        self._last: Allocation | None = None

    @property
    def allocations(self) -> Sequence[Allocation]:
        """What there is, by address."""
        return self._allocations

    def allocate(self, size_bytes: int, name: str = "buffer", align: int = 512) -> Allocation:
        """Reserve memory (uninitialised), with a gap behind it so that an overrun is seen."""
        start = -(-self._end // align) * align
        allocation = Allocation(start, size_bytes, name)
        self._end = start + size_bytes + 256
        self.bytes.grow(self._end - GLOBAL_BASE)
        self._starts.append(start)
        self._allocations.append(allocation)
        return allocation

    def free(self, allocation: Allocation) -> None:
        """Forget an allocation; its addresses become illegal and are not handed out again."""
        index = self._starts.index(allocation.address)
        del self._starts[index], self._allocations[index]
        self._last = None

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds an address."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        found = self._allocations[index]
        return found if address < found.address + found.size_bytes else None

    def read(self, address: int, size_bytes: int) -> Array:
        """A copy of ``size_bytes`` bytes.

        :raises ConfigError: outside every allocation.
        """
        self._check_host(address, size_bytes)
        start = address - GLOBAL_BASE
        return self.bytes.data[start : start + size_bytes].copy()

    def write(self, address: int, data: Array) -> None:
        """Write bytes (uint8).

        :raises ConfigError: outside every allocation.
        """
        self._check_host(address, len(data))
        start = address - GLOBAL_BASE
        self.bytes.data[start : start + len(data)] = data
        self.bytes.written[start : start + len(data)] = True

    def _check_host(self, address: int, size_bytes: int) -> None:
        found = self.find(address)
        if size_bytes and (found is None or address + size_bytes > found.address + found.size_bytes):
            raise ConfigError(f"device memory: {size_bytes} bytes at {address:#x} are not in one allocation")

    def contains(self, low: int, high: int) -> bool:
        """Whether [low, high) lies in one allocation."""
        last = self._last
        if last is None or not last.address <= low < last.address + last.size_bytes:
            last = self._last = self.find(low)
        return last is not None and high <= last.address + last.size_bytes

    def inside(self, addresses: Array, size: int) -> Array:
        """Per address: whether ``size`` bytes from it lie in one allocation."""
        if not self._starts:
            return np.zeros(len(addresses), np.bool_)
        starts = np.asarray(self._starts, np.int64)
        ends = np.asarray([a.address + a.size_bytes for a in self._allocations], np.int64)
        index = np.searchsorted(starts, addresses, "right") - 1
        found: Array = (index >= 0) & (addresses + size <= ends[np.maximum(index, 0)])
        return found
