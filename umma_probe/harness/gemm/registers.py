"""Which cell each register of a readback comes from, also where the readback is told the wrong columns or lanes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from umma_probe.harness.gemm.predict import Unpredictable
from umma_probe.harness.readback import LOW_HALF, columns_of
from umma_probe.layouts.tmem_ldst import ldst_map
from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES

if TYPE_CHECKING:
    from umma_probe.harness.gemm.recipe import Reading

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
_PARTITION = 32


def load(words: Words, reading: Reading) -> Words:
    """The registers that a readback of Tensor Memory (128, 512) gives, in the shape of its dump.

    :raises Unpredictable: it reads outside of Tensor Memory.
    """
    lane, column = cells_of(reading)
    if not reading.packs:
        return words[lane, column]
    return words[lane, column] & np.uint32(LOW_HALF) | words[lane, column + 1] << np.uint32(16)


@lru_cache(maxsize=128)
def cells_of(reading: Reading) -> tuple[IntArray, IntArray]:
    """Lane and column of every register (of its low half, if the loads pack), as ``dump_registers`` of
    ``probes/dump.cuh`` addresses them.

    :raises Unpredictable: outside of Tensor Memory.
    """
    readback = reading.readback
    spec = readback.spec
    held = ldst_map(spec.shape, spec.num, pack=reading.packs)
    instruction, warp, thread, register = np.indices(readback.dump_shape, sparse=True)
    lane = _PARTITION * warp + reading.lane_step * (instruction % readback.halves) + held.lane[thread, register]
    last = TMEM_COLUMNS - columns_of(spec.shape, spec.registers, packs=reading.packs)
    first = np.minimum(instruction // readback.halves * readback.columns + reading.column, last)
    column = first + held.column[thread, register]
    if lane.max() >= TMEM_LANES or column.min() < 0:
        raise Unpredictable("a readback reaches outside of Tensor Memory")
    return lane, column
