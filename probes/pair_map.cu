// Where do two CTAs put what they compute together? Each brings half of A's rows and half of B's; the first one issues the
// MMA; one commit tells both.
//
// Compile-time choices (-D): KIND, SPARSE, LANE_MASK, A_BITS, B_BITS. Operands are K-major without swizzle. One cluster of
// two CTAs of 128 threads.
#include "common.cuh"
#include "dump.cuh"
#include "operands.cuh"
#include "pair.cuh"

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#if SPARSE
#define OPCODE "tcgen05.mma.sp.cta_group::2.kind::" TEXT(KIND) " [%0], %1, %2, [%3], %4"
#else
#define OPCODE "tcgen05.mma.cta_group::2.kind::" TEXT(KIND) " [%0], %1, %2, %4"
#endif
#if LANE_MASK
#define MASK ", {%5, %6, %7, %8, %9, %10, %11, %12}"
#else
#define MASK ""
#endif

typedef CodeOf<A_BITS>::type ACode;
typedef CodeOf<B_BITS>::type BCode;

constexpr u32 METADATA_COLUMN = 384, METADATA_COLUMNS = 32;
constexpr u32 KEEP_FIRST_HALF = 0x44444444;  // metadata codes: the first half of each group of A
constexpr u16 BOTH_CTAS = 3;

struct LaneMask { u32 word[8]; };  // a bit for each lane that the MMA leaves alone

// One thread of the pair. The descriptors count in each CTA's own shared memory.
DEVICE void mma_pair(u32 d_taddr, u64 a_desc, u64 b_desc, u32 metadata_taddr, u32 idesc, const LaneMask& mask) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 0, 0;\n\t" OPCODE MASK ", p;\n\t}"
               :: "r"(d_taddr), "l"(a_desc), "l"(b_desc), "r"(metadata_taddr), "r"(idesc), "r"(mask.word[0]),
                  "r"(mask.word[1]), "r"(mask.word[2]), "r"(mask.word[3]), "r"(mask.word[4]), "r"(mask.word[5]),
                  "r"(mask.word[6]), "r"(mask.word[7]) : "memory");
}

DEVICE void fill_metadata(u32 taddr) {
  u32 words[METADATA_COLUMNS];
#pragma unroll
  for (u32 i = 0; i < METADATA_COLUMNS; ++i) words[i] = KEEP_FIRST_HALF;
  tcgen05_st_32x32b(taddr + tmem_address(threadIdx.x / WARP * WARP, 0), words);
  tcgen05_wait_st();  // before the MMA reads it
}

// As hand_over of frame.cuh, for both CTAs.
DEVICE void hand_over_pair() {
  fence_proxy_async();                 // the tensor core reads shared memory through the async proxy
  tcgen05_fence_before_thread_sync();  // tcgen05 operations of each thread come before the barrier ...
  barrier_cluster();
  tcgen05_fence_after_thread_sync();   // ... and those of the others after it
}

extern "C" __global__ void __launch_bounds__(128) __cluster_dims__(2, 1, 1)
pair_map(const ACode* a_codes,  // [m][k]; sparse: the kept ones
         const BCode* b_codes,  // [n][k]
         u32 a_k, u32 b_k,      // elements of a row
         u32* dump,             // [cta], each of 32x32b.x32
         u32 dump_words,        // of one CTA
         const __grid_constant__ Operand a, const __grid_constant__ Operand b,  // one CTA's halves
         u32 idesc,
         u32 d_lane,            // of the address of D and of the metadata
         const __grid_constant__ LaneMask mask)
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ __align__(8) u64 mma_done;
  __shared__ u32 slot;
  const u32 rank = cluster_ctarank(), warp = threadIdx.x / WARP;
  const u32 a_smem = shared_address(operands) + a.smem, b_smem = shared_address(operands) + b.smem;

  if (warp == 0) {
    tcgen05_alloc_pair(shared_address(&slot), TMEM_COLUMNS);
    tcgen05_relinquish_alloc_permit_pair();
  }
  if (threadIdx.x == 0) {
    mbarrier_init(shared_address(&mma_done), 1);
    fence_mbarrier_init();  // the commit arrives from the other CTA, too
  }
  hand_over_pair();  // the address is written before the others read it
  const u32 tmem = slot, metadata = tmem + METADATA_COLUMN;

  fill_with_sentinel(tmem);
  if (SPARSE) fill_metadata(metadata);
  stage_in_shared<A_BITS, SWIZZLE_NONE, K_MAJOR>(a, a_smem, a_codes + rank * a.rows * a_k, a_k);
  stage_in_shared<B_BITS, SWIZZLE_NONE, K_MAJOR>(b, b_smem, b_codes + rank * b.rows * b_k, b_k);
  hand_over_pair();  // operands, metadata and sentinels of both CTAs come before the MMA

  if (rank == 0 && warp == 0 && elect_sync()) {
    mma_pair(tmem + (d_lane << 16), with_start_address(a.desc, a_smem), with_start_address(b.desc, b_smem),
             metadata + (d_lane << 16), idesc, mask);
    tcgen05_commit_pair_multicast(shared_address(&mma_done), BOTH_CTAS);
  }
  mbarrier_wait_parity(shared_address(&mma_done), 0);  // each CTA waits at its own barrier for the one commit ...
  tcgen05_fence_after_thread_sync();                   // ... and what is read from here on is what the MMA left
  __syncwarp();                                        // tcgen05.ld wants the warp together again

  dump_registers<Load_32x32b, 32>(tmem, dump + rank * dump_words);

  hand_over_pair();  // no CTA frees, or exits, before the other has read and waited
  if (warp == 0) tcgen05_dealloc_pair(tmem, TMEM_COLUMNS);
}
