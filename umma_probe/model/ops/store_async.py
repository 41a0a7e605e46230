"""``st.async``, ``red.async`` and ``st.bulk``: stores into the shared memory of a cluster, and release stores.

``st.async`` and ``red.async`` take effect later and then complete their bytes on an mbarrier of the destination's CTA
(PTX ISA, "Data Movement and Conversion Instructions: st.async", "red.async"); with ``.release`` they go to global
memory, and nothing but their value tells that they have. ``st.bulk`` sets a region to zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import IllegalProgram, PtxSyntaxError
from umma_probe.model.asynchrony.async_engine import AsyncOp
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.element_ops import combiner
from umma_probe.model.numbers.values import TYPES, WORD
from umma_probe.model.ops.ld_st import VECTORS, gather_words
from umma_probe.model.ops.mbarrier import BarrierOperand
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

FAMILY = "Data Movement and Conversion Instructions"
KIND = "st.async"


@operation(
    "st.async.{weak?}.{space}.mbarrier::complete_tx::bytes.{vector?}.{type}",
    refs=(documented(f"{FAMILY}: st.async"),),
    space=("shared::cluster",),
    vector=VECTORS,
    type="b32 b64 u32 u64 s32 s64 f32 f64",
)
def st_async(ops: Operands, space: str, vector: int | None, type: PtxType, weak: bool) -> Executor:
    """``st.async.shared::cluster.mbarrier::complete_tx::bytes.type [a], b, [mbar]``."""
    ops.expect_count(3)
    return _bind(ops, space, type, lambda old, data: data)


@operation(
    "red.async.relaxed.cluster.{space}.mbarrier::complete_tx::bytes.{op}.{type}",
    refs=(documented(f"{FAMILY}: red.async"),),
    space=("shared::cluster",),
    op=("inc", "dec", "min", "max", "add", "and", "or", "xor"),
    type="u32 s32 u64 b32",
)
def red_async(ops: Operands, space: str, op: str, type: PtxType) -> Executor:
    """``red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.op.type [a], b, [mbar]``."""
    ops.expect_count(3)
    function, dtype = combiner(op, type)
    word = WORD[type.bits]
    return _bind(ops, space, type, lambda old, data: np.asarray(function(old.view(dtype), data.view(dtype))).view(word))


@operation(
    "st.async.{mmio?}.release.{scope}.{space?}.{type}",
    refs=(documented(f"{FAMILY}: st.async", "a release store to global memory"),),
    scope=("gpu", "sys"),
    space=("global",),
    type="b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64",
)
def st_async_release(ops: Operands, mmio: bool, scope: str, space: str | None, type: PtxType) -> Executor:
    """``st.async{.mmio}.release.scope{.global}.type [a], b``."""
    return _bind_release(ops, mmio, scope, type, lambda old, data: data)


@operation(
    "red.async.{mmio?}.release.{scope}.{space?}.add.{type}",
    refs=(documented(f"{FAMILY}: red.async", "a release reduction in global memory"),),
    scope=("gpu", "sys"),
    space=("global",),
    type="u32 s32 u64",
)
def red_async_release(ops: Operands, mmio: bool, scope: str, space: str | None, type: PtxType) -> Executor:
    """``red.async{.mmio}.release.scope{.global}.add.type [a], b``."""
    return _bind_release(ops, mmio, scope, type, np.add)


def _bind_release(
    ops: Operands, mmio: bool, scope: str, type_: PtxType, combine: Callable[[Array, Array], Array]
) -> Executor:
    """A store in flight with no mbarrier: what the thread stored before is there when it lands."""
    if mmio and scope != "sys":
        raise PtxSyntaxError(f"{ops.instruction.text}: .mmio has scope .{scope}, must be .sys")
    ops.expect_count(2)
    address, source, word = ops.address(0), ops.src(1, type_), WORD[type_.bits]

    def run(f: Frame) -> None:
        launch = f.launch
        addresses = address.resolve(f)
        launch.memory.check_alignment(f, addresses, type_.bytes)
        backing, offsets = launch.memory.locate(f, "global", addresses, type_.bytes)
        words = f.regs[source][f.sel].view(word).copy()  # of now, whatever becomes of the register
        for i, thread in enumerate(f.threads.tolist()):
            place, data = offsets[i : i + 1], words[i : i + 1, None]

            def effect(place: Array = place, data: Array = data) -> None:
                old = backing.gather(place, type_.bytes, 1)
                backing.scatter(place, type_.bytes, combine(old, data))

            launch.engine.submit(AsyncOp(KIND, launch.pc, thread // launch.cta_threads, thread, effect))

    return run


def _bind(ops: Operands, space: str, type_: PtxType, combine: Callable[[Array, Array], Array]) -> Executor:
    address, barrier = ops.address(0), BarrierOperand(ops.address(2), space)
    sources, word = ops.src_vector(1, type_), WORD[type_.bits]
    size = type_.bytes * len(sources)

    def run(f: Frame) -> None:
        launch = f.launch
        addresses = address.resolve(f)
        launch.memory.check_alignment(f, addresses, size)
        offsets = launch.memory.shared_offsets(f, space, addresses, size).tolist()
        words = gather_words(f, sources, word)
        targets = barrier.objects(f)
        for i, thread in enumerate(f.threads.tolist()):
            effect = _effect(launch, thread, offsets[i], words[i], targets[i], combine)
            launch.engine.submit(AsyncOp(KIND, launch.pc, thread // launch.cta_threads, thread, effect))

    return run


def _effect(
    launch: Launch, thread: int, offset: int, words: Array, barrier: Any, combine: Callable[[Array, Array], Array]
) -> Callable[[], None]:
    def effect() -> None:
        shared = launch.shared
        part = slice(offset, offset + words.nbytes)
        old = shared.bytes.data[part].view(words.dtype)
        shared.bytes.data[part] = np.ascontiguousarray(combine(old, words)).view(np.uint8)
        shared.bytes.written[part] = True
        shared.note_generic(np.array([offset]), words.nbytes, launch.tick())
        launch.mbarriers.complete_tx(barrier, words.nbytes, f"st.async of {launch.thread_name(thread)}")

    return effect


@operation(
    "st.bulk.{weak?}.{space?}",
    refs=(documented(f"{FAMILY}: st.bulk", "the value must be 0, the size a multiple of 8"),),
    space={"shared::cta": "shared"},
)
def st_bulk(ops: Operands, weak: bool, space: str | None) -> Executor:
    """``st.bulk{.shared::cta} [a], size, 0``."""
    ops.expect_count(3)
    address, size = ops.address(0), ops.src(1, TYPES["u64"])
    if ops.immediate(2) != 0:
        raise IllegalProgram(f"{ops.instruction.text}: value is {ops.immediate(2)}, must be 0")

    def run(f: Frame) -> None:
        sizes = f.regs[size][f.sel].astype(np.int64)
        if (sizes % 8).any():
            f.fault(IllegalProgram, f"st.bulk: size is {int(sizes.max())}, must be a multiple of 8")
        sel, addresses = f.sel, address.resolve(f)
        for i, thread in enumerate(f.threads.tolist()):
            f.select(slice(thread, thread + 1))
            places = addresses[i] + np.arange(0, int(sizes[i]), 8)
            for place in places:
                f.launch.memory.store(f, space or "generic", place[None], np.zeros((1, 1), np.uint64))
        f.select(sel)

    return run
