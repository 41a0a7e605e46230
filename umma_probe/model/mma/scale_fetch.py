"""How the tensor core fetches scale factors from Tensor Memory, place to element.

Each of the four partitions of 32 lanes reads its own copy: the scales that lie in its lanes serve the rows of D that
it computes, and the columns of B that it multiplies them with. In a partition, lane l of column c (from the scale
address on) belongs to row or column 32 c + l; a word holds four scales, of which the scale-factor id picks the first.
With K = 96 there are three or six scales; after byte 3 they go on at byte 0 of the word that lies where the next scales
of all rows begin, 4 columns further on for up to 128 rows and 8 for more.
Where N is cut into segments (a CTA pair with M = 128), a partition counts the columns of its own segment.

That the scales are "duplicated to all 32 lane partitions" is documented; that a partition uses its own copy follows
from why they must be, and shows only where a program's copies differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import UndefinedBehavior, Where
from umma_probe.spec.kinds import KINDS
from umma_probe.spec.sources import assumed, documented, header

if TYPE_CHECKING:
    from umma_probe.model.mma.datapath import LaneFeed
    from umma_probe.model.mma.mma_call import MmaCall
    from umma_probe.model.numbers.values import Array

PARTITION = 32
WORD_SCALES = 4
ID_SHIFT = 30
ADDRESS_MASK = (1 << ID_SHIFT) - 1
REFS = (
    documented("Block scaling for tcgen05.mma", "scale factors are duplicated to all 32 lane partitions"),
    header("mma_traits_sm100_frag.hpp, tmem_sf_frg", "one block of 128 rows x 4 scales takes 4 columns"),
    header("mma_sm100_umma.hpp", "scale addresses carry the scale-factor id in bits 30 and 31, and the instruction "
           "descriptor repeats it"),
    assumed("Block scaling for tcgen05.mma", "a partition reads its own copy; copies that differ would show it"),
)  # fmt: skip


@dataclass(frozen=True)
class BankScales:
    """The scales of one bank of lanes."""

    a: Array
    """(rows, S) bytes."""
    b: tuple[tuple[slice, Array], ...]
    """(rows, (columns of the segment, S) bytes): rows of D that see the same scales of B."""


def fetch_scales(call: MmaCall, slot: int, feed: LaneFeed) -> list[BankScales]:
    """The scales of every bank.

    :raises UndefinedBehavior: an address names a lane, or another scale-factor id than the instruction descriptor.
    """
    vectors = {vector.name: vector for vector in KINDS[call.form.kind].scale_vectors}
    count = vectors[call.form.scale_vector or ""].scales_of(call.idesc.k, call.form.sparse)
    width = call.idesc.n // feed.segments
    column_a = _column(call, "A", call.scale_a, call.idesc.sfa_id)
    column_b = _column(call, "B", call.scale_b, call.idesc.sfb_id)
    _check(call, slot, "A", column_a, call.rows, call.idesc.sfa_id + count)
    _check(call, slot, "B", column_b, width, call.idesc.sfb_id + count)
    banks = []
    for selection in feed.banks:
        lanes = np.arange(128)[selection]
        rows = np.arange(len(lanes))
        a = _read(call, slot, "A", lanes // PARTITION, rows, column_a, call.idesc.sfa_id, count)
        banks.append(BankScales(a, tuple(_of_b(call, slot, lanes, column_b, width, count))))
    return banks


def _of_b(call: MmaCall, slot: int, lanes: Array, column: int, width: int, count: int) -> list[tuple[slice, Array]]:
    """The scales of B for each run of rows that sees the same ones."""
    parts: list[tuple[slice, Array]] = []
    columns = np.arange(width)
    partitions = lanes // PARTITION
    for partition in np.unique(partitions).tolist():
        at = np.flatnonzero(partitions == partition)
        scales = _read(call, slot, "B", np.full(width, partition), columns, column, call.idesc.sfb_id, count)
        if parts and np.array_equal(parts[-1][1], scales):
            parts[-1] = (slice(parts[-1][0].start, int(at[-1]) + 1), scales)
        else:
            parts.append((slice(int(at[0]), int(at[-1]) + 1), scales))
    return parts


def _read(call: MmaCall, slot: int, name: str, partition: Array, index: Array, column: int, first: int,
          count: int) -> Array:  # fmt: skip
    """(n, count) bytes: the scales of row (or column) ``index[i]`` as ``partition[i]`` sees them."""
    lanes = partition * PARTITION + index % PARTITION
    step = _step(len(index))
    words = [
        call.launch.tmem.read_cells(call.launch, call.thread, slot, lanes, column + step * word + index // PARTITION,
                                    f"tcgen05.mma: scale factors of {name}")
        for word in range(_words(first + count))
    ]  # fmt: skip
    data: Array = np.stack(words, axis=-1).view(np.uint8)[:, first : first + count]
    return data


def _words(scales: int) -> int:
    return -(-scales // WORD_SCALES)


def _step(rows: int) -> int:
    """Columns from four scales of every row to the next four."""
    return 4 if rows <= 128 else 8


def _column(call: MmaCall, name: str, taddr: int, sf_id: int) -> int:
    """The first column of the scales."""
    in_address, address = taddr >> ID_SHIFT, taddr & ADDRESS_MASK
    problem = None
    if in_address and in_address != sf_id:
        problem = f"scale-factor id is {in_address} in the address and {sf_id} in the instruction descriptor"
    elif address >> 16:
        problem = f"the lane of the address is {address >> 16}, must be 0"
    if problem:
        raise UndefinedBehavior(f"tcgen05.mma: scale factors of {name} at {taddr:#010x}: {problem}",
                                where=Where(actor=call.launch.thread_name(call.thread)), ref=str(REFS[2]))  # fmt: skip
    return address & 0xFFFF


def _check(call: MmaCall, slot: int, name: str, column: int, rows: int, scales: int) -> None:
    columns = (_words(scales) - 1) * _step(rows) + -(-rows // PARTITION)
    call.launch.tmem.check(call.launch, call.pc, call.thread, slot, (0, 128), (column, column + columns),
                           f"tcgen05.mma: scale factors of {name}")  # fmt: skip
