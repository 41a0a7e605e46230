"""A launch in several processes, where its clusters have nothing to do with each other.

The grid is cut into as many parts as there are processes. Each runs its part on the memory that the launch found, and
notes for each byte of global memory whether it read it and whether it wrote it. Their writes are merged if no part read
what another wrote, and none wrote a byte that another wrote with another value: then no order of the parts could have
given anything else. Otherwise nothing of it is kept and the launch runs in one process, as it does whenever

- something lets the kernel see the order of things (``_SHOWS_ORDER``: read-modify-write, clocks, the number of the SM;
  printf, malloc; the ``random`` policy; a trace),
- a part does not end well: a fault, a hang, or a word of the sanitizer, whose wording counts threads that run together.

So memory, notes, errors and Tensor Memory do not depend on the number of processes. What is left is a kernel whose
threads race within a cluster, or that keeps how often it polled: that depends on every scheduler's order, here as on
silicon.
"""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from umma_probe.errors import UmmaProbeError
from umma_probe.model.code.operands import SpecialSlot
from umma_probe.model.code.special_registers import CLOCKS
from umma_probe.model.launch import Launch
from umma_probe.model.state.bytes import POISON_WORD, WatchedBytes
from umma_probe.model.state.global_memory import GLOBAL_BASE
from umma_probe.model.state.tmem import TmemImage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

    from umma_probe.model.code.program import Program
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.state.global_memory import GlobalMemory
    from umma_probe.ptx.nodes import Instruction

_SHOWS_ORDER = ("atom.", "red.", "cp.reduce.", "multimem.", "discard.", "tensormap.")
_ORDER_REGISTERS = CLOCKS | {"%smid"}


@dataclass(frozen=True)
class _Outcome:
    """What one part did to global memory. Offsets are those of the arena; ranges are (first, behind the last)."""

    problem: str
    """Why the launch must run in one process; empty if the part ended well."""
    reads: Array
    writes: Array
    data: Array
    """The bytes of ``writes``, one range after the other."""
    snapshots: dict[int, _UsedColumns]


@dataclass(frozen=True)
class _UsedColumns:
    """A snapshot of Tensor Memory on its way between processes: only the columns that hold anything."""

    columns: Array
    words: Array
    written: Array
    writer: Array
    blocks: tuple[tuple[int, int], ...]
    total: int

    @classmethod
    def of(cls, image: TmemImage) -> _UsedColumns:
        columns = np.flatnonzero(image.written.any(axis=0))
        words, written, writer = (part[:, columns] for part in (image.words, image.written, image.writer))
        return cls(columns, words, written, writer, image.blocks, image.written.shape[1])

    def image(self) -> TmemImage:
        shape = (len(self.words), self.total)
        words, written = np.full(shape, POISON_WORD, np.uint32), np.zeros(shape, np.bool_)
        writer = np.full(shape, -1, self.writer.dtype)
        words[:, self.columns], written[:, self.columns] = self.words, self.written
        writer[:, self.columns] = self.writer
        return TmemImage(words, written, writer, self.blocks)


class _Unclear(Exception):
    """A part has met what only the whole launch can report."""


class _Part(Launch):
    """The clusters of one process: the first word of the sanitizer ends it."""

    def report(self, rule: str, message: str, thread: int) -> NoReturn:
        raise _Unclear(f"the sanitizer reports {rule}")

    def review(self, rule: str, message: str, thread: int) -> NoReturn:
        raise _Unclear(f"the sanitizer reports {rule}")


def run_launch(launch: Launch, jobs: int) -> None:
    """Run a launch in up to ``jobs`` processes, if that cannot change what it does; else ``launch.alone`` says why not.

    :raises UmmaProbeError: whatever the kernel ran into.
    """
    launch.alone = _why_alone(launch) or _run_parts(launch, jobs)
    if launch.alone:
        launch.run()


def _why_alone(launch: Launch) -> str:
    if launch.cta_total == launch.cluster_size:
        return "the grid is a single cluster"
    if launch.config.cooperative:
        return "the CTAs of a cooperative launch wait for each other"
    if launch.engine.random is not None:
        return "the random policy draws for the whole grid"
    if launch.engine.trace is not None:
        return "a trace shows the whole grid"
    if "fork" not in multiprocessing.get_all_start_methods():
        return "this platform cannot fork"
    return _order_shown(launch.program)


def _order_shown(program: Program) -> str:
    """What lets the kernel see in which order things happen; empty if nothing does."""
    for step in program.steps:
        text = f"{step.instruction.text}."
        if text.startswith(_SHOWS_ORDER) or _calls_the_driver(step.instruction):
            return f"{step.instruction.text} (line {step.instruction.pos.line}) shows the order of things"
    for slot in program.table.slots:
        if isinstance(slot, SpecialSlot) and slot.name in _ORDER_REGISTERS:
            return f"{slot.name} shows the order of things"
    return ""


