// D = A * B, with everything in view: shared and Tensor Memory hold known patterns before, and all of both is read back.
//
// Compile-time choices (-D): those of gemm.cuh, and for each of the two readbacks LOAD_SHAPE_i and REGISTERS_i. A D of 16
// bits has a third one, with .pack::16b as an epilogue would load it. PACK_MISTAKEN_i plants a fault: loads that
// lack the packing, or have it unasked. One CTA of 128 threads.
#include "common.cuh"
#include "dump.cuh"
#include "gemm.cuh"

#ifndef PACK_MISTAKEN_0
#define PACK_MISTAKEN_0 0
#endif
#ifndef PACK_MISTAKEN_1
#define PACK_MISTAKEN_1 0
#endif
#ifndef PACK_MISTAKEN_2
#define PACK_MISTAKEN_2 0
#endif

#define DUMP(i)                                                                                                \
  dump_registers<JOIN(Load_, LOAD_SHAPE_##i), REGISTERS_##i, i == 2, (i == 2) != PACK_MISTAKEN_##i>(           \
      tmem, dump_##i, reading_##i.column, reading_##i.lane_step)

// What Tensor Memory holds before.
enum Fill : u32 { FILL_SENTINEL, FILL_ZERO, FILL_STALE };

// How a readback addresses Tensor Memory: at its own columns and lanes, unless a fault is planted.
struct Reading {
  u32 column;     // is added to every column, as far as there are columns
  u32 lane_step;  // from the lower half of a warp's lanes to the upper one, for shapes of 16 lanes
};

extern "C" __global__ void __launch_bounds__(128)
gemm(const ACode* a_codes,  // [m][k]
     const BCode* b_codes,  // [n][k]
     const ACode* a_before, const BCode* b_before,  // of the GEMM that leaves stale values behind
     u32* dump_0, u32* dump_1, u32* dump_2,
     u32* shared_dump,      // [0]: address of dynamic shared memory, [4...]: its bytes
     u32 shared_bytes, u32 dumped_bytes,
     u32 fill,
     const __grid_constant__ Gemm before,
     const __grid_constant__ Gemm main,
     Reading reading_0, Reading reading_1, Reading reading_2)
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ __align__(8) u64 mma_done;
  __shared__ u32 tmem_slot;

  const u32 warp = threadIdx.x / WARP, base = shared_address(operands), barrier = shared_address(&mma_done);

  if (warp == 0) {
    tcgen05_alloc(shared_address(&tmem_slot), TMEM_COLUMNS);
    tcgen05_relinquish_alloc_permit();
  }
  if (threadIdx.x == 0) {
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
  }
  fill_shared(base, shared_bytes);
  tcgen05_fence_before_thread_sync();  // the address is written before the others read it
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  const u32 tmem = tmem_slot;

  fill_with_sentinel(tmem);
  if (fill == FILL_ZERO) fill_with_zero(tmem);
  u32 parity = 0;
  if (fill == FILL_STALE) {
    multiply(before, a_before, b_before, base, tmem, barrier, parity++);
    __syncthreads();
    fill_shared(base, shared_bytes);
    __syncthreads();
  }
  multiply(main, a_codes, b_codes, base, tmem, barrier, parity);

  DUMP(0);
  DUMP(1);
#ifdef LOAD_SHAPE_2
  DUMP(2);
#endif
  if (threadIdx.x == 0) shared_dump[0] = base;
  dump_shared(base, dumped_bytes, shared_dump + 4);

  tcgen05_fence_before_thread_sync();  // every warp's tcgen05.ld comes before the deallocation
  __syncthreads();
  if (warp == 0) {
    tcgen05_fence_after_thread_sync();
    tcgen05_dealloc(tmem, TMEM_COLUMNS);
  }
}
