"""``mbarrier``: init, inval, expect_tx, complete_tx, arrive, arrive_drop, test_wait, try_wait, pending_count.

Rules enforced here (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"): the object is
8-byte aligned and, but for ``.shared::cluster``, lies in the executing CTA's shared memory; an arrival on another
CTA's object returns no state; ``.noComplete`` must not complete the phase. ``try_wait`` suspends until the phase
completes; when nothing else can go on its time limit runs out and it answers false, as it may. ``test_wait`` never
suspends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import DeviceError, PtxSyntaxError, UndefinedBehavior
from umma_probe.model.asynchrony.waits import Resume, Wait
from umma_probe.model.code.decode import operation, sync_operation
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.state.mbarrier import MBarrier, pending_count
from umma_probe.ptx import nodes
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import AddressOperand, Operands
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame
    from umma_probe.model.threads.strands import Strand

U32, U64, B64, PRED = TYPES["u32"], TYPES["u64"], TYPES["b64"], TYPES["pred"]
OWN = {"shared": "shared", "shared::cta": "shared"}
ANY = {**OWN, "shared::cluster": "shared::cluster"}
SCOPES = ("cta", "cluster")
OBJECT_BYTES = 8


def _ref(name: str) -> Any:
    return documented(f"Parallel Synchronization and Communication Instructions: mbarrier.{name}")


@dataclass(frozen=True, slots=True)
class BarrierOperand:
    """The address of an mbarrier object; ``space`` None means a generic address."""

    address: AddressOperand
    space: str | None

    def arena_offsets(self, f: Frame) -> Array:
        """Offsets of the running threads' objects in the arena of all shared windows."""
        memory = f.launch.memory
        addresses, space = self.address.resolve(f), self.space
        if space is None and self.address.space != "shared":
            if set(memory.classify(addresses)) != {"shared::cluster"}:
                f.fault(DeviceError, f"generic address {int(addresses[0]):#x} is not in shared memory")
            addresses = memory.to_space("shared::cluster", addresses)
        memory.check_alignment(f, addresses, OBJECT_BYTES)
        return memory.shared_offsets(f, space or "shared", addresses, OBJECT_BYTES)

    def places(self, f: Frame) -> list[tuple[int, int]]:
        """(CTA slot, offset in its window) of each running thread's object."""
        slots, offsets = np.divmod(self.arena_offsets(f), f.launch.shared.window)
        return list(zip(slots.tolist(), offsets.tolist(), strict=True))

    def objects(self, f: Frame) -> list[MBarrier]:
        """The object of each running thread.

        :raises UndefinedBehavior: there is none.
        """
        launch, threads = f.launch, f.threads.tolist()
        window, get = launch.shared.window, launch.mbarriers.get
        offsets = self.arena_offsets(f)
        first = int(offsets[0])
        if (offsets == first).all():
            return [get(f, first // window, first % window, threads[0])] * len(threads)
        return [get(f, at // window, at % window, thread) for at, thread in zip(offsets.tolist(), threads, strict=True)]


def _barrier(ops: Operands, index: int, space: str | None) -> BarrierOperand:
    return BarrierOperand(ops.address(index), space)


# ---------------------------------------------------------------------- life
@operation("mbarrier.init.{space?}.b64", refs=(_ref("init"),), space=OWN)
def init(ops: Operands, space: str | None) -> Executor:
    """``mbarrier.init.b64 [addr], count``."""
    ops.expect_count(2)
    barrier, count = _barrier(ops, 0, space), ops.src(1, U32)

    def run(f: Frame) -> None:
        launch = f.launch
        counts = f.regs[count][f.sel].tolist()
        for (slot, offset), thread, n in zip(barrier.places(f), f.threads.tolist(), counts, strict=True):
            launch.mbarriers.init(f, slot, offset, n, thread)
        launch.shared.bytes.mark(barrier.arena_offsets(f), OBJECT_BYTES)
        launch.progress += 1

    return run


@operation("mbarrier.inval.{space?}.b64", refs=(_ref("inval"),), space=OWN)
def inval(ops: Operands, space: str | None) -> Executor:
    """``mbarrier.inval.b64 [addr]``."""
    ops.expect_count(1)
    barrier = _barrier(ops, 0, space)

    def run(f: Frame) -> None:
        barrier.objects(f)
        for place in barrier.places(f):
            f.launch.mbarriers.invalidate(*place)

    return run


# ---------------------------------------------------------------------- transactions
@operation("mbarrier.expect_tx.{relaxed?}.{scope?}.{space?}.b64", refs=(_ref("expect_tx"),), scope=SCOPES, space=ANY)
def expect_tx(ops: Operands, space: str | None, **_: Any) -> Executor:
    """``mbarrier.expect_tx.b64 [addr], bytes``."""
    return _transaction(ops, space, "expect_tx")


@operation(
    "mbarrier.complete_tx.{relaxed?}.{scope?}.{space?}.b64", refs=(_ref("complete_tx"),), scope=SCOPES, space=ANY
)
def complete_tx(ops: Operands, space: str | None, **_: Any) -> Executor:
    """``mbarrier.complete_tx.b64 [addr], bytes``."""
    return _transaction(ops, space, "complete_tx")


def _transaction(ops: Operands, space: str | None, event: str) -> Executor:
    ops.expect_count(2)
    barrier, tx = _barrier(ops, 0, space), ops.src(1, U32)

    def run(f: Frame) -> None:
        launch = f.launch
        apply = getattr(launch.mbarriers, event)
        amounts = f.regs[tx][f.sel].tolist()
        for target, thread, amount in zip(barrier.objects(f), f.threads.tolist(), amounts, strict=True):
            apply(target, amount, launch.thread_name(thread))
        launch.progress += 1

    return run


# ---------------------------------------------------------------------- arrive
@dataclass(frozen=True, slots=True)
class Arrival:
    """One ``mbarrier.arrive``: where, how often, and what comes with it."""

    barrier: BarrierOperand
    target: int
    """Slot of the returned state."""
    count: int | None
    """Slot of the arrival count; None means 1."""
    tx: int | None
    """Slot of the bytes to expect first."""
    drop: bool
    no_complete: bool


@operation(
    "mbarrier.arrive.{expect_tx?}.{noComplete?}.{order?}.{scope?}.{space?}.b64",
    refs=(_ref("arrive"),),
    order=("release", "relaxed"),
    scope=SCOPES,
    space=ANY,
)
def arrive(ops: Operands, expect_tx: bool, noComplete: bool, space: str | None, **_: Any) -> Executor:
    """``mbarrier.arrive{.expect_tx}{.noComplete}.b64 state, [addr]{, count | bytes}``."""
    return _bind_arrival(ops, space, expect_tx=expect_tx, no_complete=noComplete, drop=False)


@operation(
    "mbarrier.arrive_drop.{expect_tx?}.{noComplete?}.{order?}.{scope?}.{space?}.b64",
    refs=(_ref("arrive_drop"),),
    order=("release", "relaxed"),
    scope=SCOPES,
    space=ANY,
)
def arrive_drop(ops: Operands, expect_tx: bool, noComplete: bool, space: str | None, **_: Any) -> Executor:
    """``mbarrier.arrive_drop{.expect_tx}{.noComplete}.b64 state, [addr]{, count | bytes}``."""
    return _bind_arrival(ops, space, expect_tx=expect_tx, no_complete=noComplete, drop=True)


def _bind_arrival(ops: Operands, space: str | None, *, expect_tx: bool, no_complete: bool, drop: bool) -> Executor:
    needs_number = expect_tx or no_complete
    ops.expect_count(3 if needs_number else 2, 3)
    if space == "shared::cluster" and not isinstance(ops[0], nodes.Sink):
        raise PtxSyntaxError(f"{ops.instruction.text}: returns no state, the destination must be _")
    number = ops.src(2, U32) if len(ops) == 3 else None
    arrival = Arrival(
        barrier=_barrier(ops, 1, space),
        target=ops.dst(0, B64),
        count=None if expect_tx else number,
        tx=number if expect_tx else None,
        drop=drop,
        no_complete=no_complete,
    )
    return lambda f: _arrive(f, arrival)


def _arrive(f: Frame, arrival: Arrival) -> None:
    launch = f.launch
    barriers = launch.mbarriers
    counts = _column(f, arrival.count, 1)
    amounts = _column(f, arrival.tx, 0)
    states = np.empty(f.count, np.uint64)
    threads = f.threads.tolist()
    last: tuple[int, MBarrier, int] | None = None
    for i, target in enumerate(arrival.barrier.objects(f)):
        who = launch.thread_name(threads[i])
        states[i] = target.state
        if arrival.tx is not None:
            barriers.expect_tx(target, amounts[i], who)
        if arrival.no_complete and counts[i] >= target.pending and target.tx_count == 0:
            f.fault(UndefinedBehavior, f"{target.describe()}: .noComplete would complete the phase", threads[i])
        if arrival.drop:
            barriers.drop(target, counts[i])
        told = (threads[i] >> 5, target, target.phase)
        if told != last:  # the threads of a warp know the same
            launch.tensor_order.arrive(told[0], target.baton)
            last = told
        barriers.arrive(target, counts[i], who)
    f.regs[arrival.target][f.sel] = states
    launch.progress += 1


def _column(f: Frame, slot: int | None, default: int) -> list[int]:
    if slot is None:
        return [default] * f.count
    values: list[int] = f.regs[slot][f.sel].tolist()
    return values


@operation("mbarrier.pending_count.b64", refs=(_ref("pending_count"),))
def read_pending_count(ops: Operands) -> Executor:
    """``mbarrier.pending_count.b64 count, state``."""
    ops.expect_count(2)
    target, state = ops.dst(0, U32), ops.src(1, U64)

    def run(f: Frame) -> None:
        f.regs[target][f.sel] = [pending_count(word) for word in f.regs[state][f.sel].tolist()]

    return run


# ---------------------------------------------------------------------- waiting
@dataclass(frozen=True, slots=True)
class WaitOperands:
    """Target predicate, barrier, and the state or parity waited for."""

    target: int
    barrier: BarrierOperand
    phase: int
    parity: bool

    def outcomes(self, f: Frame) -> tuple[Array, list[MBarrier]]:
        """Whether each running thread's phase has completed, and its barrier."""
        objects = self.barrier.objects(f)
        phases = f.regs[self.phase][f.sel].tolist()
        ended = MBarrier.parity_done if self.parity else MBarrier.state_done
        # a warp asks for one phase of one barrier, as a rule
        known = {pair: ended(*pair) for pair in dict.fromkeys(zip(objects, phases, strict=True))}
        done = [known[pair] for pair in zip(objects, phases, strict=True)]
        if any(done):
            seen = {barrier for barrier, ended in zip(objects, done, strict=True) if ended}
            f.launch.tensor_order.wait(int(f.threads[0]) >> 5, [barrier.baton for barrier in seen])
        return np.array(done, np.bool_), objects


def _bind_wait(ops: Operands, space: str | None, parity: bool) -> WaitOperands:
    phase = ops.src(2, U32 if parity else U64)
    return WaitOperands(ops.dst(0, PRED), _barrier(ops, 1, space), phase, parity)


@sync_operation(
    "mbarrier.test_wait.{parity?}.{order?}.{scope?}.{space?}.b64",
    refs=(_ref("test_wait"),),
    order=("acquire", "relaxed"),
    scope=SCOPES,
    space=OWN,
)
def test_wait(ops: Operands, parity: bool, space: str | None, **_: Any) -> Executor:
    """``mbarrier.test_wait{.parity}.b64 p, [addr], state | parity``."""
    ops.expect_count(3)
    operands = _bind_wait(ops, space, parity)

    def run(f: Frame, strand: Strand) -> None:
        done, objects = operands.outcomes(f)
        f.regs[operands.target][f.sel] = done
        strand.polls = None if done.all() else objects[int(np.argmin(done))].describe

    return run  # type: ignore[return-value]


@sync_operation(
    "mbarrier.try_wait.{parity?}.{order?}.{scope?}.{space?}.b64",
    refs=(_ref("try_wait"),),
    order=("acquire", "relaxed"),
    scope=SCOPES,
    space=OWN,
)
def try_wait(ops: Operands, parity: bool, space: str | None, **_: Any) -> Executor:
    """``mbarrier.try_wait{.parity}.b64 p, [addr], state | parity{, time hint}``."""
    ops.expect_count(3, 4)
    operands = _bind_wait(ops, space, parity)

    def run(f: Frame, strand: Strand) -> Wait | None:
        done, objects = operands.outcomes(f)
        # threads whose phase is complete do not wait for those of the others
        if done.any() or strand.timed_out:
            f.regs[operands.target][f.sel] = done
            return None
        wait = Wait(Resume.RETRY, objects[0].describe, has_time_limit=True)
        for barrier in dict.fromkeys(objects):
            barrier.waiting.append((strand, wait))
        return wait

    return run  # type: ignore[return-value]