def _calls_the_driver(instruction: Instruction) -> bool:
    """Whether it prints, or takes from the device heap: addresses go by the order of the calls."""
    return instruction.opcode == "call" and any(name in str(instruction.operands) for name in ("vprintf", "malloc"))


# ---------------------------------------------------------------------- the parent
def _run_parts(launch: Launch, jobs: int) -> str:
    """Run the parts and merge them into the launch; or say why that cannot be."""
    clusters = launch.cta_total // launch.cluster_size
    bounds = np.linspace(0, clusters, min(jobs, clusters) + 1).astype(int).tolist()
    parts = [range(low, high) for low, high in pairwise(bounds)]
    outcomes = _in_processes(launch, parts)
    problem = next((outcome.problem for outcome in outcomes if outcome.problem), "")
    return problem or _conflict(launch.global_memory, outcomes) or _merge(launch, outcomes)


def _in_processes(launch: Launch, parts: Sequence[range]) -> list[_Outcome]:
    context = multiprocessing.get_context("fork")
    workers: list[tuple[ForkProcess, Connection]] = []
    try:
        for part in parts:
            ours, theirs = context.Pipe(duplex=False)
            worker = context.Process(target=_work, args=(launch, part, theirs), daemon=True)
            with warnings.catch_warnings():
                # of threads in the parent, as NumPy's BLAS has: a part takes no lock that they could hold
                warnings.simplefilter("ignore", DeprecationWarning)
                worker.start()
            theirs.close()
            workers.append((worker, ours))
        return [_received(ours) for _, ours in workers]
    finally:
        for worker, ours in workers:
            ours.close()
            worker.kill()
            worker.join()


def _received(connection: Connection) -> _Outcome:
    try:
        outcome: _Outcome = connection.recv()
    except EOFError:
        return _failed("a process ended early")
    return outcome


def _conflict(memory: GlobalMemory, outcomes: Sequence[_Outcome]) -> str:
    """Whether a part depends on another: where, if so."""
    size = len(memory.bytes.data)
    writers, value = np.zeros(size, np.int32), np.zeros(size, np.uint8)
    for outcome in outcomes:
        at = _expand(outcome.writes)
        differ = at[(writers[at] > 0) & (value[at] != outcome.data)]
        if len(differ):
            return f"two parts of the grid write {_place(memory, differ[0])} differently"
        writers[at] += 1
        value[at] = outcome.data
    for outcome in outcomes:
        own = np.zeros(size, np.bool_)
        own[_expand(outcome.writes)] = True
        at = _expand(outcome.reads)
        foreign = at[writers[at] > own[at]]
        if len(foreign):
            return f"one part of the grid reads what another writes, {_place(memory, foreign[0])}"
    return ""


def _place(memory: GlobalMemory, offset: int) -> str:
    address = GLOBAL_BASE + int(offset)
    found = memory.find(address)
    return f"byte {address - found.address} of {found.name}" if found else f"address {address:#x}"


def _merge(launch: Launch, outcomes: Sequence[_Outcome]) -> str:
    memory = launch.global_memory.bytes
    for outcome in outcomes:
        at = _expand(outcome.writes)
        memory.data[at] = outcome.data
        memory.written[at] = True
        launch.tmem_snapshots |= {cta: used.image() for cta, used in outcome.snapshots.items()}
    return ""


# ---------------------------------------------------------------------- a process
def _work(whole: Launch, clusters: range, connection: Connection) -> None:
    """Run some clusters on the memory that the fork left, and send what they did."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes
    with suppress(BrokenPipeError):
        connection.send(_run_part(whole, clusters))


def _run_part(whole: Launch, clusters: range) -> _Outcome:
    memory = whole.global_memory
    memory.bytes = watched = WatchedBytes(memory.bytes)
    part = _Part(whole.program, whole.config, whole.arch, whole.policy, memory, whole.param_address, clusters=clusters)
    try:
        part.run()
    except _Unclear as unclear:
        return _failed(str(unclear))
    except UmmaProbeError as error:
        return _failed(f"a part of the grid ends with '{error.message.splitlines()[0]}'")
    writes = _ranges(watched.was_written)
    snapshots = {cta: _UsedColumns.of(image) for cta, image in part.tmem_snapshots.items()}
    return _Outcome("", _ranges(watched.was_read), writes, watched.data[_expand(writes)], snapshots)


def _failed(problem: str) -> _Outcome:
    nothing = np.zeros((0, 2), np.int64)
    return _Outcome(problem, nothing, nothing, np.zeros(0, np.uint8), {})


def _ranges(mask: Array) -> Array:
    """Where a mask is true: (n, 2)."""
    edges: Array = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    return edges


def _expand(ranges: Array) -> Array:
    """The offsets in the ranges."""
    lengths = ranges[:, 1] - ranges[:, 0]
    starts = np.repeat(ranges[:, 0] - np.cumsum(lengths) + lengths, lengths)
    offsets: Array = starts + np.arange(int(lengths.sum()))
    return offsets
