// C = A * B^T in bf16 with f32 sums: TMA, one stage, tcgen05.mma, tcgen05.ld; every layout of a dense accumulator.
//
// Compile-time choices (-D): CTA_GROUP, MMA_M, MMA_N, WS (weight stationary); SWIZZLE (bytes; 0: 8 x 16-byte matrices);
// A_SOURCE (SHARED, TENSOR: copied there by the threads, GENERIC: stored by the threads, UNFENCED: the same without the
// proxy fence, which is a mistake); MULTICAST (two CTAs of a cluster share B, each loads half of it for both).
// A cluster makes one column of tiles, 128 threads a CTA.
#include "pair.cuh"

#define SHARED 0
#define TENSOR 1
#define GENERIC 2
#define UNFENCED 3

constexpr bool PAIR = CTA_GROUP == 2;
constexpr u32 CTAS = PAIR || MULTICAST ? 2 : 1;
constexpr u32 BLOCK_BYTES = SWIZZLE ? SWIZZLE : 32;  // of K, in a stage
constexpr u32 BLOCK_K = BLOCK_BYTES / 2;
constexpr u32 A_ROWS = MMA_M / CTA_GROUP, B_ROWS = MMA_N / CTA_GROUP, B_LOADED = MULTICAST ? B_ROWS / 2 : B_ROWS;
constexpr u32 A_BYTES = A_ROWS * BLOCK_BYTES, B_BYTES = B_ROWS * BLOCK_BYTES;
constexpr u32 SEGMENTS = A_ROWS < 128 && (WS || PAIR) ? 128 / A_ROWS : 1;  // into which N is cut
constexpr u32 COLUMNS = MMA_N / SEGMENTS, A_COLUMN = 256;

// bf16 x bf16 -> f32
constexpr u32 IDESC = 1 << 4 | 1 << 7 | 1 << 10 | MMA_N / 8 << 17 | MMA_M / 16 << 24;

// Rows of SWIZZLE bytes in groups of eight; or matrices of 8 rows x 16 bytes, one below the other, then the next 16 bytes.
DEVICE u64 descriptor(u32 smem, u32 rows) {
  constexpr u64 code = SWIZZLE == 128 ? 2 : SWIZZLE == 64 ? 4 : SWIZZLE == 32 ? 6 : 0;
  const u64 lbo = SWIZZLE ? 1 : rows, sbo = SWIZZLE ? SWIZZLE / 2 : 8;
  return (smem & 0x3ffff) >> 4 | lbo << 16 | sbo << 32 | 1ull << 46 | code << 61;
}

// A box: BLOCK_BYTES of K of some rows. Without swizzle the tensor is cut into 16 bytes x rows x the rest of K.
DEVICE void load(u32 smem, const TensorMap& map, u32 block, u32 row, u32 mbar, bool to_both) {
  const u32 inner = SWIZZLE ? block * BLOCK_K : 0, outer = SWIZZLE ? 0 : block * 2;
  if (to_both)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;"
                 :: "r"(smem), "l"(&map), "r"(inner), "r"(row), "r"(outer), "r"(mbar), "h"(u16(3)) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];"
                 :: "r"(smem), "l"(&map), "r"(inner), "r"(row), "r"(outer), "r"(mbar) : "memory");
}

#if CTA_GROUP == 2
#define GROUP "cta_group::2"
#define OPCODE "tcgen05.mma.cta_group::2.kind::f16"
#elif WS
#define GROUP "cta_group::1"
#define OPCODE "tcgen05.mma.ws.cta_group::1.kind::f16"
#else
#define GROUP "cta_group::1"
#define OPCODE "tcgen05.mma.cta_group::1.kind::f16"
#endif

DEVICE void mma(u32 d, u32 a_taddr, u64 a, u64 b, bool accumulate) {
#if A_SOURCE == TENSOR
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t" OPCODE " [%0], [%1], %2, %3, p;\n\t}"
               :: "r"(d), "r"(a_taddr), "l"(b), "r"(IDESC), "r"(u32(accumulate)) : "memory");
#else
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t" OPCODE " [%0], %1, %2, %3, p;\n\t}"
               :: "r"(d), "l"(a), "l"(b), "r"(IDESC), "r"(u32(accumulate)) : "memory");
#endif
}

