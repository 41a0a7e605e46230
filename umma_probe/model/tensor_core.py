"""What one ``tcgen05.mma`` does when it takes effect: fetch operands, multiply, put the result into Tensor Memory.

Operands in shared memory are fetched through the descriptor (``layouts/smem_operand``), operands and accumulators
in Tensor Memory through the machine's data path (``datapath``), the product is bit-exact (``arith``). A CTA pair
computes in both CTAs at once: each brings its half of A's rows and of B's rows, and each gets its own rows of D.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import UndefinedBehavior
from umma_probe.layouts.smem_operand import operand_byte_addresses, unpack_elements
from umma_probe.model.arith.mma import mma
from umma_probe.model.datapath import lane_feed
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.idesc import IdescFields, decode_idesc, idesc_problems
from umma_probe.spec.kinds import KINDS, Packing
from umma_probe.spec.smem_descriptor import SmemDescriptor, decode_smem_desc, smem_desc_problems

if TYPE_CHECKING:
    from umma_probe.model.datapath import LaneFeed
    from umma_probe.model.launch import Launch
    from umma_probe.model.values import Array

TMEM_A_COLUMNS = 8
"""Columns that the A operand of one MMA occupies: 32 bytes of K in each lane."""


@dataclass(frozen=True)
class MmaForm:
    """What the opcode says."""

    kind: str
    cta_group: int
    ws: bool = False
    a_in_tmem: bool = False
    ashift: bool = False


@dataclass(frozen=True)
class MmaCall:
    """One issued instruction with its operand values."""

    form: MmaForm
    launch: Launch
    pc: int
    thread: int
    slots: tuple[int, ...]
    """The CTA slots that compute, in rank order."""
    d_taddr: int
    a: int
    """A descriptor, or the Tensor Memory address of A."""
    b_desc: int
    idesc: IdescFields
    accumulate: bool
    disabled_lanes: Array | None = None
    """(slots, 128) bool, or None."""
    scale_input_d: int = 0
    zero_columns: Array | None = None
    """(N,) bool: columns of B that count as zero, whatever shared memory holds (``.ws`` zero-column mask)."""
    b_shift: int = 0
    """Column n of D takes column n + shift of B (``.ws``)."""

    @property
    def rows(self) -> int:
        """Rows of D in each CTA."""
        return self.idesc.m // len(self.slots)

    @property
    def banked(self) -> bool:
        """Whether N is cut into segments, one a bank of lanes."""
        pair_of_128 = self.form.cta_group == 2 and self.idesc.m == 128 and not self.idesc.sparse
        return self.rows < 128 and (self.form.ws or pair_of_128)

    @property
    def pipeline_key(self) -> object:
        """Two MMAs with the same accumulator, shape and kind execute in order (PTX ISA, tcgen05 pipelined
        instructions)."""
        return self.form.kind, self.slots, self.d_taddr, self.idesc.m, self.idesc.n, self.form.ws


@lru_cache(maxsize=4096)
def checked_idesc(form: MmaForm, word: int, sparse: bool, arch: str) -> IdescFields:
    """The decoded instruction descriptor.

    :raises UndefinedBehavior: it breaks a rule; on silicon such an MMA may fault or compute anything.
    """
    problems = idesc_problems(form.kind, word, cta_group=form.cta_group, ws=form.ws, sparse=sparse,
                              a_source="tmem" if form.a_in_tmem else "smem", arch=arch)  # fmt: skip
    if problems:
        text = "; ".join(problem.message for problem in problems)
        raise UndefinedBehavior(
            f"tcgen05.mma: instruction descriptor {word:#010x} is illegal for kind::{form.kind}: {text}",
            hint=f"umma-probe idesc {word:#010x} --kind {form.kind} shows every field",
            ref=str(problems[0].ref),
        )
    return decode_idesc(form.kind, word)


def execute(call: MmaCall) -> None:
    """Take effect: read everything, then write D in every CTA.

    :raises DeviceError: an operand lies outside shared memory, or D outside the allocated columns.
    """
    b = _fetch_b(call)
    for index, slot in enumerate(call.slots):
        feed = lane_feed(call.rows, call.banked, call.d_taddr >> 16)
        width = call.idesc.n // feed.segments
        column = call.d_taddr & 0xFFFF
        call.launch.tmem.check(
            call.launch, call.pc, call.thread, slot, (0, 128), (column, column + width), "tcgen05.mma: D"
        )
        old = _old_accumulator(call, slot, feed, column, width) if call.accumulate else None
        new = _multiply(call, slot, feed, b, old)
        _write(call, index, slot, feed, column, new)


# ---------------------------------------------------------------------- operands
def _operand_type(call: MmaCall, name: str) -> str:
    type_ = call.idesc.a_type if name == "A" else call.idesc.b_type
    assert type_ is not None  # checked_idesc refuses undefined codes
    return type_


def fetch_smem(call: MmaCall, slot: int, name: str, word: int, rows: int, k: int) -> Array:
    """The element words (rows, k) of an operand in the shared memory of a CTA."""
    type_ = _operand_type(call, name)
    major = call.idesc.a_major if name == "A" else call.idesc.b_major
    desc = checked_smem_desc(word, call.launch.arch.name)
    packing = KINDS[call.form.kind].packing(type_)
    bits = 32 if type_ == "tf32" else FORMATS[type_].bits
    return read_smem(call, slot, name, desc, major, bits, packing, rows, k)


@lru_cache(maxsize=1024)
def checked_smem_desc(word: int, arch: str) -> SmemDescriptor:
    """The decoded shared-memory descriptor.

    :raises UndefinedBehavior: its fields are illegal.
    """
    problems = smem_desc_problems(word, arch=arch)
    if problems:
        raise UndefinedBehavior(
            f"shared-memory descriptor {word:#018x}: " + "; ".join(p.message for p in problems),
            hint=f"umma-probe smem-desc {word:#x} shows every field",
            ref=str(problems[0].ref),
        )
    return decode_smem_desc(word)


def read_smem(call: MmaCall, slot: int, name: str, desc: SmemDescriptor, major: str, bits: int, packing: Packing,
              rows: int, k: int) -> Array:  # fmt: skip
    """Gather an operand's bytes through the async proxy; unwritten and unfenced bytes are findings."""
    launch = call.launch
    shared = launch.shared
    addresses = operand_byte_addresses(desc, major, bits, packing, rows, k)
    highest = int(addresses.max())
    if highest >= shared.limit:
        raise launch.fault_at(
            call.pc, call.thread, f"tcgen05.mma: {name} reads shared address {highest:#x}; "
            f"the CTA has {shared.limit:#x} bytes",
            "check start address, LBO and SBO: umma-probe smem-desc --map shows what is fetched",
        )  # fmt: skip
    offsets = addresses + slot * shared.window
    check_async_read(launch, call.pc, call.thread, slot, offsets, f"tcgen05.mma: {name}")
    return unpack_elements(shared.bytes.data[offsets], bits)


