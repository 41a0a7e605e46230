"""CTA pairs (``.cta_group::2``): who is whose peer, and instructions that one warp of each CTA performs together.

Two CTAs of a cluster whose rank differs in bit 0 are a pair; the even one comes first in every tuple of slots. An
instruction that works on both needs the peer alive (PTX ISA, "Issue Granularity").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from umma_probe.errors import DeviceError, IllegalProgram, UndefinedBehavior
from umma_probe.model.asynchrony.waits import Resume, Wait
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.threads.frame import Frame
    from umma_probe.model.threads.strands import Strand

REF = documented("Issue Granularity", "cta_group::2: the peer CTA should be active")


def cta_slots(f: Frame, cta_group: int, thread: int, what: str) -> tuple[int, ...]:
    """The CTA of the thread, or its pair.

    :raises IllegalProgram: the cluster has no peer for it.
    :raises DeviceError: the peer has exited.
    """
    launch = f.launch
    slot = thread // launch.cta_threads
    if cta_group == 1:
        return (slot,)
    rank = int(launch.cluster_rank_of_thread[thread])
    if (rank ^ 1) >= launch.cluster_size:
        f.fault(IllegalProgram, f"{what} with cta_group::2 in a cluster of {launch.cluster_size}: this CTA has no peer",
                thread, hint="launch with an even cluster size", ref=str(REF))  # fmt: skip
    even = slot - (rank & 1)
    peer = even + 1 - (rank & 1)
    if launch.cta_retired[peer]:
        f.fault(DeviceError, f"{what} with cta_group::2: the peer {launch.cta_name(peer)} has exited", thread,
                hint="keep both CTAs alive with a cluster barrier before they exit", ref=str(REF))  # fmt: skip
    return (even, even + 1)


@dataclass(eq=False)
class _Meeting:
    values: tuple[int, ...]
    strands: dict[int, Strand] = field(default_factory=dict)
    """CTA slot to the warp that takes part."""


class PairMeetings:
    """Collective instructions of CTA pairs that one side has reached.

    A strand that comes first waits and retries; the second one performs the instruction for both and leaves the
    first its outcome.
    """

    def __init__(self) -> None:
        self._meetings: dict[tuple[int, str], _Meeting] = {}
        self._outcomes: dict[Strand, int] = {}

    def outcome(self, strand: Strand) -> int | None:
        """What the peer has left for a strand that came first; taken away by asking."""
        return self._outcomes.pop(strand, None)

    def meet(self, f: Frame, strand: Strand, slots: tuple[int, ...], what: str, values: tuple[int, ...]) -> Wait | None:
        """Arrive; None when the peer is here too, and the instruction may be performed.

        :raises UndefinedBehavior: the two sides do not agree on the instruction or its operands, or two warps of one
            CTA take part.
        """
        if len(slots) == 1:
            return None
        launch = f.launch
        own = strand.warp // launch.cta_warps
        meeting = self._meetings.setdefault((slots[0], what), _Meeting(values))
        if meeting.values != values:
            f.fault(UndefinedBehavior, f"{what} with cta_group::2: operands are {values} here and {meeting.values} in "
                    "the peer CTA; one warp of each CTA must perform the same instruction", ref=str(REF))  # fmt: skip
        if meeting.strands.setdefault(own, strand) is not strand:
            f.fault(UndefinedBehavior, f"{what} with cta_group::2: a second warp of {launch.cta_name(own)} takes part; "
                    "one warp of each CTA must", ref=str(REF))  # fmt: skip
        if len(meeting.strands) == 2:
            return None
        peer = launch.cta_name(slots[0] + slots[1] - own)

        def describe() -> str:
            if len(meeting.strands) == 2:
                return f"{what} with cta_group::2, as does the peer {peer}"
            return f"{what} with cta_group::2: no warp of the peer {peer} has come"

        advice = f"which branch keeps the peer CTA away? One warp of each CTA of the pair must execute {what}"
        return Wait(Resume.RETRY, describe, advice=advice)

    def part(self, f: Frame, strand: Strand, slots: tuple[int, ...], what: str, outcome: int) -> None:
        """The instruction is done: let the other side go on."""
        if len(slots) == 1:
            return
        for other in self._meetings.pop((slots[0], what)).strands.values():
            if other is not strand:
                self._outcomes[other] = outcome
                f.launch.scheduler.wake(other)

    def clear(self, slot: int) -> None:
        """A new CTA takes the slot."""
        for key in [key for key in self._meetings if key[0] == slot - slot % 2]:
            del self._meetings[key]
