"""Global, shared, local, parameter and constant memory of the machine.

Rules enforced here: every access is naturally aligned (PTX ISA, "Addresses as Operands: alignment"), lies inside an
allocation, and reads only what was written before. A misaligned or outside access is a :class:`DeviceError`, as on
silicon; reading what was never written is a finding with the place, and the value is a poison pattern, never a
silent zero.

Address space of the model (64-bit generic): global allocations from ``GLOBAL_BASE``; the shared window of a cluster at
``SHARED_WINDOW`` (CTA rank r at r << 24, as silicon lays it out and as 2-CTA kernels rely on); local memory at
``LOCAL_WINDOW``. Parameters and constants live in global allocations, so a generic address of a parameter works. A
``.param`` address is the offset in the kernel's parameters: compilers hold it in 32-bit registers. The shared window
lies on a multiple of 4 GiB, so the low half of a generic address is the shared address; kernels known to work pass the
whole of it to ``.shared`` instructions.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError, DeviceError
from umma_probe.spec.sources import Evidence, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame

GLOBAL_BASE = 0x10_0000_0000
LOCAL_WINDOW = 0x7E00_0000_0000
SHARED_WINDOW = 0x7F00_0000_0000
WINDOW_BYTES = 0x100_0000_0000
RANK_SHIFT = 24
RANK_MASK = (1 << RANK_SHIFT) - 1
POISON_BYTE = 0xCD
GENERIC_AS_SHARED = Ref("thunderkittens", "include/types/tensor/tensor.cuh", Evidence.KERNEL,
                        "tcgen05.alloc.shared::cta gets the 64-bit pointer of a __shared__ variable")  # fmt: skip

_WORDS: dict[int, np.dtype[Any]] = {width: np.dtype(f"u{width}") for width in (1, 2, 4, 8)}
_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3}
_ALL_WRITTEN = {width: dtype.type(0x0101_0101_0101_0101 >> 64 - 8 * width) for width, dtype in _WORDS.items()}
"""The flags of a word whose bytes were all written."""


class Bytes:
    """A growable byte array with word views and a shadow of what was ever written."""

    def __init__(self, size: int) -> None:
        self._allocate(size)

    def _allocate(self, size: int) -> None:
        size = -(-max(size, 64) // 64) * 64
        self.data = np.full(size, POISON_BYTE, np.uint8)
        self.written = np.zeros(size, np.bool_)
        self._views = {width: self.data.view(dtype) for width, dtype in _WORDS.items()}
        self._flags = {width: self.written.view(dtype) for width, dtype in _WORDS.items()}

    def grow(self, size: int) -> None:
        """At least ``size`` bytes, contents kept."""
        if size <= len(self.data):
            return
        data, written = self.data, self.written
        self._allocate(max(size, 2 * len(data)))
        self.data[: len(data)] = data
        self.written[: len(written)] = written

    def gather(self, offsets: Array, width: int, count: int) -> Array:
        """Words of ``width`` bytes: (n, count) from aligned byte offsets (n,)."""
        index = offsets >> _SHIFT[width]
        words: Array = self._views[width][index[:, None] + np.arange(count)]
        return words

    def scatter(self, offsets: Array, width: int, words: Array) -> None:
        """Store (n, count) words; where offsets collide the last thread wins."""
        index = offsets >> _SHIFT[width]
        count = words.shape[1]
        if count > 1:
            self._views[width][index[:, None] + np.arange(count)] = words
        else:
            self._views[width][index] = words[:, 0]
        self.mark(offsets, width * count)

    def mark(self, offsets: Array, size: int) -> None:
        """Note that ``size`` bytes from each offset were written; offsets as for ``all_written``."""
        width, index = _widest_words(offsets, size)
        self._flags[width][index] = _ALL_WRITTEN[width]

    def note_read(self, offsets: Array, size: int) -> None:
        """Somebody reads ``data`` itself at these offsets (as for ``all_written``); see :class:`WatchedBytes`."""

    def note_write(self, offsets: Array, size: int) -> None:
        """Somebody writes ``data`` itself."""

    def all_written(self, offsets: Array, size: int) -> Array:
        """Per offset: whether each of its ``size`` bytes was ever written.

        :param offsets: multiples of the largest power of two that divides ``size`` (at most 8).
        """
        width, index = _widest_words(offsets, size)
        known: Array = self._flags[width][index] == _ALL_WRITTEN[width]
        return known if known.ndim == 1 else np.asarray(known.all(axis=1))


class WatchedBytes(Bytes):
    """The same bytes as another object, with a shadow of what was read and what was written from here on."""

    def __init__(self, seen: Bytes) -> None:
        self.data, self.written = seen.data, seen.written
        self._views, self._flags = seen._views, seen._flags
        self.was_read, self.was_written = np.zeros_like(seen.written), np.zeros_like(seen.written)
        self._read_flags = {width: self.was_read.view(dtype) for width, dtype in _WORDS.items()}
        self._write_flags = {width: self.was_written.view(dtype) for width, dtype in _WORDS.items()}

    def gather(self, offsets: Array, width: int, count: int) -> Array:
        """As ``Bytes.gather``."""
        self.note_read(offsets, width * count)
        return super().gather(offsets, width, count)

    def scatter(self, offsets: Array, width: int, words: Array) -> None:
        """As ``Bytes.scatter``."""
        self.note_write(offsets, width * words.shape[1])
        super().scatter(offsets, width, words)

    def note_read(self, offsets: Array, size: int) -> None:
        """Bytes that were read."""
        width, index = _widest_words(offsets, size)
        self._read_flags[width][index] = _ALL_WRITTEN[width]

    def note_write(self, offsets: Array, size: int) -> None:
        """Bytes that were written."""
        width, index = _widest_words(offsets, size)
        self._write_flags[width][index] = _ALL_WRITTEN[width]


def _widest_words(offsets: Array, size: int) -> tuple[int, Array]:
    """``size`` bytes from each offset as the widest words that divide it: width and numbers, (n,) or (n, words)."""
    width = min(size & -size, 8)
    index = offsets >> _SHIFT[width]
    return width, index if size == width else index[:, None] + np.arange(size // width)


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


class MemorySystem:
    """What load and store instructions go through: state spaces, windows, checks."""

    def __init__(self, launch: Launch, global_memory: GlobalMemory, shared: SharedMemory, local_bytes: int) -> None:
        self.launch = launch
        self.globals = global_memory
        self.shared = shared
        self.local_limit = local_bytes
        self.local_bytes = -(-local_bytes // 16) * 16
        self.local = Bytes(self.local_bytes * launch.thread_count)
        self.param_address = 0
        self._all_initialised = True

    # ------------------------------------------------------------------ load and store
    def load(self, f: Frame, space: str, addresses: Array, width: int, count: int = 1) -> Array:
        """Words (n, count) of ``width`` bytes from each running thread's address (int64, in ``space``)."""
        self.check_alignment(f, addresses, width * count)
        if space == "generic":
            return self._load_generic(f, addresses, width, count)
        memory, offsets = self.locate(f, space, addresses, width * count)
        words = memory.gather(offsets, width, count)
        known = memory.all_written(offsets, width * count)
        if not known.all():
            self._report_unwritten(f, space, addresses, known)
        return words

    def store(self, f: Frame, space: str, addresses: Array, words: Array) -> None:
        """Store words (n, count); the width is that of their type."""
        width = words.dtype.itemsize
        size = width * words.shape[1]
        self.check_alignment(f, addresses, size)
        if space == "generic":
            self._store_generic(f, addresses, words)
            return
        memory, offsets = self.locate(f, space, addresses, size)
        memory.scatter(offsets, width, words)
        self.launch.progress += 1
        if memory is self.shared.bytes:
            clock = self.launch.tick()
            self.shared.note_generic(offsets, size, clock)
            if space == "shared::cluster" and self.launch.cluster_size > 1:
                self.shared.note_remote(f.cta_slots, offsets, size, clock)

    def locate(self, f: Frame, space: str, addresses: Array, size: int) -> tuple[Bytes, Array]:
        """The backing bytes and the offsets of addresses in a state space; checks bounds.

        Spaces: ``global``, ``const``, ``param`` (kernel parameters), ``shared``, ``shared::cta``,
        ``shared::cluster``, ``local``.
        """
        if space == "param":
            addresses = addresses + self.launch.param_address
        if space in ("global", "const", "param"):
            low, high = int(addresses.min()), int(addresses.max()) + size
            if not self.globals.contains(low, high):
                bad = ~self.globals.inside(addresses, size)
                if bad.any():
                    self._outside(f, space, addresses, bad, size)
            return self.globals.bytes, addresses - GLOBAL_BASE
        if space == "local":
            bad = (addresses < 0) | (addresses + size > self.local_limit)
            if bad.any():
                self._outside(f, space, addresses, bad, size)
            return self.local, f.threads * self.local_bytes + addresses
        return self.shared.bytes, self.shared_offsets(f, space, addresses, size)

    def shared_offsets(self, f: Frame, space: str, addresses: Array, size: int) -> Array:
        """Arena offsets of shared addresses: the rank in bits 24 and up picks the CTA of the cluster."""
        launch = self.launch
        offset = addresses & RANK_MASK
        rank = addresses >> RANK_SHIFT
        own = launch.cluster_rank_of_thread[f.threads]
        bad = (offset + size > self.shared.limit) | (rank < 0) | (rank >= launch.cluster_size)
        if space != "shared::cluster":
            bad |= rank != own
        if bad.any():
            if (addresses >> 32 == SHARED_WINDOW >> 32).all():
                launch.review("generic-shared-address", f"a generic address where .{space} is said: its low half is "
                              f"taken, as kernels known to work rely on ({GENERIC_AS_SHARED}); the documented way "
                              "is cvta.to.shared", int(f.threads[0]))  # fmt: skip
                return self.shared_offsets(f, space, addresses & 0xFFFF_FFFF, size)
            self._outside(f, space, addresses, bad, size)
        slots = f.cta_slots + rank - own
        gone = launch.cta_retired[slots]
        if gone.any():
            at = int(np.flatnonzero(gone)[0])
            f.fault(
                DeviceError,
                f"shared memory of cluster rank {int(rank[at])} is accessed after that CTA has exited",
                int(f.threads[at]),
                hint="keep the CTAs of a cluster alive with a cluster barrier before they exit",
            )
        offsets: Array = slots * self.shared.window + offset
        return offsets

    # ------------------------------------------------------------------ generic addresses
    def classify(self, addresses: Array) -> dict[str, Array]:
        """Positions by state space of 64-bit generic addresses."""
        shared = (addresses >= SHARED_WINDOW) & (addresses < SHARED_WINDOW + WINDOW_BYTES)
        local = (addresses >= LOCAL_WINDOW) & (addresses < LOCAL_WINDOW + WINDOW_BYTES)
        spaces = {"shared::cluster": shared, "local": local, "global": ~(shared | local)}
        return {space: np.flatnonzero(mask) for space, mask in spaces.items() if mask.any()}

    def to_space(self, space: str, addresses: Array) -> Array:
        """Generic addresses as addresses of a state space."""
        base = {"shared::cluster": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)
        return addresses - base

    def _load_generic(self, f: Frame, addresses: Array, width: int, count: int) -> Array:
        parts = self.classify(addresses)
        if len(parts) == 1:
            (space,) = parts
            return self.load(f, space, self.to_space(space, addresses), width, count)
        out = np.empty((len(addresses), count), _WORDS[width])
        sel, threads = f.sel, f.threads
        for space, at in parts.items():
            f.select(threads[at])
            out[at] = self.load(f, space, self.to_space(space, addresses[at]), width, count)
        f.select(sel)
        return out

    def _store_generic(self, f: Frame, addresses: Array, words: Array) -> None:
        sel, threads = f.sel, f.threads
        for space, at in self.classify(addresses).items():
            f.select(threads[at])
            self.store(f, space, self.to_space(space, addresses[at]), words[at])
        f.select(sel)

    # ------------------------------------------------------------------ faults
    def check_alignment(self, f: Frame, addresses: Array, size: int) -> None:
        """Fault unless every address is a multiple of ``size`` (a power of two)."""
        if size > 1 and (addresses & (size - 1)).any():
            at = int(np.flatnonzero(addresses & (size - 1))[0])
            f.fault(
                DeviceError,
                f"misaligned address {int(addresses[at]):#x}: must be a multiple of {size} bytes",
                int(f.threads[at]),
            )

    def _outside(self, f: Frame, space: str, addresses: Array, bad: Array, size: int) -> None:
        at, hint = int(np.flatnonzero(bad)[0]), ""
        address = int(addresses[at])
        if space.startswith("shared"):
            hint = "the first 1024 bytes are the system's, then come static variables, then dynamic_smem of the launch"
            what = f"a CTA's window has {self.shared.limit} bytes, a cluster {self.launch.cluster_size} CTAs"
        elif space == "local":
            what = f"the local frame has {self.local_limit} bytes"
        else:
            what = self._nearest(address)
        f.fault(DeviceError, f"illegal address {address:#x} in .{space} ({size} bytes): {what}", int(f.threads[at]),
                hint=hint)  # fmt: skip

    def _nearest(self, address: int) -> str:
        below = [a for a in self.globals._allocations if a.address <= address]
        if not below:
            return "it lies in no allocation"
        last = below[-1]
        over = address - last.address - last.size_bytes
        return f"it lies {over} bytes behind the end of {last.name} ({last.size_bytes} bytes)"

    def _report_unwritten(self, f: Frame, space: str, addresses: Array, known: Array) -> None:
        at = int(np.flatnonzero(~known)[0])
        self.launch.report(
            "uninitialised-read",
            f"reads .{space} address {int(addresses[at]):#x}, which was never written ({int((~known).sum())} threads)",
            int(f.threads[at]),
        )
