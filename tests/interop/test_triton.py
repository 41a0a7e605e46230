"""Kernels that Triton compiles on the spot: every operand type, TMA, warp specialisation, attention, block scaling.

Inputs are small integers (attention apart), so that the expected values of NumPy are exact and no bit may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from umma_probe.harness.launch_case.report import exec_case

pytest.importorskip("triton")

import triton_cases as cases
from triton_cases import Tile

POLICIES = ("eager", "lazy", "random:1", "random:2", "random:3")
Make = Callable[[Path], Path]

KERNELS: dict[str, Make] = {
    # operands by pointer: cp.async, descriptors of shared memory in every swizzle, both majors of B
    "bf16": lambda folder: cases.matmul(folder, "bf16", "f32", Tile(128, 64, 64)),
    "bf16-edges": lambda folder: cases.matmul(folder, "bf16", "bf16", Tile(128, 128, 32, warps=8), masked=True),
    "f16-64-rows": lambda folder: cases.matmul(folder, "f16", "f16", Tile(64, 32, 32, stages=2), b_is_kn=False),
    "f16-16-rows": lambda folder: cases.matmul(folder, "f16", "f32", Tile(16, 64, 32)),
    "tf32": lambda folder: cases.matmul(folder, "tf32", "f32", Tile(64, 64, 32, stages=2)),
    "e4m3": lambda folder: cases.matmul(folder, "e4m3", "f32", Tile(128, 128, 128, warps=8, stages=4), b_is_kn=False),
    "e5m2": lambda folder: cases.matmul(folder, "e5m2", "f16", Tile(128, 64, 64)),
    "s8": lambda folder: cases.matmul(folder, "s8", "s32", Tile(64, 64, 64)),
    # tensor maps from the host, from the kernel, and a pair of CTAs
    "host-f16": lambda folder: cases.matmul_host_descriptors(folder, "f16", "f16", Tile(128, 64, 64, 8), b_is_kn=True),
    "host-tf32": lambda folder: cases.matmul_host_descriptors(folder, "tf32", "f32", Tile(64, 64, 32, stages=1)),
    "host-e4m3": lambda folder: cases.matmul_host_descriptors(folder, "e4m3", "f16", Tile(128, 256, 64)),
    "host-pair": lambda folder: cases.matmul_host_descriptors(folder, "bf16", "bf16", Tile(256, 64, 64), ctas=2),
    "device": lambda folder: cases.matmul_device_descriptors(folder, "bf16", "bf16", Tile(128, 64, 64)),
    "persistent": lambda folder: cases.matmul_persistent(
        folder, "f16", "f16", Tile(128, 64, 64), warp_specialize=True, flatten=True
    ),
    # layouts and pairs that the kernel chooses: cta_group::2 with M = 256 and 128
    "gluon-64-rows": lambda folder: cases.gluon_matmul(folder, "bf16", "f16", (64, 64, 64), block_m=64),
    "gluon-pair-256": lambda folder: cases.gluon_matmul(folder, "e4m3", "f16", (256, 128, 128), pair=True, warps=8),
    "gluon-pair-128": lambda folder: cases.gluon_matmul(folder, "f16", "f16", (128, 64, 64), pair=True, block_m=64),
    # exponentials and the online softmax; score and output in Tensor Memory
    "attention-64-causal": lambda folder: cases.attention(folder, "f16", 64, causal=True),
    "attention-128": lambda folder: cases.attention(folder, "bf16", 128, causal=False, warp_specialize=True),
    # block scaling, scales by tcgen05.st or tcgen05.cp
    "mxfp8": lambda folder: cases.matmul_scaled(folder, "e4m3", "e5m2", 32, Tile(128, 64, 128, stages=2)),
    "mxfp8-mxfp4": lambda folder: cases.matmul_scaled(folder, "e4m3", "e2m1", 32, Tile(128, 128, 128, stages=2)),
    "mxfp8-mxfp4-maps": lambda folder: cases.matmul_scaled(
        folder, "e5m2", "e2m1", 32, Tile(128, 128, 128, warps=8, stages=2), packed_scales=True
    ),
    "mxfp4": lambda folder: cases.matmul_scaled(
        folder, "e2m1", "e2m1", 32, Tile(128, 128, 256, stages=2), packed_scales=True
    ),
    "nvfp4": lambda folder: cases.matmul_scaled(
        folder, "e2m1", "e2m1", 16, Tile(128, 128, 128, stages=2), packed_scales=True
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(tmp_path: Path, name: str) -> None:
    path = KERNELS[name](tmp_path)
    for policy in POLICIES:
        report, _, _ = exec_case(path, target="model", policy=policy)
        assert [check for check in report.checks if check.verdict != "pass"] == [], policy
