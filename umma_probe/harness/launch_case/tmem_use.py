"""Which instruction wrote which cell of Tensor Memory: snapshots of the model as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.record.lane_rows import pack
from umma_probe.record.sets import format_set
from umma_probe.record.tmem_use import TmemUse, Writer, letter

if TYPE_CHECKING:
    from umma_probe.backends.base import TmemSnapshot


def tmem_use(snapshots: dict[int, TmemSnapshot]) -> list[TmemUse]:
    """One record for all CTAs that look the same, in the order of their first CTA; CTAs that allocated nothing are left
    out.

    :param snapshots: CTA (linear index) to what its Tensor Memory looked like.
    """
    groups: dict[tuple[bytes, tuple[tuple[int, int], ...]], list[int]] = {}
    for cta, snapshot in sorted(snapshots.items()):
        if snapshot.blocks:
            groups.setdefault((snapshot.writer.tobytes(), snapshot.blocks), []).append(cta)
    return [_record(members, snapshots[members[0]]) for members in groups.values()]


def _record(ctas: list[int], snapshot: TmemSnapshot) -> TmemUse:
    letters = np.array([letter(index) for index in range(-1, len(snapshot.writers))])[snapshot.writer + 1]
    blocks = [format_set(range(base, base + size)) for base, size in snapshot.blocks]
    writers = [_writer(snapshot, int(index)) for index in np.unique(snapshot.writer) if index >= 0]
    return TmemUse(format_set(ctas), snapshot.lanes, snapshot.columns, blocks, pack(letters), writers)


def _writer(snapshot: TmemSnapshot, index: int) -> Writer:
    cells = snapshot.writer == index
    who = snapshot.writers[index]
    return Writer(
        letter(index), who.instruction, who.line, who.source, int(cells.sum()),
        format_set(np.flatnonzero(cells.any(axis=1))), format_set(np.flatnonzero(cells.any(axis=0))),
    )  # fmt: skip
