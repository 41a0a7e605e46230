"""Everything that ``probes/gemm.cu`` is told: where operands are staged, what the MMAs are told, how D is read back.

A recipe is a value. The clean one of a probe is consistent: the MMAs are told what was staged, and D is read as it was
written. A planted fault is a recipe with one thing changed, and so is a hypothesis of the diagnosis: the first is run
by the kernel, the second is worked out on the host (``harness/gemm/predict.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.harness.placement import TILE_BYTES, SmemPlacement
from umma_probe.layouts.smem_mn_major import atom_k
from umma_probe.spec.descriptors import Swizzle, decode_smem_desc, encode_smem_desc
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS

if TYPE_CHECKING:
    from umma_probe.harness.readback import Readback
    from umma_probe.spec.descriptors import SmemDescriptor

SMEM_BYTES = 224 * 1024
"""Dynamic shared memory of the kernel: all that a CTA can have beside its few static bytes, filled with a pattern."""
UPPER_HALF = 16
"""Lanes from the lower half of a warp's partition to the upper one."""
UNPACKED_TILE = 16
"""Columns that one MMA's A takes through ``.unpack::16b``: twice as many as packed."""
_ENDLESS = 1 << 20
READ_STRUCT = np.dtype(
    [("desc", "<u8"), *((name, "<u4") for name in ("smem", "step", "run", "jump", "sub_step", "unused"))]
)
"""``struct Read`` of ``probes/gemm.cuh``."""


@dataclass(frozen=True)
class Read:
    """What the MMAs are told about an operand in shared memory; in bytes, but ``run`` counts K tiles."""

    lbo: int
    sbo: int
    swizzle: Swizzle
    smem: int
    step: int
    run: int
    jump: int
    sub_step: int = 0

    @property
    def desc(self) -> int:
        """The descriptor without its start address; strides are cut down to their 18 bits."""
        return encode_smem_desc(start_bytes=0, lbo_bytes=self.lbo, sbo_bytes=self.sbo, swizzle=self.swizzle, force=True)

    def start(self, base: int, tile: int, sub: int) -> int:
        """Shared address at which an MMA begins to read."""
        return base + self.smem + tile // self.run * self.jump + tile % self.run * self.step + sub * self.sub_step

    def descriptor(self, base: int, tile: int, sub: int, *, unit_forgotten: bool = False) -> SmemDescriptor:
        """The decoded descriptor of one MMA."""
        start = self.start(base, tile, sub) & 0x3FFFF
        return decode_smem_desc(self.desc | (start & 0x3FFF if unit_forgotten else start >> 4))

    def changed(self, **fields: int) -> Read:
        """The same with other addresses or strides."""
        return replace(self, **fields)  # type: ignore[arg-type]  # none of them is the swizzle

    def struct(self) -> bytes:
        """The kernel's argument."""
        row = (self.desc, self.smem, self.step, self.run, self.jump, self.sub_step, 0)
        return np.array([row], READ_STRUCT).tobytes()


