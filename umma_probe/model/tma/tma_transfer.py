"""Copies of boxes in flight: what a TMA load, store or reduction does when it takes effect.

A load is one operation for each destination CTA, so that the CTAs of a multicast may get their data in any order. A
store is two, one that reads shared memory and one that writes the tensor. Everything is checked when the instruction is
issued that can be: alignment, extent in shared memory, the mbarrier. Global memory is checked when it is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from umma_probe.errors import DeviceError, IllegalProgram, NotModelled, UndefinedBehavior
from umma_probe.layouts.tma_box import CHUNK_BYTES, Access, plan_box, swizzle_shared
from umma_probe.model.asynchrony.async_engine import AsyncOp
from umma_probe.model.mma.operand_fetch import check_async_read
from umma_probe.model.state.global_memory import GLOBAL_BASE
from umma_probe.model.tma.tma_elements import convert_loaded, fill_pattern, reduce_elements, reduction_problem
from umma_probe.spec.tensor_map import GATHER, INNER_START, NEGATIVE_STORE, RESTRICTIONS, TENSOR_MAP, TensorMapFields

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.errors import UmmaProbeError
    from umma_probe.layouts.tma_box import BoxPlan
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.state.bytes import Bytes
    from umma_probe.model.state.mbarrier import MBarrier
    from umma_probe.model.threads.frame import Frame
    from umma_probe.spec.sources import Ref

Read: TypeAlias = "Callable[[Frame], Array]"
Write: TypeAlias = "Callable[[Array], None]"

KIND = "bulk"
SHARED_ALIGNMENT = 128
MAX_CLUSTER = 16


@dataclass(frozen=True)
class BoxAccess:
    """One thread's box: the map, and where the instruction starts in it."""

    text: str
    """The opcode, for messages."""
    fields: TensorMapFields
    access: Access
    coordinates: tuple[int, ...]
    """Fastest first; (column, four rows) for gather4 and scatter4."""
    offsets: tuple[int, ...] = ()

    def check(self, f: Frame, rank: int, thread: int) -> None:
        """Whether instruction and map fit together.

        :raises IllegalProgram: rank or mode differ.
        :raises UndefinedBehavior: a coordinate that the element type forbids.
        :raises NotModelled: an interleaved map of a type with gaps or smaller than a byte.
        """
        fields = self.fields
        if fields.rank != rank:
            self._fault(f, thread, IllegalProgram, f"the tensor map has rank {fields.rank}, must have {rank}")
        if (fields.im2col is not None) != (self.access is Access.IM2COL):
            mode = "im2col" if fields.im2col else "tiled"
            self._fault(f, thread, IllegalProgram, f"the tensor map is {mode}, the instruction is not")
        if fields.slice_bytes:
            self._check_interleaved(f, thread)
            return
        if self.access is Access.ROWS and fields.box_dim[1] != 1:
            self._fault(
                f, thread, IllegalProgram, f"box_dim[1] is {fields.box_dim[1]}, must be 1 for gather4, scatter4"
            )
        step = 128 if fields.element.padded else 2 if fields.element.packed else 1
        if self.coordinates[0] % step:
            rule = f"coordinate 0 is {self.coordinates[0]}, must be a multiple of {step} for {fields.dtype}"
            self._fault(f, thread, UndefinedBehavior, rule)
        start = self.coordinates[0] * fields.element.bits
        if start % (8 * CHUNK_BYTES):
            message = (f"coordinate 0 is {self.coordinates[0]} of {fields.dtype}, {start // 8} bytes, must be a "
                       f"multiple of {CHUNK_BYTES} bytes: the GPU reports an illegal instruction")  # fmt: skip
            self._fault(f, thread, IllegalProgram, message, INNER_START)

    def _check_interleaved(self, f: Frame, thread: int) -> None:
        fields = self.fields
        if self.access is Access.ROWS:
            rule = f"interleave is {fields.interleave}, must be none for gather4 and scatter4"
            self._fault(f, thread, IllegalProgram, rule, GATHER)
        if fields.element.packed:
            self._fault(f, thread, NotModelled, f"interleave {fields.interleave} of {fields.dtype}: nobody says how")

    def _fault(self, f: Frame, thread: int, error: type[UmmaProbeError], message: str, ref: Ref = RESTRICTIONS) -> None:
        f.fault(error, f"{self.text}: {message}", thread, ref=str(ref))

    def plan(self) -> BoxPlan:
        """The bytes that it touches."""
        return plan_box(self.fields, self.access, self.coordinates, self.offsets)


@dataclass(frozen=True)
class Load:
    """What one thread's load instruction says."""

    box: BoxAccess
    place: int
    """Arena offset of the destination."""
    barrier: tuple[int, int]
    """(CTA slot, offset) of the mbarrier."""
    mask: int | None
    """The CTAs of a multicast."""
    pair: bool
    """``.cta_group::2``."""
    thread: int


