"""What load and store instructions go through: state spaces, windows, checks.

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

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import DeviceError
from umma_probe.model.state.bytes import WORDS, Bytes
from umma_probe.model.state.global_memory import GLOBAL_BASE
from umma_probe.spec.sources import Evidence, Ref

if TYPE_CHECKING:
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.state.global_memory import GlobalMemory
    from umma_probe.model.state.shared_memory import SharedMemory
    from umma_probe.model.threads.frame import Frame

LOCAL_WINDOW = 0x7E00_0000_0000
SHARED_WINDOW = 0x7F00_0000_0000
WINDOW_BYTES = 0x100_0000_0000
RANK_SHIFT = 24
_NEAR = 1 << 20
"""An access at most so many bytes behind an allocation was meant for it."""
RANK_MASK = (1 << RANK_SHIFT) - 1
GENERIC_AS_SHARED = Ref("thunderkittens", "include/types/tensor/tensor.cuh", Evidence.KERNEL,
                        "tcgen05.alloc.shared::cta gets the 64-bit pointer of a __shared__ variable")  # fmt: skip


class MemorySystem:
    """The memories of a launch by state space."""

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
        out = np.empty((len(addresses), count), WORDS[width])
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
        below = [a for a in self.globals.allocations if a.address <= address]
        if not below:
            return "it lies in no allocation"
        last = below[-1]
        over = address - last.address - last.size_bytes
        if over > _NEAR:
            return f"it lies in no allocation; the nearest below it ends {over} bytes before"
        return f"it lies {over} bytes behind the end of {last.name} ({last.size_bytes} bytes)"

    def _report_unwritten(self, f: Frame, space: str, addresses: Array, known: Array) -> None:
        at = int(np.flatnonzero(~known)[0])
        self.launch.report(
            "uninitialised-read",
            f"reads .{space} address {int(addresses[at]):#x}, which was never written ({int((~known).sum())} threads)",
            int(f.threads[at]),
        )
