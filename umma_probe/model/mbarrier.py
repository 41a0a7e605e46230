"""Mbarrier objects: phases, pending arrivals and transaction bytes (PTX ISA, "mbarrier").

A phase completes when its pending count and its tx-count are both zero; the next phase starts with the count given
at ``init``. The 64-bit object is opaque, so its state lives beside shared memory, keyed by its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from umma_probe.errors import DeviceError, IllegalProgram, UndefinedBehavior

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.frame import Frame
    from umma_probe.model.strands import Strand
    from umma_probe.model.waits import Wait

MAX_COUNT = (1 << 20) - 1
MAX_TX = (1 << 20) - 1


@dataclass(eq=False)
class MBarrier:
    """One barrier object at ``offset`` in the window of CTA slot ``slot``."""

    slot: int
    offset: int
    expected: int
    pending: int = field(init=False)
    tx_count: int = 0
    phase: int = 0
    """The number of the current, incomplete phase."""
    waiting: list[tuple[Strand, Wait]] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    """The last few events, for explanations."""

    def __post_init__(self) -> None:
        self.pending = self.expected

    def parity_done(self, parity: int) -> bool:
        """Whether the phase of that parity has completed, as ``test_wait.parity`` sees it."""
        return (self.phase & 1) != (parity & 1)

    def describe(self) -> str:
        """Phase, missing arrivals and missing bytes."""
        parts = [f"phase {self.phase} (parity {self.phase & 1})", f"{self.pending} of {self.expected} arrivals missing"]
        if self.tx_count:
            parts.append(f"{self.tx_count} transaction bytes {'missing' if self.tx_count > 0 else 'too many'}")
        return f"mbarrier at shared offset {self.offset:#x} of CTA slot {self.slot}: " + ", ".join(parts)


class MBarriers:
    """All barrier objects of a launch."""

    def __init__(self, wake: Callable[[Strand, Wait], None]) -> None:
        self._objects: dict[tuple[int, int], MBarrier] = {}
        self._wake = wake

    def init(self, f: Frame, slot: int, offset: int, count: int, thread: int) -> None:
        """``mbarrier.init``.

        :raises IllegalProgram: the count is outside 1..2^20-1.
        """
        if not 1 <= count <= MAX_COUNT:
            f.fault(IllegalProgram, f"mbarrier.init: count is {count}, must be 1 to {MAX_COUNT}", thread)
        self._objects[slot, offset] = MBarrier(slot, offset, count)

    def invalidate(self, slot: int, offset: int) -> None:
        """``mbarrier.inval``."""
        self._objects.pop((slot, offset), None)

    def get(self, f: Frame, slot: int, offset: int, thread: int) -> MBarrier:
        """The object there.

        :raises UndefinedBehavior: it was never initialised.
        """
        found = self._objects.get((slot, offset))
        if found is None:
            f.fault(
                UndefinedBehavior,
                f"no mbarrier at shared offset {offset:#x} of {f.launch.cta_name(slot)}: it was not initialised",
                thread,
                hint="mbarrier.init must come first, made visible by a barrier (in a cluster: fence.mbarrier_init)",
            )
        return found

    def clear_slot(self, slot: int) -> None:
        """The CTA has exited."""
        for key in [key for key in self._objects if key[0] == slot]:
            del self._objects[key]

    def of_slot(self, slot: int) -> list[MBarrier]:
        """The live objects of a CTA."""
        return [barrier for (s, _), barrier in self._objects.items() if s == slot]

    # ------------------------------------------------------------------ events
    def arrive(self, barrier: MBarrier, count: int, who: str) -> int:
        """Arrive ``count`` times and return the phase that the arrival belongs to.

        :raises DeviceError: more arrivals than the phase expects.
        """
        if count > barrier.pending:
            raise DeviceError(
                f"{who} arrives {count} times on {barrier.describe()}: more than the phase expects",
                hint="the count given to mbarrier.init is too small, or a phase is signalled twice",
            )
        phase = barrier.phase
        barrier.pending -= count
        barrier.history.append(f"{who} arrived ({count})")
        self._check(barrier)
        return phase

    def expect_tx(self, barrier: MBarrier, tx_bytes: int, who: str) -> None:
        """Raise the tx-count."""
        barrier.tx_count += tx_bytes
        barrier.history.append(f"{who} expects {tx_bytes} bytes")

    def complete_tx(self, barrier: MBarrier, tx_bytes: int, who: str) -> None:
        """Lower the tx-count; the phase may complete."""
        barrier.tx_count -= tx_bytes
        barrier.history.append(f"{who} completed {tx_bytes} bytes")
        self._check(barrier)

    def _check(self, barrier: MBarrier) -> None:
        if barrier.pending == 0 and barrier.tx_count == 0:
            barrier.phase += 1
            barrier.pending = barrier.expected
            del barrier.history[:-8]
            waiting, barrier.waiting = barrier.waiting, []
            for strand, wait in waiting:
                self._wake(strand, wait)
