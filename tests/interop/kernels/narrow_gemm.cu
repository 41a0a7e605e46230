// C = A B^T of one tile: A of e2m1, which TMA takes packed from global memory and spreads to 16 bytes for 16 elements; B of
// e4m3. MMA_M = 64 or 32 rows, weight stationary: the columns of C lie in several parts of Tensor Memory (layouts E, G).
#include "common.cuh"

constexpr u32 M = MMA_M, N = 64, K = 128, PARTS = 128 / M, COLUMNS = N / PARTS;
constexpr u32 IDESC = 1 << 4 | 5 << 7 | N / 8 << 17 | M / 16 << 24;
constexpr u64 DESC = u64(1024 / 16) << 32 | 1ull << 46 | 2ull << 61;

extern "C" __global__ void __launch_bounds__(128)
narrow_gemm(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* c) {
  extern __shared__ __align__(1024) u8 tiles[];
  __shared__ __align__(8) u64 full, multiplied;
  __shared__ u32 slot;
  const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, base = shared_address(tiles);
  const u32 loaded = shared_address(&full), done = shared_address(&multiplied);
  if (threadIdx.x == 0) {
    mbarrier_init(loaded, 1);
    mbarrier_init(done, 1);
    fence_mbarrier_init();
  }
  if (warp == 1) {
    tcgen05_alloc(shared_address(&slot), 32);
    tcgen05_relinquish_alloc_permit();
  }
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  const u32 taddr = slot;
  if (warp == 0 && elect_sync()) {
    mbarrier_arrive_expect_tx(loaded, M * K / 2 + N * K);  // packed elements count as they lie in global memory
    const TensorMap* maps[2] = {&a_map, &b_map};
    for (u32 i = 0; i < 2; ++i)
      asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                   :: "r"(base + i * M * K), "l"(maps[i]), "r"(0), "r"(0), "r"(loaded) : "memory");
    mbarrier_wait_parity(loaded, 0);
    for (u32 k = 0; k < K / 32; ++k)
      tcgen05_mma_ws_f8f6f4(taddr, with_start_address(DESC, base + 32 * k), with_start_address(DESC, base + M * K + 32 * k), IDESC, k != 0);
    tcgen05_commit(done);
  }
  __syncwarp();
  mbarrier_wait_parity(done, 0);
  tcgen05_fence_after_thread_sync();
  u32 words[COLUMNS];
  tcgen05_ld_32x32b(tmem_address(warp * WARP, 0) + taddr, words);
  tcgen05_wait_ld();
  const u32 row = (warp * WARP + lane) % M, part = (warp * WARP + lane) / M;
  for (u32 i = 0; i < COLUMNS; ++i) c[row * N + part * COLUMNS + i] = __uint_as_float(words[i]);
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  if (warp == 1) tcgen05_dealloc(taddr, 32);
}
