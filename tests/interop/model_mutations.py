"""Faults of the model, planted one at a time: what each instruction means, where things lie, what is in order.

Each is a change of one function of the model as it runs; ``mutation_cases`` says what must notice it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from umma_probe.layouts import smem_operand, tma_box
from umma_probe.model.asynchrony.async_engine import AsyncEngine
from umma_probe.model.mma import mma_issue, operand_fetch, scale_fetch, tensor_core
from umma_probe.model.mma.mma_call import MmaCall
from umma_probe.model.ops import tcgen05_cp, tcgen05_ldst, tcgen05_sync
from umma_probe.model.state.mbarrier import MBarrier, MBarriers
from umma_probe.model.state.shared_memory import SharedMemory
from umma_probe.model.tma import tma_transfer
from umma_probe.spec.smem_descriptor import Swizzle

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutation:
    """A fault of the model."""

    name: str
    plant: Plant


MUTATIONS: list[Mutation] = []


def mutation(name: str) -> Callable[[Plant], Plant]:
    def add(plant: Plant) -> Plant:
        MUTATIONS.append(Mutation(name, plant))
        return plant

    return add


@contextmanager
def planted(fault: Mutation) -> Iterator[None]:
    """The model with a fault; nothing that was computed with it stays in a cache."""
    with pytest.MonkeyPatch.context() as patch:
        _forget()
        fault.plant(patch)
        yield
    _forget()


def _forget() -> None:
    smem_operand._relative_addresses.cache_clear()
    tma_box._places.cache_clear()


# ---------------------------------------------------------------------- where D lies
#         letter, CTA group, rows of a CTA, .ws
LAYOUTS = [("A", 2, 128, False), ("B", 2, 64, False), ("D", 1, 128, False), ("E", 1, 64, True), ("F", 1, 64, False),
           ("G", 1, 32, True)]  # fmt: skip


def _other_feed(patch: pytest.MonkeyPatch, group: int, rows: int, ws: bool, change: Callable[[Any], Any]) -> None:
    right = MmaCall.feed.fget
    assert right is not None

    def feed(call: MmaCall) -> Any:
        here = call.form.cta_group == group and call.rows == rows and call.form.ws == ws
        return change(right(call)) if here else right(call)

    patch.setattr(MmaCall, "feed", property(feed))


def _rotated(feed: Any) -> Any:
    """Each row eight lanes further, within its bank."""
    lanes = np.array(feed.lanes)
    for segment in range(feed.segments):
        at = np.flatnonzero(feed.segment == segment)
        lanes[at] = np.roll(lanes[at], -8)
    return replace(feed, lanes=lanes)


def _segments_reversed(feed: Any) -> Any:
    return replace(feed, segment=feed.segments - 1 - feed.segment)


for _letter, _group, _rows, _ws in LAYOUTS:

    @mutation(f"layout {_letter}: rows of D eight lanes off")
    def _(patch: pytest.MonkeyPatch, group: int = _group, rows: int = _rows, ws: bool = _ws) -> None:
        _other_feed(patch, group, rows, ws, _rotated)

    if _letter in "BEG":

        @mutation(f"layout {_letter}: segments of N in reverse order")
        def _(patch: pytest.MonkeyPatch, group: int = _group, rows: int = _rows, ws: bool = _ws) -> None:
            _other_feed(patch, group, rows, ws, _segments_reversed)


# ---------------------------------------------------------------------- shared memory
for _mode in (Swizzle.B32, Swizzle.B64, Swizzle.B128):

    @mutation(f"operand fetch: no {_mode.text} swizzle")
    def _(patch: pytest.MonkeyPatch, mode: Swizzle = _mode) -> None:
        right = smem_operand.swizzle_address
        patch.setattr(smem_operand, "swizzle_address", lambda address, actual, base=0: np.asarray(address)
                      if actual is mode else right(address, actual, base))  # fmt: skip

    @mutation(f"TMA: no {_mode.text} swizzle")
    def _(patch: pytest.MonkeyPatch, mode: str = _mode.text) -> None:
        right = tma_transfer.swizzle_shared
        patch.setattr(tma_transfer, "swizzle_shared", lambda at, actual: at if actual == mode else right(at, actual))


def _other_descriptor(patch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    for module in (operand_fetch, tcgen05_cp):
        right = module.operand_byte_addresses
        patch.setattr(module, "operand_byte_addresses",
                      lambda desc, *rest, right=right: right(change(desc), *rest))  # fmt: skip


@mutation("descriptor: a start within the swizzle row does not take part in the swizzle")
def _(patch: pytest.MonkeyPatch) -> None:
    right = operand_fetch.operand_byte_addresses

    def addresses(desc: Any, *rest: Any) -> Any:
        within = desc.start_bytes % 128 if desc.swizzle is not Swizzle.NONE else 0
        return right(replace(desc, start_bytes=desc.start_bytes - within), *rest) + within

    patch.setattr(operand_fetch, "operand_byte_addresses", addresses)


@mutation("descriptor: the advance along K is ignored")
def _(patch: pytest.MonkeyPatch) -> None:
    _other_descriptor(patch, lambda desc: replace(desc, start_bytes=desc.start_bytes // 128 * 128))


@mutation("descriptor: LBO and SBO exchanged")
def _(patch: pytest.MonkeyPatch) -> None:
    _other_descriptor(patch, lambda desc: replace(desc, lbo_bytes=desc.sbo_bytes, sbo_bytes=desc.lbo_bytes))


@mutation("descriptor: SBO is always the compact one")
def _(patch: pytest.MonkeyPatch) -> None:
    _other_descriptor(patch, lambda desc: replace(desc, sbo_bytes=128))


@mutation("descriptor: LBO is always one matrix")
def _(patch: pytest.MonkeyPatch) -> None:
    _other_descriptor(patch, lambda desc: replace(desc, lbo_bytes=128))


@mutation("operand fetch: an MN-major operand is read as K-major")
def _(patch: pytest.MonkeyPatch) -> None:
    right = operand_fetch.operand_byte_addresses
    patch.setattr(operand_fetch, "operand_byte_addresses", lambda desc, major, *rest: right(desc, "k", *rest))


# ---------------------------------------------------------------------- Tensor Memory operands
def _other_scales(patch: pytest.MonkeyPatch, change: Callable[..., Any]) -> None:
    right = scale_fetch._read

    def read(call: Any, slot: int, name: str, partition: Any, index: Any, column: int, first: int, count: int) -> Any:
        return change(right, call.form.scale_vector, call, slot, name, partition, index, column, first, count)

    patch.setattr(scale_fetch, "_read", read)


for _vector in ("1X", "2X", "4X"):

    @mutation(f"scale factors {_vector}: those of neighbouring rows exchanged")
    def _(patch: pytest.MonkeyPatch, vector: str = _vector) -> None:
        def change(right: Any, actual: str, *rest: Any) -> Any:
            data = right(*rest)
            return data[np.arange(len(data)) ^ 1] if actual == vector else data

        _other_scales(patch, change)

    if _vector != "1X":

        @mutation(f"scale factors {_vector}: in reverse order along K")
        def _(patch: pytest.MonkeyPatch, vector: str = _vector) -> None:
            _other_scales(
                patch, lambda right, actual, *rest: right(*rest)[:, ::-1] if actual == vector else right(*rest)
            )


@mutation("scale factors: the scale-factor id is ignored")
def _(patch: pytest.MonkeyPatch) -> None:
    _other_scales(patch, lambda right, actual, *rest: right(*rest[:-2], 0, rest[-1]))


@mutation("tcgen05.cp: .warpx4 copies the last partition's rows in reverse")
def _(patch: pytest.MonkeyPatch) -> None:
    right = tcgen05_cp.source_rows

    def rows(shape: str, multicast: str | None, base_lane: int) -> Any:
        lanes, sources = right(shape, multicast, base_lane)
        return lanes, np.where(lanes >= 96, sources[::-1], sources) if multicast == "warpx4" else sources

    patch.setattr(tcgen05_cp, "source_rows", rows)


@mutation("A in Tensor Memory: halves of a column exchanged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = operand_fetch.unpack_tmem

    def unpack(words: Any, type_: str, kind: str) -> Any:
        if type_ in ("f16", "bf16"):
            words = words << 16 | words >> 16
        return right(np.ascontiguousarray(words), type_, kind)

    patch.setattr(operand_fetch, "unpack_tmem", unpack)


# ---------------------------------------------------------------------- loads and stores of Tensor Memory
for _what in ("tcgen05.ld", "tcgen05.st"):
    for _shape in tcgen05_ldst.SHAPES:

        @mutation(f"{_what}.{_shape}: threads 0-15 and 16-31 exchanged")
        def _(patch: pytest.MonkeyPatch, what: str = _what, shape: str = _shape) -> None:
            right = tcgen05_ldst.decode_access

            def decode(ops: Any, actual: str, actual_shape: str, *rest: Any) -> Any:
                access = right(ops, actual, actual_shape, *rest)
                if (actual, actual_shape) != (what, shape):
                    return access
                box = access.box
                turned = {name: np.roll(getattr(box, name), 16, axis=1) for name in ("lane", "column")}
                return replace(access, box=replace(box, whole=False, **turned))

            patch.setattr(tcgen05_ldst, "decode_access", decode)


# ---------------------------------------------------------------------- order
@mutation("commit: arrives without waiting for the MMAs")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tcgen05_sync, "COMMITTED", frozenset())


@mutation("mbarrier: a wait succeeds in any phase")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MBarrier, "parity_done", lambda self, parity: True)


@mutation("mbarrier: the parity waited for is the other one")
def _(patch: pytest.MonkeyPatch) -> None:
    right = MBarrier.parity_done
    patch.setattr(MBarrier, "parity_done", lambda self, parity: right(self, parity ^ 1))


@mutation("mbarrier: a phase does not wait for its bytes")
def _(patch: pytest.MonkeyPatch) -> None:
    def no_bytes(self: MBarriers, barrier: MBarrier, tx_bytes: int, who: str) -> None: ...

    patch.setattr(MBarriers, "expect_tx", no_bytes)
    patch.setattr(MBarriers, "complete_tx", no_bytes)


@mutation("mbarrier: 16 bytes too few are completed")
def _(patch: pytest.MonkeyPatch) -> None:
    right = MBarriers.complete_tx
    patch.setattr(
        MBarriers, "complete_tx", lambda self, barrier, tx_bytes, who: right(self, barrier, tx_bytes - 16, who)
    )


@mutation("TMA multicast: the mask is ignored, only the own CTA gets the box")
def _(patch: pytest.MonkeyPatch) -> None:
    right = tma_transfer._destinations
    patch.setattr(tma_transfer, "_destinations", lambda f, load: right(f, replace(load, mask=None)))


@mutation("TMA: filled with ones outside the tensor")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tma_transfer, "fill_pattern", lambda fill, size: np.full(size, 0x3F, np.uint8))


@mutation("CTA pair: the halves of B exchanged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = tensor_core.fetch_b
    patch.setattr(tensor_core, "fetch_b", lambda call: right(replace(call, slots=call.slots[::-1])))


@mutation("CTA pair: the halves of A exchanged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = tensor_core.fetch_smem

    def fetch(call: MmaCall, slot: int, *rest: Any) -> Any:
        return right(call, sum(call.slots) - slot if len(call.slots) == 2 else slot, *rest)

    patch.setattr(tensor_core, "fetch_smem", fetch)


for _always in (True, False):

    @mutation(f"tcgen05.mma: {'always' if _always else 'never'} adds to the old D")
    def _(patch: pytest.MonkeyPatch, always: bool = _always) -> None:
        right = tensor_core.execute
        patch.setattr(mma_issue, "execute", lambda call: right(replace(call, accumulate=always)))


@mutation("tcgen05.mma: MMAs onto one accumulator in any order")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mma_issue, "BEFORE", frozenset())


@mutation("instruction descriptor: N is half")
def _(patch: pytest.MonkeyPatch) -> None:
    right = mma_issue.checked_idesc
    patch.setattr(mma_issue, "checked_idesc", lambda *a: replace(right(*a), n=right(*a).n // 2))


for _kind in ("ld", "st"):

    @mutation(f"tcgen05.wait::{_kind} waits for nothing")
    def _(patch: pytest.MonkeyPatch, kind: str = _kind) -> None:
        right = AsyncEngine.pending

        def pending(self: AsyncEngine, kinds: Any = None, *, cta: int | None = None) -> Any:
            return [] if kinds == {kind} and cta is None else right(self, kinds, cta=cta)

        patch.setattr(AsyncEngine, "pending", pending)


@mutation("fence.proxy.async is not asked for")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharedMemory, "unfenced", lambda self, slot, at: np.zeros(np.shape(at), np.bool_))


@mutation("fence.proxy.async has no effect")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharedMemory, "unfenced", lambda self, slot, at: self.word_time[at >> 2] > 0)
