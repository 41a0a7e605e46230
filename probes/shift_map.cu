// Which way, and how far, do tcgen05.shift and the .ashift of tcgen05.mma move the rows of Tensor Memory? Every cell, and
// every row of A, says where it was.
//
// Compile-time choices (-D): KIND, A_BITS, B_BITS of the MMA. One CTA of 128 threads.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"
#include "operands.cuh"

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

typedef CodeOf<A_BITS>::type ACode;
typedef CodeOf<B_BITS>::type BCode;

constexpr u32 A_COLUMN = 256;  // behind D
constexpr u32 LAST_LANE = WARP - 1;

// One thread. Rows of 8 columns move by one lane.
DEVICE void tcgen05_shift_down(u32 taddr) {
  asm volatile("tcgen05.shift.cta_group::1.down [%0];" :: "r"(taddr) : "memory");
}

// One thread. Four rows of 32 bytes, one to this lane of each 32.
DEVICE void tcgen05_cp_4x256b(u32 taddr, u64 desc) {
  asm volatile("tcgen05.cp.cta_group::1.4x256b [%0], %1;" :: "r"(taddr), "l"(desc) : "memory");
}

// One thread. D = A * B with the rows of A, which lies in Tensor Memory, moved by one.
DEVICE void mma_ashift(u32 d_taddr, u32 a_taddr, u64 b_desc, u32 idesc) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 0, 0;\n\ttcgen05.mma.cta_group::1.kind::" TEXT(KIND)
               ".ashift [%0], [%1], %2, %3, p;\n\t}"
               :: "r"(d_taddr), "r"(a_taddr), "l"(b_desc), "r"(idesc) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
shift_cells(const uint4* fresh,  // [row][2]: what takes the place of the last lanes
            u64 fresh_desc,      // without its start address
            u32 taddr,           // lane << 16 | column
            u32 refresh,         // whether the last lane of each 32 gets a fresh row, right behind the shift
            u32* dump)           // of 32x32b.x32
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ u64 barrier;
  __shared__ u32 slot;
  const u32 tmem = take_tensor_memory(slot, barrier), rows = shared_address(operands);

  fill_with_sentinel(tmem);  // which says its own lane and column
  if (threadIdx.x < 8) {
    const u32 row = threadIdx.x / 2, chunk = threadIdx.x % 2;
    const uint4 quad = fresh[threadIdx.x];
    const u32 words[4] = {quad.x, quad.y, quad.z, quad.w};
    st_shared_v4(rows + chunk * 128 + row * 16, words);
  }
  hand_over();  // sentinels and rows come before the shift and the copy
  issue_and_wait(barrier, 0, [&] {
    tcgen05_shift_down(tmem + taddr);
    // no wait between: a shift and a later tcgen05.cp.4x256b execute in order
    if (refresh) tcgen05_cp_4x256b(tmem + tmem_address(LAST_LANE, taddr & 0xffff), with_start_address(fresh_desc, rows));
  });
  dump_registers<Load_32x32b, 32>(tmem, dump);
  give_back_tensor_memory(tmem);
}

extern "C" __global__ void __launch_bounds__(128)
shift_rows(const ACode* a_codes, const BCode* b_codes,  // [row][k]; every row of A says which it is
           const __grid_constant__ Operand b, u32 idesc,
           u32* dump)                                   // of 32x32b.x32
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ u64 barrier;
  __shared__ u32 slot;
  const u32 tmem = take_tensor_memory(slot, barrier), b_smem = shared_address(operands) + b.smem;

  fill_with_sentinel(tmem);
  stage_in_tmem<A_BITS>(tmem + A_COLUMN, threadIdx.x, a_codes, b.tile_k, 1);
  stage_in_shared<B_BITS, SWIZZLE_NONE, K_MAJOR>(b, b_smem, b_codes, b.tile_k);
  hand_over();  // operands and sentinels come before the MMA
  issue_and_wait(barrier, 0, [&] { mma_ashift(tmem, tmem + A_COLUMN, with_start_address(b.desc, b_smem), idesc); });
  dump_registers<Load_32x32b, 32>(tmem, dump);
  give_back_tensor_memory(tmem);
}
