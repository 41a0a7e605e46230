// C = A B^T, bf16. Warp 4 loads by TMA, warp 5 multiplies, warps 0-3 store: a ring of stages in shared memory, two
// accumulators in Tensor Memory, and each CTA takes tile after tile.
#include "common.cuh"

constexpr u32 M = 128, N = 64, K = 64, STAGES = 3, A_BYTES = M * K * 2, B_BYTES = N * K * 2;
constexpr u32 IDESC = 1 << 4 | 1 << 7 | 1 << 10 | N / 8 << 17 | M / 16 << 24;
constexpr u64 DESC = u64(1024 / 16) << 32 | 1ull << 46 | 2ull << 61;  // K-major, 128B swizzle

struct Ring {
  u32 stage = 0, parity = 0;
  DEVICE_MEMBER void next(u32 stages) { if (++stage == stages) { stage = 0; parity ^= 1; } }
};

DEVICE void load(u32 smem, const TensorMap& map, u32 x, u32 y, u32 mbar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               :: "r"(smem), "l"(&map), "r"(x), "r"(y), "r"(mbar) : "memory");
}

extern "C" __global__ void __launch_bounds__(192)
persistent_gemm(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* c, u32 m, u32 n, u32 k) {
  extern __shared__ __align__(1024) u8 tiles[];
  __shared__ __align__(8) u64 full[STAGES], empty[STAGES], multiplied[2], stored[2];
  __shared__ u32 slot;
  const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, steps = k / K, count = m / M * (n / N);
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < STAGES; ++i) { mbarrier_init(shared_address(&full[i]), 1); mbarrier_init(shared_address(&empty[i]), 1); }
    for (u32 i = 0; i < 2; ++i) { mbarrier_init(shared_address(&multiplied[i]), 1); mbarrier_init(shared_address(&stored[i]), 4 * WARP); }
    fence_mbarrier_init();
  }
  if (warp == 5) tcgen05_alloc(shared_address(&slot), 2 * N);
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  const u32 base = shared_address(tiles), taddr = slot;

  if (warp == 4 && elect_sync()) {
    Ring ring;
    for (u32 tile = blockIdx.x; tile < count; tile += gridDim.x)
      for (u32 step = 0; step < steps; ++step, ring.next(STAGES)) {
        const u32 smem = base + ring.stage * (A_BYTES + B_BYTES), mbar = shared_address(&full[ring.stage]);
        mbarrier_wait_parity(shared_address(&empty[ring.stage]), ring.parity ^ 1);
        mbarrier_arrive_expect_tx(mbar, A_BYTES + B_BYTES);
        load(smem, a_map, step * K, tile / (n / N) * M, mbar);
        load(smem + A_BYTES, b_map, step * K, tile % (n / N) * N, mbar);
      }
  } else if (warp == 5 && elect_sync()) {
    Ring ring, accumulator;
    for (u32 tile = blockIdx.x; tile < count; tile += gridDim.x, accumulator.next(2)) {
      mbarrier_wait_parity(shared_address(&stored[accumulator.stage]), accumulator.parity ^ 1);
      tcgen05_fence_after_thread_sync();
      for (u32 step = 0; step < steps; ++step, ring.next(STAGES)) {
        const u32 smem = base + ring.stage * (A_BYTES + B_BYTES);
        mbarrier_wait_parity(shared_address(&full[ring.stage]), ring.parity);
        for (u32 i = 0; i < K / 16; ++i)
          tcgen05_mma_f16(taddr + accumulator.stage * N, with_start_address(DESC, smem + 32 * i),
                          with_start_address(DESC, smem + A_BYTES + 32 * i), IDESC, step + i != 0);
        tcgen05_commit(shared_address(&empty[ring.stage]));
      }
      tcgen05_commit(shared_address(&multiplied[accumulator.stage]));
    }
  } else if (warp < 4) {
    Ring accumulator;
    for (u32 tile = blockIdx.x; tile < count; tile += gridDim.x, accumulator.next(2)) {
      mbarrier_wait_parity(shared_address(&multiplied[accumulator.stage]), accumulator.parity);
      tcgen05_fence_after_thread_sync();
      u32 words[N];
      tcgen05_ld_32x32b(tmem_address(warp * WARP, 0) + taddr + accumulator.stage * N, words);
      tcgen05_wait_ld();
      tcgen05_fence_before_thread_sync();
      mbarrier_arrive(shared_address(&stored[accumulator.stage]));
      float* row = c + (tile / (n / N) * M + warp * WARP + lane) * n + tile % (n / N) * N;
      for (u32 i = 0; i < N; ++i) row[i] = __uint_as_float(words[i]);
    }
  }
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  if (warp == 5) tcgen05_dealloc(taddr, 2 * N);
}
