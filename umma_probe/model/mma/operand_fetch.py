"""How the tensor core fetches its operands: A and B from shared memory, A from Tensor Memory.

Shared memory is read through the descriptor (``layouts/smem_operand``) and through the async proxy: a byte that nobody
wrote, or that a generic store wrote with no ``fence.proxy.async`` since, is a finding. A pair of CTAs reads with the
same descriptor in each of the two windows: half of A's rows and half of B's rows lie in each.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import UndefinedBehavior
from umma_probe.layouts.smem_operand import operand_byte_addresses, rows_share_bytes, unpack_elements
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS, NARROW_MN
from umma_probe.spec.smem_descriptor import (
    UNSWIZZLED_BASE_OFFSET,
    SmemDescriptor,
    Swizzle,
    decode_smem_desc,
    smem_desc_problems,
)
from umma_probe.spec.sources import assumed, documented

if TYPE_CHECKING:
    from umma_probe.model.launch import Launch
    from umma_probe.model.mma.datapath import LaneFeed
    from umma_probe.model.mma.mma_call import MmaCall
    from umma_probe.model.numbers.values import Array

REFS = (
    documented("Shared memory accesses of tcgen05.mma and tcgen05.cp", "through the async proxy"),
    documented("Zero-column mask descriptor", "with a column shift of 2 and N = 128, columns 2 to 129 of B are used"),
    assumed("tcgen05.mma, .ashift", "row i of A is row i + 1 of Tensor Memory, the last row stays; one MMA with "
            "coordinate-coded A on silicon would settle it"),
    assumed("Packing format used for matrix A by .kind::mxf8f6f4 in Tensor Memory, figures",
            "4-bit elements in bits 2-5 of their byte, 6-bit ones in bits 0-5"),
)  # fmt: skip


# ---------------------------------------------------------------------- shared memory
@lru_cache(maxsize=1024)
def checked_smem_desc(word: int, arch: str) -> SmemDescriptor:
    """The decoded shared-memory descriptor.

    :raises UndefinedBehavior: its fields are illegal.
    """
    problems = [problem for problem in smem_desc_problems(word, arch=arch) if problem.contradicted is None]
    if problems:
        raise UndefinedBehavior(
            f"shared-memory descriptor {word:#018x}: " + "; ".join(p.message for p in problems),
            hint=f"umma-probe smem-desc {word:#x} shows every field",
            ref=str(problems[0].ref),
        )
    return decode_smem_desc(word)


def fetch_smem(call: MmaCall, slot: int, name: str, word: int, rows: int, k: int) -> Array:
    """The element words (rows, k) of operand ``A`` or ``B`` in the shared memory of a CTA.

    :raises DeviceError: the descriptor leads out of the CTA's shared memory.
    :raises UndefinedBehavior: the descriptor is illegal, or no document defines the combination.
    """
    launch, shared = call.launch, call.launch.shared
    type_ = call.operand_type(name)
    bits = FORMATS[type_].container_bits
    major = call.idesc.a_major if name == "A" else call.idesc.b_major
    desc = checked_smem_desc(word, launch.arch.name)
    review_base_offset(launch, desc, call.thread, f"tcgen05.mma: {name}")
    along_rows = rows_share_bytes(major, bits)
    if along_rows:
        launch.review("narrow-mn-major", f"tcgen05.mma: an operand is MN-major {type_}; the documents have no such, "
                      f"kernels do ({NARROW_MN})", call.thread)  # fmt: skip
    addresses = operand_byte_addresses(desc, major, bits, KINDS[call.form.kind].packing(type_), rows, k)
    highest = int(addresses.max())
    if highest >= shared.limit:
        raise launch.fault_at(
            call.pc, call.thread, f"tcgen05.mma: {name} reads shared address {highest:#x}; "
            f"the CTA has {shared.limit:#x} bytes",
            "check start address, LBO and SBO: umma-probe smem-desc --map shows what is fetched",
        )  # fmt: skip
    offsets = addresses + slot * shared.window if slot else addresses
    check_async_read(launch, call.thread, slot, offsets, f"tcgen05.mma: {name}")
    codes = unpack_elements(shared.bytes.data[offsets], bits)
    return np.ascontiguousarray(codes.T) if along_rows else codes


def review_base_offset(launch: Launch, desc: SmemDescriptor, thread: int, what: str) -> None:
    """Note a base offset: with a swizzle it is assumed to work, without one it is nobody's."""
    if not desc.base_offset:
        return
    if desc.swizzle is Swizzle.NONE:
        launch.review("unswizzled-base-offset", f"{what} has base offset {desc.base_offset} without swizzle, must be "
                      f"0; taken to say nothing ({UNSWIZZLED_BASE_OFFSET})", thread)  # fmt: skip
    else:
        launch.review("assumed-base-offset", f"{what} has base offset {desc.base_offset}, taken to work as in wgmma "
                      "descriptors on sm_90; no run with tcgen05 is known", thread)  # fmt: skip


