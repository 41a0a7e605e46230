"""The 16 named barriers of a CTA, and the barrier of a cluster.

Rules (PTX ISA, "bar, barrier", "barrier.cluster"): a barrier counts in warps, as if all threads of an arriving warp
were active, so a thread count is a multiple of 32, and a warp arrives when all its non-exited threads have. Without a
count a barrier waits for the CTA's warps that have not exited. All arrivals of one generation name the same count. The
cluster barrier waits for all non-exited threads of the cluster; in a phase each thread arrives once and waits once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import IllegalProgram, UndefinedBehavior
from umma_probe.model.asynchrony.waits import Resume, Wait
from umma_probe.model.sanitizer.tensor_order import Baton
from umma_probe.model.threads.frame import WARP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame
    from umma_probe.model.threads.strands import Strand

BARRIER_COUNT = 16


@dataclass(eq=False, slots=True)
class Arrival:
    """A strand at a barrier."""

    strand: Strand
    threads: Array
    wait: Wait
    count: int | None
    """The thread count that it names; None means all of the CTA."""
    blocking: bool
    """Whether it waits for the barrier (``sync``, ``red``) or only for the rest of its warp (``arrive``)."""
    votes: list[bool] = field(default_factory=list)
    deliver: Callable[[Array, int, int], None] | None = None
    """(threads, how many predicates were true, how many there were) -> None: hands out a reduction."""


@dataclass(eq=False, slots=True)
class NamedBarrier:
    """One of the 16 barriers of the CTA in ``slot``."""

    slot: int
    number: int
    arrived: int = 0
    """Threads of complete warps in this generation."""
    count: int | None = None
    """The thread count that this generation names."""
    gathering: dict[int, list[Arrival]] = field(default_factory=dict)
    """Warp number to its strands, while some of its lanes have not come."""
    arrivals: list[Arrival] = field(default_factory=list)
    """The strands of complete warps in this generation."""
    baton: Baton = field(default_factory=Baton)

    def expected(self, launch: Launch) -> int:
        """How many threads complete it."""
        if self.count is not None:
            return self.count
        low = self.slot * launch.cta_warps
        return WARP * int(np.count_nonzero(launch.live_lanes[low : low + launch.cta_warps]))

    def describe(self, launch: Launch) -> str:
        """How many are missing."""
        name = f"barrier {self.number} of {launch.cta_name(self.slot)}"
        text = f"{name}: {self.arrived} of {self.expected(launch)} threads have arrived"
        for warp, parts in self.gathering.items():
            missing = int(launch.live_lanes[warp]) & ~_lanes_of(parts)
            text += f"; of warp {warp % launch.cta_warps} lanes {missing:#010x} are missing"
        return text


def _lanes_of(arrivals: list[Arrival]) -> int:
    lanes = 0
    for arrival in arrivals:
        lanes |= arrival.strand.lanes
    return lanes


class NamedBarriers:
    """All named barriers of a launch."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._barriers: dict[tuple[int, int], NamedBarrier] = {}

    def arrive(
        self,
        f: Frame,
        strand: Strand,
        number: int,
        count: int | None,
        *,
        blocking: bool,
        votes: list[bool] | None = None,
        deliver: Callable[[Array, int, int], None] | None = None,
    ) -> Wait | None:
        """A strand arrives; with ``blocking`` it waits for the barrier, else only for its own warp.

        :raises IllegalProgram: the number or the thread count is out of range.
        :raises UndefinedBehavior: others named another count.
        """
        launch = self._launch
        self._check_range(f, number, count)
        slot = strand.warp // launch.cta_warps
        barrier = self._barriers.setdefault((slot, number), NamedBarrier(slot, number))
        wait = Wait(Resume.NEXT, lambda: barrier.describe(launch))
        arrival = Arrival(strand, f.threads, wait, count, blocking, votes or [], deliver)
        barrier.gathering.setdefault(strand.warp, []).append(arrival)
        if not self._warp_complete(barrier, strand.warp):
            return wait
        released = self._warp_arrives(f, barrier, strand.warp)
        for other in released:
            if other.strand is not strand:
                launch.scheduler.wake(other.strand, other.wait)
        return None if arrival in released else wait

    def pass_together(self, strands: Sequence[Strand], number: int, count: int | None) -> bool:
        """Whether these strands are all that ``bar.sync`` waits for; then they have passed, as if one by one.

        They are if each is a whole warp, nobody has come before, and in every CTA they are as many as it takes.
        """
        launch = self._launch
        if not 0 <= number < BARRIER_COUNT or any(s.lanes != launch.live_lanes[s.warp] for s in strands):
            return False
        warps_of: dict[int, list[int]] = {}
        for strand in strands:
            warps_of.setdefault(strand.warp // launch.cta_warps, []).append(strand.warp)
        barriers = {slot: self._barriers.setdefault((slot, number), NamedBarrier(slot, number)) for slot in warps_of}
        for slot, barrier in barriers.items():
            expected = barrier.expected(launch) if count is None else count
            if barrier.arrivals or barrier.gathering or expected != WARP * len(warps_of[slot]):
                return False
        for slot, barrier in barriers.items():
            for warp in warps_of[slot]:
                launch.tensor_order.arrive(warp, barrier.baton)
            barrier.baton.turn()
            for warp in warps_of[slot]:
                launch.tensor_order.wait(warp, [barrier.baton])
        launch.progress += len(strands)
        return True

    def _check_range(self, f: Frame, number: int, count: int | None) -> None:
        limit = self._launch.cta_threads
        if not 0 <= number < BARRIER_COUNT:
            f.fault(IllegalProgram, f"barrier number is {number}, must be 0 to {BARRIER_COUNT - 1}")
        if count is not None and (count <= 0 or count % WARP or count > limit):
            f.fault(
                IllegalProgram,
                f"barrier {number}: thread count is {count}, must be a multiple of {WARP} from {WARP} "
                f"to the CTA's {limit}",
            )

    def _warp_complete(self, barrier: NamedBarrier, warp: int) -> bool:
        live = int(self._launch.live_lanes[warp])
        return bool(live) and not live & ~_lanes_of(barrier.gathering[warp])

    def _warp_arrives(self, f: Frame, barrier: NamedBarrier, warp: int) -> list[Arrival]:
        """All live lanes of a warp are there. Returns the strands that may go on."""
        parts = barrier.gathering.pop(warp)
        for part in parts:
            self._agree(f, barrier, part)
        self._launch.tensor_order.arrive(warp, barrier.baton)
        barrier.arrivals += parts
        barrier.arrived += WARP
        self._launch.progress += 1
        free = [part for part in parts if not part.blocking]
        return free + self._complete(barrier)

    def _agree(self, f: Frame, barrier: NamedBarrier, arrival: Arrival) -> None:
        launch = self._launch
        if not barrier.arrivals:
            barrier.count = arrival.count
            return
        mine, others = arrival.count or launch.cta_threads, barrier.count or launch.cta_threads
        if mine != others:
            f.fault(
                UndefinedBehavior,
                f"barrier {barrier.number}: this warp names {mine} threads, those before it named {others}",
                int(arrival.threads[0]),
                hint="give every bar.sync, bar.red and bar.arrive of one barrier the same thread count",
            )

    def _complete(self, barrier: NamedBarrier) -> list[Arrival]:
        """End the generation if everybody is there. Returns the strands that waited for it."""
        if not barrier.arrivals or barrier.arrived < barrier.expected(self._launch):
            return []
        arrivals = barrier.arrivals
        barrier.arrivals, barrier.arrived, barrier.count = [], 0, None
        votes = [vote for arrival in arrivals for vote in arrival.votes]
        for arrival in arrivals:
            if arrival.deliver is not None:
                arrival.deliver(arrival.threads, sum(votes), len(votes))
        barrier.baton.turn()
        blocked = [arrival for arrival in arrivals if arrival.blocking]
        for warp in {arrival.strand.warp for arrival in blocked}:
            self._launch.tensor_order.wait(warp, [barrier.baton])
        return blocked

    def lanes_exited(self, warp: int) -> None:
        """Exited lanes are not waited for, nor are exited warps where no count is given."""
        launch = self._launch
        for barrier in [b for b in self._barriers.values() if b.slot == warp // launch.cta_warps]:
            released = []
            if warp in barrier.gathering and self._warp_complete(barrier, warp):
                released = self._warp_arrives(launch.scheduler.frame, barrier, warp)
            released += self._complete(barrier)
            for arrival in released:
                launch.scheduler.wake(arrival.strand, arrival.wait)

    def clear_slot(self, slot: int) -> None:
        """The CTA has exited."""
        for key in [key for key in self._barriers if key[0] == slot]:
            del self._barriers[key]


class ClusterBarriers:
    """The barrier of every cluster: one phase after the other."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._warps = launch.cta_warps * launch.cluster_size
        clusters = launch.slot_count // launch.cluster_size
        self._phase = np.zeros(clusters, np.int64)
        self._arrived = np.zeros(clusters * self._warps, np.uint32)
        """Lanes that have arrived in the current phase, a warp each."""
        self._ticket = np.full(launch.thread_count, -1, np.int64)
        """The phase that a thread has arrived in and not yet waited for; -1 if none."""
        self._waiting: dict[int, list[tuple[Strand, Wait]]] = {}
        self._batons = [Baton() for _ in range(clusters)]

    def arrive(self, f: Frame, strand: Strand) -> None:
        """``barrier.cluster.arrive``.

        :raises UndefinedBehavior: a thread arrives twice without a wait.
        """
        cluster = strand.warp // self._warps
        if (self._ticket[f.sel] >= 0).any():
            f.fault(
                UndefinedBehavior,
                "barrier.cluster.arrive: the thread has arrived already and not yet waited",
                int(f.threads[np.flatnonzero(self._ticket[f.sel] >= 0)[0]]),
            )
        self._ticket[f.sel] = self._phase[cluster]
        self._launch.tensor_order.arrive(strand.warp, self._batons[cluster])
        self._arrived[strand.warp] |= np.uint32(strand.lanes)
        self._launch.progress += 1
        self._complete(cluster)

    def wait(self, f: Frame, strand: Strand) -> Wait | None:
        """``barrier.cluster.wait``.

        :raises UndefinedBehavior: a thread waits without having arrived.
        """
        cluster = strand.warp // self._warps
        tickets = self._ticket[f.sel]
        if (tickets < 0).any():
            f.fault(
                UndefinedBehavior,
                "barrier.cluster.wait: the thread has not arrived",
                int(f.threads[np.flatnonzero(tickets < 0)[0]]),
                hint="each barrier.cluster.wait follows a barrier.cluster.arrive of the same thread",
            )
        if (tickets < self._phase[cluster]).all():
            self._ticket[f.sel] = -1
            self._launch.tensor_order.wait(strand.warp, [self._batons[cluster]])
            return None
        wait = Wait(Resume.RETRY, lambda: self._describe(cluster))
        self._waiting.setdefault(cluster, []).append((strand, wait))
        return wait

    def _members(self, cluster: int) -> slice:
        return slice(cluster * self._warps, (cluster + 1) * self._warps)

    def _complete(self, cluster: int) -> None:
        members = self._members(cluster)
        live, arrived = self._launch.live_lanes[members], self._arrived[members]
        if not arrived.any() or (live & ~arrived).any():
            return
        self._phase[cluster] += 1
        self._batons[cluster].turn()
        arrived[:] = 0
        for strand, wait in self._waiting.pop(cluster, ()):
            self._launch.scheduler.wake(strand, wait)

    def lanes_exited(self, warp: int) -> None:
        """Exited threads are not waited for."""
        self._complete(warp // self._warps)

    def enter(self, cluster: int) -> None:
        """A new cluster takes the slots."""
        self._phase[cluster] = 0
        members = self._members(cluster)
        self._arrived[members] = 0
        self._ticket[members.start * WARP : members.stop * WARP] = -1

    def _describe(self, cluster: int) -> str:
        launch = self._launch
        members = self._members(cluster)
        missing = np.flatnonzero(launch.live_lanes[members] & ~self._arrived[members]) + members.start
        names = ", ".join(launch.warp_name(int(warp)) for warp in missing[:6])
        return (
            f"the cluster barrier: {len(missing)} warps have not arrived ({names}{', ...' if len(missing) > 6 else ''})"
        )
