"""Tensor Memory as a store: allocation, shadow, snapshots."""

from __future__ import annotations

import numpy as np
import pytest
from bench import bench
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.errors import DeviceError, IllegalProgram
from umma_probe.model.state.bytes import POISON_WORD
from umma_probe.model.state.tmem import TensorMemory
from umma_probe.spec.machine import arch

SIZES = [32, 64, 128, 256, 512]


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(SIZES), st.none()), max_size=12))
def test_blocks_never_overlap(actions: list[int | None]):
    """Allocate in sizes that do not grow; None frees the oldest block."""
    tmem = TensorMemory(1, arch("sm_100a"))
    owner = np.full(512, -1)
    blocks: list[tuple[int, int]] = []
    largest = 512
    for number, action in enumerate(actions):
        if action is None:
            if blocks:
                base, size = blocks.pop(0)
                assert tmem.deallocate((0,), base, size) == []
                owner[base : base + size] = -1
            continue
        size = min(action, largest)
        base = tmem.allocate((0,), size)
        gap = max((len(run) for run in "".join("x" if o >= 0 else "." for o in owner).split("x")), default=0)
        if base is None:
            assert gap < size
            continue
        assert base % 32 == 0
        assert (owner[base : base + size] == -1).all()
        owner[base : base + size] = number
        blocks.append((base, size))
        largest = size
        assert (tmem.allocated[0] == (owner >= 0)).all()


def test_a_pair_takes_columns_that_are_free_in_both():
    tmem = TensorMemory(2, arch("sm_100a"))
    tmem.allocate((0,), 64)
    assert tmem.allocate((0, 1), 64) == 64
    assert tmem.allocations[1].blocks == {64: 64}
    tmem.deallocate((0, 1), 64, 64)
    assert not tmem.allocated[1].any()


def test_new_columns_hold_nothing():
    launch = bench(columns=64)
    tmem = launch.tmem
    tmem.write_box(0, slice(0, 128), slice(0, 64), np.ones((128, 64), np.uint32), 7)
    assert tmem.writer[0, 5, 5] == 7
    tmem.deallocate((0,), 0, 64)
    assert tmem.snapshot(0).written[:, :64].all()  # what the kernel computed is still to be seen
    tmem.allocate((0,), 32)
    words, written = tmem.snapshot(0).words, tmem.snapshot(0).written
    assert (words[:, :32] == POISON_WORD).all()
    assert not written[:, :32].any()
    assert written[:, 32:64].all()


def test_reads_name_the_first_unwritten_cell():
    launch = bench()
    launch.tmem.write_box(0, np.array([3, 5, 9]), slice(10, 14), np.arange(12, dtype=np.uint32).reshape(3, 4), 0)
    read = launch.tmem.read(launch, 0, 0, np.array([3, 5, 9]), slice(10, 14), "test")
    assert read.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert not launch.findings
    launch.tmem.read(launch, 0, 0, np.array([3, 5, 10]), slice(11, 14), "test")
    assert "test reads lane 10, column 11 of CTA 0" in next(iter(launch.findings.values())).message
    launch.findings.clear()
    launch.tmem.read_cells(launch, 0, 0, np.array([[3], [5]]), np.array([[13, 14]]), "test")
    assert "test reads lane 3, column 14 of CTA 0" in next(iter(launch.findings.values())).message


@pytest.mark.parametrize(("lanes", "columns", "text"), [
    ((0, 129), (0, 1), "outside Tensor Memory"),
    ((0, 32), (510, 514), "outside Tensor Memory"),
    ((0, 32), (60, 68), "column 64 is not allocated"),
])  # fmt: skip
def test_boxes_that_do_not_fit(lanes: tuple[int, int], columns: tuple[int, int], text: str):
    launch = bench(columns=64)
    with pytest.raises(DeviceError, match=text):
        launch.tmem.check(launch, 0, 0, 0, lanes, columns, "test")


def test_the_illegal_sizes():
    tmem = TensorMemory(1, arch("sm_100a"))
    for size in (0, 16, 33, 96, 1024):
        with pytest.raises(IllegalProgram, match=f"{size} columns, must be a power of two"):
            tmem.allocate((0,), size)
