// A tile GEMM on tcgen05: K tiles that accumulate, N sub-tiles side by side, A in shared or in Tensor Memory.
//
// What is staged where (Operand) and what the MMAs are told (Read) are two things here, as they are in every kernel; the
// host makes them agree. Compile-time choices (-D): KIND, WS, A_IN_TMEM, A_BITS, B_BITS, A_SWIZZLE, B_SWIZZLE, A_MAJOR,
// B_MAJOR; for planted faults also LEAVE_OUT (steps.cuh), LANE_MASK, START_UNIT_LOG2, A_STORING.
#pragma once

#include "common.cuh"
#include "operands.cuh"
#include "steps.cuh"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

#ifndef LANE_MASK
#define LANE_MASK 0
#endif
#ifndef A_STORING
#define A_STORING PACKED
#endif
#ifndef START_UNIT_LOG2
#define START_UNIT_LOG2 4  // descriptors count 16 bytes
#endif

#if WS
#define TCGEN05_MMA JOIN(tcgen05_mma_ws_, KIND)
#else
#define TCGEN05_MMA JOIN(tcgen05_mma_, KIND)
#endif

typedef CodeOf<A_BITS>::type ACode;
typedef CodeOf<B_BITS>::type BCode;

// What the MMAs are told about an operand in shared memory; 32 bytes.
struct Read {
  u64 desc;      // without its start address
  u32 smem;      // start in dynamic shared memory, bytes
  u32 step;      // bytes to the next K tile ...
  u32 run;       // ... so many times,
  u32 jump;      // then on by this many bytes from where the run began
  u32 sub_step;  // bytes to the rows of the next N sub-tile
  u32 unused;

  DEVICE_MEMBER u64 descriptor(u32 base, u32 tile, u32 sub) const {
    const u32 start = base + smem + tile / run * jump + tile % run * step + sub * sub_step;
    return desc | (start & 0x3ffff) >> START_UNIT_LOG2 & 0x3fff;
  }
};

// One GEMM; the host's decisions, passed by value.
struct Gemm {
  Operand a, b;       // how they are staged
  Read a_read, b_read;
  u32 idesc;
  u32 tiles;          // MMAs along K that are staged
  u32 subs;           // MMAs along N
  u32 d_offset;       // lane << 16 | column of D
  u32 d_step;         // columns to the next sub-tile of D
  u32 a_column;       // of A, if it is in Tensor Memory
  u32 accumulate;     // into what the first MMA finds
  u32 lane_mask[4];   // lanes that the MMA leaves alone, if LANE_MASK
  u32 issued;         // MMAs along K: as many as are staged, unless a fault is planted
  u32 left_out[2];    // sub-tiles that no MMA makes, a bit each: none, unless a fault is planted
};

#if LANE_MASK
#define MMA_OPCODE "tcgen05.mma.cta_group::1.kind::" TEXT(KIND)
#define MMA_MASKED(a_type, a_constraint, a_text)                                                                    \
  DEVICE void mma_masked(u32 d_taddr, a_type a, u64 b_desc, u32 idesc, const u32 (&mask)[4], bool accumulate) {     \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %8, 0;\n\t" MMA_OPCODE " [%0], " a_text                    \
                 ", %2, %3, {%4, %5, %6, %7}, p;\n\t}"                                                              \
                 :: "r"(d_taddr), a_constraint(a), "l"(b_desc), "r"(idesc), "r"(mask[0]), "r"(mask[1]), "r"(mask[2]), \
                    "r"(mask[3]), "r"(u32(accumulate)) : "memory");                                                 \
  }
MMA_MASKED(u64, "l", "%1")
MMA_MASKED(u32, "r", "[%1]")
#endif

// All threads: both operands to where the MMAs read them.
DEVICE void stage_operands(const Gemm& gemm, const ACode* a_codes, const BCode* b_codes, u32 base, u32 tmem) {
#if A_IN_TMEM
  const int row = a_row_of_lane(threadIdx.x, gemm.a.rows, WS, gemm.d_offset >> 16);
  stage_in_tmem<A_BITS, A_STORING>(tmem + gemm.a_column, row, a_codes, gemm.tiles * gemm.a.tile_k, gemm.tiles);
#else
  stage_in_shared<A_BITS, A_SWIZZLE, A_MAJOR>(gemm.a, base + gemm.a.smem, a_codes, gemm.tiles * gemm.a.tile_k);
#endif
  stage_in_shared<B_BITS, B_SWIZZLE, B_MAJOR>(gemm.b, base + gemm.b.smem, b_codes, gemm.tiles * gemm.b.tile_k);
}

// One thread: every MMA. Those with the same D run in the order of issue, so nothing is needed between them.
DEVICE void issue_mmas(const Gemm& gemm, u32 base, u32 tmem) {
#pragma unroll 1
  for (u32 sub = 0; sub < gemm.subs; ++sub) {
    if (gemm.left_out[sub / 32] >> sub % 32 & 1) continue;
    const u32 d_taddr = tmem + gemm.d_offset + sub * gemm.d_step;
#pragma unroll 1
    for (u32 tile = 0; tile < gemm.issued; ++tile) {
      const bool accumulate = tile != 0 || gemm.accumulate;
      const u64 b_desc = gemm.b_read.descriptor(base, tile, sub);
#if A_IN_TMEM
      const u32 a_taddr = tmem + gemm.a_column + (gemm.d_offset & 0xff0000) + 8 * tile;
#if LANE_MASK
      mma_masked(d_taddr, a_taddr, b_desc, gemm.idesc, gemm.lane_mask, accumulate);
#else
      JOIN(TCGEN05_MMA, _tmem_a)(d_taddr, a_taddr, b_desc, gemm.idesc, accumulate);
#endif
#elif LANE_MASK
      mma_masked(d_taddr, gemm.a_read.descriptor(base, tile, 0), b_desc, gemm.idesc, gemm.lane_mask, accumulate);
#else
      TCGEN05_MMA(d_taddr, gemm.a_read.descriptor(base, tile, 0), b_desc, gemm.idesc, accumulate);
#endif
    }
  }
}

// All threads: stage, multiply, and return when D is there. `parity` counts the uses of the barrier.
DEVICE void multiply(const Gemm& gemm, const ACode* a_codes, const BCode* b_codes, u32 base, u32 tmem, u32 mma_done,
                     u32 parity) {
  stage_operands(gemm, a_codes, b_codes, base, tmem);
  if (kept(PROXY_FENCE)) fence_proxy_async();  // the tensor core reads shared memory through the async proxy
  tcgen05_fence_before_thread_sync();          // every warp's tcgen05.st comes before the MMA
  __syncthreads();
  if (threadIdx.x < WARP && elect_sync()) {
    tcgen05_fence_after_thread_sync();
    issue_mmas(gemm, base, tmem);
    tcgen05_commit(mma_done);
  }
  if (kept(COMMIT_WAIT)) mbarrier_wait_parity(mma_done, parity);  // the MMAs have completed ...
  tcgen05_fence_after_thread_sync();                              // ... and what is read from here on is what they left
  __syncwarp();                                                   // tcgen05.ld wants the warp together again
}