def check_async_read(launch: Launch, pc: int, thread: int, slot: int, offsets: Array, what: str) -> None:
    """Report bytes that the async proxy reads and nobody wrote, or that a generic store wrote with no fence since."""
    shared = launch.shared
    known = shared.bytes.written[offsets]
    if not known.all():
        first = int(offsets[~known].min()) - slot * shared.window
        launch.report("uninitialised-read", f"{what} reads shared address {first:#x}, which was never written "
                      f"({int((~known).sum())} bytes)", thread)  # fmt: skip
    stale = shared.unfenced(slot, offsets)
    if stale.any():
        first = int(offsets[stale].min()) - slot * shared.window
        launch.report("missing-proxy-fence", f"{what} reads shared address {first:#x} through the async proxy; it was "
                      "stored "
                      "through the generic proxy with no fence.proxy.async since", thread)  # fmt: skip


def _fetch_b(call: MmaCall) -> Array:
    """B, all N rows: a pair brings N/2 from each CTA."""
    share = call.idesc.n // len(call.slots)
    parts = [fetch_smem(call, slot, "B", call.b_desc, share, call.idesc.k) for slot in call.slots]
    b = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if call.b_shift:
        b = np.roll(b, -call.b_shift, axis=0)
    if call.zero_columns is not None:
        b = np.where(call.zero_columns[:, None], b.dtype.type(0), b)
    return b


