// Where do two CTAs put what they compute together? Each brings half of A's rows and half of B's; the first one issues the
// MMA; one commit tells both.
//
// Compile-time choices (-D): KIND, SPARSE, LANE_MASK, A_IN_TMEM, A_BITS, B_BITS. Operands in shared memory are K-major
// without swizzle. One cluster of two CTAs of 128 threads.
#include "common.cuh"
#include "dump.cuh"
#include "operands.cuh"
#include "pair_frame.cuh"

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#if A_IN_TMEM
#define A_TEXT "[%1]"
#define A_CONSTRAINT "r"
typedef u32 AOperand;  // an address of Tensor Memory
#else
#define A_TEXT "%1"
#define A_CONSTRAINT "l"
typedef u64 AOperand;  // a descriptor
#endif
#if SPARSE
#define OPCODE "tcgen05.mma.sp.cta_group::2.kind::" TEXT(KIND) " [%0], " A_TEXT ", %2, [%3], %4"
#else
#define OPCODE "tcgen05.mma.cta_group::2.kind::" TEXT(KIND) " [%0], " A_TEXT ", %2, %4"
#endif
#if LANE_MASK
#define MASK ", {%5, %6, %7, %8, %9, %10, %11, %12}"
#else
#define MASK ""
#endif

typedef CodeOf<A_BITS>::type ACode;
typedef CodeOf<B_BITS>::type BCode;

constexpr u32 METADATA_COLUMN = 384, METADATA_COLUMNS = 32, A_COLUMN = 416;  // behind D, which has at most 256
constexpr u32 KEEP_FIRST_HALF = 0x44444444;  // metadata codes: the first half of each group of A

struct LaneMask { u32 word[8]; };  // a bit for each lane that the MMA leaves alone

// One thread of the pair. Descriptors and addresses count in each CTA's own shared and Tensor Memory.
DEVICE void mma_pair(u32 d_taddr, AOperand a, u64 b_desc, u32 metadata_taddr, u32 idesc, const LaneMask& mask) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 0, 0;\n\t" OPCODE MASK ", p;\n\t}"
               :: "r"(d_taddr), A_CONSTRAINT(a), "l"(b_desc), "r"(metadata_taddr), "r"(idesc), "r"(mask.word[0]),
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
  const u32 rank = cluster_ctarank();
  const u32 a_smem = shared_address(operands) + a.smem, b_smem = shared_address(operands) + b.smem;
  const u32 tmem = take_tensor_memory(slot, mma_done), metadata = tmem + METADATA_COLUMN, at_lane = d_lane << 16;
  const ACode* own_a = a_codes + rank * a.rows * a_k;

  fill_with_sentinel(tmem);
  if (SPARSE) fill_metadata(metadata);
#if A_IN_TMEM
  // 64 rows of dense A lie twice, for the two halves of N; of sparse A they lie as those of D
  stage_in_tmem<A_BITS>(tmem + A_COLUMN, a_row_of_lane(threadIdx.x, a.rows, !SPARSE, d_lane), own_a, a_k, 1);
  const AOperand a_operand = tmem + A_COLUMN + at_lane;
#else
  stage_in_shared<A_BITS, SWIZZLE_NONE, K_MAJOR>(a, a_smem, own_a, a_k);
  const AOperand a_operand = with_start_address(a.desc, a_smem);
#endif
  stage_in_shared<B_BITS, SWIZZLE_NONE, K_MAJOR>(b, b_smem, b_codes + rank * b.rows * b_k, b_k);
  hand_over();  // operands, metadata and sentinels of both CTAs come before the MMA

  issue_and_wait(mma_done, 0, [&] {
    mma_pair(tmem + at_lane, a_operand, with_start_address(b.desc, b_smem), metadata + at_lane, idesc, mask);
  });
  dump_registers<Load_32x32b, 32>(tmem, dump + rank * dump_words);
  give_back_tensor_memory(tmem);
}
