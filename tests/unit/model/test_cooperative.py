"""Cooperative launches: ``cg::this_grid().sync()`` of the CUDA toolkit's headers, compiled by NVRTC."""

import numpy as np
import pytest

import umma_probe as up
from umma_probe.errors import ConfigError, DeviceError

REVERSE = """
#include <cooperative_groups.h>
extern "C" __global__ void reverse(unsigned* middle, unsigned* out) {
  auto grid = cooperative_groups::this_grid();
  for (unsigned round = 0; round < 3; ++round) {
    middle[grid.thread_rank()] = 100 * round + grid.thread_rank();
    grid.sync();
    out[round * grid.size() + grid.thread_rank()] = middle[grid.size() - 1 - grid.thread_rank()];
    auto token = grid.barrier_arrive();
    grid.barrier_wait(static_cast<decltype(token)&&>(token));
  }
}
"""
TILES = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void sums(int* out) {
  auto tile = cg::tiled_partition<64>(cg::this_thread_block());
  int sum = cg::reduce(tile, int(threadIdx.x), cg::plus<int>());
  tile.sync();
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum + tile.shfl(1000 * int(threadIdx.x), 3);
}
"""
SIZES = """
extern "C" __global__ void sizes(unsigned* out) {
  __shared__ char fixed[300];
  asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(out[0]));
  asm volatile("mov.u32 %0, %%aggr_smem_size;" : "=r"(out[1]));
  asm volatile("mov.u32 %0, %%reserved_smem_offset_cap;" : "=r"(out[2]));
  fixed[threadIdx.x] = 0;
  asm volatile("" :: "r"((unsigned)__cvta_generic_to_shared(fixed)) : "memory");
}
"""
IDLE = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry idle() { ret; }
"""


@pytest.mark.parametrize("policy", ["eager", "lazy", "random:3"])
def test_every_cta_sees_what_all_wrote_before_the_barrier(policy: str) -> None:
    device = up.device("model", policy=policy)
    middle, out = device.array(np.zeros(256, np.uint32)), device.array(np.zeros((3, 256), np.uint32))
    device.compile(REVERSE)["reverse"].launch(grid=(2, 1, 2), block=(32, 2), cooperative=True, args=[middle, out])
    assert (out.numpy() == 100 * np.arange(3)[:, None] + 255 - np.arange(256)).all()


def test_several_processes_do_not_tear_a_cooperative_grid_apart() -> None:
    device = up.device("model")
    device.jobs = 2
    middle, out = device.array(np.zeros(128, np.uint32)), device.array(np.zeros((3, 128), np.uint32))
    device.compile(REVERSE)["reverse"].launch(grid=4, block=32, cooperative=True, args=[middle, out])
    assert device.alone == "the CTAs of a cooperative launch wait for each other"


def test_without_it_the_trap_says_what_is_missing() -> None:
    device = up.device("model")
    buffer = device.array(np.zeros(1024, np.uint32))
    with pytest.raises(DeviceError, match="trap") as caught:
        device.compile(REVERSE)["reverse"].launch(grid=2, block=32, args=[buffer, buffer])
    assert "cooperative=True" in caught.value.hint


@pytest.mark.parametrize(
    ("grid", "block", "dynamic_smem", "fits"),
    [
        (148, 32, 116 << 10, True),  # 117 KiB of 228 with what the system keeps: one CTA a multiprocessor
        (149, 32, 116 << 10, False),
        (148 * 2 + 1, 32, 113 << 10, False),
        (148 * 27, 33, 0, False),  # 2 warps each; the model holds 2**17 threads
        (129, 1024, 0, False),
    ],
)
def test_all_ctas_must_be_there_at_once(grid: int, block: int, dynamic_smem: int, fits: bool) -> None:
    kernel = up.device("model").load_ptx(IDLE)["idle"]
    if fits:
        kernel.launch(grid=grid, block=block, dynamic_smem=dynamic_smem, cooperative=True)
        return
    with pytest.raises(ConfigError, match=f"needs all CTAs at once: there are {grid} of .* must be at most"):
        kernel.launch(grid=grid, block=block, dynamic_smem=dynamic_smem, cooperative=True)


@pytest.mark.parametrize("policy", ["eager", "lazy", "random:3"])
def test_tiles_of_several_warps_meet_in_reserved_shared_memory(policy: str) -> None:
    device = up.device("model", policy=policy)
    out = device.array(np.zeros((2, 128), np.int32))
    outcome = device.compile(TILES)["sums"].launch(grid=2, block=128, args=[out])
    assert not outcome.findings
    tiles = np.arange(128) // 64
    assert (out.numpy() == np.array([2016, 6112])[tiles] + 1000 * (64 * tiles + 3)).all()


def test_sizes_of_shared_memory() -> None:
    """300 static bytes and 100 dynamic ones in units of 128, with and without the KiB of the system."""
    device = up.device("model")
    out = device.array(np.zeros(3, np.uint32))
    device.compile(SIZES)["sizes"].launch(grid=1, block=1, dynamic_smem=100, args=[out])
    assert out.numpy().tolist() == [512, 512 + 1024, 1024]
