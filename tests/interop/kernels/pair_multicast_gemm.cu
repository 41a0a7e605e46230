// C = A B^T, bf16, 256 x 128 by a cluster of four: two pairs of CTAs, each pair multiplies 256 x 64. CTA rank r holds rows
// 128 (r % 2) of A and half a pair's rows of B. The A of a row block goes to both pairs: each loads a half and multicasts it.
#include "common.cuh"

constexpr u32 N = 64, K = 64, A_BYTES = 128 * K * 2, B_BYTES = N / 2 * K * 2;
constexpr u32 IDESC = 1 << 4 | 1 << 7 | 1 << 10 | N / 8 << 17 | 256 / 16 << 24;
constexpr u64 DESC = u64(1024 / 16) << 32 | 1ull << 46 | 2ull << 61;

DEVICE void commit_to_all(u32 mbar) {
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
               :: "r"(mbar), "h"(u16(15)) : "memory");
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(128)
pair_multicast_gemm(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* c, u32 steps) {
  extern __shared__ __align__(1024) u8 tiles[];
  __shared__ __align__(8) u64 full, consumed, finished;
  __shared__ u32 slot;
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, pair = rank / 2, base = shared_address(tiles);
  const u32 loaded = shared_address(&full), done = shared_address(&consumed), end = shared_address(&finished);
  if (threadIdx.x == 0) {
    mbarrier_init(loaded, 1);
    mbarrier_init(done, 2);  // both pairs have read what this CTA multicasts into them, and what it holds
    mbarrier_init(end, 2);
    fence_mbarrier_init();
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (warp == 0) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 64;" :: "r"(shared_address(&slot)) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
  }
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  const u32 taddr = slot;
  if (warp == 0 && elect_sync()) {
    for (u32 step = 0; step < steps; ++step) {
      if (step != 0) mbarrier_wait_parity(done, (step - 1) & 1);
      if (rank % 2 == 0) mbarrier_arrive_expect_tx(loaded, 2 * (A_BYTES + B_BYTES));
      // the even CTA of each pair counts the bytes of both: bit 24 of the barrier's address cleared
      const u32 counts = loaded & 0xFEFFFFFF;
      asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                   ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                   :: "r"(base + pair * A_BYTES / 2), "l"(&a_map), "r"(step * K), "r"(rank % 2 * 128 + pair * 64), "r"(counts),
                      "h"(u16(5 << rank % 2)) : "memory");
      asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                   " [%0], [%1, {%2, %3}], [%4];"
                   :: "r"(base + A_BYTES), "l"(&b_map), "r"(step * K), "r"(rank * N / 2), "r"(counts) : "memory");
      if (rank % 2 == 0) {
        mbarrier_wait_parity(loaded, step & 1);
        for (u32 i = 0; i < K / 16; ++i)
          asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
                       "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n\t}"
                       :: "r"(taddr), "l"(with_start_address(DESC, base + 32 * i)),
                          "l"(with_start_address(DESC, base + A_BYTES + 32 * i)), "r"(IDESC), "r"(step + i) : "memory");
        commit_to_all(done);
      }
    }
    if (rank % 2 == 0) commit_to_all(end);
  }
  __syncwarp();
  mbarrier_wait_parity(end, 0);
  tcgen05_fence_after_thread_sync();
  u32 words[N];
  tcgen05_ld_32x32b(tmem_address(warp * WARP, 0) + taddr, words);
  tcgen05_wait_ld();
  float* row = c + (rank % 2 * 128 + warp * WARP + lane) * 2 * N + pair * N;
  for (u32 i = 0; i < N; ++i) row[i] = __uint_as_float(words[i]);
  tcgen05_fence_before_thread_sync();
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  tcgen05_fence_after_thread_sync();
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;" :: "r"(taddr));
}
