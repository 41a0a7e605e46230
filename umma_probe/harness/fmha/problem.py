"""One attention problem: sizes, element type, and how the kernel is to compute it.

Arrays are (batch, head, row, hd), C-contiguous. Tiles are those of the kernel: 128 query rows, 128 keys. A causal mask
is aligned to the last query and the last key: query i sees key j if j <= i + seq_k - seq_q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from umma_probe.spec.problems import Problem
from umma_probe.spec.sources import documented, header

TILE = 128
THREADS = 192
HEAD_DIMS = (16, 32, 64, 96, 128, 192, 256)
SUB_TILES = (16, 32, 64)
DTYPES: dict[str, np.dtype[Any]] = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}

_MMA_SHAPES = documented("tcgen05.mma, Matrix and Data Movement Shape", "N of kind::f16 at M = 128")
_GROUPS = header("examples/77_blackwell_fmha", "a key/value head serves a whole number of query heads")
_GRID = documented("Grid of thread blocks", "65535 in y and z")
_MAX_YZ = 65535


@dataclass(frozen=True)
class FmhaProblem:
    """What is computed, and which form of the kernel computes it."""

    hd: int
    dtype: str = "bf16"
    seq_q: int = 128
    seq_k: int = 256
    heads: int = 1
    kv_heads: int = 1
    batch: int = 1
    causal: bool = False
    pv_n: int = 0
    """Columns of one PV sub-tile; 0 for the whole head dimension."""
    p_in_tmem: bool = True
    dump_stages: bool = False

    @property
    def sub_tile(self) -> int:
        """Columns of one PV sub-tile."""
        return self.pv_n or self.hd

    @property
    def element(self) -> np.dtype[Any]:
        """The NumPy type of Q, K, V and O."""
        return DTYPES[self.dtype]

    @property
    def q_tiles(self) -> int:
        """Query tiles of a head."""
        return -(-self.seq_q // TILE)

    @property
    def kv_tiles(self) -> int:
        """KV tiles of a head, masked or not."""
        return -(-self.seq_k // TILE)

    @property
    def grid(self) -> tuple[int, int, int]:
        """(query tiles, heads, batch)."""
        return self.q_tiles, self.heads, self.batch

    @property
    def q_shape(self) -> tuple[int, int, int, int]:
        """Of Q and O."""
        return self.batch, self.heads, self.seq_q, self.hd

    @property
    def kv_shape(self) -> tuple[int, int, int, int]:
        """Of K and V."""
        return self.batch, self.kv_heads, self.seq_k, self.hd

    @property
    def heads_per_kv_head(self) -> int:
        """Query heads that share a KV head."""
        return self.heads // self.kv_heads

    @property
    def scale_log2(self) -> np.float32:
        """What the kernel multiplies scores with: log2(e) / sqrt(hd), as the f32 that it gets."""
        return np.float32(math.log2(math.e) / math.sqrt(self.hd))

    @property
    def scale(self) -> float:
        """The scale that this f32 stands for; the reference uses it, so that its rounding is no error."""
        return float(self.scale_log2) * math.log(2)

    @property
    def panel_columns(self) -> int:
        """Elements in a row of one TMA box: as wide as the widest swizzle that the head dimension is a multiple of."""
        return next(width for width in (64, 32, 16) if self.hd % width == 0)

    def visible_keys(self) -> npt.NDArray[np.int64]:
        """(seq_q,): how many keys, from the first, each query row sees."""
        rows = np.arange(self.seq_q)
        if not self.causal:
            return np.full(self.seq_q, self.seq_k)
        return np.clip(rows + 1 + self.seq_k - self.seq_q, 0, self.seq_k)

    def visited_tiles(self) -> npt.NDArray[np.int64]:
        """(seq_q,): KV tiles that the CTA of each query row goes through."""
        visible = self.visible_keys()
        last_row = np.minimum(np.arange(self.seq_q) // TILE * TILE + TILE, self.seq_q) - 1
        tiles: npt.NDArray[np.int64] = -(-visible[last_row] // TILE)
        return tiles

    @property
    def flop(self) -> float:
        """Multiplications and additions of Q K^T and P V, for the keys that are seen."""
        return 4.0 * self.hd * self.heads * self.batch * float(self.visible_keys().sum())

    def defines(self) -> dict[str, object]:
        """The kernel's compile-time choices."""
        return {
            "HEAD_DIM": self.hd,
            "BF16": int(self.dtype == "bf16"),
            "P_IN_TMEM": int(self.p_in_tmem),
            "PV_N": self.sub_tile,
            "CAUSAL": int(self.causal),
            "DUMP_STAGES": int(self.dump_stages),
        }

    def tensor_map(self, shape: tuple[int, int, int, int]) -> dict[str, Any]:
        """A tensor map over an array of (batch, head, row, hd): boxes of 128 rows of one panel."""
        batch, heads, rows, hd = shape
        return {
            "dtype": self.dtype,
            "global_dim": [hd, rows, heads, batch],
            "global_strides": [2 * hd, 2 * hd * rows, 2 * hd * rows * heads],
            "box_dim": [self.panel_columns, TILE, 1, 1],
            "element_strides": [1, 1, 1, 1],
            "swizzle": f"{2 * self.panel_columns}B",
        }

    def problems(self) -> list[Problem]:
        """The rules that the sizes break; empty if the kernel can run them."""
        found: list[Problem] = []
        if self.hd not in HEAD_DIMS:
            known = ", ".join(map(str, HEAD_DIMS))
            found.append(Problem("hd", f"hd is {self.hd}, must be one of {known}", _MMA_SHAPES))
        elif self.hd % self.sub_tile:
            message = f"pv-n is {self.sub_tile}, must divide the head dimension {self.hd}"
            found.append(Problem("pv_n", message, _MMA_SHAPES))
        if self.heads % self.kv_heads:
            message = f"heads is {self.heads}, must be a multiple of kv-heads {self.kv_heads}"
            found.append(Problem("heads", message, _GROUPS))
        for name, value in (("heads", self.heads), ("batch", self.batch)):
            if value > _MAX_YZ:
                found.append(Problem(name, f"{name} is {value}, must be at most {_MAX_YZ}", _GRID))
        return found
