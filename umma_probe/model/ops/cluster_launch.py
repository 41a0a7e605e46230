"""Cluster launch control: ``clusterlaunchcontrol.try_cancel`` and ``query_cancel``.

The model launches every cluster of a grid, so no cluster is ever left to cancel: each request is answered "not
cancelled", as it is on silicon when the grid is exhausted. The 16-byte answer arrives through the async proxy and
completes 16 bytes on the mbarrier, in every CTA of the cluster with ``.multicast::cluster::all`` (PTX ISA, "Parallel
Synchronization and Communication Instructions: clusterlaunchcontrol").

The answer is opaque; on the model bit 127 says cancelled, and x, y, z are the first three 32-bit words. Kernels known
to work read the coordinates of a refused request and do not use them, so that is noted for review, and gives poison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.model.asynchrony.async_engine import AsyncOp
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.mbarrier import BarrierOperand
from umma_probe.model.state.bytes import POISON_WORD
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.state.mbarrier import MBarrier
    from umma_probe.model.threads.frame import Frame

FAMILY = "Parallel Synchronization and Communication Instructions"
TRY = documented(f"{FAMILY}: clusterlaunchcontrol.try_cancel")
QUERY = documented(f"{FAMILY}: clusterlaunchcontrol.query_cancel")
ANSWER_BYTES = 16
CANCELED = np.uint64(1 << 63)
"""In the upper 64 bits."""
B128, PRED, U32 = TYPES["b128"], TYPES["pred"], TYPES["u32"]
OWN = {"shared::cta": "shared"}


@operation(
    "clusterlaunchcontrol.try_cancel.async.{space?}.mbarrier::complete_tx::bytes.{multicast?}.b128",
    refs=(TRY,),
    space=OWN,
    multicast={"multicast::cluster::all": True},
)
def try_cancel(ops: Operands, space: str | None, multicast: bool) -> Executor:
    """``clusterlaunchcontrol.try_cancel.async... [answer], [mbar]``."""
    ops.expect_count(2)
    answer, barrier = BarrierOperand(ops.address(0), space), BarrierOperand(ops.address(1), space)

    def run(f: Frame) -> None:
        launch = f.launch
        window = launch.shared.window
        offsets = answer.arena_offsets(f)
        launch.memory.check_alignment(f, offsets, ANSWER_BYTES)
        for offset, (slot, place), thread in zip(offsets.tolist(), barrier.places(f), f.threads.tolist(), strict=True):
            first = slot - int(launch.cluster_rank_of_thread[thread])
            slots = range(first, first + launch.cluster_size) if multicast else (slot,)
            for member in slots:
                signal = launch.mbarriers.get(f, member, place, thread)
                launch.engine.submit(_answer(launch, thread, member, member * window + offset % window, signal))

    return run


def _answer(launch: Launch, thread: int, slot: int, offset: int, barrier: MBarrier) -> AsyncOp:
    def effect() -> None:
        shared = launch.shared
        shared.bytes.data[offset : offset + ANSWER_BYTES] = 0
        shared.bytes.written[offset : offset + ANSWER_BYTES] = True
        shared.note_async(np.array([offset]), ANSWER_BYTES)
        who = f"clusterlaunchcontrol.try_cancel of {launch.thread_name(thread)}"
        launch.mbarriers.complete_tx(barrier, ANSWER_BYTES, who)

    return AsyncOp("try_cancel", launch.pc, slot, thread, effect)


@operation("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", refs=(QUERY,))
def is_canceled(ops: Operands) -> Executor:
    """``query_cancel.is_canceled.pred.b128 p, answer``."""
    ops.expect_count(2)
    target, answer = ops.dst(0, PRED), ops.src(1, B128)

    def run(f: Frame) -> None:
        f.regs[target][f.sel] = f.regs[answer][f.sel][:, 1] & CANCELED != 0

    return run


@operation("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128", refs=(QUERY,))
def first_ctaid(ops: Operands) -> Executor:
    """``query_cancel.get_first_ctaid.v4.b32.b128 {x, y, z, _}, answer``."""
    ops.expect_count(2)
    targets, answer = ops.dst_vector(0, U32), ops.src(1, B128)

    def run(f: Frame) -> None:
        words = _coordinates(f, answer)
        for axis, target in enumerate(targets):
            f.regs[target][f.sel] = words[:, axis]

    return run


@operation("clusterlaunchcontrol.query_cancel.{axis}.b32.b128", refs=(QUERY,),
           axis={f"get_first_ctaid::{letter}": axis for axis, letter in enumerate("xyz")})  # fmt: skip
def first_ctaid_axis(ops: Operands, axis: int) -> Executor:
    """``query_cancel.get_first_ctaid::x.b32.b128 d, answer``."""
    ops.expect_count(2)
    target, answer = ops.dst(0, U32), ops.src(1, B128)

    def run(f: Frame) -> None:
        f.regs[target][f.sel] = _coordinates(f, answer)[:, axis]

    return run


def _coordinates(f: Frame, answer: int) -> Array:
    """(n, 4) words of the answers; poison where the request was not granted."""
    answers = np.ascontiguousarray(f.regs[answer][f.sel])
    refused = answers[:, 1] & CANCELED == 0
    words = answers.view(np.uint32).copy()
    if refused.any():
        f.launch.review(
            "query-cancel-of-refused",
            "clusterlaunchcontrol.query_cancel.get_first_ctaid of a request that was not granted means nothing",
            int(f.threads[np.flatnonzero(refused)[0]]),
        )
        words[refused] = POISON_WORD
    return words
