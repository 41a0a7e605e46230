"""Budgets against sums by hand. The kernel itself refuses to compile with another total."""

from __future__ import annotations

import pytest

from umma_probe.harness.fmha.budget import budget
from umma_probe.harness.fmha.problem import HEAD_DIMS, FmhaProblem


@pytest.mark.parametrize(
    ("hd", "p_in_tmem", "stages", "kib"),
    [
        (16, True, 4, 21),  # Q 4, ring 4 x 4, barriers
        (64, True, 4, 81),  # Q 16, ring 4 x 16, barriers
        (64, False, 4, 113),  # and P 32
        (128, False, 4, 193),  # P 32, Q 32, ring 4 x 32
        (192, True, 3, 193),  # Q 48, ring 3 x 48; a fourth would make 240 KiB
        (256, False, 2, 225),  # P 32, Q 64, ring 2 x 64
    ],
)
def test_shared_memory(hd: int, p_in_tmem: bool, stages: int, kib: int) -> None:
    plan = budget(FmhaProblem(hd, p_in_tmem=p_in_tmem))
    assert (plan.stages, plan.smem_bytes) == (stages, kib * 1024)
    assert plan.smem_bytes <= 227 * 1024


@pytest.mark.parametrize("hd", HEAD_DIMS)
def test_tensor_memory(hd: int) -> None:
    plan = budget(FmhaProblem(hd))
    assert plan.used_columns == 256 + hd
    assert plan.allocated_columns == 512
    ends = [use.last + 1 for use in plan.tmem]
    assert [use.start for use in plan.tmem] == [0, *ends[:-1]]


@pytest.mark.parametrize(
    ("hd", "columns", "swizzle"),
    [(16, 16, "32B"), (32, 32, "64B"), (64, 64, "128B"), (96, 32, "64B"), (192, 64, "128B"), (256, 64, "128B")],
)
def test_boxes_are_one_swizzle_wide(hd: int, columns: int, swizzle: str) -> None:
    fields = FmhaProblem(hd, seq_k=9).tensor_map((1, 2, 9, hd))
    assert fields["box_dim"] == [columns, 128, 1, 1]
    assert fields["swizzle"] == swizzle
    assert fields["global_dim"] == [hd, 9, 2, 1]
    assert fields["global_strides"] == [2 * hd, 2 * hd * 9, 2 * hd * 9 * 2]


def test_sizes_without_a_kernel() -> None:
    def fields(problem: FmhaProblem) -> list[str]:
        return [item.field for item in problem.problems()]

    assert fields(FmhaProblem(48)) == ["hd"]
    assert fields(FmhaProblem(96, pv_n=64)) == ["pv_n"]
    assert fields(FmhaProblem(64, heads=3, kv_heads=2)) == ["heads"]
    assert fields(FmhaProblem(64, heads=70000, kv_heads=1, batch=70000)) == ["heads", "batch"]
    assert fields(FmhaProblem(256, pv_n=64)) == []
