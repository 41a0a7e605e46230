"""Launch cases of Triton kernels: inputs, arguments, and what NumPy says they must give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
import triton_kernels as kernels
from interop_case import NUMPY_TYPES, CaseFile, small_integers
from numpy.typing import NDArray
from triton_build import TRITON_TYPES, build

TL_TYPES = {"f32": tl.float32, "f16": tl.float16, "bf16": tl.bfloat16, "s32": tl.int32, "tf32": tl.float32}
FORMATS = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 1),
    "e5m2": (ml_dtypes.float8_e5m2, 1),
    "e2m1": (ml_dtypes.float4_e2m1fn, 2),
}
"""NumPy type, elements a byte."""


@dataclass(frozen=True)
class Tile:
    """The tile of a program, and how it is compiled."""

    m: int
    n: int
    k: int
    warps: int = 4
    stages: int = 3

    @property
    def constants(self) -> dict[str, int]:
        """As the kernels call them."""
        return {"BM": self.m, "BN": self.n, "BK": self.k, "STAGES": self.stages}

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}w{self.warps}s{self.stages}"


def _operands(m: int, n: int, k: int, dtype: str) -> tuple[NDArray[Any], NDArray[Any]]:
    limit = 3 if dtype in ("e4m3", "e5m2") else 7
    return small_integers(1, (m, k), limit), small_integers(2, (n, k), limit)


def _grid(m: int, n: int, tile: Tile) -> tuple[int, int, int]:
    return -(-m // tile.m), -(-n // tile.n), 1


def matmul(folder: Path, dtype: str, out: str, tile: Tile, *, b_is_kn: bool = True, masked: bool = False,
           tiles: tuple[int, int, int] = (2, 1, 2)) -> Path:  # fmt: skip
    """C = A B by pointers."""
    m, n, k = (count * size for count, size in zip(tiles, (tile.m, tile.n, tile.k), strict=True))
    if masked:
        m, n, k = m - 7, n - 16, k - 16
    accumulator = "s32" if dtype == "s8" else "f32"
    types = dict.fromkeys(("a", "b"), "*" + TRITON_TYPES[dtype]) | {"c": "*" + TRITON_TYPES[out]}
    types |= {"n": "i32", "k": "i32"} | ({"stride_bn": "i32"} if not b_is_kn else {"stride_bk": "i32"})
    types["m"] = "i32"
    fixed = {"stride_bn": 1} if b_is_kn else {"stride_bk": 1}
    built = build(kernels.matmul, types, {**tile.constants, **fixed, "MASKED": masked, "ACC": TL_TYPES[accumulator]},
                  num_warps=tile.warps, num_stages=tile.stages, unaligned=("m",) if masked else ())  # fmt: skip
    a, b = _operands(m, n, k, dtype)
    case = built.case(folder, f"matmul_{dtype}_{tile}", _grid(m, n, tile))
    case.buffer("A", dtype, a)
    case.buffer("B", dtype, np.ascontiguousarray(b.T) if b_is_kn else b)
    case.buffer("C", out, (m, n))
    for name in "ABC":
        case.pointer(name)
    for value in (m, n, k, n if b_is_kn else k):
        case.scalar(value, "u32")
    case.expects("C", a @ b.T)
    return built.finish(case)


def matmul_host_descriptors(folder: Path, dtype: str, out: str, tile: Tile, *, b_is_kn: bool = False, ctas: int = 1,
                            tiles: tuple[int, int, int] = (2, 1, 2)) -> Path:  # fmt: skip
    """C = A B with tensor maps made by the host."""
    m, n, k = (count * size for count, size in zip(tiles, (tile.m, tile.n, tile.k), strict=True))
    word = TRITON_TYPES[dtype]
    b_box = [tile.k, tile.n] if b_is_kn else [tile.n, tile.k]
    types = {"a": f"tensordesc<{word}[{tile.m}, {tile.k}]>", "b": f"tensordesc<{word}{b_box}>",
             "c": f"tensordesc<{TRITON_TYPES[out]}[{tile.m}, {tile.n}]>", "k": "i32"}  # fmt: skip
    built = build(kernels.matmul_host_descriptors, types,
                  {**tile.constants, "B_IS_KN": b_is_kn, "TYPE": TL_TYPES[out]},
                  num_warps=tile.warps, num_stages=tile.stages, num_ctas=ctas)  # fmt: skip
    a, b = _operands(m, n, k, dtype)
    case = built.case(folder, f"host_descriptors_{dtype}_{tile}", _grid(m, n, tile))
    case.buffer("A", dtype, a)
    b_stored = np.ascontiguousarray(b.T) if b_is_kn else b
    case.buffer("B", dtype, b_stored)
    case.buffer("C", out, (m, n))
    built.descriptor(case, 0, "A", dtype, (m, k))
    built.descriptor(case, 1, "B", dtype, b_stored.shape)
    built.descriptor(case, 2, "C", out, (m, n))
    case.scalar(k, "u32")
    case.expects("C", a @ b.T)
    return built.finish(case)


def matmul_device_descriptors(folder: Path, dtype: str, out: str, tile: Tile,
                              tiles: tuple[int, int, int] = (2, 1, 2)) -> Path:  # fmt: skip
    """C = A B^T with tensor maps made by the kernel, edges included."""
    m, n, k = (count * size for count, size in zip(tiles, (tile.m, tile.n, tile.k), strict=True))
    m, n, k = m - 16, n - 16, k - 16
    types = dict.fromkeys(("a", "b"), "*" + TRITON_TYPES[dtype]) | {"c": "*" + TRITON_TYPES[out]}
    built = build(kernels.matmul_device_descriptors, types | dict.fromkeys(("m", "n", "k"), "i32"), tile.constants,
                  num_warps=tile.warps, num_stages=tile.stages)  # fmt: skip
    a, b = _operands(m, n, k, dtype)
    case = built.case(folder, f"device_descriptors_{dtype}_{tile}", _grid(m, n, tile))
    for name, type_, values in (("A", dtype, a), ("B", dtype, b), ("C", out, (m, n))):
        case.buffer(name, type_, values)
        case.pointer(name)
    for value in (m, n, k):
        case.scalar(value, "u32")
    case.expects("C", a @ b.T)
    return built.finish(case)


def matmul_persistent(folder: Path, dtype: str, out: str, tile: Tile, *, warp_specialize: bool, flatten: bool = False,
                      tiles: tuple[int, int, int] = (3, 2, 2), programs: int = 2) -> Path:  # fmt: skip
    """C = A B^T; a program takes several tiles."""
    m, n, k = (count * size for count, size in zip(tiles, (tile.m, tile.n, tile.k), strict=True))
    word = TRITON_TYPES[dtype]
    types = {"a": f"tensordesc<{word}[{tile.m}, {tile.k}]>", "b": f"tensordesc<{word}[{tile.n}, {tile.k}]>",
             "c": f"tensordesc<{TRITON_TYPES[out]}[{tile.m}, {tile.n}]>"}  # fmt: skip
    built = build(kernels.matmul_persistent, types | dict.fromkeys(("m", "n", "k"), "i32"),
                  {**tile.constants, "WARP_SPECIALIZE": warp_specialize, "FLATTEN": flatten, "TYPE": TL_TYPES[out]},
                  num_warps=tile.warps, num_stages=tile.stages)  # fmt: skip
    a, b = _operands(m, n, k, dtype)
    case = built.case(folder, f"persistent_{dtype}_{tile}", (programs, 1, 1))
    case.buffer("A", dtype, a)
    case.buffer("B", dtype, b)
    case.buffer("C", out, (m, n))
    built.descriptor(case, 0, "A", dtype, (m, k))
    built.descriptor(case, 1, "B", dtype, (n, k))
    built.descriptor(case, 2, "C", out, (m, n))
    for value in (m, n, k):
        case.scalar(value, "u32")
    case.expects("C", a @ b.T)
    return built.finish(case)


def attention(folder: Path, dtype: str, head: int, *, causal: bool, block_n: int = 64, length: int = 256,
              heads: int = 1, warps: int = 4, stages: int = 2, warp_specialize: bool = False) -> Path:  # fmt: skip
    """Softmax attention."""
    word, block_m = TRITON_TYPES[dtype], 128
    types = {name: f"tensordesc<{word}[{block_m if name in 'qo' else block_n}, {head}]>" for name in "qkvo"}
    types |= {"log_sum": "*fp32", "scale": "fp32", "length": "i32"}
    built = build(kernels.attention, types, {
        "HEAD": head, "BM": block_m, "BN": block_n, "CAUSAL": causal, "WARP_SPECIALIZE": warp_specialize,
        "TYPE": TL_TYPES[dtype],
    }, num_warps=warps, num_stages=stages)  # fmt: skip
    random = np.random.default_rng(5)
    shape = (heads * length, head)
    q, k, v = (random.standard_normal(shape).astype(NUMPY_TYPES[dtype]) for _ in range(3))
    scale = float(np.float32(1.4426950408889634 / np.sqrt(head)))
    case = built.case(folder, f"attention_{dtype}_{head}", (length // block_m, heads, 1))
    for index, (name, values) in enumerate((("Q", q), ("K", k), ("V", v), ("O", shape))):
        case.buffer(name, dtype, values)
        built.descriptor(case, index, name, dtype, shape)
    case.buffer("L", "f32", (heads * length,))
    case.pointer("L")
    case.scalar(scale, "f32")
    case.scalar(length, "u32")
    out, log_sum = _attention_reference(*(x.astype(np.float64).reshape(heads, length, head) for x in (q, k, v)),
                                        scale, causal)  # fmt: skip
    unit = 2.0**-8 if dtype == "bf16" else 2.0**-11
    case.expects("O", out.reshape(shape), rtol=2 * unit, atol=2 * unit)
    case.expects("L", log_sum.reshape(-1), rtol=1e-5, atol=1e-5)
    return built.finish(case)


def _attention_reference(
    q: NDArray[np.float64], k: NDArray[np.float64], v: NDArray[np.float64], scale: float, causal: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    score = q @ k.transpose(0, 2, 1) * scale
    if causal:
        score = np.where(np.tri(score.shape[1], dtype=bool), score, -np.inf)
    top = score.max(axis=2, keepdims=True)
    weight = np.exp2(score - top)
    total = weight.sum(axis=2, keepdims=True)
    return weight @ v / total, (top + np.log2(total))[..., 0]


def _scaled_operand(seed: int, rows: int, k: int, format_: str, vector: int, scale_type: str) -> tuple[
    NDArray[np.float64], NDArray[np.uint8], NDArray[np.uint8]
]:  # fmt: skip
    """Scaled values, element bytes, scale bytes."""
    type_, pack = FORMATS[format_]
    random = np.random.default_rng(seed)
    values = random.choice([-3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4], (rows, k)).astype(type_)
    words = values.view(np.uint8)
    if pack == 2:
        words = (words[:, 0::2] & 0xF) | (words[:, 1::2] << 4)
    scale_type_ = ml_dtypes.float8_e8m0fnu if scale_type == "ue8m0" else ml_dtypes.float8_e4m3fn
    scale = np.exp2(random.integers(-1, 2, (rows, k // vector))).astype(scale_type_)
    full = values.astype(np.float64) * np.repeat(scale.astype(np.float64), vector, axis=1)
    return full, np.ascontiguousarray(words), scale.view(np.uint8)


def matmul_scaled(folder: Path, a_format: str, b_format: str, vector: int, tile: Tile, *, packed_scales: bool = False,
                  tiles: tuple[int, int, int] = (2, 1, 2)) -> Path:  # fmt: skip
    """mxfp8, mxfp4 or nvfp4 (vector 16, scales ue4m3)."""
    m, n, k = (count * size for count, size in zip(tiles, (tile.m, tile.n, tile.k), strict=True))
    scale_type = "ue8m0" if vector == 32 else "ue4m3"
    scale_word = "u8" if vector == 32 else "fp8e4nv"
    packs = FORMATS[a_format][1], FORMATS[b_format][1]
    words = [("u8" if pack == 2 else TRITON_TYPES[f]) for pack, f in zip(packs, (a_format, b_format), strict=True)]
    if packed_scales:
        types = {"a": f"tensordesc<{words[0]}[{tile.m}, {tile.k // packs[0]}]>",
                 "b": f"tensordesc<{words[1]}[{tile.n}, {tile.k // packs[1]}]>"}  # fmt: skip
    else:
        types = {"a": "*" + words[0], "b": "*" + words[1]}
    types |= {"a_scale": "*" + scale_word, "b_scale": "*" + scale_word, "c": "*fp32", "n": "i32", "k": "i32"}
    kernel = kernels.matmul_scaled_packed if packed_scales else kernels.matmul_scaled
    built = build(kernel, types, {
        **tile.constants, "A_TYPE": a_format, "B_TYPE": b_format, "VECTOR": vector, "A_PACK": packs[0],
        "B_PACK": packs[1],
    }, num_warps=tile.warps, num_stages=tile.stages)  # fmt: skip
    a, a_words, a_scale = _scaled_operand(1, m, k, a_format, vector, scale_type)
    b, b_words, b_scale = _scaled_operand(2, n, k, b_format, vector, scale_type)
    if packed_scales:
        a_scale, b_scale = _blocks(a_scale), _blocks(b_scale)
    case = built.case(folder, f"scaled_{a_format}_{b_format}_{vector}_{tile}", _grid(m, n, tile))
    buffers = {"A": a_words, "SA": a_scale, "B": b_words, "SB": b_scale}
    for name, values in buffers.items():
        case.buffer(name, "u8", values)
    case.buffer("C", "f32", (m, n))
    _scaled_arguments(built, case, buffers, packed_scales)
    for value in (n, k):
        case.scalar(value, "u32")
    case.expects("C", a @ b.T)
    return built.finish(case)


def _scaled_arguments(built: Any, case: CaseFile, buffers: dict[str, NDArray[Any]], descriptors: bool) -> None:
    for index, (operand, scale) in enumerate((("A", "SA"), ("B", "SB"))):
        if descriptors:
            built.descriptor(case, index, operand, "u8", buffers[operand].shape)
        else:
            case.pointer(operand)
        case.pointer(scale)
    case.pointer("C")


def _blocks(scale: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Blocks of 128 rows by 4 scales, each as 32 x (4 row groups) x (4 scales): what tcgen05.cp 32x128b spreads."""
    rows, columns = scale.shape
    blocks = scale.reshape(rows // 128, 4, 32, columns // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(blocks.reshape(rows // 128, columns // 4, 512))


def gluon_matmul(folder: Path, dtype: str, out: str, shape: tuple[int, int, int], *, pair: bool = False,
                 block_m: int = 128, warps: int = 4) -> Path:  # fmt: skip
    """C = A B^T of 2 x 1 tiles and two steps along K, each by one CTA or a pair; ``block_m`` rows of a CTA's block."""
    import gluon_kernels
    from triton.experimental.gluon.language import NVMMASharedLayout

    tile_m, tile_n, tile_k = shape
    m, n, k = 2 * tile_m, tile_n, 2 * tile_k
    split = [[1, 0]] if pair else []
    operand = NVMMASharedLayout(128, 8 * np.dtype(NUMPY_TYPES[dtype]).itemsize, 2, cga_layout=split)
    result = NVMMASharedLayout(128, 8 * np.dtype(NUMPY_TYPES[out]).itemsize, 2, cga_layout=split)
    word = TRITON_TYPES[dtype]
    types = {"a": f"tensordesc<{word}[{tile_m}, {tile_k}],{operand!r}>",
             "b": f"tensordesc<{word}[{tile_n}, {tile_k}],{operand!r}>",
             "c": f"tensordesc<{TRITON_TYPES[out]}[{tile_m}, {tile_n}],{result!r}>", "k": "i32"}  # fmt: skip
    constants = {"BM": tile_m, "BN": tile_n, "BK": tile_k, "BLOCK_M": block_m, "CTAS": 1 + pair}
    built = build(gluon_kernels.matmul_pair, types, constants, num_warps=warps, num_ctas=1 + pair)
    a, b = _operands(m, n, k, dtype)
    case = built.case(folder, f"gluon_{dtype}", (2, 1, 1))
    for index, (name, type_, values) in enumerate((("A", dtype, a), ("B", dtype, b), ("C", out, (m, n)))):
        case.buffer(name, type_, values)
        built.descriptor(case, index, name, type_, values if isinstance(values, tuple) else values.shape)
    case.scalar(k, "u32")
    case.expects("C", a @ b.T)
    return built.finish(case)