DEVICE void commit(u32 mbar) {
  if (CTAS == 2)
    asm volatile("tcgen05.commit." GROUP ".mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 :: "r"(mbar), "h"(u16(3)) : "memory");
  else
    asm volatile("tcgen05.commit." GROUP ".mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(mbar) : "memory");
}

DEVICE void meet() {  // all threads of the cluster; tcgen05 operations before come before those after
  tcgen05_fence_before_thread_sync();
  if (CTAS == 2) barrier_cluster(); else __syncthreads();
  tcgen05_fence_after_thread_sync();
}

// A's rows through the threads, to where TMA or the tensor core would have them.
DEVICE void bring_a(const u32* a, u32 k, u32 row, u32 block, u32 smem, u32 tmem) {
  const u32* words = a + (row + threadIdx.x) * (k / 2) + block * (BLOCK_K / 2);
#pragma unroll
  for (u32 step = 0; step < BLOCK_BYTES / 32; ++step) {
    u32 r[8];
    for (u32 i = 0; i < 8; ++i) r[i] = words[step * 8 + i];
    if (A_SOURCE == TENSOR) {
      tcgen05_st_32x32b(tmem + A_COLUMN + step * 8 + (threadIdx.x / WARP << 21), r);
    } else {
      for (u32 half = 0; half < 2; ++half) {
        const u32 chunk = step * 2 + half, line = smem + threadIdx.x * BLOCK_BYTES;
        const u32 target = SWIZZLE ? line + ((chunk ^ (line >> 7 & SWIZZLE / 16 - 1)) << 4)
                                   : smem + chunk * A_ROWS * 16 + threadIdx.x * 16;
        const u32 part[4] = {r[half * 4], r[half * 4 + 1], r[half * 4 + 2], r[half * 4 + 3]};
        st_shared_v4(target, part);
      }
    }
  }
  if (A_SOURCE == TENSOR) tcgen05_wait_st();
  if (A_SOURCE == GENERIC) fence_proxy_async();
}

extern "C" __global__ void __launch_bounds__(128) __cluster_dims__(CTAS, 1, 1)
umma_gemm(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, const u32* a, float* c, u32 n,
          u32 k)
{
  extern __shared__ __align__(1024) u8 stage[];
  __shared__ __align__(8) u64 full, done;
  __shared__ u32 slot;
  const u32 warp = threadIdx.x / WARP, rank = CTAS == 2 ? cluster_ctarank() : 0;
  const u32 a_smem = shared_address(stage), b_smem = a_smem + A_BYTES;
  const u32 a_row = blockIdx.x * A_ROWS;
  const u32 tile_column = blockIdx.y * MMA_N, b_row = tile_column + (PAIR ? rank * B_ROWS : 0);

  if (warp == 0) {
#if CTA_GROUP == 2
    tcgen05_alloc_pair(shared_address(&slot), TMEM_COLUMNS);
    tcgen05_relinquish_alloc_permit_pair();
#else
    tcgen05_alloc(shared_address(&slot), TMEM_COLUMNS);
    tcgen05_relinquish_alloc_permit();
#endif
  }
  if (threadIdx.x == 0) {
    mbarrier_init(shared_address(&full), 1);
    mbarrier_init(shared_address(&done), MULTICAST ? 2 : 1);  // who shares B must wait for both
    fence_mbarrier_init();
  }
  meet();
  const u32 tmem = slot;

  // where K ends within a block, TMA fills the rest with zero
  for (u32 block = 0; block < (k + BLOCK_K - 1) / BLOCK_K; ++block) {
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect_tx(shared_address(&full), (A_SOURCE == SHARED ? A_BYTES : 0) + B_BYTES);
      if (A_SOURCE == SHARED) load(a_smem, a_map, block, a_row, shared_address(&full), false);
      const u32 part = MULTICAST ? rank : 0;
      load(b_smem + part * B_LOADED * (SWIZZLE ? SWIZZLE : 16), b_map, block, b_row + part * B_LOADED,
           shared_address(&full), MULTICAST);
    }
    if (A_SOURCE != SHARED) bring_a(a, k, a_row, block, a_smem, tmem);
    mbarrier_wait_parity(shared_address(&full), block & 1);
    __syncwarp();
    meet();
    if (warp == 0 && (!PAIR || rank == 0) && elect_sync()) {
#pragma unroll
      for (u32 step = 0; step < BLOCK_BYTES / 32; ++step)
        mma(tmem, tmem + A_COLUMN + step * 8, descriptor(a_smem + step * 32, A_ROWS),
            descriptor(b_smem + step * 32, B_ROWS), block + step > 0);
      commit(shared_address(&done));
    }
    mbarrier_wait_parity(shared_address(&done), block & 1);
    __syncwarp();
    meet();
  }

  // where a lane's row and its segment of N are, by the layout
  const u32 thread = threadIdx.x % WARP;
  const bool spread = A_ROWS == 64 && SEGMENTS == 1;  // 16 rows in each quarter of the lanes
  const u32 row = spread ? warp * 16 + thread : threadIdx.x % A_ROWS, segment = spread ? 0 : threadIdx.x / A_ROWS;
#pragma unroll
  for (u32 column = 0; column < COLUMNS; column += 8) {
    u32 r[8];
    tcgen05_ld_32x32b(tmem + (warp << 21) + column, r);
    tcgen05_wait_ld();
    if (spread && thread >= 16) continue;
    for (u32 i = 0; i < 8; ++i)
      c[(a_row + row) * n + tile_column + segment * COLUMNS + column + i] = __uint_as_float(r[i]);
  }
  meet();
#if CTA_GROUP == 2
  if (warp == 0) tcgen05_dealloc_pair(tmem, TMEM_COLUMNS);
#else
  if (warp == 0) tcgen05_dealloc(tmem, TMEM_COLUMNS);
#endif
}
