"""Compiles Triton kernels to PTX without a GPU, and lays out their arguments as Triton's launcher does.

A host tensor descriptor becomes a 128-byte tensor map, then its shape (u32 each) and strides (u64 each). Two
pointers follow all arguments: global scratch memory (descriptors made on the device) and profiling memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import triton
from interop_case import CaseFile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

if TYPE_CHECKING:
    from collections.abc import Sequence

SWIZZLES = {0: "none", 1: "32B", 2: "64B", 3: "128B"}
TRITON_TYPES = {
    "f32": "fp32", "tf32": "fp32", "f16": "fp16", "bf16": "bf16", "e4m3": "fp8e4nv", "e5m2": "fp8e5",
    "s8": "i8", "u8": "u8", "s32": "i32", "s16": "i16", "s64": "i64", "ue8m0": "u8",
}  # fmt: skip
MAP_TYPES = {"e4m3": "u8", "e5m2": "u8", "s8": "u8", "s32": "s32", "tf32": "f32"}


@dataclass(frozen=True)
class Built:
    """A compiled kernel."""

    ptx: str
    entry: str
    metadata: Any

    def _directive(self, name: str) -> tuple[int, int, int] | None:
        found = re.search(rf"^\.{name} ([\d, ]+)$", self.ptx, re.MULTILINE)
        if found is None:
            return None
        x, y, z = [*map(int, found[1].split(",")), 1, 1][:3]
        return x, y, z

    def case(self, folder: Path, name: str, grid: tuple[int, int, int]) -> CaseFile:
        """A launch case of this kernel; ``grid`` counts programs."""
        block, cluster = self._directive("reqntid"), self._directive("reqnctapercluster")
        assert block is not None
        ctas = self.metadata.num_ctas
        if ctas > 1:
            cluster = (ctas, 1, 1)
        return CaseFile(folder, name, self.ptx, self.entry, (grid[0] * ctas, *grid[1:]), block[0], cluster,
                        self.metadata.shared)  # fmt: skip

    def descriptor(self, case: CaseFile, index: int, buffer: str, dtype: str, shape: Sequence[int]) -> None:
        """The arguments of the ``index``-th host descriptor, of a row-major array."""
        meta = self.metadata.tensordesc_meta[index]
        size = meta["elem_size"]
        strides = [int(size)]
        for extent in reversed(shape[1:]):
            strides.append(strides[-1] * extent)
        extents, map_type = list(shape)[::-1], MAP_TYPES.get(dtype, dtype)
        if meta["fp4_padded"]:  # beside 8-bit operands: pairs of 4-bit elements in, 16 of them to each 16 bytes
            extents[0], map_type = 2 * extents[0], "16u4_align16b"
        case.tensor_map(
            f"map{index}", buffer, dtype=map_type, rank=len(shape), global_dim=extents,
            global_strides=strides[1:], box_dim=list(meta["block_size"])[::-1], swizzle=SWIZZLES[meta["swizzle"]],
        )  # fmt: skip
        case.args.append({"tensor_map": f"map{index}"})
        for extent in shape:
            case.scalar(extent, "u32")
        for stride in reversed(strides):
            case.scalar(stride // size, "u64")

    def finish(self, case: CaseFile) -> Path:
        """The two scratch pointers, then the file."""
        scratch = self.metadata.global_scratch_size
        if scratch:
            programs = case.grid[0] * case.grid[1] * case.grid[2]
            case.buffer("scratch", "u8", (programs * scratch,))
            case.pointer("scratch")
        else:
            case.scalar(0, "u64")
        case.scalar(0, "u64")
        return case.write()


def build(function: Any, types: dict[str, str], constants: dict[str, Any], *, unaligned: Sequence[str] = (),
          **options: Any) -> Built:  # fmt: skip
    """Compile for sm_100a.

    :param types: of the run-time arguments; pointers and integers are multiples of 16 if not ``unaligned``.
    """
    signature = {name: types.get(name, "constexpr") for name in function.arg_names}
    aligned = {
        (function.arg_names.index(name),): [["tt.divisibility", 16]]
        for name, type_ in types.items()
        if (type_.startswith("*") or type_ in ("i32", "i64")) and name not in unaligned
    }
    source = _source_type(function)(function, signature, constants, aligned)
    made = triton.compile(source, target=GPUTarget("cuda", 100, 32), options=options)
    return Built(made.asm["ptx"], made.metadata.name, made.metadata)


def _source_type(function: Any) -> type[ASTSource]:
    from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction

    return GluonASTSource if isinstance(function, GluonJITFunction) else ASTSource
