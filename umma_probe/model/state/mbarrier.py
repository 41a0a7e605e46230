"""Mbarrier objects: phases, pending arrivals and transaction bytes (PTX ISA, "mbarrier").

A phase completes when its pending count and its tx-count are both zero; the next phase starts with the count given
at ``init``, less what was dropped since. The 64-bit object is opaque, so its state lives beside shared memory, keyed by
its place. An arrival returns a *state*: the phase and the pending count before it; only the current and the
immediately preceding phase may be waited for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from umma_probe.errors import DeviceError, IllegalProgram, UndefinedBehavior
from umma_probe.model.sanitizer.tensor_order import Baton

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.asynchrony.waits import Wait
    from umma_probe.model.code.variables import VariableLayout
    from umma_probe.model.threads.frame import Frame
    from umma_probe.model.threads.strands import Strand

MAX_COUNT = (1 << 20) - 1
MAX_TX = (1 << 20) - 1
_COUNT_BITS = 20
_HISTORY = 4


@dataclass(eq=False)
class MBarrier:
    """One barrier object at ``offset`` in the window of CTA slot ``slot``."""

    slot: int
    offset: int
    expected: int
    name: str = ""
    """For messages: ``mbarrier 'full'+8 of CTA 0``."""
    pending: int = field(init=False)
    tx_count: int = 0
    phase: int = 0
    """The number of the current, incomplete phase."""
    waiting: list[tuple[Strand, Wait]] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    """The last few events, for explanations."""
    baton: Baton = field(default_factory=Baton)

    def __post_init__(self) -> None:
        self.pending = self.expected
        self.name = self.name or f"mbarrier at shared offset {self.offset:#x} of CTA slot {self.slot}"

    def parity_done(self, parity: int) -> bool:
        """Whether the phase of that parity has completed, as ``test_wait.parity`` sees it."""
        return (self.phase & 1) != (parity & 1)

    @property
    def state(self) -> int:
        """The opaque 64-bit state: phase and pending count."""
        return self.phase << _COUNT_BITS | self.pending

    def state_done(self, state: int) -> bool:
        """Whether the phase of that state has completed.

        :raises UndefinedBehavior: the state is of neither the current nor the preceding phase.
        """
        phase = state >> _COUNT_BITS
        if not 0 <= self.phase - phase <= 1:
            raise UndefinedBehavior(
                f"{self.name}: the state is of phase {phase}, must be of phase {self.phase} or the one before"
            )
        return self.phase != phase

    def describe(self) -> str:
        """Phase, missing arrivals, missing bytes, and what happened last."""
        parts = [f"phase {self.phase} (parity {self.phase & 1})", f"{self.pending} of {self.expected} arrivals missing"]
        if self.tx_count:
            parts.append(f"{abs(self.tx_count)} transaction bytes {'missing' if self.tx_count > 0 else 'too many'}")
        events = self.history[-_HISTORY:]
        last = f"; last events: {', '.join(events)}" if events else "; nobody has arrived on it"
        return f"{self.name}: {', '.join(parts)}{last}"

    def note(self, event: str) -> None:
        """Remember an event."""
        self.history.append(event)
        if len(self.history) > 4 * _HISTORY:
            del self.history[:-_HISTORY]


def pending_count(state: int) -> int:
    """``mbarrier.pending_count``: the pending count before the arrival that returned this state."""
    return state & ((1 << _COUNT_BITS) - 1)


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
        name = f"mbarrier {_place_name(f.launch.program.variables, offset)} of {f.launch.cta_name(slot)}"
        old = self._objects.get((slot, offset))
        if old is not None:
            f.launch.report("mbarrier-reinit", f"{name} is initialised again without mbarrier.inval", thread)
        self._objects[slot, offset] = barrier = MBarrier(slot, offset, count, name)
        f.launch.init_fences.initialised(barrier, thread)

    def invalidate(self, slot: int, offset: int) -> None:
        """``mbarrier.inval``."""
        self._objects.pop((slot, offset), None)

    def get(self, f: Frame, slot: int, offset: int, thread: int) -> MBarrier:
        """The object there.

        :raises UndefinedBehavior: it was never initialised.
        """
        found = self._objects.get((slot, offset))
        if found is None:
            place = _place_name(f.launch.program.variables, offset)
            f.fault(
                UndefinedBehavior,
                f"no mbarrier {place} in {f.launch.cta_name(slot)}: it was not initialised",
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

        :raises IllegalProgram: the count is outside 1..2^20-1.
        :raises DeviceError: more arrivals than the phase expects.
        """
        if not 1 <= count <= MAX_COUNT:
            raise IllegalProgram(f"{barrier.name}: arrival count is {count}, must be 1 to {MAX_COUNT}")
        if count > barrier.pending:
            raise DeviceError(
                f"{who} arrives {count} times on {barrier.describe()}: more than the phase expects",
                hint="the count given to mbarrier.init is too small, or a phase is signalled twice",
            )
        phase = barrier.phase
        barrier.pending -= count
        barrier.note(f"{who} arrived" + (f" {count} times" if count > 1 else ""))
        self._check(barrier)
        return phase

    def drop(self, barrier: MBarrier, count: int) -> None:
        """``mbarrier.arrive_drop``: later phases expect ``count`` arrivals less."""
        barrier.expected -= min(count, barrier.expected)

    def raise_pending(self, barrier: MBarrier, count: int) -> None:
        """``cp.async.mbarrier.arrive`` without ``.noinc``: the current phase expects ``count`` arrivals more.

        :raises DeviceError: the pending count leaves its range.
        """
        barrier.pending += count
        if barrier.pending > MAX_COUNT:
            raise DeviceError(f"{barrier.name}: pending count is {barrier.pending}, must be at most {MAX_COUNT}")

    def expect_tx(self, barrier: MBarrier, tx_bytes: int, who: str) -> None:
        """Raise the tx-count.

        :raises DeviceError: it leaves its range.
        """
        barrier.tx_count += tx_bytes
        barrier.note(f"{who} expects {tx_bytes} bytes")
        _check_tx(barrier)

    def complete_tx(self, barrier: MBarrier, tx_bytes: int, who: str) -> None:
        """Lower the tx-count; the phase may complete.

        :raises DeviceError: it leaves its range.
        """
        barrier.tx_count -= tx_bytes
        barrier.note(f"{who} completed {tx_bytes} bytes")
        _check_tx(barrier)
        self._check(barrier)

    def _check(self, barrier: MBarrier) -> None:
        if barrier.pending == 0 and barrier.tx_count == 0:
            barrier.phase += 1
            barrier.pending = barrier.expected
            barrier.baton.turn()
            waiting, barrier.waiting = barrier.waiting, []
            for strand, wait in waiting:
                self._wake(strand, wait)


def _check_tx(barrier: MBarrier) -> None:
    if abs(barrier.tx_count) > MAX_TX:
        raise DeviceError(
            f"{barrier.name}: tx-count is {barrier.tx_count}, must be -{MAX_TX} to {MAX_TX}",
            hint="expected and completed bytes do not match over the phases before",
        )


def _place_name(variables: VariableLayout, offset: int) -> str:
    """``'full'+8 (shared offset 0x408)``, or the offset alone."""
    for name, variable in variables.variables.items():
        low = variable.address
        if variable.space == "shared" and low <= offset < low + max(variable.size_bytes, 1):
            delta = f"+{offset - low}" if offset != low else ""
            return f"'{name}'{delta} (shared offset {offset:#x})"
    return f"at shared offset {offset:#x}"
