"""What one warp's share of ``wgmma.mma_async`` does when it takes effect, and the books of a launch's warpgroups.

Each of the four warps of a warpgroup computes 16 rows of D on its own: its rows of A, all of B. So a share is an
operation in flight of its own, and warps of one warpgroup may be at different places; that all four execute the same
instructions is checked at the end of the CTA.

Registers are stacks of 8-row matrices with 16 bytes a row (A), or 32 bytes a row for 32-bit elements of D: lane 4r + j
holds the j-th quarter of row r. This is the machine's picture, place to element; ``layouts/wgmma_fragment`` states the
inverse, and neither imports the other.

The accumulator registers and those of A belong to the operation until it is waited for. An instruction that touches
them before makes it happen first, as NVIDIA's assembler does (it serialises and warns); that is noted for review.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import UndefinedBehavior
from umma_probe.layouts.smem_operand import unpack_elements
from umma_probe.layouts.wgmma_operand import wgmma_byte_addresses
from umma_probe.model.arith.mma import mma
from umma_probe.model.asynchrony.transfer_groups import TransferGroups
from umma_probe.model.mma.operand_fetch import check_async_read
from umma_probe.spec.sources import assumed, documented
from umma_probe.spec.wgmma import M, WgmmaKind, decode_wgmma_desc

if TYPE_CHECKING:
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array

KIND = "wgmma"
WARP_ROWS = 16
REFS = (
    documented("wgmma.mma_async", "register fragments"),
    documented("wgmma.fence", "before the first wgmma.mma_async and wherever registers were touched"),
    assumed("wgmma.mma_async", "operations of one warp take effect in their order, whatever their shapes; the ISA "
            "promises it for equal shapes"),
)  # fmt: skip


@dataclass(frozen=True)
class WgmmaForm:
    """What the opcode and its immediates say."""

    kind: WgmmaKind
    n: int
    a_type: str
    b_type: str
    d_type: str
    a_major: str = "k"
    b_major: str = "k"
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False


@dataclass(frozen=True)
class WgmmaShare:
    """One warp's share of an issued instruction."""

    form: WgmmaForm
    launch: Launch
    pc: int
    warp: int
    """Over all resident threads."""
    d: tuple[int, ...]
    """Slots of D."""
    a_registers: tuple[int, ...]
    """Slots of A, empty for A in shared memory."""
    a_desc: int
    b_desc: int
    accumulate: bool

    @property
    def rows(self) -> slice:
        """The warp's threads in a register row."""
        return slice(32 * self.warp, 32 * self.warp + 32)

    @property
    def slot(self) -> int:
        """The CTA slot."""
        return self.warp // self.launch.cta_warps


def execute(share: WgmmaShare) -> None:
    """Take effect: fetch, multiply, write the registers.

    :raises DeviceError: a descriptor leads out of the CTA's shared memory.
    """
    form, regs = share.form, share.launch.regs
    if share.a_registers:
        a = a_of_registers(np.stack([regs[slot][share.rows] for slot in share.a_registers]), form.kind.element_bits)
    else:
        first = share.warp % share.launch.cta_warps % 4 * WARP_ROWS
        a = _fetch(share, "A", share.a_desc, form.a_major, M)[first : first + WARP_ROWS]
    b = _fetch(share, "B", share.b_desc, form.b_major, form.n)
    old = None
    if share.accumulate:
        old = d_of_registers(np.stack([regs[slot][share.rows] for slot in share.d]), form.d_type)
    new = mma(form.kind.name, a, b, old, a_type=form.a_type, b_type=form.b_type, d_type=form.d_type,
              saturate=form.saturate, negate_a=form.negate_a, negate_b=form.negate_b,
              arch=share.launch.arch.name)  # fmt: skip
    for slot, row in zip(share.d, registers_of_d(new, form.d_type), strict=True):
        regs[slot][share.rows] = row


def _fetch(share: WgmmaShare, name: str, word: int, major: str, rows: int) -> Array:
    """The element codes (rows, k) of an operand in shared memory."""
    launch, form = share.launch, share.form
    shared = launch.shared
    bits, thread = form.kind.element_bits, 32 * share.warp
    addresses = _addresses(word, major, bits, rows, form.kind.k)
    highest = int(addresses.max())
    if highest >= shared.limit:
        raise launch.fault_at(
            share.pc, thread, f"wgmma: {name} reads shared address {highest:#x}; the CTA has {shared.limit:#x} bytes",
            "check start address, LBO and SBO of the descriptor",
        )  # fmt: skip
    offsets = addresses + share.slot * shared.window
    check_async_read(launch, thread, share.slot, offsets, f"wgmma: {name}")
    return unpack_elements(shared.bytes.data[offsets], bits)


