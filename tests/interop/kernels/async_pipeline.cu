// Row sums through a ring of cp.async groups; the tail of a row is filled with zeros. Then once more, with the copies
// counted by an mbarrier.
#include "common.cuh"

constexpr u32 STAGES = 3, CHUNK = 4 * WARP;

DEVICE void copy(u32 smem, const float* from, u32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(smem), "l"(from), "r"(bytes) : "memory");
}

extern "C" __global__ void async_pipeline(float* sums, const float* rows, u32 length) {
  __shared__ __align__(16) float ring[STAGES][CHUNK];
  __shared__ __align__(8) u64 full;
  const float* row = rows + blockIdx.x * length;
  const u32 chunks = (length + CHUNK - 1) / CHUNK, own = 4 * threadIdx.x;
  const auto fetch = [&](u32 chunk) {
    const u32 at = chunk * CHUNK + own;
    copy(shared_address(&ring[chunk % STAGES][own]), at < length ? row + at : row, at < length ? min(16u, 4 * (length - at)) : 0);
  };
  for (u32 i = 0; i < STAGES - 1; ++i) {
    if (i < chunks) fetch(i);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  float sum = 0;
  for (u32 i = 0; i < chunks; ++i) {
    if (i + STAGES - 1 < chunks) fetch(i + STAGES - 1);
    asm volatile("cp.async.commit_group;\n\tcp.async.wait_group %0;" :: "n"(STAGES - 1) : "memory");
    for (u32 j = 0; j < 4; ++j) sum += ring[i % STAGES][own + j];
  }
  const u32 mbar = shared_address(&full);
  if (threadIdx.x == 0) mbarrier_init(mbar, WARP);
  __syncwarp();
  for (u32 i = 0; i < chunks; ++i) {
    fetch(i);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(mbar) : "memory");
    mbarrier_wait_parity(mbar, i & 1);
    sum += ring[i % STAGES][CHUNK - 1 - threadIdx.x] + ring[i % STAGES][threadIdx.x];
    sum += ring[i % STAGES][CHUNK / 2 + threadIdx.x] + ring[i % STAGES][CHUNK / 2 - 1 - threadIdx.x];
    __syncwarp();
  }
  for (u32 step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
