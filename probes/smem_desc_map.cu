// From which byte of shared memory does the tensor core fetch each element of an operand? Shared memory holds raw patterns
// in which each place says a part of its own address; the other operand is the unit matrix, so that D is the operand.
//
// Compile-time choices (-D): KIND, OPERAND_A (1: A is under test, in shared memory; 0: B, with A in Tensor Memory), ONE_BITS
// (of an element of the unit matrix: 8, 16 or 32). No layout of the operand under test is known here. One CTA of 128 threads.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

constexpr u32 K = 256 / ONE_BITS;       // one MMA takes 32 bytes of K
constexpr u32 PER_WORD = 32 / ONE_BITS;
constexpr u32 UNIT_COLUMN = 256;        // of the unit matrix in Tensor Memory, behind D

// Word `word` of row `row`: the one where row and k meet.
DEVICE u32 unit_word(u32 row, u32 word, u32 one) { return row / PER_WORD == word ? one << row % PER_WORD * ONE_BITS : 0; }

DEVICE void unit_matrix_in_tmem(u32 taddr, u32 one) {
  const u32 lane = threadIdx.x;
  u32 words[8];
#pragma unroll
  for (u32 i = 0; i < 8; ++i) words[i] = unit_word(lane, i, one);
  tcgen05_st_32x32b(taddr + tmem_address(lane / WARP * WARP, 0), words);
  tcgen05_wait_st();  // before the MMA reads it
}

// K rows of 32 bytes, K-major without swizzle: SBO 128, LBO 16 * K.
DEVICE void unit_matrix_in_shared(u32 smem, u32 one) {
  const u32 row = threadIdx.x / 2, chunk = threadIdx.x % 2;
  if (row >= K) return;
  u32 words[4];
#pragma unroll
  for (u32 i = 0; i < 4; ++i) words[i] = unit_word(row, 4 * chunk + i, one);
  st_shared_v4(smem + chunk * 16 * K + row / 8 * 128 + row % 8 * 16, words);
}

extern "C" __global__ void __launch_bounds__(128)
smem_desc_map(const uint4* patterns,  // [pass][byte]
              u32 passes, u32 bytes,  // bytes of one pattern
              u32 one,                // code of 1 in the unit matrix
              u64 desc,               // of the operand under test, without its start address
              u32 start,              // bytes from the pattern's first, which lies on 1024 bytes
              u64 unit_desc,          // of the unit matrix, if it is in shared memory
              u32 idesc,
              u32 columns,            // of D
              u32* d)                 // [pass][lane][column]
{
  extern __shared__ __align__(1024) u8 shared[];
  __shared__ u64 barrier;
  __shared__ u32 slot;
  const u32 tmem = take_tensor_memory(slot, barrier), pattern = shared_address(shared), lane = threadIdx.x;

  fill_with_sentinel(tmem);
#if OPERAND_A
  unit_matrix_in_shared(pattern + bytes, one);
#else
  unit_matrix_in_tmem(tmem + UNIT_COLUMN, one);
#endif
#pragma unroll 1
  for (u32 pass = 0; pass < passes; ++pass) {
#pragma unroll 1
    for (u32 i = lane; i < bytes / 16; i += blockDim.x) {
      const uint4 chunk = patterns[pass * (bytes / 16) + i];
      const u32 words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
      st_shared_v4(pattern + 16 * i, words);
    }
    hand_over();  // pattern and unit matrix to the tensor core; and every warp has read the last D
    issue_and_wait(barrier, pass, [&] {
      const u64 tested = with_start_address(desc, pattern + start);
#if OPERAND_A
      JOIN(tcgen05_mma_, KIND)(tmem, tested, with_start_address(unit_desc, pattern + bytes), idesc, false);
#else
      JOIN(JOIN(tcgen05_mma_, KIND), _tmem_a)(tmem, tmem + UNIT_COLUMN, tested, idesc, false);
#endif
    });
#pragma unroll 1
    for (u32 column = 0; column < columns; column += 8) {
      u32 words[8];
      tcgen05_ld_32x32b(tmem + tmem_address(lane / WARP * WARP, column), words);
      tcgen05_wait_ld();  // the registers hold nothing before this
      store_registers(d + (pass * TMEM_LANES + lane) * columns + column, words);
    }
  }
  give_back_tensor_memory(tmem);
}