def _tmem_a(call: MmaCall, slot: int, feed: LaneFeed) -> Array:
    """A from Tensor Memory, (driven lanes, k): each lane holds its own row, so banks read their own copies."""
    launch, tmem = call.launch, call.launch.tmem
    column = call.a & 0xFFFF
    tmem.check(launch, call.pc, call.thread, slot, (0, 128), (column, column + TMEM_A_COLUMNS), "tcgen05.mma: A")
    if call.a >> 16 not in (0, call.d_taddr >> 16):
        raise launch.fault_at(call.pc, call.thread, f"tcgen05.mma: A is at lane {call.a >> 16} and D at lane "
                              f"{call.d_taddr >> 16}; both must use the same lanes")  # fmt: skip
    box = np.ix_(feed.lanes, np.arange(column, column + TMEM_A_COLUMNS))
    known = tmem.written[slot][box]
    if not known.all():
        lane, at = np.argwhere(~known)[0]
        launch.report("uninitialised-tmem", f"tcgen05.mma: A reads lane {feed.lanes[lane]}, column {column + at}, which "
                      "was "
                      "never written", call.thread)  # fmt: skip
    words = np.ascontiguousarray(tmem.words[slot][box])
    a = _unpack_tmem(words, _operand_type(call, "A"), call.form.kind)
    if call.form.ashift:
        a = np.concatenate([a[1:], a[-1:]])
    return a


def _unpack_tmem(words: Array, type_: str, kind: str) -> Array:
    """Element codes of packed 32-bit words; 4- and 6-bit types lie in 8-bit containers beside 8-bit ones (assumed
    places)."""
    bits = FORMATS[type_].bits
    if type_ == "tf32":
        return words
    if bits == 16:
        return words.view(np.uint16)
    data = words.view(np.uint8)
    if kind in ("mxf4", "mxf4nvf4"):
        return np.stack((data & 0xF, data >> 4), axis=-1).reshape(len(words), -1)
    return data >> 2 & 0xF if bits == 4 else data & (1 << bits) - 1


# ---------------------------------------------------------------------- product and result
def _old_accumulator(call: MmaCall, slot: int, feed: LaneFeed, column: int, width: int) -> Array:
    """The accumulator words (rows, N) from the driven lanes."""
    tmem = call.launch.tmem
    old = np.empty((call.rows, call.idesc.n), np.uint32)
    for segment in range(feed.segments):
        chosen = feed.segment == segment
        lanes = feed.lanes[chosen]
        box = np.ix_(lanes, np.arange(column, column + width))
        known = tmem.written[slot][box]
        if not known.all():
            lane, at = np.argwhere(~known)[0]
            call.launch.report("uninitialised-tmem", f"tcgen05.mma accumulates onto lane {lanes[lane]}, column "
                               f"{column + at}, which was never written", call.thread)  # fmt: skip
        old[feed.rows[chosen], segment * width : (segment + 1) * width] = tmem.words[slot][box]
    return old


def _multiply(call: MmaCall, slot: int, feed: LaneFeed, b: Array, old: Array | None) -> Array:
    """The new words (rows, N)."""
    k = call.idesc.k
    if not call.form.a_in_tmem:
        a = fetch_smem(call, slot, "A", call.a, call.rows, k)
        return _product(call, a, b, old)
    by_lane = _tmem_a(call, slot, feed)
    width = call.idesc.n // feed.segments
    out = np.empty((call.rows, call.idesc.n), np.uint32)
    for segment in range(feed.segments):
        chosen = feed.segment == segment
        a = np.empty((call.rows, k), by_lane.dtype)
        a[feed.rows[chosen]] = by_lane[chosen]
        part = slice(segment * width, (segment + 1) * width)
        out[:, part] = _product(call, a, b[part], None if old is None else old[:, part])
    return out


def _product(call: MmaCall, a: Array, b: Array, c: Array | None) -> Array:
    fields = call.idesc
    assert fields.d_type is not None
    return mma(
        call.form.kind,
        a,
        b,
        c,
        a_type=_operand_type(call, "A"),
        b_type=_operand_type(call, "B"),
        d_type=fields.d_type,
        saturate=fields.saturate,
        negate_a=fields.negate_a,
        negate_b=fields.negate_b,
        scale_input_d=call.scale_input_d,
        arch=call.launch.arch.name,
    )


def _write(call: MmaCall, index: int, slot: int, feed: LaneFeed, column: int, new: Array) -> None:
    """Put the result into the driven lanes, except those that the instruction disables."""
    width = call.idesc.n // feed.segments
    by_lane = new[feed.rows].reshape(len(feed.lanes), feed.segments, width)[np.arange(len(feed.lanes)), feed.segment]
    lanes = feed.lanes
    if call.disabled_lanes is not None:
        kept = ~call.disabled_lanes[index][lanes]
        lanes, by_lane = lanes[kept], by_lane[kept]
    columns = np.arange(column, column + width)
    call.launch.tmem.write(slot, lanes[:, None], columns[None, :], by_lane, call.pc)
