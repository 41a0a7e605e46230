"""One kernel launch: its CTAs, threads, memories and everything that is in flight.

CTAs live in *slots*. All clusters of a grid are resident at once, up to ``MAX_RESIDENT_THREADS``, so every cluster
makes progress; larger grids run in waves, a cluster's slots being taken again when it has exited.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import DeviceError, LaunchShapeError, UmmaProbeError
from umma_probe.launch_values import LaunchLimits, limit_problems
from umma_probe.model.asynchrony.async_engine import AsyncEngine, Policy
from umma_probe.model.asynchrony.transfer_groups import TransferGroups
from umma_probe.model.code.operands import SpecialSlot
from umma_probe.model.code.special_registers import SHARED_UNIT, CtaPlace
from umma_probe.model.code.tcgen05_rules import check_target
from umma_probe.model.code.variables import SHARED_BASE, align_up
from umma_probe.model.mma.warpgroup import WarpGroups
from umma_probe.model.sanitizer.init_fences import InitFences
from umma_probe.model.sanitizer.tensor_order import TensorOrder
from umma_probe.model.state.mbarrier import MBarriers
from umma_probe.model.state.memory import MemorySystem
from umma_probe.model.state.register_file import RegisterFile
from umma_probe.model.state.shared_memory import SharedMemory
from umma_probe.model.state.tmem import TensorMemory, TmemImage
from umma_probe.model.threads.barriers import ClusterBarriers, NamedBarriers
from umma_probe.model.threads.scheduler import Scheduler
from umma_probe.model.threads.strands import Strand
from umma_probe.model.threads.warp_sync import WarpSync
from umma_probe.model.tma.tensormap_proxy import TensorMapProxy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umma_probe.model.asynchrony.async_engine import AsyncOp
    from umma_probe.model.code.program import ParameterCopy, Program
    from umma_probe.model.code.special_registers import Dim3
    from umma_probe.model.state.global_memory import GlobalMemory
    from umma_probe.model.threads.frame import Frame
    from umma_probe.spec.machine import Arch

MAX_RESIDENT_THREADS = 1 << 17
SM_COUNT = 148
"""What ``%nsmid`` says: a B200 has 148 multiprocessors. The model gives every resident CTA one of its own."""
SNAPSHOTS = 64
"""Of so many CTAs the launch keeps what their Tensor Memory looked like."""


@dataclass(frozen=True)
class LaunchConfig:
    """Grid, block and cluster in CTAs or threads (x, y, z); dynamic shared memory in bytes."""

    grid: Dim3
    block: Dim3
    cluster: Dim3 = (1, 1, 1)
    dynamic_smem: int = 0
    explicit_cluster: bool = False
    cooperative: bool = False
    """All CTAs are resident at once, or nothing runs."""


@dataclass
class Finding:
    """Something a correct kernel would not do, which did not stop the run: a sanitizer's word."""

    rule: str
    message: str
    where: str
    actor: str
    count: int = 1


