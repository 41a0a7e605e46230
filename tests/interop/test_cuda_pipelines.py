"""Hand-written CUDA kernels as frameworks build them, each with NumPy's result under every policy: warp roles, rings of
stages, pairs of CTAs, queues across a cluster, TMA in its less common forms, scaled and narrow operands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interop_case import CaseFile, small_integers
from numpy.typing import NDArray

from umma_probe.assets import asset_dir
from umma_probe.harness.launch_case.report import exec_case

KERNELS = Path(__file__).parent / "kernels"
POLICIES = ["eager", "lazy", "random:1"]


def _case(folder: Path, name: str, grid: int, block: int, *, cluster: int = 0, dynamic_smem: int = 0,
          options: tuple[str, ...] = ()) -> CaseFile:  # fmt: skip
    source = (KERNELS / f"{name}.cu").read_text()
    extra = {"include_dirs": [str(asset_dir("probes"))], "nvrtc_options": list(options)}
    return CaseFile(folder, name, source, name, (grid, 1, 1), block, (cluster, 1, 1) if cluster else None, dynamic_smem,
                    suffix="cu", extra=extra)  # fmt: skip


def _passes(case: CaseFile) -> None:
    path = case.write()
    for policy in POLICIES:
        report, _, _ = exec_case(path, target="model", policy=policy, strict=True)
        assert [c for c in report.checks if c.verdict != "pass"] == [], policy


def _swizzled_map(case: CaseFile, buffer: str, columns: int, rows: int, box_rows: int) -> None:
    """64 columns of bf16 at a time, in the 128-byte swizzle."""
    case.tensor_map(f"{buffer}_map", buffer, dtype="bf16", rank=2, global_dim=[columns, rows],
                    global_strides=[2 * columns], box_dim=[64, box_rows], swizzle="128B")  # fmt: skip
    case.args.append({"tensor_map": f"{buffer}_map"})


# ---------------------------------------------------------------------- tensor core
def test_persistent_warp_specialised_gemm(tmp_path: Path) -> None:
    m, n, k = 256, 192, 256
    a, b = small_integers(1, (m, k)), small_integers(2, (n, k))
    case = _case(tmp_path, "persistent_gemm", 2, 192, dynamic_smem=3 * (128 + 64) * 128)
    case.buffer("a", "bf16", a)
    case.buffer("b", "bf16", b)
    case.buffer("c", "f32", (m, n))
    _swizzled_map(case, "a", k, m, 128)
    _swizzled_map(case, "b", k, n, 64)
    case.pointer("c")
    for extent in (m, n, k):
        case.scalar(extent, "u32")
    case.expects("c", a @ b.T)
    _passes(case)


def test_two_pairs_share_their_rows_by_multicast(tmp_path: Path) -> None:
    k = 192
    a, b = small_integers(3, (256, k)), small_integers(4, (128, k))
    case = _case(tmp_path, "pair_multicast_gemm", 4, 128, dynamic_smem=128 * 128 + 32 * 128)
    case.buffer("a", "bf16", a)
    case.buffer("b", "bf16", b)
    case.buffer("c", "f32", (256, 128))
    _swizzled_map(case, "a", k, 256, 64)
    _swizzled_map(case, "b", k, 128, 32)
    case.pointer("c")
    case.scalar(k // 64, "u32")
    case.expects("c", a @ b.T)
    _passes(case)


def _scale_block(factors: NDArray[Any]) -> NDArray[Any]:
    """(128, 4) factors as tcgen05.cp takes them: row r % 32, then r / 32, then the step of K."""
    return factors.reshape(4, 32, 4).transpose(1, 0, 2)


def test_block_scaled_gemm_with_factors_by_copy(tmp_path: Path) -> None:
    steps = 2
    random = np.random.default_rng(13)
    a, b = small_integers(14, (128, 128 * steps)), small_integers(15, (64, 128 * steps))
    exponents_a, exponents_b = random.integers(-3, 4, (128, 4 * steps)), random.integers(-3, 4, (64, 4 * steps))
    case = _case(tmp_path, "scaled_gemm", 1, 128, dynamic_smem=(128 + 64) * 128)
    for name, rows in (("a", a), ("b", b)):
        case.buffer(name, "e4m3", rows)
        case.tensor_map(f"{name}_map", name, dtype="u8", rank=2, global_dim=[rows.shape[1], len(rows)],
                        global_strides=[rows.shape[1]], box_dim=[128, len(rows)], swizzle="128B")  # fmt: skip
        case.args.append({"tensor_map": f"{name}_map"})
    for name, exponents in (("scales_a", exponents_a), ("scales_b", exponents_b)):
        whole = np.full((128, 4 * steps), 127)
        whole[: len(exponents)] = exponents + 127
        case.buffer(name, "u8", np.stack([_scale_block(part) for part in np.split(whole, steps, axis=1)]))
        case.pointer(name)
    case.buffer("c", "f32", (128, 64))
    case.pointer("c")
    case.scalar(steps, "u32")
    scaled_a, scaled_b = (
        rows * np.repeat(2.0**exponents, 32, 1) for rows, exponents in ((a, exponents_a), (b, exponents_b))
    )
    case.expects("c", scaled_a @ scaled_b.T)
    _passes(case)


@pytest.mark.parametrize("m", [32, 64])
def test_unpacked_four_bit_operand_weight_stationary(tmp_path: Path, m: int) -> None:
    codes = np.random.default_rng(16).integers(0, 16, (m, 128))
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    a, b = np.where(codes < 8, 1, -1) * values[codes % 8], small_integers(17, (64, 128))
    case = _case(tmp_path, "narrow_gemm", 1, 128, dynamic_smem=(m + 64) * 128, options=(f"-DMMA_M={m}",))
    case.buffer("a", "u8", codes[:, 0::2] | codes[:, 1::2] << 4)
    case.tensor_map("a_map", "a", dtype="16u4_align16b", rank=2, global_dim=[128, m], global_strides=[64],
                    box_dim=[128, m], swizzle="128B")  # fmt: skip
    case.buffer("b", "e4m3", b)
    case.tensor_map("b_map", "b", dtype="u8", rank=2, global_dim=[128, 64], global_strides=[128], box_dim=[128, 64],
                    swizzle="128B")  # fmt: skip
    case.args += [{"tensor_map": "a_map"}, {"tensor_map": "b_map"}]
    case.buffer("c", "f32", (m, 64))
    case.pointer("c")
    case.expects("c", a @ b.T)
    _passes(case)


# ---------------------------------------------------------------------- clusters and grids
@pytest.mark.parametrize("size", [2, 5, 8])
def test_a_queue_across_a_cluster(tmp_path: Path, size: int) -> None:
    rounds, clusters = 4, 2
    case = _case(tmp_path, "remote_queue", clusters * size, 32, cluster=size, dynamic_smem=size * 128)
    case.buffer("out", "u32", (clusters, 32))
    case.pointer("out")
    case.scalar(rounds, "u32")
    total = np.zeros(32, np.uint32)
    for turn in range(rounds):
        for producer in range(1, size):
            total = total * np.uint32(3) + np.uint32(producer * 1000 + turn * 10) + np.arange(32, dtype=np.uint32)
    case.expects("out", np.stack([total] * clusters))
    _passes(case)


def test_running_ctas_take_the_places_of_waiting_ones(tmp_path: Path) -> None:
    case = _case(tmp_path, "work_stealing", 190, 32)
    case.buffer("done", "u32", (190,), "zero")
    case.buffer("by", "u32", (190,))
    case.pointer("done")
    case.pointer("by")
    case.expects("done", np.arange(1, 191))
    _passes(case)


def test_stream_k_with_flags_in_global_memory(tmp_path: Path) -> None:
    count, k, share = 5, 96, 64
    a, b = small_integers(5, (count, k)), small_integers(6, (k,))
    grid = -(-count * k // share)
    case = _case(tmp_path, "dot_products_by_runs", grid, 32)
    case.buffer("out", "f32", (count,))
    case.buffer("a", "f32", a)
    case.buffer("b", "f32", b)
    case.buffer("workspace", "f32", (grid,))
    case.buffer("flags", "u32", (grid,), "zero")
    for name in ("out", "a", "b", "workspace", "flags"):
        case.pointer(name)
    for value in (count, k, share):
        case.scalar(value, "u32")
    case.expects("out", a @ b)
    _passes(case)


# ---------------------------------------------------------------------- copies
def test_rings_of_small_copies(tmp_path: Path) -> None:
    length = 452
    rows = small_integers(7, (3, length), 99)
    case = _case(tmp_path, "async_pipeline", 3, 32)
    case.buffer("sums", "f32", (3,))
    case.buffer("rows", "f32", rows)
    case.pointer("sums")
    case.pointer("rows")
    case.scalar(length, "u32")
    case.expects("sums", 2 * rows.sum(1))
    _passes(case)


def test_convolution_by_im2col(tmp_path: Path) -> None:
    images, h, w, c = 2, 8, 16, 8
    x, taps = small_integers(8, (images, h, w, c)), small_integers(9, (3, 3, c))
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = sum(padded[:, i : i + h, j : j + w] @ taps[i, j] for i in range(3) for j in range(3))
    case = _case(tmp_path, "im2col_conv", images * h * w // 32, 32)
    case.buffer("x", "f32", x)
    case.buffer("out", "f32", (images, h, w))
    case.buffer("filter", "f32", taps)
    case.tensor_map("map", "x", dtype="f32", rank=4, global_dim=[c, w, h, images],
                    global_strides=[4 * c, 4 * c * w, 4 * c * w * h], pixel_box_lower_corner=[-1, -1],
                    pixel_box_upper_corner=[-1, -1], channels_per_pixel=c, pixels_per_column=32)  # fmt: skip
    case.args.append({"tensor_map": "map"})
    case.pointer("out")
    case.pointer("filter")
    case.scalar(w, "u32")
    case.scalar(h, "u32")
    case.expects("out", np.asarray(expected))
    _passes(case)


def test_rows_by_index(tmp_path: Path) -> None:
    random = np.random.default_rng(10)
    table = random.integers(0, 1 << 16, (64, 32))
    rows, targets = random.permutation(64)[:32].reshape(8, 4), random.permutation(64)[:32].reshape(8, 4)
    expected = np.full((64, 32), 7)
    expected[targets] = table[rows] + np.arange(8)[:, None, None]
    case = _case(tmp_path, "gather_scatter", 8, 32)
    case.buffer("table", "u32", table)
    case.buffer("out", "u32", np.full((64, 32), 7))
    case.buffer("rows", "s32", rows)
    case.buffer("targets", "s32", targets)
    for name in ("table", "out"):
        case.tensor_map(
            f"{name}_map", name, dtype="u32", rank=2, global_dim=[32, 64], global_strides=[128], box_dim=[32, 1]
        )
        case.args.append({"tensor_map": f"{name}_map"})
    case.pointer("rows")
    case.pointer("targets")
    case.expects("out", expected)
    _passes(case)


REDUCTIONS: list[tuple[str, str, Any]] = [
    *[("add", dtype, np.add.reduce) for dtype in ("u32", "s32", "u64", "f16", "bf16", "f32")],
    *[(name, dtype, getattr(np, f"{name}imum").reduce) for name in ("min", "max")
      for dtype in ("u32", "s32", "u64", "s64", "f16", "bf16")],
    *[(name, "u32", getattr(np, f"bitwise_{name}").reduce) for name in ("and", "or", "xor")],
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "reduce"), REDUCTIONS, ids=[f"{n}-{d}" for n, d, _ in REDUCTIONS])
def test_tensor_reductions(tmp_path: Path, name: str, dtype: str, reduce: Any) -> None:
    bits = int(dtype.lstrip("busf"))
    rows: NDArray[Any] = np.random.default_rng(11).integers(-64 if dtype[0] in "sbf" else 0, 64, (5, 128 * 8 // bits))
    case = _case(tmp_path, "tensor_reduce", 4, 8, options=(f"-DOPERATION={name}",))
    case.buffer("out", dtype, rows[:1])
    case.buffer("rows", dtype, rows[1:])
    case.tensor_map(
        "map", "out", dtype=dtype, rank=1, global_dim=[rows.shape[1]], global_strides=[], box_dim=[rows.shape[1]]
    )
    case.args.append({"tensor_map": "map"})
    case.pointer("rows")
    case.expects("out", reduce(rows))
    _passes(case)


def test_a_map_made_on_the_device(tmp_path: Path) -> None:
    rows = 20
    matrix = np.random.default_rng(12).integers(0, 1 << 16, (rows, 32))
    case = _case(tmp_path, "retargeted_map", 4, 32)
    case.buffer("matrix", "u32", matrix)
    case.buffer("other", "u32", (8, 32), "zero")
    case.buffer("made", "u8", (128,))
    case.buffer("ready", "u32", (1,), "zero")
    case.buffer("out", "u32", (24, 32))
    case.tensor_map("pattern", "other", dtype="u32", rank=2, global_dim=[32, 8], global_strides=[128], box_dim=[32, 8])
    case.args.append({"tensor_map": "pattern"})
    for name in ("made", "ready", "matrix"):
        case.pointer(name)
    case.scalar(32, "u32")
    case.scalar(rows, "u32")
    case.pointer("out")
    case.expects("out", np.pad(matrix, ((0, 24 - rows), (0, 0))))
    _passes(case)
