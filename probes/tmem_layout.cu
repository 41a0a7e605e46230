// Where does an MMA put element (m, n) of D? Fill Tensor Memory with a sentinel, run D = A * B, read everything back.
//
// Compile-time choices (-D): KIND, WS, A_IN_TMEM, A_BITS, B_BITS, A_SWIZZLE, B_SWIZZLE, A_MAJOR, B_MAJOR, and for each of
// the two readbacks LOAD_SHAPE_i and REGISTERS_i; a third one packs, and is for a D of 16 bits. Shapes, descriptors and
// addresses are arguments. One CTA of 128 threads.
#include "common.cuh"
#include "dump.cuh"
#include "operands.cuh"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if WS
#define TCGEN05_MMA JOIN(tcgen05_mma_ws_, KIND)
#else
#define TCGEN05_MMA JOIN(tcgen05_mma_, KIND)
#endif

typedef CodeOf<A_BITS>::type ACode;
typedef CodeOf<B_BITS>::type BCode;

extern "C" __global__ void __launch_bounds__(128)
tmem_layout(const ACode* a_codes,  // [m][k]
            const BCode* b_codes,  // [n][k]
            u32* dump_0, u32* dump_1,
            u32* dump_2,   // of a D of 16 bits only
            Operand a, Operand b,
            u32 idesc,
            u32 tiles,     // MMAs along K
            u32 d_offset,  // lane << 16 | column of D
            u32 a_column)  // of A, if it is in Tensor Memory
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ __align__(8) u64 mma_done;
  __shared__ u32 tmem_slot;

  const u32 warp = threadIdx.x / WARP;

  if (warp == 0) {
    tcgen05_alloc(shared_address(&tmem_slot), TMEM_COLUMNS);
    tcgen05_relinquish_alloc_permit();
  }
  if (threadIdx.x == 0) {
    mbarrier_init(shared_address(&mma_done), 1);
    fence_mbarrier_init();
  }
  tcgen05_fence_before_thread_sync();  // the address is written before the others read it
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  const u32 tmem = tmem_slot, d_taddr = tmem + d_offset;

  fill_with_sentinel(tmem);
#if A_IN_TMEM
  const u32 a_taddr = tmem + a_column;
  stage_in_tmem<A_BITS>(a_taddr, a_row_of_lane(threadIdx.x, a.rows, WS, d_offset >> 16), a_codes, tiles * a.tile_k, tiles);
#else
  const u32 a_smem = shared_address(operands) + a.smem;
  stage_in_shared<A_BITS, A_SWIZZLE, A_MAJOR>(a, a_smem, a_codes, tiles * a.tile_k);
#endif
  const u32 b_smem = shared_address(operands) + b.smem;
  stage_in_shared<B_BITS, B_SWIZZLE, B_MAJOR>(b, b_smem, b_codes, tiles * b.tile_k);
  fence_proxy_async();                 // the tensor core reads shared memory through the async proxy
  tcgen05_fence_before_thread_sync();  // every warp's tcgen05.st comes before the MMA
  __syncthreads();

  if (warp == 0 && elect_sync()) {
    tcgen05_fence_after_thread_sync();
#pragma unroll 1
    for (u32 tile = 0; tile < tiles; ++tile) {
      const u64 b_desc = with_start_address(b.desc, b_smem + k_tile_offset<B_SWIZZLE, B_MAJOR>(b, tile));
#if A_IN_TMEM
      JOIN(TCGEN05_MMA, _tmem_a)(d_taddr, a_taddr + (d_offset & 0xff0000) + 8 * tile, b_desc, idesc, tile != 0);
#else
      const u64 a_desc = with_start_address(a.desc, a_smem + k_tile_offset<A_SWIZZLE, A_MAJOR>(a, tile));
      TCGEN05_MMA(d_taddr, a_desc, b_desc, idesc, tile != 0);
#endif
    }
    tcgen05_commit(shared_address(&mma_done));
  }
  mbarrier_wait_parity(shared_address(&mma_done), 0);  // the MMAs have completed ...
  tcgen05_fence_after_thread_sync();                   // ... and what is read from here on is what they left
  __syncwarp();                                        // tcgen05.ld wants the warp together again

  dump_registers<JOIN(Load_, LOAD_SHAPE_0), REGISTERS_0>(tmem, dump_0);
  dump_registers<JOIN(Load_, LOAD_SHAPE_1), REGISTERS_1>(tmem, dump_1);
#ifdef LOAD_SHAPE_2
  dump_registers<JOIN(Load_, LOAD_SHAPE_2), REGISTERS_2, true>(tmem, dump_2);
#endif

  tcgen05_fence_before_thread_sync();  // every warp's tcgen05.ld comes before the deallocation
  __syncthreads();
  if (warp == 0) {
    tcgen05_fence_after_thread_sync();
    tcgen05_dealloc(tmem, TMEM_COLUMNS);
  }
}
