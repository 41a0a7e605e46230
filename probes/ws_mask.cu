// Which columns of B does the zero-column mask of tcgen05.mma.ws blank, and by how many does it shift B?
//
// Compile-time choices (-D): KIND, A_BITS, B_BITS. Both operands are K-major without swizzle. One CTA of 128 threads.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"
#include "operands.cuh"

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

typedef CodeOf<A_BITS>::type ACode;
typedef CodeOf<B_BITS>::type BCode;

// One thread. D = A * B with the columns of B that the mask leaves.
DEVICE void mma_ws_masked(u32 d_taddr, u64 a_desc, u64 b_desc, u32 idesc, u64 mask) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 0, 0;\n\ttcgen05.mma.ws.cta_group::1.kind::" TEXT(KIND)
               " [%0], %1, %2, %3, p, %4;\n\t}"
               :: "r"(d_taddr), "l"(a_desc), "l"(b_desc), "r"(idesc), "l"(mask) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
ws_mask(const ACode* a_codes,  // [m][k]
        const BCode* b_codes,  // [n][k]; as many rows more than N as B is shifted by
        u32* dump,             // of 32x32b.x32
        const __grid_constant__ Operand a, const __grid_constant__ Operand b,
        u32 idesc, u64 mask)
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ u64 barrier;
  __shared__ u32 slot;
  const u32 tmem = take_tensor_memory(slot, barrier);
  const u32 a_smem = shared_address(operands) + a.smem, b_smem = shared_address(operands) + b.smem;

  fill_with_sentinel(tmem);
  stage_in_shared<A_BITS, SWIZZLE_NONE, K_MAJOR>(a, a_smem, a_codes, a.tile_k);
  stage_in_shared<B_BITS, SWIZZLE_NONE, K_MAJOR>(b, b_smem, b_codes, b.tile_k);
  hand_over();  // operands and sentinels come before the MMA
  issue_and_wait(barrier, 0, [&] {
    mma_ws_masked(tmem, with_start_address(a.desc, a_smem), with_start_address(b.desc, b_smem), idesc, mask);
  });
  dump_registers<Load_32x32b, 32>(tmem, dump);
  give_back_tensor_memory(tmem);
}
