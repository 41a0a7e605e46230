"""Kernels in CUDA C++ that use TMA, clusters and distributed shared memory as people do, under every policy."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from interop_case import CaseFile, small_integers

from umma_probe.harness.launch_case.report import exec_case
from umma_probe.model.trace import Trace

KERNELS = Path(__file__).parent / "kernels"
POLICIES = ["eager", "lazy", "random:1", "random:2", "random:3"]


def _case(folder: Path, name: str, grid: tuple[int, int, int], block: int, entry: str = "",
          cluster: tuple[int, int, int] | None = None, dynamic_smem: int = 0) -> CaseFile:  # fmt: skip
    source = (KERNELS / f"{name}.cu").read_text()
    return CaseFile(folder, name, source, entry or name, grid, block, cluster, dynamic_smem, suffix="cu")


def _passes(case: CaseFile, policies: list[str] = POLICIES) -> None:
    path = case.write()
    for policy in policies:
        report, _, _ = exec_case(path, target="model", policy=policy, strict=True)
        assert [c for c in report.checks if c.verdict != "pass"] == [], policy


def _runs_alone(case: CaseFile, why: str) -> None:
    """CTAs that meet in global memory run in one process, whatever is allowed."""
    report, _, device = exec_case(case.write(), target="model", strict=True, jobs=4)
    assert report.verdict == "pass"
    assert device.alone.startswith(why)


def test_histogram_over_a_cluster(tmp_path: Path) -> None:
    keys = np.random.default_rng(1).integers(0, 64, 1000)
    case = _case(tmp_path, "cluster_histogram", (8, 1, 1), 64, cluster=(4, 1, 1), dynamic_smem=64)
    case.buffer("out", "u32", (64,), "zero")
    case.buffer("keys", "u32", keys)
    case.pointer("out")
    case.pointer("keys")
    case.scalar(1000, "u32")
    case.scalar(64, "u32")
    case.expects("out", np.bincount(keys, minlength=64))
    _passes(case)


def test_multicast_tiles_are_transposed(tmp_path: Path) -> None:
    values = np.random.default_rng(2).integers(0, 1 << 15, (128, 64))
    case = _case(tmp_path, "multicast_transpose", (4, 1, 1), 96)
    case.buffer("in", "s16", values)
    case.buffer("out", "s16", (64, 128))
    case.tensor_map("map", "in", dtype="u16", rank=2, global_dim=[64, 128], global_strides=[128], box_dim=[64, 32],
                    swizzle="128B")  # fmt: skip
    case.args.append({"tensor_map": "map"})
    case.pointer("out")
    case.scalar(128, "u32")
    case.expects("out", values.T)
    _passes(case)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_token_in_a_ring(tmp_path: Path, size: int) -> None:
    case = _case(tmp_path, "ring", (2 * size, 1, 1), 32, cluster=(size, 1, 1))
    case.buffer("out", "u32", (2,))
    case.pointer("out")
    case.scalar(5, "u32")
    case.expects("out", np.full(2, 5 * size * (size + 1) // 2))
    _passes(case)


def test_stencil_with_a_halo_outside_the_volume(tmp_path: Path) -> None:
    nx, ny, nz = 20, 10, 6
    volume = np.random.default_rng(3).integers(-99, 99, (nz, ny, nx))
    padded = np.pad(volume, 1)
    expected = -6 * volume
    for axis in range(3):
        for step in (0, 2):
            window = [slice(1, -1)] * 3
            window[axis] = slice(step, padded.shape[axis] - 2 + step)
            expected = expected + padded[tuple(window)]
    case = _case(tmp_path, "stencil_3d", (3, 3, 2), 128)
    case.buffer("in", "s32", volume)
    case.buffer("out", "s32", volume.shape)
    case.tensor_map("map", "in", dtype="s32", rank=3, global_dim=[nx, ny, nz], global_strides=[nx * 4, nx * ny * 4],
                    box_dim=[16, 6, 6])  # fmt: skip
    case.args.append({"tensor_map": "map"})
    case.pointer("out")
    for extent in (nx, ny, nz):
        case.scalar(extent, "s32")
    case.expects("out", expected)
    _passes(case)


def test_a_barrier_over_the_grid(tmp_path: Path) -> None:
    values = np.random.default_rng(4).integers(-99, 99, 256)
    case = _case(tmp_path, "grid_barrier", (4, 1, 1), 64, entry="two_phases")
    case.buffer("out", "s32", (256,))
    case.buffer("scratch", "s32", (256,))
    case.buffer("in", "s32", values)
    for name in ("out", "scratch", "in"):
        case.pointer(name)
    case.scalar(256, "u32")
    case.expects("out", 2 * values[::-1] + 2 * values.reshape(-1, 2)[:, ::-1].reshape(-1))
    _passes(case)
    _runs_alone(case, "atom")


def _collatz(value: int) -> int:
    steps, v = 0, abs(value)
    while v not in (0, 1) and steps < 40:
        v = 3 * v + 1 if v % 2 else v // 2
        steps += 1
    return steps


def test_warp_patterns(tmp_path: Path) -> None:
    values = np.random.default_rng(5).integers(-50, 50, 64)
    warps = values.reshape(2, 32)
    kept = np.full((2, 32), -7)
    for row, warp in zip(kept, warps, strict=True):
        positive = warp[warp > 0]
        row[: len(positive)] = positive
    counts = [*np.bincount(values & 3, minlength=4), *(warps.max(1) * 1000 + warps.sum(1))]
    case = _case(tmp_path, "warp_patterns", (1, 1, 1), 64)
    case.buffer("kept", "s32", np.full(64, -7))
    case.buffer("counts", "s32", (6,), "zero")
    case.buffer("in", "s32", values)
    case.buffer("steps", "s32", (64,))
    for name in ("kept", "counts", "in", "steps"):
        case.pointer(name)
    case.expects("kept", kept)
    case.expects("counts", np.array(counts))
    case.expects("steps", np.array([_collatz(int(v)) for v in values]))
    _passes(case)


def test_mma_sync_with_ldmatrix(tmp_path: Path) -> None:
    a, b = small_integers(6, (16, 16), 9), small_integers(7, (16, 8), 9)
    case = _case(tmp_path, "mma_sync", (1, 1, 1), 32)
    case.buffer("d", "f32", (16, 8))
    case.buffer("a", "bf16", a.astype(ml_dtypes.bfloat16))
    case.buffer("b", "bf16", b.astype(ml_dtypes.bfloat16))
    for name in "dab":
        case.pointer(name)
    case.expects("d", a @ b)
    _passes(case)


def test_a_tma_reduction_from_several_ctas(tmp_path: Path) -> None:
    parts = small_integers(8, (5, 16, 32), 99)
    case = _case(tmp_path, "split_k_reduce", (5, 1, 1), 128)
    case.buffer("out", "f32", (16, 32), "ones")
    case.buffer("parts", "f32", parts)
    case.tensor_map("map", "out", dtype="f32", rank=2, global_dim=[32, 16], global_strides=[128], box_dim=[32, 16])
    case.args.append({"tensor_map": "map"})
    case.pointer("parts")
    case.expects("out", parts.sum(0) + 1)
    _passes(case)
    _runs_alone(case, "cp.reduce.async.bulk")


def _stream_k(folder: Path) -> Path:
    given = small_integers(9, (2, 4, 64), 99)
    case = _case(folder, "stream_k", (8, 1, 1), 64)
    case.buffer("out", "f32", (2, 64))
    case.buffer("parts", "f32", (8, 64))
    case.buffer("flags", "u32", (8,), "zero")
    case.buffer("in", "f32", given)
    for name in ("out", "parts", "flags", "in"):
        case.pointer(name)
    case.scalar(4, "u32")
    case.expects("out", given.sum(1))
    return case.write()


def test_parts_handed_over_through_global_memory(tmp_path: Path) -> None:
    path = _stream_k(tmp_path)
    for policy in POLICIES:
        assert exec_case(path, target="model", policy=policy, strict=True)[0].verdict == "pass"


@pytest.mark.parametrize("jobs", [2, 3, 8])
def test_ctas_that_wait_for_each_other_run_in_one_process(tmp_path: Path, jobs: int) -> None:
    # with two processes a tile's CTAs are together: then nothing crosses
    report, _, device = exec_case(_stream_k(tmp_path), target="model", strict=True, jobs=jobs)
    assert report.verdict == "pass"
    assert device.alone.startswith("" if jobs == 2 else ("a part of the grid ends with", "one part of the grid reads"))
    assert bool(device.alone) == (jobs > 2)


def test_equal_stores_of_a_warp_are_one(tmp_path: Path) -> None:
    values = small_integers(9, (8, 32), 99)
    case = _case(tmp_path, "whole_warp_store", (1, 1, 1), 64)
    case.buffer("out", "f32", (8, 32))
    case.buffer("in", "f32", values)
    case.tensor_map("map", "out", dtype="f32", rank=2, global_dim=[32, 8], global_strides=[128], box_dim=[32, 8])
    case.args.append({"tensor_map": "map"})
    case.pointer("in")
    case.expects("out", values)
    _passes(case)
    trace = Trace()
    exec_case(case.write(), target="model", policy="lazy", trace=trace)
    assert [row.operation for row in trace.rows] == ["bulk.read", "bulk.write"]