@dataclass
class Launch:
    """The state of a running kernel."""

    program: Program
    config: LaunchConfig
    arch: Arch
    policy: Policy
    global_memory: GlobalMemory
    param_address: int = 0
    grid_workspace: int = 0
    """Address of the workspace of a cooperative launch."""
    clusters: range | None = None
    """Which clusters of the grid run here; all of them if None."""
    alone: str = ""
    """Why it runs in one process although more were asked for."""
    on_trace: Callable[[str], None] | None = None
    pc: int = 0
    """The step that executes now."""
    progress: int = 0
    """Grows with everything that another strand could see."""
    clock: int = 0
    findings: dict[tuple[str, int], Finding] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    """What the kernel said by printf, a call each."""
    reviews: dict[tuple[str, int], Finding] = field(default_factory=dict)
    """Legal, but worth a second look: for instance a register dependence in place of tcgen05.wait::ld."""

    def __post_init__(self) -> None:
        config = self.config
        self.block_threads = int(np.prod(config.block))
        self.cta_warps = -(-self.block_threads // 32)
        self.cta_threads = self.cta_warps * 32
        self.cluster_size = int(np.prod(config.cluster))
        self.cta_total = int(np.prod(config.grid))
        clusters = self.clusters or range(self.cta_total // self.cluster_size)
        fitting = max(1, MAX_RESIDENT_THREADS // (self.cta_threads * self.cluster_size))
        self.cluster_slots = min(len(clusters), fitting)
        self.slot_count = self.cluster_slots * self.cluster_size
        self.thread_count = self.slot_count * self.cta_threads
        self._check_limits()
        check_target(self.program, self.arch)
        self.engine = AsyncEngine(self.policy, self._run_effect)
        variables = self.program.variables
        # without dynamic shared memory the window ends with the last static variable, not where the next could start
        start = variables.dynamic_shared_offset if config.dynamic_smem else SHARED_BASE + variables.static_shared_bytes
        self.shared_limit = start + config.dynamic_smem
        self.shared_bytes = align_up(self.shared_limit - SHARED_BASE, SHARED_UNIT)
        shared = SharedMemory(self.slot_count, self.shared_limit)
        self.memory = MemorySystem(self, self.global_memory, shared, variables.local_bytes)
        self.shared = shared
        self.tmem = TensorMemory(self.slot_count, self.arch)
        self.tensor_order = TensorOrder(self)
        self.file = RegisterFile(self)
        self.regs = self.file.rows
        self.scheduler = Scheduler(self)
        self.mbarriers = MBarriers(self.scheduler.wake)
        self.init_fences = InitFences(self)
        self.cluster_rank_of_thread = np.zeros(self.thread_count, np.int64)
        self.cta_retired = np.zeros(self.slot_count, np.bool_)
        self.places: list[CtaPlace | None] = [None] * self.slot_count
        self.live_lanes = np.zeros(self.thread_count // 32, np.uint32)
        self._live_threads = np.zeros(self.slot_count, np.int64)
        self.warp_sync = WarpSync(self)
        self.copy_groups = TransferGroups()
        """Groups of ``cp.async``."""
        self.bulk_groups = TransferGroups()
        """Groups of ``cp.async.bulk`` and its kin."""
        self.warpgroups = WarpGroups(self)
        self.tensor_maps = TensorMapProxy(self)
        self.named_barriers = NamedBarriers(self)
        self.cluster_barriers = ClusterBarriers(self)
        self._waiting = iter(clusters)
        self.tmem_snapshots: dict[int, TmemImage] = {}

    # ------------------------------------------------------------------ start and end
    def run(self) -> None:
        """Execute the whole grid.

        :raises UmmaProbeError: whatever the kernel ran into.
        """
        for slot in range(self.cluster_slots):
            self._start_cluster(slot, next(self._waiting))
        # integer overflow, division by zero and NaN are values here, as on the GPU
        try:
            with np.errstate(all="ignore"):
                self.scheduler.run()
                self.engine_drain()
        except UmmaProbeError:
            self._record_residents()
            raise

    def engine_drain(self) -> None:
        """At the end of a grid everything in flight has happened."""
        while self.engine.complete_one():
            pass

    def _start_cluster(self, cluster_slot: int, cluster: int) -> None:
        config = self.config
        shape = [g // c for g, c in zip(config.grid, config.cluster, strict=True)]
        self.cluster_barriers.enter(cluster_slot)
        cx, cy, cz = cluster % shape[0], cluster // shape[0] % shape[1], cluster // (shape[0] * shape[1])
        for rank in range(self.cluster_size):
            rx = rank % config.cluster[0]
            ry = rank // config.cluster[0] % config.cluster[1]
            rz = rank // (config.cluster[0] * config.cluster[1])
            cta = (cx * config.cluster[0] + rx, cy * config.cluster[1] + ry, cz * config.cluster[2] + rz)
            self._start_cta(cluster_slot * self.cluster_size + rank, cta, rank)

    def _start_cta(self, slot: int, cta: Dim3, rank: int) -> None:
        config = self.config
        place = CtaPlace(config.grid, config.block, config.cluster, cta, config.explicit_cluster, slot % SM_COUNT,
                         SM_COUNT, config.dynamic_smem, self.shared_bytes, self.grid_workspace)  # fmt: skip
        self.places[slot] = place
        self.cta_retired[slot] = False
        self.shared.clear(slot)
        self.tmem.enter(slot)
        self.tensor_order.enter(slot)
        low = slot * self.cta_threads
        self.cluster_rank_of_thread[low : low + self.cta_threads] = rank
        self.file.enter(slot, place)
        self._live_threads[slot] = self.block_threads
        for warp in range(self.cta_warps):
            lanes = min(32, self.block_threads - warp * 32)
            mask = (1 << lanes) - 1
            self.live_lanes[slot * self.cta_warps + warp] = mask
            self.scheduler.add(Strand(slot * self.cta_warps + warp, mask, 0))

    def exit_lanes(self, warp: int, lanes: int) -> None:
        """Lanes of a warp have ended; the last of a CTA retires it."""
        slot = warp // self.cta_warps
        self.live_lanes[warp] &= np.uint32(~lanes & 0xFFFFFFFF)
        self._live_threads[slot] -= lanes.bit_count()
        self.progress += 1
        self.warp_sync.lanes_exited(warp)
        self.named_barriers.lanes_exited(warp)
        self.cluster_barriers.lanes_exited(warp)
        if self._live_threads[slot] == 0:
            self._retire(slot)

    def _retire(self, slot: int) -> None:
        self.tmem.leave(self, slot)
        self.mbarriers.clear_slot(slot)
        self.init_fences.fence_proxy(slot)
        self.cta_retired[slot] = True
        self.named_barriers.clear_slot(slot)
        self.warpgroups.retire(slot)
        self._check_bulk_reads(slot)
        for groups in (self.copy_groups, self.bulk_groups):
            groups.forget(slot * self.cta_threads, (slot + 1) * self.cta_threads)
        self._record(slot)
        cluster_slot = slot // self.cluster_size
        members = slice(cluster_slot * self.cluster_size, (cluster_slot + 1) * self.cluster_size)
        following = next(self._waiting, None) if self.cta_retired[members].all() else None
        if following is not None:
            # whatever the old cluster left in flight must not hit its successor
            self.engine.require(op for op in self.engine.pending() if members.start <= op.cta < members.stop)
            self._start_cluster(cluster_slot, following)

    def _check_bulk_reads(self, slot: int) -> None:
        """Shared memory goes with its CTA, so a bulk store should have read it before.

        For review: no document says that the hardware waits, but kernels known to work rely on it (``tma_store_arrive``
        is the last thing that some of DeepGEMM's do).
        """
        unread = self.bulk_groups.unread(slot * self.cta_threads, (slot + 1) * self.cta_threads)
        if unread:
            thread, transfer = unread[0]
            instruction = self.program.steps[transfer.read.pc].instruction
            self.review(
                "exit-before-read",
                f"{self.cta_name(slot)} exits while {instruction.text} (line {instruction.pos.line}) may still read "
                "its shared memory: no cp.async.bulk.wait_group of that thread, with or without .read, has waited",
                thread,
            )

    def _record(self, slot: int) -> None:
        index = self.cta_index(slot)
        if index < SNAPSHOTS:
            self.tmem_snapshots[index] = self.tmem.snapshot(slot)

    def _record_residents(self) -> None:
        """The kernel has failed: record Tensor Memory of the CTAs that had not exited, as it is now."""
        for slot in np.flatnonzero(~self.cta_retired):
            if self.places[slot] is not None:
                self._record(int(slot))

    def _check_limits(self) -> None:
        config, arch = self.config, self.arch
        limits = LaunchLimits(arch.max_threads_per_cta, arch.max_block, arch.max_grid, arch.smem_per_cta_bytes,
                              arch.max_cluster_ctas)  # fmt: skip
        problems = list(
            limit_problems(limits, grid=config.grid, block=config.block, cluster=config.cluster,
                           dynamic_smem=config.dynamic_smem, static_smem=self.program.variables.static_shared_bytes)
        )  # fmt: skip
        if config.cooperative and not problems:
            problems += self._residence_problems()
        for key, name, wanted, actual in (
            ("block", ".reqntid", self.program.required_block, config.block),
            ("cluster", ".reqnctapercluster", self.program.required_cluster, config.cluster),
        ):
            if wanted is not None and wanted != actual:
                problems.append((key, f"the kernel demands {name} {wanted}, the launch has {actual}"))
        if problems:
            raise LaunchShapeError(f"launch of {self.program.name}", problems)

    def _residence_problems(self) -> list[tuple[str, str]]:
        """Whether all CTAs of a cooperative launch fit the machine at once; registers are not counted."""
        arch, threads = self.arch, self.cta_threads
        shared = self.program.variables.static_shared_bytes + self.config.dynamic_smem + arch.smem_reserved_bytes
        on_sm = min(arch.ctas_per_sm, arch.threads_per_sm // threads, arch.smem_per_sm_bytes // shared)
        room = min(on_sm * SM_COUNT, MAX_RESIDENT_THREADS // threads)
        if self.cta_total <= room:
            return []
        message = (f"a cooperative launch needs all CTAs at once: there are {self.cta_total} of {threads} threads and "
                   f"{shared} bytes of shared memory, must be at most {room}")  # fmt: skip
        return [("grid", message)]

    # ------------------------------------------------------------------ services for operations
    @property
    def lacks_workspace(self) -> bool:
        """The kernel looks for the workspace of a cooperative launch, and there is none."""
        registers = (slot.name for slot in self.program.table.slots if isinstance(slot, SpecialSlot))
        return not self.grid_workspace and "%envreg1" in registers

    def tick(self) -> int:
        """Advance the machine's clock and return it."""
        self.clock += 1
        return self.clock

    def _run_effect(self, op: AsyncOp) -> None:
        """Let an operation take effect at the place of its instruction, whatever executes now."""
        current, self.pc = self.pc, op.pc
        try:
            op.effect()
        except UmmaProbeError as error:
            if error.where is None or not error.where.line:
                actor = error.where.actor if error.where else self.thread_name(op.thread)
                error.where = self.program.where(op.pc, actor)
            raise
        finally:
            self.pc = current
            self.progress += 1

    def copy_local(self, f: Frame, copies: Sequence[ParameterCopy]) -> None:
        """Copy call parameters within local memory for the running threads."""
        local = self.memory.local
        base = f.threads * self.memory.local_bytes
        for copy in copies:
            span = np.arange(copy.size_bytes)
            source = base[:, None] + copy.source + span
            destination = base[:, None] + copy.destination + span
            local.data[destination] = local.data[source]
            local.written[destination] = local.written[source]

    def report(self, rule: str, message: str, thread: int) -> None:
        """Record a finding at the current instruction; repeats are counted."""
        _record(self, self.findings, rule, message, thread)

    def review(self, rule: str, message: str, thread: int) -> None:
        """Record something legal that deserves a look."""
        _record(self, self.reviews, rule, message, thread)

    def print(self, text: str) -> None:
        """Device code called printf: shown at once, since the kernel may hang or fault next; stdout is for results."""
        self.printed.append(text)
        print(text, end="", file=sys.stderr, flush=True)
        if self.on_trace is not None:
            self.on_trace(text.rstrip("\n"))

    def note_tcgen05_fence(self, f: Frame, side: str) -> None:
        """A ``tcgen05.fence`` was executed: an event for traces, and one side of a hand-over."""
        for warp, _ in f.warps():
            self.tensor_order.fence(warp, side)
        if self.on_trace is not None:
            self.on_trace(f"{self.thread_name(int(f.threads[0]))}: tcgen05.{side}")

    def fault_at(self, pc: int, thread: int, message: str, hint: str = "") -> DeviceError:
        """A fault of an operation in flight, placed at the instruction that issued it."""
        return DeviceError(message, where=self.program.where(pc, self.thread_name(thread)), hint=hint)

    # ------------------------------------------------------------------ names
    def cta_index(self, slot: int) -> int:
        """The linear index in the grid of the CTA in a slot."""
        place = self.places[slot]
        if place is None:
            return slot
        x, y, z = place.cta
        return x + place.grid[0] * (y + place.grid[1] * z)

    def cta_name(self, slot: int) -> str:
        """``CTA 3``."""
        return f"CTA {self.cta_index(slot)}"

    def warp_name(self, warp: int) -> str:
        """``CTA 0 warp 2``."""
        return f"{self.cta_name(warp // self.cta_warps)} warp {warp % self.cta_warps}"

    def thread_name(self, thread: int) -> str:
        """``CTA 0, warp 2, lane 5``."""
        warp = thread >> 5
        return f"{self.cta_name(warp // self.cta_warps)}, warp {warp % self.cta_warps}, lane {thread & 31}"


def _record(launch: Launch, book: dict[tuple[str, int], Finding], rule: str, message: str, thread: int) -> None:
    key = (rule, launch.pc)
    known = book.get(key)
    if known is not None:
        known.count += 1
        return
    place = launch.program.where(launch.pc)
    book[key] = Finding(rule, message, str(place), launch.thread_name(thread))
