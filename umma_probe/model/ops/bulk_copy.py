"""Bulk copies: ``cp.async.bulk``, ``cp.reduce.async.bulk``, bulk groups, and prefetches.

Rules enforced here (PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk"): size and addresses are
multiples of 16 bytes. A copy to shared memory completes by ``complete_tx`` of its bytes on an mbarrier; with
``.multicast::cluster`` the data and the signal go to the same offsets in every CTA of the mask. A copy to global
memory belongs to a bulk group of its thread; ``wait_group.read`` waits for the reading of the source alone. All of it
is the async proxy: the source in shared memory must be fenced, the destination needs no fence. Tensor (TMA) forms are
another family.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import IllegalProgram, UndefinedBehavior
from umma_probe.model.asynchrony.async_engine import AsyncOp
from umma_probe.model.asynchrony.transfer_groups import Transfer
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.element_ops import combiner
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.ld_st import CACHE_HINT
from umma_probe.model.ops.mbarrier import BarrierOperand
from umma_probe.model.state.bytes import POISON_BYTE
from umma_probe.model.state.global_memory import GLOBAL_BASE
from umma_probe.model.threads.frame import Frame
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import AddressOperand, Operands
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array, PtxType

FAMILY = "Data Movement and Conversion Instructions"
COPY = documented(f"{FAMILY}: cp.async.bulk")
REDUCE = documented(f"{FAMILY}: cp.reduce.async.bulk")
U16, U32, U64 = TYPES["u16"], TYPES["u32"], TYPES["u64"]
GRANULE = 16
KIND = "bulk"
DESTINATIONS = {"shared::cluster": "shared::cluster", "shared::cta": "shared"}
REDUCTIONS: dict[str, str] = {
    "b32": "and or xor",
    "b64": "and or xor",
    "u32": "add inc dec min max",
    "s32": "add min max",
    "u64": "add min max",
    "s64": "add min max",
    "f16": "add min max",
    "bf16": "add min max",
    "f32": "add",
    "f64": "add",
}
"""``cp.reduce.async.bulk``: type to its operations."""


# ---------------------------------------------------------------------- one thread's copy
@dataclass(frozen=True, slots=True)
class Span:
    """``size`` bytes in global memory (``base`` is the address) or in the arena of shared windows (the offset)."""

    space: str
    base: int
    size: int

    def read(self, f: Frame) -> Array:
        """The bytes; unwritten and, in shared memory, unfenced ones are reported."""
        launch, memory = f.launch, f.launch.memory
        thread = int(f.threads[0])
        shared = self.space != "global"
        backing = memory.shared.bytes if shared else memory.globals.bytes
        low = self.base - (0 if shared else GLOBAL_BASE)
        part = slice(low, low + self.size)
        if not backing.written[part].all():
            launch.report(
                "uninitialised-read", f"copies {self.size} bytes of {self} that were never all written", thread
            )
        if shared:
            self._check_fenced(launch, low, thread)
        backing.note_read(np.array([low]), self.size)
        return backing.data[part].copy()

    def _check_fenced(self, launch: Launch, low: int, thread: int) -> None:
        offsets = np.arange(low, low + self.size, 4)
        if unfenced(launch, offsets).any():
            launch.report(
                "missing-proxy-fence",
                f"copies {self.name(launch)}, which holds generic-proxy stores that no fence.proxy.async has followed",
                thread,
            )

    def write(self, launch: Launch, data: Array) -> None:
        """Store bytes through the async proxy."""
        memory = launch.memory
        shared = self.space != "global"
        backing = memory.shared.bytes if shared else memory.globals.bytes
        low = self.base - (0 if shared else GLOBAL_BASE)
        backing.note_write(np.array([low]), self.size)
        backing.data[low : low + self.size] = data
        backing.written[low : low + self.size] = True
        if shared:
            memory.shared.note_async(np.array([low]), self.size)

    def name(self, launch: Launch) -> str:
        """Space and address, for messages."""
        address = self.base if self.space == "global" else self.base % launch.shared.window
        return f".{self.space} address {address:#x}"


def unfenced(launch: Launch, offsets: Array) -> Array:
    """Which arena offsets of one CTA's window hold generic stores that the async proxy may not see yet."""
    shared = launch.shared
    return shared.unfenced(int(offsets[0]) // shared.window, offsets)


def locate(f: Frame, space: str, addresses: Array, sizes: Array, align: int = GRANULE) -> list[Span]:
    """The checked span of each running thread's operand. ``space``: ``global``, ``shared`` or ``shared::cluster``."""
    memory = f.launch.memory
    memory.check_alignment(f, addresses, align)
    spans = []
    sel, threads = f.sel, f.threads
    for i, size in enumerate(sizes.tolist()):
        f.select(threads[i : i + 1])
        address = addresses[i : i + 1]
        if space == "global":
            memory.locate(f, "global", address, size)
            spans.append(Span("global", int(address[0]), size))
        else:
            spans.append(Span(space, int(memory.shared_offsets(f, space, address, size)[0]), size))
    f.select(sel)
    return spans


@dataclass(frozen=True, slots=True)
class BulkOperands:
    """Destination, source and size of a bulk instruction."""

    target_space: str
    target: AddressOperand
    source_space: str
    source: AddressOperand
    size: int

    def spans(self, f: Frame) -> list[tuple[Span, Span]]:
        """(source, destination) of each running thread; threads whose size is zero copy nothing, but still count."""
        sizes = f.regs[self.size][f.sel].astype(np.int64)
        if (sizes % GRANULE).any():
            bad = int(sizes[np.flatnonzero(sizes % GRANULE)[0]])
            f.fault(IllegalProgram, f"size is {bad}, must be a multiple of {GRANULE} bytes", ref=str(COPY))
        sources = locate(f, self.source_space, self.source.resolve(f), sizes)
        targets = locate(f, self.target_space, self.target.resolve(f), sizes)
        return list(zip(sources, targets, strict=True))


def _operands(ops: Operands, target_space: str, source_space: str) -> BulkOperands:
    return BulkOperands(target_space, ops.address(0), source_space, ops.address(1), ops.src(2, U32))


# ---------------------------------------------------------------------- to shared memory
@operation(
    "cp.async.bulk.{target}.global.mbarrier::complete_tx::bytes.{multicast?}.{hint?}",
    refs=(COPY,),
    target=DESTINATIONS,
    multicast=("multicast::cluster",),
    hint=CACHE_HINT,
)
def copy_to_shared(ops: Operands, target: str, multicast: str | None, hint: str | None) -> Executor:
    """``cp.async.bulk.dst.global...  [dst], [src], size, [mbar]{, ctaMask}{, cache-policy}``."""
    ops.expect_count(4 + bool(multicast) + bool(hint))
    mask = ops.src(4, U16) if multicast else None
    return _bind_to_shared(ops, target, "global", mask, _replace)


@operation("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob.{hint?}", refs=(COPY,),
           hint=CACHE_HINT)  # fmt: skip
def copy_ignoring(ops: Operands, hint: str | None) -> Executor:
    """``cp.async.bulk...ignore_oob  [dst], [src], size, ignoreBytesLeft, ignoreBytesRight, [mbar]{, cache-policy}``.

    The bytes ignored at both ends may lie outside of an allocation. What they become in shared memory is
    indeterminate: here they count as never written.
    """
    ops.expect_count(6 + bool(hint))
    target, source = ops.address(0), ops.address(1)
    sizes, ignored = ops.src(2, U32), (ops.src(3, U32), ops.src(4, U32))
    barrier = BarrierOperand(ops.address(5), "shared")

    def run(f: Frame) -> None:
        launch = f.launch
        size, left, right = (f.regs[slot][f.sel].astype(np.int64) for slot in (sizes, *ignored))
        if (size % GRANULE).any() or max(left.max(), right.max()) >= GRANULE or (left + right > size).any():
            f.fault(
                UndefinedBehavior,
                f"size {int(size[0])}, ignoring {int(left[0])} and {int(right[0])} bytes: must be a multiple of "
                f"{GRANULE} bytes, ignoring less than {GRANULE} at each end",
                ref=str(COPY),
            )
        addresses = source.resolve(f)
        launch.memory.check_alignment(f, addresses, GRANULE)
        sources = locate(f, "global", addresses + left, size - left - right, align=1)
        targets, signals = locate(f, "shared", target.resolve(f), size), barrier.places(f)
        for i, thread in enumerate(f.threads.tolist()):
            effect = _partial_delivery(launch, thread, sources[i], targets[i], int(left[i]), signals[i])
            launch.engine.submit(AsyncOp(KIND, launch.pc, thread // launch.cta_threads, thread, effect))

    return run


@operation("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", refs=(COPY,))
def copy_between_ctas(ops: Operands) -> Executor:
    """``cp.async.bulk.shared::cluster.shared::cta... [dst], [src], size, [mbar]``."""
    ops.expect_count(4)
    return _bind_to_shared(ops, "shared::cluster", "shared", None, _replace)


@operation(
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{type}",
    refs=(REDUCE,),
    op=("and", "or", "xor", "add", "inc", "dec", "min", "max"),
    type="b32 u32 s32 u64 s64",
)
def reduce_between_ctas(ops: Operands, op: str, type: PtxType) -> Executor:
    """``cp.reduce.async.bulk.shared::cluster.shared::cta... [dst], [src], size, [mbar]``."""
    ops.expect_count(4)
    return _bind_to_shared(ops, "shared::cluster", "shared", None, reduction(ops, op, type))


def _replace(old: Array, data: Array) -> Array:
    return data


def reduction(ops: Operands, op: str, type_: PtxType) -> Callable[[Array, Array], Array]:
    """(old bytes, source bytes) -> new bytes.

    :raises IllegalProgram: the type does not have the operation.
    """
    allowed = REDUCTIONS[type_.name].split()
    if op not in allowed:
        raise IllegalProgram(f"{ops.instruction.text}: .{type_} has {', '.join(allowed)}", ref=str(REDUCE))
    function, dtype = combiner(op, type_)

    def run(old: Array, data: Array) -> Array:
        fresh = np.asarray(function(old.view(dtype), data.view(dtype)))
        return fresh.astype(dtype).view(np.uint8)

    return run


def _bind_to_shared(
    ops: Operands, target: str, source: str, mask: int | None, combine: Callable[[Array, Array], Array]
) -> Executor:
    operands = _operands(ops, target, source)
    barrier = BarrierOperand(ops.address(3), target)

    def run(f: Frame) -> None:
        launch = f.launch
        spans, signals = operands.spans(f), barrier.places(f)
        masks = [None] * f.count if mask is None else f.regs[mask][f.sel].tolist()
        for i, thread in enumerate(f.threads.tolist()):
            source_span, target_span = spans[i]
            receivers = _receivers(f, target_span, signals[i], masks[i], thread)
            effect = _delivery(launch, thread, source_span, receivers, combine)
            launch.engine.submit(AsyncOp(KIND, launch.pc, thread // launch.cta_threads, thread, effect))

    return run


Receiver = tuple[Span, tuple[int, int]]


def _receivers(f: Frame, span: Span, signal: tuple[int, int], mask: int | None, thread: int) -> list[Receiver]:
    """(destination, (CTA slot, offset of the mbarrier)) of every CTA that gets the data."""
    launch = f.launch
    if mask is None:
        return [(span, signal)]
    window = launch.shared.window
    first = thread // launch.cta_threads // launch.cluster_size * launch.cluster_size
    if mask == 0 or mask >> launch.cluster_size:
        f.fault(
            UndefinedBehavior,
            f"ctaMask is {mask:#06x}, must name CTAs of the cluster of {launch.cluster_size}",
            thread,
        )
    slots = [first + rank for rank in range(launch.cluster_size) if mask >> rank & 1]
    offset = span.base % window
    return [(Span(span.space, slot * window + offset, span.size), (slot, signal[1])) for slot in slots]


def _delivery(
    launch: Launch, thread: int, source: Span, receivers: list[Receiver], combine: Callable[[Array, Array], Array]
) -> Callable[[], None]:
    def effect() -> None:
        f = Frame(launch, launch.regs, slice(thread, thread + 1))
        data = source.read(f)
        who = f"bulk copy of {launch.thread_name(thread)}"
        for span, (slot, offset) in receivers:
            old = launch.shared.bytes.data[span.base : span.base + span.size]
            span.write(launch, combine(old, data))
            barrier = launch.mbarriers.get(f, slot, offset, thread)
            launch.init_fences.signalled(barrier, "a bulk copy", thread)
            launch.mbarriers.complete_tx(barrier, source.size, who)

    return effect


def _partial_delivery(
    launch: Launch, thread: int, source: Span, target: Span, left: int, signal: tuple[int, int]
) -> Callable[[], None]:
    """Of a copy that leaves ``left`` bytes out before the source, and the rest of the target behind it."""

    def effect() -> None:
        f = Frame(launch, launch.regs, slice(thread, thread + 1))
        data = np.full(target.size, POISON_BYTE, np.uint8)
        data[left : left + source.size] = source.read(f)
        target.write(launch, data)
        known = launch.shared.bytes.written[target.base : target.base + target.size]
        known[:left] = known[left + source.size :] = False
        barrier = launch.mbarriers.get(f, *signal, thread)
        launch.init_fences.signalled(barrier, "a bulk copy", thread)
        launch.mbarriers.complete_tx(barrier, target.size, f"bulk copy of {launch.thread_name(thread)}")

    return effect


# ---------------------------------------------------------------------- to global memory
@operation(
    "cp.async.bulk.global.shared::cta.bulk_group.{hint?}.{cp_mask?}",
    refs=(COPY,),
    hint=CACHE_HINT,
)
def copy_to_global(ops: Operands, hint: str | None, cp_mask: bool) -> Executor:
    """``cp.async.bulk.global.shared::cta.bulk_group [dst], [src], size{, cache-policy}{, byteMask}``."""
    ops.expect_count(3 + bool(hint) + cp_mask)
    byte_mask = ops.src(len(ops) - 1, U16) if cp_mask else None
    return _bind_to_global(ops, lambda old, data: data, byte_mask)


@operation(
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.{hint?}.{op}.{noftz?}.{type}",
    refs=(REDUCE,),
    hint=CACHE_HINT,
    op=("and", "or", "xor", "add", "inc", "dec", "min", "max"),
    type="b32 b64 u32 s32 u64 s64 f16 bf16 f32 f64",
)
def reduce_to_global(ops: Operands, hint: str | None, op: str, noftz: bool, type: PtxType) -> Executor:
    """``cp.reduce.async.bulk.global.shared::cta.bulk_group.op.type [dst], [src], size{, cache-policy}``."""
    ops.expect_count(3 + bool(hint))
    return _bind_to_global(ops, reduction(ops, op, type), None)


def _bind_to_global(ops: Operands, combine: Callable[[Array, Array], Array], byte_mask: int | None) -> Executor:
    operands = _operands(ops, "global", "shared")

    def run(f: Frame) -> None:
        masks = [None] * f.count if byte_mask is None else f.regs[byte_mask][f.sel].tolist()
        for (source, target), thread, mask in zip(operands.spans(f), f.threads.tolist(), masks, strict=True):
            submit_store(f.launch, (thread,), source.read, _writer(f.launch, target, combine, mask))

    return run


def _writer(
    launch: Launch, target: Span, combine: Callable[[Array, Array], Array], mask: int | None
) -> Callable[[Array], None]:
    low = target.base - GLOBAL_BASE

    def write(data: Array) -> None:
        memory = launch.memory.globals.bytes
        part = slice(low, low + target.size)
        memory.note_read(np.array([low]), target.size)
        if mask is None:
            target.write(launch, combine(memory.data[part], data))
            return
        chosen = np.tile((mask >> np.arange(GRANULE) & 1).astype(np.bool_), target.size // GRANULE)
        memory.note_write(np.array([low]), target.size)
        memory.data[part][chosen] = data[chosen]
        memory.written[part] |= chosen

    return write


def submit_store(
    launch: Launch, threads: Sequence[int], read: Callable[[Frame], Any], write: Callable[[Any], None]
) -> None:
    """A store of the async proxy in the bulk group of each of the threads: it reads its source first, writes later."""
    held: list[Any] = []
    thread = threads[0]

    def read_effect() -> None:
        held.append(read(Frame(launch, launch.regs, slice(thread, thread + 1))))

    slot = thread // launch.cta_threads
    read_op = AsyncOp(f"{KIND}.read", launch.pc, slot, thread, read_effect)
    write_op = AsyncOp(f"{KIND}.write", launch.pc, slot, thread, lambda: write(held.pop()), after=(read_op,))
    launch.bulk_groups.add(threads, Transfer(read_op, write_op))
    launch.engine.submit(read_op)
    launch.engine.submit(write_op)


# ---------------------------------------------------------------------- groups and prefetch
@operation("cp.async.bulk.commit_group", refs=(documented(f"{FAMILY}: cp.async.bulk.commit_group"),))
def commit_group(ops: Operands) -> Executor:
    """``cp.async.bulk.commit_group``."""
    ops.expect_count(0)
    return lambda f: f.launch.bulk_groups.commit(f.threads.tolist())


@operation("cp.async.bulk.wait_group.{read?}", refs=(documented(f"{FAMILY}: cp.async.bulk.wait_group"),))
def wait_group(ops: Operands, read: bool) -> Executor:
    """``cp.async.bulk.wait_group{.read} N``."""
    ops.expect_count(1)
    newest = ops.immediate(0)

    def run(f: Frame) -> None:
        launch = f.launch
        launch.engine.require(launch.bulk_groups.waited(f.threads.tolist(), newest, read_only=read))

    return run


@operation(
    "cp.async.bulk.prefetch.L2.global.{hint?}",
    refs=(documented(f"{FAMILY}: cp.async.bulk.prefetch"),),
    hint=CACHE_HINT,
)
def prefetch(ops: Operands, hint: str | None) -> Executor:
    """``cp.async.bulk.prefetch.L2.global [src], size{, cache-policy}``: a hint."""
    ops.expect_count(2 + bool(hint))
    ops.address(0)

    def run(f: Frame) -> None:
        """A performance hint: no effect that a program could see."""

    return run
