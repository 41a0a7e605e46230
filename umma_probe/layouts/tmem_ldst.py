"""``tcgen05.ld`` and ``tcgen05.st``: which Tensor Memory cell each thread's register goes to or comes from.

Thread t (0 to 31) of a warp, register r; lane and column relative to the base address:

=======  ===========  ====================  ==========================  =======================================
shape    registers    lane                  column                      lanes touched
=======  ===========  ====================  ==========================  =======================================
32x32b   num          t                     r                           all 32 of the warp's partition
16x64b   num          t/4 + 8*(t%2)         (t/2)%2 + 2*r               16, from the base lane (offset 0 or 16)
16x128b  2 * num      t/4 + 8*(r%2)         t%4 + 4*(r/2)               16
16x256b  4 * num      t/4 + 8*((r/2)%2)     2*(t%4) + r%2 + 8*(r/4)     16
16x32bx2 num          t%16                  r + S*(t/16)                16; S is the immediate ``immHalfSplitoff``
=======  ===========  ====================  ==========================  =======================================

``num`` is 1, 2, 4, ... 128; an instruction takes at most 128 registers. With ``.pack::16b`` (ld) or ``.unpack::16b``
(st) a register holds the low halves of two neighbouring columns: bits 0-15 those of column 2c, bits 16-31 those of
2c + 1, c being the table's column; S stays a distance in Tensor Memory columns. The second half begins at the sum
``taddr + S``, so S also moves the lane, by its bits from 16 on.

Evidence: shapes and register counts are the PTX ISA's tables. Its fragment figures are pictures; as formulas they
follow CuTe's traits (``copy_traits_sm100.hpp``). What ``.unpack::16b`` leaves in the high halves is not documented.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from umma_probe.errors import ConfigError, unknown_name
from umma_probe.layouts.base import register_layout
from umma_probe.spec.sources import Evidence, Ref, documented, header

IntArray = npt.NDArray[np.int64]

WARP = 32
MAX_REGISTERS = 128
_COLUMN_FIELD = 1 << 16
"""An address is lane * this + column."""
NUMS = (1, 2, 4, 8, 16, 32, 64, 128)

_TRAITS = header("cute/atom/copy_traits_sm100.hpp, SM100_TMEM_LOAD and SM100_TMEM_STORE")
_COUNTS = documented("tcgen05.ld: relation between .shape, .num and the vector length")
_PACKING = documented("tcgen05.ld: .pack::16b and tcgen05.st: .unpack::16b")
_HALVES = Ref("tvm", "issue 20068", Evidence.KERNEL, "16-lane shapes take lane offset 0 or 16 in the partition")


class LdStShape(Enum):
    """``.shape`` of ``tcgen05.ld`` and ``tcgen05.st``, as PTX spells it."""

    S32X32B = "32x32b"
    S16X64B = "16x64b"
    S16X128B = "16x128b"
    S16X256B = "16x256b"
    S16X32BX2 = "16x32bx2"

    @property
    def registers_per_num(self) -> int:
        """Registers a thread gives or gets for ``.x1``."""
        return {"16x128b": 2, "16x256b": 4}.get(self.value, 1)

    @property
    def lanes(self) -> int:
        """Lanes that one instruction touches."""
        return 32 if self is LdStShape.S32X32B else 16

    @property
    def columns_per_num(self) -> int:
        """32-bit columns of ``.x1``; 16x32bx2 takes this many twice, S columns apart."""
        return {"16x64b": 2, "16x128b": 4, "16x256b": 8}.get(self.value, 1)

    @property
    def refs(self) -> tuple[Ref, ...]:
        """Where the shape's map is written."""
        fragment = documented(f"tcgen05 matrix fragment for .{self.value}")
        return (fragment, _COUNTS, _TRAITS) + (() if self.lanes == 32 else (_HALVES,))


for _shape in LdStShape:
    register_layout(
        f"ldst-{_shape.value}",
        f"tcgen05.ld/st .{_shape.value}: {_shape.registers_per_num} register(s) and {_shape.columns_per_num} column(s) "
        "for each .num",
        *_shape.refs,
    )


def _places(shape: LdStShape, t: IntArray, r: IntArray) -> tuple[IntArray, IntArray]:
    """Lane and column of register r of thread t, before packing and before the half split."""
    match shape:
        case LdStShape.S32X32B:
            return t, r
        case LdStShape.S16X64B:
            return t // 4 + 8 * (t % 2), t // 2 % 2 + 2 * r
        case LdStShape.S16X128B:
            return t // 4 + 8 * (r % 2), t % 4 + 4 * (r // 2)
        case LdStShape.S16X256B:
            return t // 4 + 8 * (r // 2 % 2), 2 * (t % 4) + r % 2 + 8 * (r // 4)
        case LdStShape.S16X32BX2:
            return t % 16, r


