// May scale factors be copied over while an MMA that reads them is under way? Round after round one thread issues a copy of
// new scale factors to the same columns and an MMA that uses them, and waits for nothing. Round r scales by 2^r.
//
// Compile-time choices (-D): N and ROUNDS of the MMAs; WAIT waits for each MMA before the next copy. One CTA of 128
// threads, kind::mxf8f6f4, M = 128, all elements of A and B are 1.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"

constexpr u32 M = 128;
constexpr u32 SFA_COLUMN = 384, SFB_COLUMN = 388;  // behind D of all rounds
constexpr u32 E4M3_ONES = 0x38383838, UE8M0_ONE = 127;
constexpr u32 IMAGE = 512;  // bytes of the scale factors of 128 rows

// One thread. 32 rows of 16 bytes to the same columns of each 32 lanes.
DEVICE void tcgen05_cp_32x128b_warpx4(u32 taddr, u64 desc) {
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" :: "r"(taddr), "l"(desc) : "memory");
}

// One thread. D = (A * scale of A) * (B * scale of B).
DEVICE void tcgen05_mma_mxf8f6f4(u32 d_taddr, u64 a_desc, u64 b_desc, u32 idesc, u32 sfa_taddr, u32 sfb_taddr) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 0, 0;\n\ttcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32"
               " [%0], %1, %2, %3, [%4], [%5], p;\n\t}"
               :: "r"(d_taddr), "l"(a_desc), "l"(b_desc), "r"(idesc), "r"(sfa_taddr), "r"(sfb_taddr) : "memory");
}

DEVICE void fill_bytes(u32 smem, u32 bytes, u32 word) {
#pragma unroll 1
  for (u32 i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
    const u32 words[4] = {word, word, word, word};
    st_shared_v4(smem + 16 * i, words);
  }
}

extern "C" __global__ void __launch_bounds__(128)
scale_reuse(u64 a_desc, u64 b_desc, u64 scale_desc,  // without start addresses
            u32 idesc,
            u32* d)                                  // [lane][round][column]
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ u64 barrier, round_done;
  __shared__ u32 slot;
  const u32 tmem = take_tensor_memory(slot, barrier), lane = threadIdx.x;
  const u32 a_smem = shared_address(operands), b_smem = a_smem + 32 * M, scales = b_smem + 32 * N;

  if (threadIdx.x == 0) {
    mbarrier_init(shared_address(&round_done), 1);
    fence_mbarrier_init();  // commits arrive through the async proxy
  }
  fill_with_sentinel(tmem);
  fill_bytes(a_smem, 32 * (M + N), E4M3_ONES);
#pragma unroll 1
  for (u32 round = 0; round <= ROUNDS; ++round) {  // the last image, of ones, is for B
    fill_bytes(scales + IMAGE * round, IMAGE, (UE8M0_ONE + (round < ROUNDS ? round : 0)) * 0x01010101u);
  }
  hand_over();  // operands and scale factors to the tensor core
  issue_and_wait(barrier, 0, [&] {
    for (u32 columns = 0; columns < N; columns += M) {
      tcgen05_cp_32x128b_warpx4(tmem + SFB_COLUMN + columns / 32, with_start_address(scale_desc, scales + IMAGE * ROUNDS));
    }
#pragma unroll 1
    for (u32 round = 0; round < ROUNDS; ++round) {
      // a copy and a later MMA execute in order; whether a copy waits for an earlier MMA is the question
      tcgen05_cp_32x128b_warpx4(tmem + SFA_COLUMN, with_start_address(scale_desc, scales + IMAGE * round));
      tcgen05_mma_mxf8f6f4(tmem + N * round, with_start_address(a_desc, a_smem), with_start_address(b_desc, b_smem),
                           idesc, tmem + SFA_COLUMN, tmem + SFB_COLUMN);
      if (WAIT) {
        tcgen05_commit(shared_address(&round_done));
        mbarrier_wait_parity(shared_address(&round_done), round & 1);
      }
    }
  });
#pragma unroll 1
  for (u32 column = 0; column < N * ROUNDS; column += 8) {
    u32 words[8];
    tcgen05_ld_32x32b(tmem + tmem_address(lane / WARP * WARP, column), words);
    tcgen05_wait_ld();  // the registers hold nothing before this
    store_registers(d + lane * N * ROUNDS + column, words);
  }
  give_back_tensor_memory(tmem);
}