@lru_cache(maxsize=512)
def _addresses(word: int, major: str, bits: int, rows: int, k: int) -> Array:
    return wgmma_byte_addresses(decode_wgmma_desc(word), major, bits // 8, rows, k)


# ---------------------------------------------------------------------- registers
def a_of_registers(words: Array, element_bits: int) -> Array:
    """(4, 32) words of a warp to the element codes (16, k)."""
    blocks = np.ascontiguousarray(words, np.uint32).reshape(2, 2, 8, 4)  # (half of k, half of the rows, row, quarter)
    rows = np.ascontiguousarray(blocks.transpose(1, 2, 0, 3)).reshape(WARP_ROWS, 8)
    return rows.view(f"<u{element_bits // 8}")


def d_of_registers(words: Array, d_type: str) -> Array:
    """(R, 32) words of a warp to the element words (16, n); 16-bit elements in the low half."""
    per_lane = 1 if d_type == "f16" else 2
    blocks = np.ascontiguousarray(words, np.uint32).reshape(-1, 2, per_lane, 8, 4)
    rows = np.ascontiguousarray(blocks.transpose(1, 3, 0, 4, 2)).reshape(WARP_ROWS, -1)
    return rows.view(np.uint16).astype(np.uint32) if d_type == "f16" else rows


def registers_of_d(d: Array, d_type: str) -> Array:
    """The inverse of :func:`d_of_registers`."""
    per_lane = 2
    if d_type == "f16":
        d, per_lane = np.ascontiguousarray(d.astype(np.uint16)).view(np.uint32), 1
    blocks = d.reshape(2, 8, -1, 4, per_lane)
    return np.ascontiguousarray(blocks.transpose(2, 0, 4, 1, 3)).reshape(-1, 32)


# ---------------------------------------------------------------------- books
class WarpGroups:
    """Who issued what: groups to wait for, fences, and whether the warps of a warpgroup did the same."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self.groups = TransferGroups()
        """Keyed by warp."""
        self.fenced: set[int] = set()
        """Warps that executed ``wgmma.fence``."""
        self._issued: dict[int, Counter[int]] = {}

    def issued(self, warp: int, pc: int) -> None:
        """A warp issued the instruction at ``pc``."""
        self._issued.setdefault(warp, Counter())[pc] += 1
        if warp not in self.fenced:
            self._launch.report("missing-wgmma-fence", "issues wgmma.mma_async and no wgmma.fence came before: its "
                                "registers may not hold what was written to them", 32 * warp)  # fmt: skip

    def check_warpgroup(self, warp: int) -> None:
        """A warpgroup has four warps.

        :raises UndefinedBehavior: the CTA ends before.
        """
        cta_warps = self._launch.cta_warps
        first = warp % cta_warps // 4 * 4
        if first + 4 > cta_warps or self._launch.block_threads < 32 * (first + 4):
            raise UndefinedBehavior(
                f"wgmma: warps {first} to {first + 3} must make a warpgroup, the CTA has {self._launch.block_threads} "
                "threads", ref=str(REFS[0]), hint="launch a multiple of 128 threads"
            )  # fmt: skip

    def retire(self, slot: int) -> None:
        """The CTA in a slot has exited: compare the warps of each warpgroup, and forget them.

        :raises UndefinedBehavior: they did not execute the same.
        """
        low = slot * self._launch.cta_warps
        warps = range(low, low + self._launch.cta_warps)
        try:
            for warp in warps[::4] if self._issued else ():
                found = [self._issued.get(other, Counter()) for other in warps[warp - low : warp - low + 4]]
                if any(other != found[0] for other in found):
                    self._differ(warp, found)
        finally:
            for warp in warps:
                self._issued.pop(warp, None)
                self.fenced.discard(warp)
            self.groups.forget(warps.start, warps.stop)

    def _differ(self, warp: int, found: list[Counter[int]]) -> None:
        pc = min(pc for counts in found for pc in counts if any(other[pc] != counts[pc] for other in found))
        counts = ", ".join(str(other[pc]) for other in found)
        raise UndefinedBehavior(
            f"wgmma.mma_async: the four warps execute it {counts} times, all must the same",
            where=self._launch.program.where(pc, self._launch.warp_name(warp)), ref=str(REFS[0]),
            hint="issue it from code that the whole warpgroup reaches",
        )  # fmt: skip