@dataclass(frozen=True)
class LdStSpec:
    """``.shape.num`` with or without 16-bit packing."""

    shape: LdStShape
    num: int
    pack: bool = False

    def __post_init__(self) -> None:
        if self.num not in NUMS:
            raise ConfigError(
                f"{self}: num is {self.num}, must be one of {', '.join(map(str, NUMS))}", ref=str(_COUNTS)
            )
        if self.registers > MAX_REGISTERS:
            largest = MAX_REGISTERS // self.shape.registers_per_num
            raise ConfigError(
                f"{self}: registers is {self.registers}, must be at most {MAX_REGISTERS}",
                hint=f"the largest is {self.shape.value}.x{largest}",
                ref=str(_COUNTS),
            )

    @property
    def registers(self) -> int:
        """32-bit registers of each thread."""
        return self.num * self.shape.registers_per_num

    @property
    def default_half_split(self) -> int | None:
        """The split of 16x32bx2 that makes its two halves neighbours, as CUTLASS writes it; None for other shapes."""
        if self.shape is not LdStShape.S16X32BX2:
            return None
        return self.num * (2 if self.pack else 1)

    def __str__(self) -> str:
        return f"{self.shape.value}.x{self.num}" + (".pack::16b" if self.pack else "")


_SPEC = re.compile(r"\.?(?P<shape>[0-9a-z]+)\.x(?P<num>[0-9]+)(?P<pack>\.(?:un)?pack::16b)?")


def parse(text: str) -> LdStSpec:
    """``16x256b.x2``, ``32x32b.x8.pack::16b`` or ``.unpack::16b``.

    :raises ConfigError: not of that form, an unknown shape, or more registers than an instruction takes.
    """
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"ld/st is '{text}', must be SHAPE.xNUM, for instance 16x256b.x2", ref=str(_COUNTS))
    shapes = {shape.value: shape for shape in LdStShape}
    if match["shape"] not in shapes:
        raise ConfigError(unknown_name("tcgen05.ld/st shape", match["shape"], shapes), ref=str(_COUNTS))
    return LdStSpec(shapes[match["shape"]], int(match["num"]), match["pack"] is not None)


@dataclass(frozen=True)
class Holder:
    """A register, or half of it, that one cell belongs to."""

    thread: int
    register: int
    low_bit: int = 0
    bits: int = 32


@dataclass(frozen=True)
class LdStMap:
    """Thread and register to place, relative to the base address.

    ``lane`` and ``column`` have shape (32, registers); ``column_high`` is the column of bits 16-31 when packed, else
    None. A packed register holds the low 16 bits of its columns.
    """

    spec: LdStSpec
    half_split: int | None
    lane: IntArray
    column: IntArray
    column_high: IntArray | None

    @property
    def registers(self) -> int:
        """32-bit registers of each thread."""
        return self.spec.registers

    @property
    def columns_used(self) -> int:
        """Columns from the base to the last one touched."""
        last = self.column if self.column_high is None else self.column_high
        return int(last.max()) + 1

    @cached_property
    def _holders(self) -> dict[tuple[int, int], tuple[Holder, ...]]:
        found: dict[tuple[int, int], tuple[Holder, ...]] = {}
        bits = 32 if self.column_high is None else 16
        halves = [self.column] if self.column_high is None else [self.column, self.column_high]
        for half, columns in enumerate(halves):
            for thread, register in np.ndindex(*self.lane.shape):
                cell = (int(self.lane[thread, register]), int(columns[thread, register]))
                found[cell] = (*found.get(cell, ()), Holder(thread, register, 16 * half, bits))
        return found

    def holders(self, lane: int, column: int) -> tuple[Holder, ...]:
        """The registers that this cell belongs to: none, one, or two where the halves of 16x32bx2 overlap."""
        return self._holders.get((lane, column), ())


def ldst_map(shape: LdStShape, num: int, *, pack: bool = False, half_split: int | None = None) -> LdStMap:
    """Where each register of ``tcgen05.ld`` or ``.st`` lies in Tensor Memory.

    :param half_split: S of 16x32bx2, in columns; left out, the halves are neighbours. It is added to an address, so
        65536 is one lane, and it may be negative. The assembler takes any integer.
    :raises ConfigError: too many registers, or a split for a shape that has none.
    """
    spec = LdStSpec(shape, num, pack)
    if half_split is not None and shape is not LdStShape.S16X32BX2:
        raise ConfigError(f"{spec}: half split is {half_split}, must be left out: only 16x32bx2 has one")
    split = spec.default_half_split if half_split is None else half_split
    t, r = np.indices((WARP, spec.registers), dtype=np.int64)
    lane, column = _places(shape, t, r)
    if pack:
        column = 2 * column
    if split is not None:
        lanes = (split + _COLUMN_FIELD // 2) // _COLUMN_FIELD  # the rest is columns, which may be negative
        lane = lane + lanes * (t // 16)
        column = column + (split - lanes * _COLUMN_FIELD) * (t // 16)
    return LdStMap(spec, split, lane, column, column + 1 if pack else None)
