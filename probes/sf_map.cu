// Which byte of Tensor Memory scales which row and which elements along K? Scale factors are powers of two that say where
// they lie, A has a single 1 in each row and B is all ones: D is the scale that this one element got.
//
// Compile-time choices (-D): KIND, VECTOR (scale_vec::1X, 2X or 4X); SFA_SHIFT and SFB_SHIFT plant a fault: the MMA
// looks for the scales so many columns behind where they lie. One CTA of 128 threads, M = 128.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

constexpr u32 SFA_COLUMN = 256, SFB_COLUMN = 320, SF_COLUMNS = 32;  // behind D, which has at most 256
constexpr u32 M = 128;

// One thread. D = (A * scale of A) * (B * scale of B); the scale addresses carry the scale-factor id in bits 30 and 31.
DEVICE void mma_scaled(u32 d_taddr, u64 a_desc, u64 b_desc, u32 idesc, u32 sfa_taddr, u32 sfb_taddr) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 0, 0;\n\ttcgen05.mma.cta_group::1.kind::" TEXT(KIND)
               ".block_scale." TEXT(VECTOR) " [%0], %1, %2, %3, [%4], [%5], p;\n\t}"
               :: "r"(d_taddr), "l"(a_desc), "l"(b_desc), "r"(idesc), "r"(sfa_taddr), "r"(sfb_taddr) : "memory");
}

// 32 columns of scales. Each byte is `one`, the code of 1, and `step` more for each 1 of a digit of its own place
// lane << 7 | column << 2 | byte: a digit that `shift` and `mask` pick.
DEVICE void fill_scales(u32 taddr, u32 one, u32 step, u32 shift, u32 mask) {
  const u32 lane = threadIdx.x;
  u32 words[SF_COLUMNS];
#pragma unroll
  for (u32 i = 0; i < SF_COLUMNS; ++i) {
    words[i] = 0;
#pragma unroll
    for (u32 byte = 0; byte < 4; ++byte) {
      words[i] |= one + step * ((lane << 7 | i << 2 | byte) >> shift & mask) << 8 * byte;
    }
  }
  tcgen05_st_32x32b(taddr + tmem_address(lane / WARP * WARP, 0), words);
  tcgen05_wait_st();  // before the MMA reads them
}

// `rows` rows of the same 32 bytes, K-major without swizzle: SBO 128, LBO 16 * rows.
DEVICE void stage_rows(u32 smem, u32 rows, const u32* row) {
#pragma unroll 1
  for (u32 i = threadIdx.x; i < 2 * rows; i += blockDim.x) {
    const u32 r = i / 2, chunk = i % 2;
    const u32 words[4] = {row[4 * chunk], row[4 * chunk + 1], row[4 * chunk + 2], row[4 * chunk + 3]};
    st_shared_v4(smem + chunk * 16 * rows + r / 8 * 128 + r % 8 * 16, words);
  }
}

extern "C" __global__ void __launch_bounds__(128)
sf_map(const u32* a_rows,       // [element][8]: one 1 along K
       const u32* b_row,        // [8]: ones
       u32 one, u32 step,       // scale factor 2^i has the code one + i * step
       u32 elements,            // along K that are looked at
       u32 passes, u32 digit_bits,
       u64 a_desc, u64 b_desc,  // without start addresses
       u32 idesc, u32 sfa_id, u32 sfb_id,
       u32 n,
       u32* d)                  // [scales of A, of B][pass][element][lane][column]
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ u64 barrier;
  __shared__ u32 slot;
  const u32 tmem = take_tensor_memory(slot, barrier), lane = threadIdx.x;
  const u32 a_smem = shared_address(operands), b_smem = a_smem + 32 * M;

  fill_with_sentinel(tmem);
  stage_rows(b_smem, n, b_row);
#pragma unroll 1
  for (u32 i = 0; i < 2 * passes * elements; ++i) {
    const u32 element = i % elements, pass = i / elements % passes;
    const bool of_b = i >= passes * elements;
    if (element == 0) {
      const u32 shift = pass * digit_bits, mask = (1u << digit_bits) - 1;
      fill_scales(tmem + SFA_COLUMN, one, step, shift, of_b ? 0 : mask);
      fill_scales(tmem + SFB_COLUMN, one, step, shift, of_b ? mask : 0);
    }
    stage_rows(a_smem, M, a_rows + 8 * element);
    hand_over();  // operands and scales to the tensor core; and every warp has read the last D
    issue_and_wait(barrier, i, [&] {
      mma_scaled(tmem, with_start_address(a_desc, a_smem), with_start_address(b_desc, b_smem), idesc,
                 tmem + SFA_COLUMN + SFA_SHIFT | sfa_id << 30, tmem + SFB_COLUMN + SFB_SHIFT | sfb_id << 30);
    });
#pragma unroll 1
    for (u32 column = 0; column < n; column += 8) {
      u32 words[8];
      tcgen05_ld_32x32b(tmem + tmem_address(lane / WARP * WARP, column), words);
      tcgen05_wait_ld();  // the registers hold nothing before this
      store_registers(d + (i * TMEM_LANES + lane) * n + column, words);
    }
  }
  give_back_tensor_memory(tmem);
}