def check_async_read(launch: Launch, thread: int, slot: int, offsets: Array, what: str) -> None:
    """Report bytes that the async proxy reads and nobody wrote, or that a generic store wrote with no fence since."""
    shared = launch.shared
    known = shared.bytes.written[offsets]
    if not known.all():
        first = int(offsets[~known].min()) - slot * shared.window
        launch.report("uninitialised-read", f"{what} reads shared address {first:#x} of {launch.cta_name(slot)}, which "
                      f"was never written ({int((~known).sum())} bytes)", thread)  # fmt: skip
    stale = shared.unfenced(slot, offsets)
    if stale.any():
        first = int(offsets[stale].min()) - slot * shared.window
        launch.report("missing-proxy-fence", f"{what} reads shared address {first:#x} of {launch.cta_name(slot)} "
                      "through the async proxy; it was stored through the generic proxy with no fence.proxy.async "
                      "since", thread)  # fmt: skip


def fetch_b(call: MmaCall) -> Array:
    """B as it is multiplied, (N, K): a pair brings N/2 rows from each CTA; ``.ws`` may shift and blank columns."""
    share = call.idesc.n // len(call.slots)
    parts = [fetch_smem(call, slot, "B", call.b_desc, share + call.b_shift, call.idesc.k) for slot in call.slots]
    b: Array = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if call.b_shift:
        b = b[call.b_shift :]
    if call.zero_columns is not None:
        b = np.where(call.zero_columns[:, None], b.dtype.type(0), b)
    return b


# ---------------------------------------------------------------------- Tensor Memory
def fetch_tmem_a(call: MmaCall, slot: int, feed: LaneFeed) -> list[Array]:
    """A from Tensor Memory, (rows, k stored) for each bank: a bank of lanes multiplies with its own copy."""
    launch, tmem = call.launch, call.launch.tmem
    lane, column = call.a >> 16, call.a & 0xFFFF
    if lane != call.d_taddr >> 16:
        raise launch.fault_at(call.pc, call.thread, f"tcgen05.mma: A is at lane {lane} and D at lane "
                              f"{call.d_taddr >> 16}; both must use the same lanes")  # fmt: skip
    columns = slice(column, column + _tmem_a_columns(call))
    tmem.check(launch, call.pc, call.thread, slot, (0, 128), (columns.start, columns.stop), "tcgen05.mma: A")
    banks = []
    for lanes in feed.banks:
        words = tmem.read(launch, call.thread, slot, lanes, columns, "tcgen05.mma: A")
        a = unpack_tmem(np.ascontiguousarray(words), call.operand_type("A"), call.form.kind)
        if call.form.ashift:
            launch.review("assumed-ashift", "tcgen05.mma.ashift: direction and last row are assumed, not documented",
                          call.thread)  # fmt: skip
            a = np.concatenate([a[1:], a[-1:]])
        banks.append(a)
    return banks


def _tmem_a_columns(call: MmaCall) -> int:
    """Columns that A occupies: 32 bytes of K in each lane, 48 with K = 96."""
    return call.k_stored * KINDS[call.form.kind].smem_element_bits // 32


def unpack_tmem(words: Array, type_: str, kind: str) -> Array:
    """Element codes (rows, k) of packed 32-bit words (rows, columns)."""
    bits = FORMATS[type_].bits
    if type_ == "tf32":
        return words
    if bits == 16:
        return words.view(np.uint16)
    data = words.view(np.uint8)
    if kind in ("mxf4", "mxf4nvf4"):
        return np.stack((data & 0xF, data >> 4), axis=-1).reshape(len(words), -1)
    return data >> 2 & 0xF if bits == 4 else data & (1 << bits) - 1
