"""From the raw registers of a readback to words by lane and column.

The kernel (``probes/dump.cuh``) covers all of Tensor Memory with one ``tcgen05.ld`` shape and writes
``[instruction][warp][thread][register]``. Warp w reads lanes 32w to 32w + 31; shapes of 16 lanes take two instructions
for the same columns, lower half first. Which cell a register came from is decided here, by ``layouts.tmem_ldst``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from umma_probe.errors import ConfigError
from umma_probe.layouts.tmem_ldst import LdStShape, LdStSpec, ldst_map, parse
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Sequence

WARPS = 4
THREADS = 32
LOW_HALF = 0xFFFF
"""What ``.pack::16b`` takes of a column."""
PACKED = "16x128b.x8.pack::16b"
"""The third readback, of a D of 16 bits: with another shape than the usual two."""
_PARTITION = 32
"""Lanes that one warp reaches."""


@dataclass(frozen=True)
class Readback:
    """One way of reading all of Tensor Memory back."""

    spec: LdStSpec

    @property
    def halves(self) -> int:
        """Instructions for the same columns."""
        return _PARTITION // self.spec.shape.lanes

    @property
    def columns(self) -> int:
        """Columns that one instruction reads."""
        return columns_of(self.spec.shape, self.spec.registers, packs=self.spec.pack)

    @property
    def dump_shape(self) -> tuple[int, int, int, int]:
        """(instructions, warps, threads, registers)."""
        return TMEM_COLUMNS // self.columns * self.halves, WARPS, THREADS, self.spec.registers

    @property
    def defines(self) -> tuple[str, int]:
        """Shape and registers, as the kernel's macros want them."""
        return self.spec.shape.value, self.spec.registers

    def words(self, dump: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Tensor Memory, shape (128, 512), from a dump of ``dump_shape``; a packed one knows the low halves only."""
        words = np.zeros((TMEM_LANES, TMEM_COLUMNS), np.uint32)
        lane, column = _cells(self)
        if self.spec.pack:
            words[lane, column], words[lane, column + 1] = dump & np.uint32(LOW_HALF), dump >> np.uint32(16)
        else:
            words[lane, column] = dump
        return words

    @property
    def mask(self) -> np.uint32:
        """Bits of a cell that it shows."""
        return np.uint32(LOW_HALF if self.spec.pack else 0xFFFFFFFF)

    def __str__(self) -> str:
        return str(self.spec)


def disagreement(readbacks: Sequence[Readback], words: Sequence[npt.NDArray[np.uint32]]) -> npt.NDArray[np.bool_]:
    """Cells (..., 128, 512) that one readback shows otherwise than the first does, in the bits that it shows.

    :param words: (..., 128, 512) of each readback.
    """
    others = zip(readbacks[1:], words[1:], strict=True)
    return np.asarray(np.any([words[0] & readback.mask != shown for readback, shown in others], axis=0))


def joined(readbacks: Sequence[Readback]) -> str:
    """Their names: ``32x32b.x32 and 16x256b.x4``."""
    *others, last = map(str, readbacks)
    return f"{', '.join(others)} and {last}"


def columns_of(shape: LdStShape, registers: int, *, packs: bool) -> int:
    """Columns that one instruction reads."""
    return THREADS * registers // shape.lanes * (2 if packs else 1)


@lru_cache(maxsize=32)
def _cells(readback: Readback) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Lane and column of every register of the dump; of its low half, if packed."""
    spec, shape = readback.spec, readback.dump_shape
    held = ldst_map(spec.shape, spec.num, pack=spec.pack)
    instruction, warp, thread, register = np.indices(shape, sparse=True)
    lane = _PARTITION * warp + spec.shape.lanes * (instruction % readback.halves) + held.lane[thread, register]
    column = instruction // readback.halves * readback.columns + held.column[thread, register]
    return np.broadcast_to(lane, shape), np.broadcast_to(column, shape)


def parse_readbacks(text: str, first: str = "32x32b.x32") -> tuple[Readback, Readback]:
    """The two readbacks: ``16x256b.x4`` is the second beside the usual first, ``SHAPE.xN,SHAPE.xN`` gives both.

    :raises ConfigError: not of that form, or packed.
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2:
        raise ConfigError(f"readback is '{text}', must be one or two of SHAPE.xNUM")
    specs = [parse(part) for part in ([first, *parts] if len(parts) == 1 else parts)]
    for spec in specs:
        if spec.pack:
            raise ConfigError(f"readback is {spec}, must be without pack::16b: it would drop the high halves")
    return Readback(specs[0]), Readback(specs[1])


def readbacks_of(text: str, d_type: str) -> tuple[Readback, ...]:
    """The two readbacks, and of a D of 16 bits a third one with ``.pack::16b``, as its epilogue would load it.

    :raises ConfigError: see ``parse_readbacks``.
    """
    both = parse_readbacks(text)
    return (*both, Readback(parse(PACKED))) if FORMATS[d_type].container_bits == 16 else both
