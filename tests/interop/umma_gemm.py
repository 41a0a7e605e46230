"""Launch cases of ``kernels/umma_gemm.cu``: a GEMM of whole tiles whose sums are exact, so every word is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from interop_case import CaseFile, small_integers

from umma_probe.assets import asset_dir

SOURCE = Path(__file__).parent / "kernels" / "umma_gemm.cu"


@dataclass(frozen=True)
class Gemm:
    """One build of the kernel: its compile-time choices, and K."""

    mma_m: int = 128
    mma_n: int = 64
    cta_group: int = 1
    swizzle: int = 128
    ws: int = 0
    a_source: str = "SHARED"
    multicast: int = 0
    k: int = 192

    @property
    def name(self) -> str:
        """Shape, then what is out of the ordinary."""
        words = [f"{self.mma_m}x{self.mma_n}", f"sw{self.swizzle}"]
        words += (
            [f"k{self.k}"] * (self.k != 192)
            + ["pair"] * (self.cta_group == 2)
            + ["ws"] * self.ws
            + ["multicast"] * self.multicast
        )
        return "_".join(words + [self.a_source.lower()] * (self.a_source != "SHARED"))

    def write(self, folder: Path, tiles: tuple[int, int] = (2, 2)) -> Path:
        """A case of ``tiles`` (rows, columns of tiles); tiles of a pair and those that share B count once a CTA."""
        ctas = 2 if self.cta_group == 2 or self.multicast else 1
        rows, a_rows, b_rows = (n // self.cta_group for n in (self.mma_m * tiles[0], self.mma_m, self.mma_n))
        columns = self.mma_n * tiles[1]
        stage = (a_rows + b_rows) * (self.swizzle or 32)
        case = CaseFile(folder / self.name, self.name, SOURCE.read_text(), "umma_gemm", (tiles[0], tiles[1], 1), 128,
                        cluster=(ctas, 1, 1), dynamic_smem=stage, suffix="cu")  # fmt: skip
        choices = {key.upper(): value for key, value in vars(self).items() if key != "k"}
        case.extra = {"nvrtc_options": [f"-D{key}={value}" for key, value in choices.items()],
                      "include_dirs": [str(asset_dir("probes"))]}  # fmt: skip
        a, b = small_integers(1, (rows, self.k)), small_integers(2, (columns, self.k))
        case.buffer("a", "bf16", a)
        case.buffer("b", "bf16", b)
        case.buffer("c", "f32", (rows, columns))
        for operand, height, box in (("a", rows, a_rows), ("b", columns, b_rows // (1 + self.multicast))):
            self._map(case, operand, height, box)
        case.args += [{"tensor_map": "a_map"}, {"tensor_map": "b_map"}]
        case.pointer("a")
        case.pointer("c")
        case.scalar(columns, "u32")
        case.scalar(self.k, "u32")
        case.expects("c", a @ b.T)
        return case.write()

    def _map(self, case: CaseFile, operand: str, rows: int, box_rows: int) -> None:
        if self.swizzle:
            case.tensor_map(f"{operand}_map", operand, dtype="bf16", rank=3, global_dim=[self.k, rows, 1],
                            global_strides=[self.k * 2, rows * self.k * 2], box_dim=[self.swizzle // 2, box_rows, 1],
                            swizzle=f"{self.swizzle}B")  # fmt: skip
            return
        case.tensor_map(f"{operand}_map", operand, dtype="bf16", rank=3, global_dim=[8, rows, self.k // 8],
                        global_strides=[self.k * 2, 16], box_dim=[8, box_rows, 2])  # fmt: skip


GEMMS = (
    Gemm(), Gemm(swizzle=64), Gemm(swizzle=32), Gemm(swizzle=0), Gemm(mma_m=64), Gemm(mma_m=64, ws=1),
    Gemm(mma_m=32, ws=1),
    Gemm(mma_m=256, cta_group=2), Gemm(mma_m=128, cta_group=2), Gemm(a_source="TENSOR"), Gemm(a_source="GENERIC"),
    Gemm(a_source="GENERIC", swizzle=0), Gemm(multicast=1), Gemm(k=168),
)  # fmt: skip
UNFENCED = Gemm(a_source="UNFENCED")
"""Generic stores that no proxy fence follows: the sanitizer must say so."""
