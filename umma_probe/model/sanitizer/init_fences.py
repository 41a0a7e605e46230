"""``mbarrier.init`` made visible to the async proxy.

``mbarrier.init`` writes through the generic proxy; a bulk or tensor copy signals the barrier through the async proxy.
In between belongs ``fence.mbarrier_init`` of the thread that initialised (PTX ISA, "membar, fence":
``.op_restrict``), or ``fence.proxy.async`` (CUDA C++ Programming Guide, "Using TMA to transfer multi-dimensional
arrays": "make initialized barrier visible in async proxy"). Kernels of Triton and CUTLASS's tutorials have neither and
work, so a missing one is for review, once for a launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.spec.sources import Evidence, Ref, documented

if TYPE_CHECKING:
    from umma_probe.model.launch import Launch
    from umma_probe.model.state.mbarrier import MBarrier

REFS = (
    documented("Parallel Synchronization and Communication Instructions: membar, fence", ".mbarrier_init"),
    Ref("triton", "generated kernels initialise, bar.sync and copy", Evidence.KERNEL),
    Ref("cutlass", "examples/cute/tutorial/blackwell/02_mma_tma_sm100.cu", Evidence.KERNEL, "cluster_sync alone"),
)


class InitFences:
    """Barriers that were initialised and not fenced since: by CTA slot, each with the thread that initialised it."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._pending: dict[int, dict[MBarrier, int]] = {}
        self._said = False

    def initialised(self, barrier: MBarrier, thread: int) -> None:
        """``mbarrier.init``."""
        self._pending.setdefault(barrier.slot, {})[barrier] = thread

    def fence_init(self, threads: set[int]) -> None:
        """``fence.mbarrier_init``: covers what the executing threads have initialised."""
        for slot in {thread // self._launch.cta_threads for thread in threads}:
            pending = self._pending.get(slot, {})
            self._pending[slot] = {barrier: who for barrier, who in pending.items() if who not in threads}

    def fence_proxy(self, slot: int) -> None:
        """``fence.proxy.async``: covers what anybody in the CTA has initialised."""
        self._pending.pop(slot, None)

    def signalled(self, barrier: MBarrier, what: str, thread: int) -> None:
        """A copy of ``thread`` completes bytes on a barrier."""
        who = self._pending.get(barrier.slot, {}).get(barrier)
        if who is None or self._said:
            return
        self._said = True
        self._launch.review(
            "missing-mbarrier-init-fence",
            f"{what} signals {barrier.name} through the async proxy; {self._launch.thread_name(who)} initialised it, "
            "with no fence.mbarrier_init since (kernels known to work do without)",
            thread,
        )
