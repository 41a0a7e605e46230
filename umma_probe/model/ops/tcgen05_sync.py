"""tcgen05.wait, fence and commit: how operations in flight are ordered and observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.errors import DeviceError
from umma_probe.model.asynchrony.async_engine import AsyncOp
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.tcgen05_alloc import CtaGroup, whole_warp
from umma_probe.spec.sources import Evidence, Ref, documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.state.mbarrier import MBarrier
    from umma_probe.model.threads.frame import Frame

REFS = (
    documented("tcgen05 Memory Consistency Model"),
    documented("tcgen05.wait, tcgen05.fence, tcgen05.commit"),
    Ref("triton", "generated kernels use no tcgen05.fence: an acquire wait on the commit's mbarrier is enough",
        Evidence.KERNEL),
)  # fmt: skip
SHARED_AS_GENERIC = Ref("thunderkittens", "include/ops/thread/mma/tcgen05.cuh", Evidence.KERNEL,
                        "commit without a state space gets __cvta_generic_to_shared(...)")  # fmt: skip
COMMITTED = frozenset({"mma", "cp", "shift"})
"""What a commit waits for (PTX ISA, tcgen05.commit: all prior asynchronous operations of the thread)."""


@operation("tcgen05.{what}.sync.aligned", what={"wait::ld": "ld", "wait::st": "st"}, refs=REFS)
def wait(ops: Operands, what: str) -> Executor:
    """Wait for all earlier loads (or stores) of the warp."""
    ops.expect_count(0)
    kinds = frozenset({what})

    def run(f: Frame) -> None:
        whole_warp(f, f"tcgen05.wait::{what}")
        engine = f.launch.engine
        if engine.in_flight[what]:
            warps = {warp for warp, _ in f.warps()}
            engine.require([op for op in engine.pending(kinds) if op.warp in warps])

    return run


@operation("tcgen05.{side}", side=("fence::before_thread_sync", "fence::after_thread_sync"), refs=REFS)
def fence(ops: Operands, side: str) -> Executor:
    """Orders, and completes nothing: the model's waits already act at the points that fences mark."""
    ops.expect_count(0)

    def run(f: Frame) -> None:
        f.launch.note_tcgen05_fence(f, side)

    return run


@operation("tcgen05.commit.{group}.mbarrier::arrive::one.{space?}.{multicast?}.b64", group=CtaGroup,
           space=("shared::cluster",), multicast={"multicast::cluster": True}, refs=REFS)  # fmt: skip
def commit(ops: Operands, group: CtaGroup, space: str | None, multicast: bool) -> Executor:
    """Arrive on an mbarrier when the thread's earlier asynchronous operations have completed."""
    ops.expect_count(2 if multicast else 1)
    target = ops.address(0)
    mask_slot = ops.src(1, TYPES["u16"]) if multicast else None

    def run(f: Frame) -> None:
        addresses = target.resolve(f)
        if space is None:
            addresses = _generic_target(f, addresses)
        masks = None if mask_slot is None else f.regs[mask_slot][f.sel]
        for position, thread in enumerate(f.threads.tolist()):
            barriers = _targets(f, int(addresses[position]), thread, None if masks is None else int(masks[position]))
            _submit(f.launch, barriers, thread)

    return run


def _generic_target(f: Frame, addresses: Array) -> Array:
    """Generic addresses as shared ones. A shared address is taken as it is: only its low half names the barrier."""
    memory, thread = f.launch.memory, int(f.threads[0])
    if set(memory.classify(addresses)) == {"shared::cluster"}:
        return memory.to_space("shared::cluster", addresses)
    if (addresses >> 32).any():
        f.fault(DeviceError, f"tcgen05.commit: generic address {int(addresses[0]):#x} is not in shared memory", thread)
    f.launch.review("shared-address-as-generic", "tcgen05.commit says no state space and gets a shared address, which "
                    f"is taken as such ({SHARED_AS_GENERIC}); the documented way is .shared::cluster",
                    thread)  # fmt: skip
    return addresses


def _targets(f: Frame, address: int, thread: int, mask: int | None) -> list[MBarrier]:
    """The barriers that the commit signals: one, or the same offset in each CTA of the mask."""
    launch = f.launch
    own_slot = thread // launch.cta_threads
    own_rank = int(launch.cluster_rank_of_thread[thread])
    first = own_slot - own_rank
    offset, rank = address & 0xFF_FFFF, address >> 24
    ranks = [rank] if mask is None else [r for r in range(16) if mask >> r & 1]
    barriers = []
    for member in ranks:
        if member >= launch.cluster_size:
            raise launch.fault_at(launch.pc, thread, f"tcgen05.commit signals cluster rank {member}; the cluster has "
                                  f"{launch.cluster_size} CTAs")  # fmt: skip
        barriers.append(launch.mbarriers.get(f, first + member, offset, thread))
    return barriers


def _submit(launch: Launch, barriers: list[MBarrier], thread: int) -> None:
    slot, pc = thread // launch.cta_threads, launch.pc
    earlier = tuple(op for op in launch.engine.pending(COMMITTED) if op.thread == thread)
    knowledge = launch.tensor_order.committed(thread)

    def effect() -> None:
        for barrier in barriers:
            if knowledge is not None:
                barrier.baton.add(knowledge)
            launch.mbarriers.arrive(barrier, 1, f"tcgen05.commit of {launch.thread_name(thread)}")

    launch.engine.submit(AsyncOp("commit", pc, slot, thread, effect, after=earlier))
