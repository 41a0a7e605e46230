"""Where the scale factors of a block-scaled MMA lie: in Tensor Memory, and in the image that ``tcgen05.cp`` loads.

One byte each (UE8M0 or UE4M3). Row i (m of A, n of B) has ``scale_vec`` scales for the K of one MMA:

==========================  ==========  ==========================  ==================
kinds                       scale_vec   byte of scale s in a column  SF_ID
==========================  ==========  ==========================  ==================
mxf8f6f4                    1           SF_ID                       0, 1, 2, 3
mxf4, mxf4nvf4 (block 32)   2           SF_ID + s                   0, 2
mxf4nvf4 (block 16)         4           s                           0
both, block 32, K = 96      3           SF_ID + s                   0, 1, 2, 3
mxf4nvf4, block 16, K = 96  6           SF_ID + s                   0, 2
==========================  ==========  ==========================  ==================

With K = 96 a byte of 4 or more is byte ``% 4`` of the next word of the row, which lies where the next four scales of
all rows begin: 4 columns further on for up to 128 rows, 8 for more.

* Lane i % 32, column i / 32, and the same again 32, 64 and 96 lanes further: every partition needs its copy.
* cta_group::2, SFA: each CTA holds the scales of its own half of M.
* cta_group::2, SFB with M=256: both CTAs hold all N scales. With M=128 (accumulator layout B) N is split as the
  accumulator is: with h = n % (N/2), lane h % 32 + 64 * (n / (N/2)), column h / 32, one copy 32 lanes further.
* The image in memory is made of 512-byte blocks of 128 rows x 4 scales: byte 16 * (i % 32) + 4 * (i / 32) + s. One
  ``tcgen05.cp.32x128b.warpx4`` brings a block into 4 columns.

Evidence: PTX ISA "Block scaling for tcgen05.mma", whose layout figures are pictures; as formulas they follow CuTe
(``tmem_sf_frg``, ``Sm1xxBlockScaledConfig``), and DeepGEMM's kernels depend on the one-CTA form. That K = 96 goes on in
the next word is how CUTLASS's sm_103a kernels step through the scales of a tile, three or six at a time; the PTX ISA
has one figure for SF_ID 0 and 1, two for 2 and 3, and separate ones for N above 128.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from umma_probe.errors import ConfigError
from umma_probe.layouts.base import register_layout
from umma_probe.spec.sources import Evidence, Ref, documented, header

IntArray = npt.NDArray[np.int64]

PARTITION = 32
BLOCK_ROWS, BLOCK_SCALES, BLOCK_BYTES = 128, 4, 512
MAX_ROWS = 256

SF_IDS: dict[int, tuple[int, ...]] = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,), 3: (0, 1, 2, 3), 6: (0, 2)}
"""scale_vec (3 and 6: K = 96) to the sub-column ids that it may start at."""

K96_VECTORS = (3, 6)

_SCALING = documented("Block scaling for tcgen05.mma: layout of the scale factor matrices")
_FRAGMENT = header("cute/atom/mma_traits_sm100_frag.hpp, tmem_sf_frg")
_KERNEL = Ref("deepgemm", "make_sf_desc and the UTCCP copies of its SM100 kernels", Evidence.KERNEL)
_SPLIT = header("cute/atom/mma_traits_sm100_frag.hpp, ScaleFactorDuplicated2by2", "the only source for the split of N")
_ULTRA = header(
    "sm103_blockscaled_mma_warpspecialized.hpp, mma", "K = 96: scales 3 or 6 at a time over the fragment of four"
)
_IMAGE = header("cutlass/detail/sm100_blockscaled_layout.hpp, Sm1xxBlockScaledConfig")

REFS = (_SCALING, _FRAGMENT, _KERNEL)
register_layout("scale-factors", "Scale factors in Tensor Memory: row i at lane i % 32, four copies", *REFS)
register_layout(
    "scale-factors-k96", "Scale factors of an MMA with K = 96: 3 or 6 a row, over two words", _SCALING, _ULTRA
)
register_layout(
    "scale-factors-split-n", "SFB of a 2-CTA MMA with M=128: N split over the lane halves", _SCALING, _SPLIT
)
register_layout("scale-factors-image", "Blocks of 128 rows x 4 scales in memory, 512 bytes each", _SCALING, _IMAGE)


class ScaleOperand(Enum):
    """Whose scales: A's (rows are m) or B's (rows are n)."""

    SFA = "a"
    SFB = "b"


class BlockOrder(Enum):
    """Which 512-byte block follows a block in memory."""

    ROWS_FIRST = "rows"
    """The next 128 rows, as CUTLASS stages a tile in shared memory."""
    K_FIRST = "k"
    """The next 4 scales of the same rows, as the tensor lies in global memory."""


@dataclass(frozen=True)
class ScaleFactorMap:
    """Scale (row, s) to its place, relative to the scale address.

    ``cta``, ``lane``, ``column`` and ``byte`` have shape (rows, scale_vec). The same byte lies again at each lane
    offset of ``copies`` (0 is the first) and, with ``in_both_ctas``, in the other CTA too.
    """

    scale_vec: int
    sf_id: int
    cta: IntArray
    lane: IntArray
    column: IntArray
    byte: IntArray
    copies: tuple[int, ...]
    in_both_ctas: bool
    refs: tuple[Ref, ...]

    @property
    def columns_used(self) -> int:
        """Tensor Memory columns, from the scale address on."""
        return int(self.column.max()) + 1

    def scale_at(self, lane: int, column: int, byte: int, cta: int = 0) -> tuple[int, int] | None:
        """The scale (row, s) that a byte of a cell holds, through any copy; None if it holds none."""
        home = 0 if self.in_both_ctas else cta
        for offset in self.copies:
            here = (self.cta == home) & (self.lane + offset == lane) & (self.column == column) & (self.byte == byte)
            found = np.argwhere(here)
            if len(found):
                return int(found[0, 0]), int(found[0, 1])
        return None


def scale_factor_map(
    rows: int,
    scale_vec: int,
    *,
    sf_id: int = 0,
    cta_group: int = 1,
    operand: ScaleOperand = ScaleOperand.SFA,
    split_n: bool = False,
) -> ScaleFactorMap:
    """Where each scale factor of one MMA lies.

    :param rows: rows of the operand over all CTAs: M for SFA, N for SFB.
    :param scale_vec: scales a row, 1, 2 or 4 (``.scale_vec::1X`` to ``4X``), or with K = 96 3 or 6.
    :param sf_id: the sub-column at which they start.
    :param split_n: SFB of a 2-CTA MMA with M=128.
    :raises ConfigError: a value out of its range, or a combination that no MMA has.
    """
    _check(rows, scale_vec, sf_id, cta_group)
    if split_n and (cta_group, operand) != (2, ScaleOperand.SFB):
        raise ConfigError("split of N is asked for, must be SFB with cta_group 2 (and M=128)", ref=str(_SPLIT))
    if cta_group == 2 and (operand is ScaleOperand.SFA or split_n) and rows % 2:
        raise ConfigError(f"rows is {rows}, must be even with cta_group 2")
    i, s = np.indices((rows, scale_vec), dtype=np.int64)
    per_cta = rows // 2 if cta_group == 2 and operand is ScaleOperand.SFA else rows
    per_bank = rows // 2 if split_n else per_cta
    cta, local = i // per_cta, i % per_cta
    bank, inner = local // per_bank, local % per_bank
    lane = inner % PARTITION + 2 * PARTITION * bank
    word = (sf_id + s) // BLOCK_SCALES
    return ScaleFactorMap(
        scale_vec,
        sf_id,
        cta,
        lane,
        inner // PARTITION + word * block_columns(per_bank),
        (sf_id + s) % BLOCK_SCALES,
        (0, 32) if split_n else (0, 32, 64, 96),
        in_both_ctas=cta_group == 2 and operand is ScaleOperand.SFB,
        refs=(_SCALING, _SPLIT) if split_n else (_SCALING, _FRAGMENT, _ULTRA) if scale_vec in K96_VECTORS else REFS,
    )


def block_columns(rows: int) -> int:
    """Columns from four scales of ``rows`` rows to the next four."""
    return BLOCK_ROWS // PARTITION * -(-rows // BLOCK_ROWS)


def _check(rows: int, scale_vec: int, sf_id: int, cta_group: int) -> None:
    if scale_vec not in SF_IDS:
        raise ConfigError(f"scale_vec is {scale_vec}, must be 1, 2 or 4, or with K = 96 3 or 6", ref=str(_SCALING))
    if sf_id not in SF_IDS[scale_vec]:
        legal = ", ".join(map(str, SF_IDS[scale_vec]))
        raise ConfigError(f"SF_ID is {sf_id}, must be {legal} with scale_vec {scale_vec}", ref=str(_SCALING))
    if cta_group not in (1, 2):
        raise ConfigError(f"cta_group is {cta_group}, must be 1 or 2")
    if not 1 <= rows <= MAX_ROWS:
        raise ConfigError(f"rows is {rows}, must be 1 to {MAX_ROWS}", ref=str(_SCALING))


def scale_image_map(rows: int, scales: int, *, order: BlockOrder) -> IntArray:
    """Byte offset of each scale in a memory image of whole blocks, shape (rows, scales).

    :param scales: scales a row, over all of K.
    :raises ConfigError: rows or scales is not positive.
    """
    if rows <= 0 or scales <= 0:
        raise ConfigError(f"rows x scales is {rows} x {scales}, must be positive", ref=str(_IMAGE))
    row_blocks, scale_blocks = -(-rows // BLOCK_ROWS), -(-scales // BLOCK_SCALES)
    i, s = np.indices((rows, scales), dtype=np.int64)
    row_block, k_block, r = i // BLOCK_ROWS, s // BLOCK_SCALES, i % BLOCK_ROWS
    if order is BlockOrder.ROWS_FIRST:
        block = row_block + row_blocks * k_block
    else:
        block = k_block + scale_blocks * row_block
    inside = 16 * (r % PARTITION) + 4 * (r // PARTITION) + s % BLOCK_SCALES
    return BLOCK_BYTES * block + inside
