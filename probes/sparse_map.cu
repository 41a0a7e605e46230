// Which nibble of Tensor Memory selects which elements of sparse A? Metadata codes say one bit of their own place in each
// pass; B is the unit matrix, so that D is A as it was expanded.
//
// Compile-time choices (-D): KIND, WS, ELEMENT_BITS, M, N (at least K: 64, or 128 for 4-bit elements); VECTOR (block16 or
// block32) for block-scaled kinds; METADATA_SHIFT plants a fault: the MMA looks for the metadata so many columns behind
// where they lie. One CTA of 128 threads.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#if defined(VECTOR)
#define OPCODE "tcgen05.mma.sp.cta_group::1.kind::" TEXT(KIND) ".block_scale." TEXT(VECTOR)
#define SCALES ", [%5], [%5]"  // all are 1: the same ones do for A and for B
#elif WS
#define OPCODE "tcgen05.mma.ws.sp.cta_group::1.kind::" TEXT(KIND)
#define SCALES ""
#else
#define OPCODE "tcgen05.mma.sp.cta_group::1.kind::" TEXT(KIND)
#define SCALES ""
#endif

constexpr u32 K = 512 / ELEMENT_BITS;  // one sparse MMA takes 64 bytes of B a row, and 32 of A
constexpr u32 METADATA_COLUMN = 256, METADATA_COLUMNS = 32, SCALE_COLUMN = 288;  // behind D, which has at most 256

// One thread. D = A * B, A being expanded by the metadata.
DEVICE void mma_sparse(u32 tmem, u64 a_desc, u64 b_desc, u32 idesc) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 0, 0;\n\t" OPCODE " [%0], %1, %2, [%3], %4" SCALES ", p;\n\t}"
               :: "r"(tmem), "l"(a_desc), "l"(b_desc), "r"(tmem + METADATA_COLUMN + METADATA_SHIFT), "r"(idesc),
                  "r"(tmem + SCALE_COLUMN) : "memory");
}

// Scale factors that are all 1, for up to 256 rows.
DEVICE void fill_scales(u32 taddr, u32 one) {
  u32 words[8];
#pragma unroll
  for (u32 i = 0; i < 8; ++i) words[i] = one * 0x01010101u;
  tcgen05_st_32x32b(taddr + tmem_address(threadIdx.x / WARP * WARP, 0), words);
  tcgen05_wait_st();  // before the MMA reads them
}

// K-major without swizzle: SBO 128, LBO 16 * rows.
DEVICE void st_row_chunk(u32 smem, u32 rows, u32 row, u32 chunk, const u32 (&words)[4]) {
  st_shared_v4(smem + chunk * 16 * rows + row / 8 * 128 + row % 8 * 16, words);
}

// The same 32 bytes in each row of A.
DEVICE void stage_a(u32 smem, const u32* row) {
#pragma unroll 1
  for (u32 i = threadIdx.x; i < 2 * M; i += blockDim.x) {
    const u32* chunk = row + i % 2 * 4;
    const u32 words[4] = {chunk[0], chunk[1], chunk[2], chunk[3]};
    st_row_chunk(smem, M, i / 2, i % 2, words);
  }
}

// The unit matrix, and zeros in the rows beyond K.
DEVICE void stage_b(u32 smem, u32 one) {
  constexpr u32 per_word = 32 / ELEMENT_BITS;
#pragma unroll 1
  for (u32 i = threadIdx.x; i < 4 * N; i += blockDim.x) {
    const u32 row = i / 4, chunk = i % 4;
    u32 words[4];
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      words[j] = row < K && row / per_word == 4 * chunk + j ? one << row % per_word * ELEMENT_BITS : 0;
    }
    st_row_chunk(smem, N, row, chunk, words);
  }
}

// Two codes, by bit `bit` of each nibble's place lane << 8 | column << 3 | nibble.
DEVICE void fill_metadata(u32 taddr, u32 code_0, u32 code_1, u32 bit) {
  const u32 lane = threadIdx.x;
  const u32 in_word = bit == 0 ? 0xf0f0f0f0 : bit == 1 ? 0xff00ff00 : 0xffff0000;
  u32 words[METADATA_COLUMNS];
#pragma unroll
  for (u32 i = 0; i < METADATA_COLUMNS; ++i) {
    const u32 ones = bit < 3 ? in_word : 0 - ((lane << 5 | i) >> (bit - 3) & 1);
    words[i] = code_0 * 0x11111111u & ~ones | code_1 * 0x11111111u & ones;
  }
  tcgen05_st_32x32b(taddr + tmem_address(lane / WARP * WARP, 0), words);
  tcgen05_wait_st();  // before the MMA reads it
}

extern "C" __global__ void __launch_bounds__(128)
sparse_map(const u32* a_row,        // [8]: the kept values, all different
           const u32* code_pairs,   // [pass][2]
           const u32* bits,         // [pass]: of the place
           u32 passes, u32 one,     // code of 1
           u32 scale_one,           // and of a scale of 1
           u64 a_desc, u64 b_desc,  // without start addresses
           u32 idesc,
           u32* d)                  // [pass][lane][column]
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ u64 barrier;
  __shared__ u32 slot;
  const u32 tmem = take_tensor_memory(slot, barrier), lane = threadIdx.x;
  const u32 a_smem = shared_address(operands), b_smem = a_smem + 32 * M;

  fill_with_sentinel(tmem);
  stage_a(a_smem, a_row);
  stage_b(b_smem, one);
  fill_scales(tmem + SCALE_COLUMN, scale_one);
#pragma unroll 1
  for (u32 pass = 0; pass < passes; ++pass) {
    fill_metadata(tmem + METADATA_COLUMN, code_pairs[2 * pass], code_pairs[2 * pass + 1], bits[pass]);
    hand_over();  // operands and metadata to the tensor core; and every warp has read the last D
    issue_and_wait(barrier, pass, [&] {
      mma_sparse(tmem, with_start_address(a_desc, a_smem), with_start_address(b_desc, b_smem), idesc);
    });
#pragma unroll 1
    for (u32 column = 0; column < N; column += 8) {
      u32 words[8];
      tcgen05_ld_32x32b(tmem + tmem_address(lane / WARP * WARP, column), words);
      tcgen05_wait_ld();  // the registers hold nothing before this
      store_registers(d + (pass * TMEM_LANES + lane) * N + column, words);
    }
  }
  give_back_tensor_memory(tmem);
}
