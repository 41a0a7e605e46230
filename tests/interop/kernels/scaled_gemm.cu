// C = (A scaled)(B scaled)^T of one 128 x 64 tile: e4m3 with one UE8M0 factor for 32 elements of K. The factors go from
// shared memory to Tensor Memory by tcgen05.cp, 128 rows at a time, each warp's partition a copy.
#include "common.cuh"

constexpr u32 M = 128, N = 64, K = 128, A_BYTES = M * K, B_BYTES = N * K, SCALES = 512;
constexpr u64 DESC = u64(1024 / 16) << 32 | 1ull << 46 | 2ull << 61;    // K-major, 128B swizzle
constexpr u64 SCALE_DESC = u64(128 / 16) << 32 | 1ull << 46;            // rows of 16 bytes, no swizzle
constexpr u32 SFA = N, SFB = N + 4;                                    // columns behind the accumulator

DEVICE u32 idesc(u32 k) { return k << 4 | N / 8 << 17 | 1 << 23 | M / 128 << 27 | k << 29; }  // factor ids: byte k

extern "C" __global__ void __launch_bounds__(128)
scaled_gemm(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, const uint4* a_scales,
            const uint4* b_scales, float* c, u32 steps) {
  extern __shared__ __align__(1024) u8 tiles[];
  __shared__ __align__(128) uint4 scales[2][SCALES / 16];
  __shared__ __align__(8) u64 full, consumed;
  __shared__ u32 slot;
  const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, base = shared_address(tiles);
  const u32 loaded = shared_address(&full), done = shared_address(&consumed);
  if (threadIdx.x == 0) {
    mbarrier_init(loaded, 1);
    mbarrier_init(done, 1);
    fence_mbarrier_init();
  }
  if (warp == 0) tcgen05_alloc(shared_address(&slot), 128);
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  const u32 taddr = slot;
  for (u32 step = 0; step < steps; ++step) {
    if (warp < 2) scales[warp][lane] = (warp ? b_scales : a_scales)[step * SCALES / 16 + lane];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect_tx(loaded, A_BYTES + B_BYTES);
      const TensorMap* maps[2] = {&a_map, &b_map};
      for (u32 i = 0; i < 2; ++i)
        asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(base + i * A_BYTES), "l"(maps[i]), "r"(step * K), "r"(0), "r"(loaded) : "memory");
      mbarrier_wait_parity(loaded, step & 1);
      for (u32 i = 0; i < 2; ++i)
        asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;"
                     :: "r"(taddr + (i ? SFB : SFA)), "l"(with_start_address(SCALE_DESC, shared_address(scales[i]))) : "memory");
      for (u32 k = 0; k < K / 32; ++k)
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
                     "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%0], %1, %2, %3, [%5], [%6], p;\n\t}"
                     :: "r"(taddr), "l"(with_start_address(DESC, base + 32 * k)),
                        "l"(with_start_address(DESC, base + A_BYTES + 32 * k)), "r"(idesc(k)), "r"(step + k),
                        "r"(taddr + SFA | k << 30), "r"(taddr + SFB | k << 30) : "memory");
      tcgen05_commit(done);
    }
    __syncwarp();
    mbarrier_wait_parity(done, step & 1);
  }
  tcgen05_fence_after_thread_sync();
  u32 words[N];
  tcgen05_ld_32x32b(tmem_address(warp * WARP, 0) + taddr, words);
  tcgen05_wait_ld();
  for (u32 i = 0; i < N; ++i) c[(warp * WARP + lane) * N + i] = __uint_as_float(words[i]);
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  if (warp == 0) tcgen05_dealloc(taddr, 128);
}
