"""Writes launch cases: buffers, tensor maps and arguments as a file that ``umma-probe exec`` reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import yaml
from numpy.typing import NDArray

NUMPY_TYPES: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "tf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "ue8m0": ml_dtypes.float8_e8m0fnu,
    "s8": np.int8, "u8": np.uint8, "s16": np.int16, "s32": np.int32, "u32": np.uint32, "s64": np.int64,
    "u64": np.uint64,
}  # fmt: skip
"""Case dtypes as NumPy holds them."""


@dataclass
class CaseFile:
    """A launch case in the making; ``write`` gives the path of its YAML."""

    folder: Path
    name: str
    source: str
    entry: str
    grid: tuple[int, int, int]
    block: int
    cluster: tuple[int, int, int] | None = None
    dynamic_smem: int = 0
    suffix: str = "ptx"
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.buffers: list[dict[str, Any]] = []
        self.tensor_maps: list[dict[str, Any]] = []
        self.args: list[dict[str, Any]] = []
        self.expect: list[dict[str, Any]] = []

    def buffer(self, name: str, dtype: str, values: NDArray[Any] | tuple[int, ...], init: str = "sentinel") -> str:
        """A buffer with these values (rounded to its type), or of this shape and a plain start."""
        if isinstance(values, tuple):
            self.buffers.append({"name": name, "dtype": dtype, "shape": list(values), "init": init})
            return name
        self._save(f"in_{name}.bin", values.astype(NUMPY_TYPES[dtype]))
        shape = list(values.shape)
        self.buffers.append({"name": name, "dtype": dtype, "shape": shape, "init": {"file": f"in_{name}.bin"}})
        return name

    def tensor_map(self, name: str, buffer: str, **fields: Any) -> str:
        """A tensor map over a buffer; fields as the case file names them."""
        self.tensor_maps.append({"name": name, "buffer": buffer, **fields})
        return name

    def pointer(self, buffer: str, offset: int = 0) -> None:
        """The next argument: an address."""
        self.args.append({"buffer": buffer, "offset": offset})

    def scalar(self, value: float, dtype: str) -> None:
        """The next argument: a number."""
        self.args.append({"value": value, "dtype": dtype})

    def expects(self, buffer: str, values: NDArray[Any], rtol: float = 0, atol: float = 0) -> None:
        """What a buffer must hold afterwards, in its own type; bit for bit without tolerances."""
        (spec,) = (entry for entry in self.buffers if entry["name"] == buffer)
        self._save(f"out_{buffer}.bin", values.astype(NUMPY_TYPES[spec["dtype"]]))
        self.expect.append({"buffer": buffer, "file": f"out_{buffer}.bin", "rtol": rtol, "atol": atol})

    def write(self) -> Path:
        """Write source and case."""
        (self.folder / f"kernel.{self.suffix}").write_text(self.source)
        document: dict[str, Any] = {
            "name": self.name, "source": f"kernel.{self.suffix}", "entry": self.entry, "arch": "sm_100a",
            "grid": list(self.grid), "block": [self.block, 1, 1], "dynamic_smem": self.dynamic_smem, **self.extra,
            "buffers": self.buffers, "tensor_maps": self.tensor_maps, "args": self.args, "expect": self.expect,
        }  # fmt: skip
        if self.cluster is not None:
            document["cluster"] = list(self.cluster)
        path = self.folder / "case.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def _save(self, file: str, values: NDArray[Any]) -> None:
        (self.folder / file).write_bytes(np.ascontiguousarray(values).tobytes())


def small_integers(seed: int, shape: tuple[int, ...], limit: int = 4) -> NDArray[np.float64]:
    """Whole numbers of at most ``limit``: their sums of products are exact in every accumulator used here."""
    values: NDArray[np.float64] = np.random.default_rng(seed).integers(-limit, limit + 1, shape).astype(np.float64)
    return values
