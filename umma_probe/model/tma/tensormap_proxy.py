"""Tensor maps as the copies of a launch see them: through the tensormap proxy.

Rules enforced here (PTX ISA, "Tensor-map", "Memory Consistency Model: Proxies"): a map lies in global, constant or
parameter memory, aligned to 64 bytes. A map in global memory that the kernel itself changes is seen by a CTA's copies
only behind ``fence.proxy.tensormap::generic.acquire`` on its address. The model always reads the present bytes; use
of a map that changed with no acquire since is reported, because silicon may still hold the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import DeviceError, UmmaProbeError
from umma_probe.model.state.global_memory import GLOBAL_BASE
from umma_probe.model.state.memory import LOCAL_WINDOW
from umma_probe.model.tma.tensor_map import decode_tensor_map
from umma_probe.spec.tensor_map import TENSOR_MAP, TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES

if TYPE_CHECKING:
    from umma_probe.model.launch import Launch
    from umma_probe.model.threads.frame import Frame
    from umma_probe.spec.tensor_map import TensorMapFields


class TensorMapProxy:
    """All maps that a launch uses or changes."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._changed: dict[int, int] = {}
        """Address of a map to the clock of its last change by ``tensormap`` instructions."""
        self._acquired: dict[tuple[int, int], int] = {}
        """(CTA slot, address) to the clock of the last acquire."""
        self._seen: dict[tuple[int, int], bytes] = {}
        """(CTA slot, address) to what the last copy found there."""

    def fetch(self, f: Frame, address: int, thread: int) -> TensorMapFields:
        """The map at a generic address, decoded and checked.

        :raises DeviceError: outside global, constant and parameter memory, misaligned, or no tensor map.
        :raises UndefinedBehavior: the map breaks a rule.
        """
        data = self._bytes(f, address, thread)
        self._check_fresh(address, thread, data)
        try:
            return decode_tensor_map(data)
        except UmmaProbeError as error:
            # a new object: the cause may be raised for other threads again
            what = f"tensor map at {address:#x}: {error.message}"
            f.fault(type(error), what, thread, hint=error.hint, ref=error.ref)

    def _bytes(self, f: Frame, address: int, thread: int) -> bytes:
        memory = self._launch.memory.globals
        if address >= LOCAL_WINDOW:
            f.fault(
                DeviceError,
                f"tensor map at generic address {address:#x}: it lies in shared or local memory, must lie in "
                "global, constant or parameter memory",
                thread,
                ref=str(TENSOR_MAP),
            )
        if address % TENSOR_MAP_ALIGNMENT:
            f.fault(
                DeviceError,
                f"tensor map at {address:#x}: must be aligned to {TENSOR_MAP_ALIGNMENT} bytes",
                thread,
                hint="alignas(64); in a struct parameter, align the struct too",
            )
        if not memory.contains(address, address + TENSOR_MAP_BYTES):
            f.fault(DeviceError, f"tensor map at {address:#x}: its 128 bytes lie in no allocation", thread)
        start = address - GLOBAL_BASE
        memory.bytes.note_read(np.array([start]), TENSOR_MAP_BYTES)
        return memory.bytes.data[start : start + TENSOR_MAP_BYTES].tobytes()

    def _check_fresh(self, address: int, thread: int, data: bytes) -> None:
        key = thread // self._launch.cta_threads, address
        acquired = self._acquired.get(key, -1)
        stale = self._changed.get(address, -1) > acquired or self._seen.get(key, data) != data
        if stale:
            self._launch.report(
                "stale-tensor-map",
                f"the tensor map at {address:#x} was changed by the kernel and is used without "
                "fence.proxy.tensormap::generic.acquire since",
                thread,
            )
        self._seen[key] = data

    def changed(self, address: int) -> None:
        """A ``tensormap`` instruction wrote to the map at a global address."""
        self._changed[address] = self._launch.tick()

    def acquire(self, slot: int, address: int) -> None:
        """``fence.proxy.tensormap::generic.acquire`` by a thread of that CTA."""
        self._acquired[slot, address] = self._launch.tick()
        self._seen.pop((slot, address), None)
