"""Shared memory: a window for each resident CTA, and which proxy wrote each of its words last.

A generic-proxy store is visible to the async proxy (TMA, the tensor core) only behind a ``fence.proxy.async`` (PTX
ISA, "Async proxy").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.model.code.special_registers import COOPERATIVE_SCRATCH
from umma_probe.model.state.bytes import POISON_BYTE, Bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umma_probe.model.numbers.values import Array


class SharedMemory:
    """The shared windows of all resident CTAs, with the proxy that wrote each word last.

    ``word_time`` is the machine's clock at the last generic-proxy store to a 4-byte word, 0 when the async proxy
    wrote it or nobody did; ``fence_time`` is the clock of a CTA's last ``fence.proxy.async``. A store into the window
    of another CTA is fenced by the CTA that made it, or by the one that it was made into.
    """

    def __init__(self, slots: int, window_bytes: int) -> None:
        self.window = -(-window_bytes // 1024) * 1024
        self.limit = window_bytes
        self.bytes = Bytes(slots * self.window)
        self.word_time = np.zeros(slots * self.window // 4, np.int64)
        self.fence_time = np.zeros(slots, np.int64)
        self._remote: dict[int, list[tuple[Array, int]]] = {}
        """Writing CTA to (words in other windows, clock) of its stores since its last fence."""

    def clear(self, slot: int) -> None:
        """A new CTA takes the slot."""
        low, high = slot * self.window, (slot + 1) * self.window
        self.bytes.data[low:high] = POISON_BYTE
        self.bytes.written[low:high] = False
        scratch = slice(low + COOPERATIVE_SCRATCH.start, low + COOPERATIVE_SCRATCH.stop)
        self.bytes.data[scratch] = 0
        self.bytes.written[scratch] = True
        self.word_time[low // 4 : high // 4] = 0
        self.fence_time[slot] = 0
        self._remote.pop(slot, None)

    def note_remote(self, writers: Array, offsets: Array, size: int, clock: int) -> None:
        """Which of the stores that ``note_generic`` was told of went into the window of another CTA.

        :param writers: the CTA slot of each storing thread.
        """
        for slot in np.unique(writers[writers != offsets // self.window]).tolist():
            mine = offsets[(writers == slot) & (offsets // self.window != slot)]
            words = ((mine >> 2)[:, None] + np.arange(-(-size // 4))).ravel()
            self._remote.setdefault(slot, []).append((words, clock))

    def fence(self, slots: Iterable[int], clock: int) -> None:
        """Threads of these CTAs executed ``fence.proxy.async``."""
        for slot in slots:
            self.fence_time[slot] = clock
            for words, stored in self._remote.pop(slot, ()):
                # words that others have stored to since are not covered
                self.word_time[words[self.word_time[words] <= stored]] = 0

    def note_generic(self, offsets: Array, size: int, clock: int) -> None:
        """A generic-proxy store of ``size`` bytes at each byte offset of the arena."""
        words = -(-size // 4)
        index = offsets >> 2
        self.word_time[index if words == 1 else index[:, None] + np.arange(words)] = clock

    def note_async(self, offsets: Array, size: int) -> None:
        """An async-proxy store: visible to the tensor core and TMA without a fence."""
        words = -(-size // 4)
        self.word_time[(offsets >> 2)[:, None] + np.arange(words)] = 0

    def unfenced(self, slot: int, byte_offsets: Array) -> Array:
        """Which arena byte offsets hold a generic store that no ``fence.proxy.async`` of the CTA has followed."""
        unfenced: Array = self.word_time[byte_offsets >> 2] > self.fence_time[slot]
        return unfenced