# ---------------------------------------------------------------------- loads
def start_load(f: Frame, load: Load) -> None:
    """Issue one operation for each destination CTA."""
    launch = f.launch
    plan = load.box.plan()
    offset = load.place % launch.shared.window
    places = _shared_units(f, load.box, plan, offset, load.thread)
    for slot, barrier in _destinations(f, load):
        launch.engine.submit(_load_op(launch, load, plan, places, slot, barrier))


def _load_op(launch: Launch, load: Load, plan: BoxPlan, places: Array, slot: int, barrier: MBarrier) -> AsyncOp:
    pc, thread = launch.pc, load.thread

    def effect() -> None:
        if launch.cta_retired[slot]:
            raise launch.fault_at(
                pc, thread, f"{load.box.text} writes shared memory of {launch.cta_name(slot)}, which has exited",
                "wait on the mbarrier before the CTA exits",
            )  # fmt: skip
        data = _read_tensor(launch, load.box, plan, thread)
        _write_shared(launch, places + slot * launch.shared.window // plan.unit, data, plan.unit)
        launch.init_fences.signalled(barrier, load.box.text, thread)
        launch.mbarriers.complete_tx(barrier, plan.tx_bytes, f"{load.box.text} of {launch.thread_name(thread)}")

    return AsyncOp(KIND, pc, slot, thread, effect)


def _destinations(f: Frame, load: Load) -> list[tuple[int, MBarrier]]:
    """(CTA slot, mbarrier to signal) of each copy."""
    launch = f.launch
    own = load.thread // launch.cta_threads
    first = own - int(launch.cluster_rank_of_thread[load.thread])
    slot = load.place // launch.shared.window
    barrier_slot, barrier_offset = load.barrier
    get = launch.mbarriers.get
    if load.mask is None:
        _check_barrier_place(f, load, slot - first, barrier_slot - first)
        return [(slot, get(f, barrier_slot, barrier_offset, load.thread))]
    parity = (barrier_slot - first) & 1
    chosen = []
    for rank in (rank for rank in range(MAX_CLUSTER) if load.mask >> rank & 1):
        signalled = rank & ~1 | parity if load.pair else rank
        if max(rank, signalled) >= launch.cluster_size:
            f.fault(
                DeviceError,
                f"{load.box.text}: ctaMask {load.mask:#06x} names cluster rank {max(rank, signalled)}; the cluster has "
                f"{launch.cluster_size} CTAs",
                load.thread,
            )
        chosen.append((first + rank, get(f, first + signalled, barrier_offset, load.thread)))
    return chosen


def _check_barrier_place(f: Frame, load: Load, rank: int, barrier_rank: int) -> None:
    """Without multicast: the mbarrier is in the destination's CTA, or in the pair of that CTA."""
    same = rank >> 1 == barrier_rank >> 1 if load.pair else rank == barrier_rank
    if not same:
        group, where = (2, "that CTA or its peer") if load.pair else (1, "the same CTA")
        f.fault(
            IllegalProgram,
            f"{load.box.text}: the destination is in cluster rank {rank} and the mbarrier in {barrier_rank}; with "
            f".cta_group::{group} the mbarrier must be in {where}",
            load.thread,
            hint="" if load.pair else ".cta_group::2 lets a copy signal the other CTA of the pair",
        )


# ---------------------------------------------------------------------- stores and reductions
def store_effects(f: Frame, box: BoxAccess, place: int, thread: int, operator: str | None) -> tuple[Read, Write]:
    """What reads the source of a store and what writes the tensor; with ``operator``, of a reduction.

    :param place: arena offset of the source.
    """
    launch = f.launch
    _check_store(f, box, thread, operator)
    plan = box.plan()
    slot, offset = divmod(place, launch.shared.window)
    units = _shared_units(f, box, plan, offset, thread)[plan.inside] + slot * launch.shared.window // plan.unit

    def read(_: Frame) -> Array:
        spans = units[:, None] * plan.unit + np.arange(plan.unit)
        check_async_read(launch, thread, slot, spans, box.text)
        return launch.shared.bytes.data[spans]

    def write(data: Array) -> None:
        arena = launch.memory.globals.bytes
        targets = _tensor_units(launch, box, plan, thread)
        if operator is not None:
            _check_written(launch, box, arena, targets, plan.unit, thread)
            arena.note_read(targets * plan.unit, plan.unit)
            data = reduce_elements(operator, box.fields.dtype, _view(arena.data, plan.unit)[targets], data)
        arena.note_write(targets * plan.unit, plan.unit)
        _view(arena.data, plan.unit)[targets] = data
        _view(arena.written, plan.unit)[targets] = True

    return read, write


def _check_store(f: Frame, box: BoxAccess, thread: int, operator: str | None) -> None:
    fields = box.fields
    problem = "" if operator is None else reduction_problem(operator, fields.dtype)
    if fields.dtype == "16u6_align16b":
        f.fault(NotModelled, f"{box.text}: a store of 6-bit elements", thread)
    if fields.dtype == "16u4_align16b":
        problem = "dtype is 16u4_align16b, which is for loads only"
    if fields.swizzle == "128B-atom-32B-flip-8B":
        problem = f"swizzle is {fields.swizzle}, which is for loads only"
    if fields.im2col and (min(fields.im2col.lower_corner) < 0 or max(fields.im2col.upper_corner) > 0):
        problem = "the corners reach outside the tensor; a store needs lower >= 0 and upper <= 0"
    if problem:
        f.fault(IllegalProgram, f"{box.text}: {problem}", thread, ref=str(RESTRICTIONS))
    if min(box.coordinates) < 0:
        message = (f"{box.text}: coordinates are {list(box.coordinates)}, must not be negative for a store: the GPU "
                   "reports an illegal instruction")  # fmt: skip
        f.fault(IllegalProgram, message, thread, ref=str(NEGATIVE_STORE))


# ---------------------------------------------------------------------- shared memory
def _shared_units(f: Frame, box: BoxAccess, plan: BoxPlan, offset: int, thread: int) -> Array:
    """Units in a CTA's window, swizzled, for a box that starts at ``offset`` there."""
    shared = f.launch.shared
    if offset % SHARED_ALIGNMENT:
        f.fault(
            DeviceError,
            f"{box.text}: misaligned shared address {offset:#x}, must be a multiple of {SHARED_ALIGNMENT} bytes",
            thread,
            ref=str(TENSOR_MAP),
        )
    addresses = swizzle_shared(plan.place * plan.unit + offset, box.fields.swizzle)
    end = int(addresses.max()) + plan.unit
    if end > shared.limit:
        f.fault(
            DeviceError,
            f"{box.text}: the box ends at shared address {end:#x}; the CTA has {shared.limit:#x} bytes",
            thread,
            hint="dynamic_smem is too small, or the box is larger than the buffer",
        )
    return np.asarray(addresses // plan.unit)


def _write_shared(launch: Launch, units: Array, data: Array, unit: int) -> None:
    shared = launch.shared
    _view(shared.bytes.data, unit)[units] = data
    _view(shared.bytes.written, unit)[units] = True
    if unit == CHUNK_BYTES:
        shared.word_time.reshape(-1, CHUNK_BYTES // 4)[units] = 0
    else:
        shared.word_time[units >> 2] = 0


def _view(array: Array, unit: int) -> Array:
    """Bytes as rows of ``unit``: indexing it with units gives (..., unit)."""
    return array.reshape(-1, unit)


# ---------------------------------------------------------------------- global memory
def _tensor_units(launch: Launch, box: BoxAccess, plan: BoxPlan, thread: int) -> Array:
    """Units in the global arena of everything inside the tensor, in the order of the box; checked."""
    units: Array = plan.source[plan.inside] + (box.fields.address - GLOBAL_BASE) // plan.unit
    if not len(units):
        return units
    memory = launch.memory.globals
    low = int(units.min()) * plan.unit + GLOBAL_BASE
    high = (int(units.max()) + 1) * plan.unit + GLOBAL_BASE
    if not memory.contains(low, high):
        addresses = units * plan.unit + GLOBAL_BASE
        bad = ~memory.inside(addresses, plan.unit)
        if bad.any():
            address = int(addresses[np.flatnonzero(bad)[0]])
            raise launch.fault_at(
                launch.pc, thread, f"{box.text}: coordinates {list(box.coordinates)} of the tensor map reach global "
                f"address {address:#x}, which lies in no allocation",
                "global_dim, global_strides or the address of the map do not fit the buffer",
            )  # fmt: skip
    return units


def _check_written(launch: Launch, box: BoxAccess, arena: Bytes, units: Array, unit: int, thread: int) -> None:
    known = _view(arena.written, unit)[units]
    if not known.all():
        first = int(units[~known.all(axis=1)][0]) * unit + GLOBAL_BASE
        launch.report(
            "uninitialised-read",
            f"{box.text} reads .global address {first:#x}, which was never written ({int((~known).sum())} bytes)",
            thread,
        )


def _read_tensor(launch: Launch, box: BoxAccess, plan: BoxPlan, thread: int) -> Array:
    """(rows, units, unit) bytes as they arrive in shared memory: converted, and filled where the tensor ends."""
    arena = launch.memory.globals.bytes
    units = _tensor_units(launch, box, plan, thread)
    _check_written(launch, box, arena, units, plan.unit, thread)
    arena.note_read(units * plan.unit, plan.unit)
    read = convert_loaded(box.fields.dtype, _view(arena.data, plan.unit)[units])
    if plan.inside.all():
        return read.reshape(*plan.inside.shape, plan.unit)
    row = fill_pattern(box.fields.oob_fill, plan.inside.shape[1] * plan.unit)
    data = np.broadcast_to(row.reshape(1, -1, plan.unit), (*plan.inside.shape, plan.unit)).copy()
    data[plan.inside] = read
    return data
