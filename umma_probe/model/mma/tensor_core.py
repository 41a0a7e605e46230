"""What one ``tcgen05.mma`` does when it takes effect: fetch operands, multiply, put the result into Tensor Memory.

Operands in shared memory are fetched through the descriptor, operands and accumulators in Tensor Memory through the
machine's data path (``datapath``); the product is bit-exact (``arith``). A CTA pair computes in both CTAs at once: each
brings its half of A's rows and of B's rows, and each gets its own rows of D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.model.arith.mma import mma
from umma_probe.model.mma.operand_fetch import fetch_b, fetch_smem, fetch_tmem_a
from umma_probe.model.mma.scale_fetch import fetch_scales
from umma_probe.model.mma.sparse_fetch import expand, fetch_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umma_probe.model.mma.datapath import LaneFeed
    from umma_probe.model.mma.mma_call import MmaCall
    from umma_probe.model.numbers.values import Array


@dataclass(frozen=True)
class Part:
    """A block of D that one product gives: rows with the same operands."""

    rows: slice
    columns: slice
    a: Array
    """(rows, K)."""
    valid: Array | None = None
    """(rows, K): where sparse A has a value."""
    scale_a: Array | None = None
    """(rows, S)."""
    scale_b: Array | None = None
    """(columns, S)."""


def execute(call: MmaCall) -> None:
    """Take effect: read everything, then write D in every CTA.

    :raises DeviceError: an operand lies outside shared memory, or D outside the allocated columns.
    :raises UndefinedBehavior: a descriptor, an address or the metadata is illegal.
    """
    launch, feed = call.launch, call.feed
    width = call.idesc.n // feed.segments
    columns = slice(call.d_taddr & 0xFFFF, (call.d_taddr & 0xFFFF) + width)
    for slot in call.slots:
        launch.tmem.check(launch, call.pc, call.thread, slot, (0, 128), (columns.start, columns.stop), "tcgen05.mma: D")
    b = fetch_b(call)
    for index, slot in enumerate(call.slots):
        old = _old_accumulator(call, slot, feed, columns) if call.accumulate else None
        new = _multiply(call, slot, feed, b, old)
        _write(call, index, slot, feed, columns, new)


def _old_accumulator(call: MmaCall, slot: int, feed: LaneFeed, columns: slice) -> Array:
    """The accumulator words (rows, N) from the driven lanes."""
    banks = [
        call.launch.tmem.read(call.launch, call.thread, slot, lanes, columns, "tcgen05.mma: the accumulator")
        for lanes in feed.banks
    ]
    return banks[0] if len(banks) == 1 else np.concatenate(banks, axis=1)


def _multiply(call: MmaCall, slot: int, feed: LaneFeed, b: Array, old: Array | None) -> Array:
    """The new words (rows, N)."""
    parts = list(_parts(call, slot, feed))
    if len(parts) == 1:
        return _product(call, parts[0], b, old)
    new = np.empty((call.rows, call.idesc.n), np.uint32)
    for part in parts:
        block = (part.rows, part.columns)
        new[block] = _product(call, part, b[part.columns], None if old is None else old[block])
    return new


def _parts(call: MmaCall, slot: int, feed: LaneFeed) -> Iterator[Part]:
    """One part for all of D where every lane sees the same operands, else one for each bank or partition."""
    form, n = call.form, call.idesc.n
    everything = slice(0, call.rows)
    if form.a_in_tmem:
        stored = fetch_tmem_a(call, slot, feed)
    else:
        stored = [fetch_smem(call, slot, "A", call.a, call.rows, call.k_stored)]
        if not form.sparse and form.scale_vector is None:
            yield Part(everything, slice(0, n), stored[0])
            return
        stored *= feed.segments
    codes = fetch_codes(call, slot, feed) if form.sparse else None
    scales = fetch_scales(call, slot, feed) if form.scale_vector is not None else None
    width = n // feed.segments
    for bank, a in enumerate(stored):
        columns = slice(bank * width, (bank + 1) * width)
        valid = None
        if codes is not None:
            a, valid = expand(call, a, codes[bank])
        if scales is None:
            yield Part(everything, columns, a, valid)
            continue
        for rows, scale_b in scales[bank].b:
            chosen = None if valid is None else valid[rows]
            yield Part(rows, columns, a[rows], chosen, scales[bank].a[rows], scale_b)


def _product(call: MmaCall, part: Part, b: Array, c: Array | None) -> Array:
    fields = call.idesc
    assert fields.d_type is not None  # checked_idesc refuses undefined codes
    return mma(
        call.form.kind,
        part.a,
        b,
        c,
        a_type=call.operand_type("A"),
        b_type=call.operand_type("B"),
        d_type=fields.d_type,
        saturate=fields.saturate,
        negate_a=fields.negate_a,
        negate_b=fields.negate_b,
        scale_input_d=call.scale_input_d,
        a_valid=part.valid,
        scale_a=part.scale_a,
        scale_b=part.scale_b,
        scale_type=fields.scale_type if part.scale_a is not None else None,
        arch=call.launch.arch.name,
    )


def _write(call: MmaCall, index: int, slot: int, feed: LaneFeed, columns: slice, new: Array) -> None:
    """Put the result into the driven lanes, except those that the instruction disables."""
    tmem = call.launch.tmem
    width = columns.stop - columns.start
    for segment, selection in enumerate(feed.banks):
        words = new[:, segment * width : (segment + 1) * width]
        if call.disabled_lanes is None:
            tmem.write_box(slot, selection, columns, words, call.pc)
            continue
        kept = ~call.disabled_lanes[index][selection]
        tmem.write_box(slot, np.arange(128)[selection][kept], columns, words[kept], call.pc)