def reading_of(placed: SmemPlacement, smem: int, sub_rows: int = 0) -> Read:
    """What the MMAs must be told about an operand that is staged so, at byte ``smem``.

    :param sub_rows: rows of one N sub-tile; K-major only.
    """
    width = placed.swizzle.row_bytes
    plain = placed.swizzle is Swizzle.NONE
    if placed.major == "mn":
        step, run, jump = placed.tile_k // atom_k(placed.swizzle) * (placed.lbo if plain else placed.sbo), _ENDLESS, 0
    elif plain:
        step, run, jump = TILE_BYTES // 16 * placed.lbo, _ENDLESS, 0
    else:
        step, run, jump = TILE_BYTES, width // TILE_BYTES, placed.panel
    return Read(placed.lbo, placed.sbo, placed.swizzle, smem, step, run, jump, sub_rows // 8 * placed.sbo)


@dataclass(frozen=True)
class Staged:
    """One operand: what it is, where it is staged in shared memory, and what the MMAs are told about that.

    ``holes`` are half-open ranges of elements left out (zero), counted in [row][k] order of each K tile.
    """

    type_: str
    rows: int
    placed: SmemPlacement
    smem: int
    read: Read
    holes: tuple[tuple[int, int], ...] = ()

    @property
    def bits(self) -> int:
        """Of one element in shared memory."""
        return FORMATS[self.type_].container_bits


@dataclass(frozen=True)
class Reading:
    """How one readback loads: its shape, and what is added to its columns and between the halves of its lanes."""

    readback: Readback
    column: int = 0
    lane_step: int = UPPER_HALF
    pack_mistaken: bool = False
    """Its loads lack the ``.pack::16b`` that the reader believes in, or have one that it does not know of."""

    @property
    def packs(self) -> bool:
        """Whether its loads carry ``.pack::16b``."""
        return self.readback.spec.pack != self.pack_mistaken


class Storing(Enum):
    """How A is stored into Tensor Memory; the names are those of ``enum Storing`` of ``probes/operands.cuh``."""

    PACKED = "packed"
    """As many elements a column as it has room for: what an MMA reads."""
    ONE_A_COLUMN = "one element a column"
    UNPACK_16B = "unpack::16b"
    """Packed registers through ``tcgen05.st.unpack::16b``: each half of a register goes to a column of its own."""


@dataclass(frozen=True)
class Recipe:
    """One run of the kernel. ``n`` is N of one MMA; D has ``n * subs`` columns in all."""

    kind: str
    d_type: str
    m: int
    n: int
    tiles: int
    a: Staged
    b: Staged
    idesc: int
    readings: tuple[Reading, ...]
    """Two, and for a D of 16 bits a third one that packs."""
    ws: bool = False
    a_in_tmem: bool = False
    a_column: int = 0
    a_storing: Storing = Storing.PACKED
    d_column: int = 0
    d_lane: int = 0
    d_step: int = 0
    subs: int = 1
    accumulate: bool = False
    disabled_lanes: tuple[tuple[int, int], ...] = ()
    """Half-open ranges that the MMA leaves alone."""
    fill: str = "sentinel"
    before: Recipe | None = None
    """The GEMM that leaves stale values behind, for ``fill`` stale."""
    left_out: str = ""
    """A step of ``probes/steps.cuh`` that the kernel leaves out."""
    start_unit_forgotten: bool = False
    read_as_layout_d: bool = False
    """The reader takes row m to be lane m, whatever the layout is."""
    dumped_bytes: int = 0
    issued_tiles: int | None = None
    """K tiles that are multiplied; None for all."""
    skipped_subs: tuple[int, ...] = ()
    """Sub-tiles of D that no MMA makes."""

    @property
    def tile_k(self) -> int:
        """K of one MMA."""
        return KINDS[self.kind].k_dense

    @property
    def k(self) -> int:
        """K of the whole product."""
        return self.tile_k * self.tiles

    @property
    def issued(self) -> int:
        """K tiles that are multiplied."""
        return self.tiles if self.issued_tiles is None else self.issued_tiles

    @property
    def total_n(self) -> int:
        """Columns of D."""
        return self.n * self.subs

    @property
    def lane_mask(self) -> tuple[int, int, int, int]:
        """``disabled_lanes`` as the instruction takes them."""
        bits = sum(1 << lane for lane in {lane for low, high in self.disabled_lanes for lane in range(low, high)})
        return tuple(bits >> 32 * word & 0xFFFFFFFF for word in range(4))  # type: ignore[return-value]

    @property
    def sub_mask(self) -> tuple[int, int]:
        """``skipped_subs`` as bits of two words."""
        bits = sum(1 << sub for sub in self.skipped_subs)
        return bits & 0xFFFFFFFF, bits >> 32

    def operand(self, name: str) -> Staged:
        """``a`` or ``b``."""
        return self.a if name == "a" else self.b

    def with_operand(self, name: str, staged: Staged) -> Recipe:
        """The same with another operand."""
        return replace(self, a=staged) if name == "a" else replace(self, b=staged)

    def with_read(self, name: str, read: Read) -> Recipe:
        """The same with the MMAs told something else about an operand."""
        return self.with_operand(name, replace(self.operand(name), read=read))

    def with_reading(self, index: int, reading: Reading) -> Recipe:
        """The same with another readback."""
        return replace(self, readings=(*self.readings[:index], reading, *self.readings[index + 1 :]))
