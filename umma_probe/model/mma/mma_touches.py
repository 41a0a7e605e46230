"""Which cells of Tensor Memory a ``tcgen05.mma`` touches, for the review of hand-overs (``tensor_order``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.model.mma.scale_fetch import PARTITION
from umma_probe.model.sanitizer.tensor_order import LANE_GROUP, Access, Touch
from umma_probe.model.state.tmem import COLUMN_MASK
from umma_probe.spec.machine import TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umma_probe.model.mma.mma_call import MmaCall
    from umma_probe.model.numbers.values import Array

A_COLUMNS = 8
"""32 bytes of K in each lane; what K = 96 has beyond that is left out, as are the second words of its scales."""
METADATA_COLUMNS = 2


def review_order(call: MmaCall) -> None:
    """The MMA is issued: review whether what it touches has been handed on to it."""
    order = call.launch.tensor_order
    key = (call.pipeline_key, call.a if call.form.a_in_tmem else 0, call.metadata, call.scale_a, call.scale_b)
    if not order.repeats(call.thread, key):
        order.access(Access(call.pc, call.thread, "mma", call.pipeline_key), list(touches(call)))


def touches(call: MmaCall) -> Iterator[Touch]:
    """D, and what is read from Tensor Memory, in every CTA that computes."""
    feed, form = call.feed, call.form
    spread = len(feed.lanes) < TMEM_LANES
    driven = slice(int(feed.lanes[0]) // LANE_GROUP, None, 2) if spread else slice(None)
    width = call.idesc.n // feed.segments
    for index, slot in enumerate(call.slots):
        if form.a_in_tmem:
            yield _reads(slot, driven, call.a, A_COLUMNS)
        if form.sparse:
            yield _reads(slot, driven, call.metadata, METADATA_COLUMNS)
        if form.scale_vector is not None:
            yield _reads(slot, slice(None), call.scale_a, -(-call.rows // PARTITION))
            yield _reads(slot, slice(None), call.scale_b, -(-width // PARTITION))
        column = call.d_taddr & COLUMN_MASK
        enabled = driven if call.disabled_lanes is None else _enabled(call.disabled_lanes[index], driven)
        yield Touch(slot, enabled, slice(column, column + width), reads=call.accumulate, writes=True)


def _reads(slot: int, groups: slice, taddr: int, columns: int) -> Touch:
    first = taddr & COLUMN_MASK
    return Touch(slot, groups, slice(first, first + columns), reads=True, writes=False)


def _enabled(disabled: Array, driven: slice) -> Array:
    """The driven groups in which some lane is written."""
    written = np.flatnonzero((~disabled).reshape(-1, LANE_GROUP).any(axis=1))
    return np.intersect1d(written, np.arange(TMEM_LANES // LANE_GROUP)[driven])
