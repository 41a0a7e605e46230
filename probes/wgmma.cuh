// PTX wrappers for wgmma kernels (sm_90a), each named like the instruction that it emits.
#pragma once

#include "common.cuh"

// Orders the registers that this warp wrote, and its ordinary accesses to shared memory, before the next wgmma.mma_async.
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

DEVICE void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Returns when at most PENDING of the newest groups are under way.
template <int PENDING>
DEVICE void wgmma_wait_group() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory"); }

// Copies a whole picture of shared memory, 16 bytes at a time; all threads of the CTA take part.
DEVICE void stage_image(u32 smem, const uint4* image, u32 bytes) {
#pragma unroll 1
  for (u32 i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
    const uint4 chunk = image[i];
    const u32 words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
    st_shared_v4(smem + 16 * i, words);
  }
}
