// The arithmetic of one MMA: D = A * B + C on words that the host made, bit for bit.
//
// Compile-time choices (-D): KIND; for block-scaled kinds VECTOR (scale_vec::1X, 2X or 4X), for the others SCALE_INPUT_D
// (0 to 15, D = A * B + C * 2^-s). Operands come as rows of 32 bytes, scale factors and C as images of Tensor Memory. One
// CTA of 128 threads, M = 128.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#if SCALE_INPUT_D
#define SCALE ", " TEXT(SCALE_INPUT_D)
#else
#define SCALE ""
#endif

constexpr u32 M = 128;
constexpr u32 SFA_COLUMN = 256, SFB_COLUMN = 260, SF_COLUMNS = 4;  // behind C and D, which have at most 256

// One thread.
DEVICE void multiply(u32 tmem, u64 a_desc, u64 b_desc, u32 idesc) {
#ifdef VECTOR
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 1, 0;\n\ttcgen05.mma.cta_group::1.kind::" TEXT(KIND)
               ".block_scale." TEXT(VECTOR) " [%0], %1, %2, %3, [%4], [%5], p;\n\t}"
               :: "r"(tmem), "l"(a_desc), "l"(b_desc), "r"(idesc), "r"(tmem + SFA_COLUMN), "r"(tmem + SFB_COLUMN)
               : "memory");
#else
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 1, 0;\n\ttcgen05.mma.cta_group::1.kind::" TEXT(KIND)
               " [%0], %1, %2, %3, p" SCALE ";\n\t}"
               :: "r"(tmem), "l"(a_desc), "l"(b_desc), "r"(idesc) : "memory");
#endif
}

// Rows of 32 bytes, K-major without swizzle: SBO 128, LBO 16 * rows.
DEVICE void stage_rows(u32 smem, u32 rows, const uint4* chunks) {
#pragma unroll 1
  for (u32 i = threadIdx.x; i < 2 * rows; i += blockDim.x) {
    const u32 row = i / 2, chunk = i % 2;
    const u32 words[4] = {chunks[i].x, chunks[i].y, chunks[i].z, chunks[i].w};
    st_shared_v4(smem + chunk * 16 * rows + row / 8 * 128 + row % 8 * 16, words);
  }
}

// image[lane][column]
template <int COLUMNS>
DEVICE void st_columns(u32 taddr, const u32* image, u32 stride) {
  u32 words[COLUMNS];
#pragma unroll
  for (int i = 0; i < COLUMNS; ++i) words[i] = image[threadIdx.x * stride + i];
  tcgen05_st_32x32b(taddr + tmem_address(threadIdx.x / WARP * WARP, 0), words);
}

extern "C" __global__ void __launch_bounds__(128)
numerics(const uint4* a, const uint4* b,      // [row][2]
         const u32* c,                        // [m][n]
         const u32* scales_a, const u32* scales_b,  // [lane][4]
         u64 a_desc, u64 b_desc,              // without start addresses
         u32 idesc, u32 n,
         u32* d)                              // [m][n]
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ u64 barrier;
  __shared__ u32 slot;
  const u32 tmem = take_tensor_memory(slot, barrier), lane = threadIdx.x, warp_lane = lane / WARP * WARP;
  const u32 a_smem = shared_address(operands), b_smem = a_smem + 32 * M;

  stage_rows(a_smem, M, a);
  stage_rows(b_smem, n, b);
#pragma unroll 1
  for (u32 column = 0; column < n; column += 8) st_columns<8>(tmem + column, c + column, n);
  st_columns<SF_COLUMNS>(tmem + SFA_COLUMN, scales_a, SF_COLUMNS);
  st_columns<SF_COLUMNS>(tmem + SFB_COLUMN, scales_b, SF_COLUMNS);
  tcgen05_wait_st();  // before the MMA reads them
  hand_over();        // operands, scales and C to the tensor core
  issue_and_wait(barrier, 0, [&] {
    multiply(tmem, with_start_address(a_desc, a_smem), with_start_address(b_desc, b_smem), idesc);
  });
#pragma unroll 1
  for (u32 column = 0; column < n; column += 8) {
    u32 words[8];
    tcgen05_ld_32x32b(tmem + tmem_address(warp_lane, column), words);
    tcgen05_wait_ld();  // the registers hold nothing before this
    store_registers(d + lane * n + column, words);
  }
  give_back_tensor_memory(tmem);
}
