// Which byte of Tensor Memory scales which row and which elements along K? Scale factors are powers of two that say where
// they lie, A has a single 1 in each row and B is all ones: D is the scale that this one element got.
//
// Compile-time choices (-D): KIND, VECTOR (block16 or block32), SPARSE, PAIR (two CTAs), ROWS of A in each CTA, CHUNKS of
// 16 bytes in a row of A (3 with K = 96); SFA_SHIFT and SFB_SHIFT plant a fault: the MMA looks for the scales so many
// columns behind where they lie. CTAs of 128 threads.
#include "common.cuh"
#include "dump.cuh"
#if PAIR
#include "pair_frame.cuh"
#define CTA_GROUP "cta_group::2"
#define CLUSTER __cluster_dims__(2, 1, 1)
DEVICE u32 cta() { return cluster_ctarank(); }
#else
#include "frame.cuh"
#define CTA_GROUP "cta_group::1"
#define CLUSTER
DEVICE u32 cta() { return 0; }
#endif

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#if SPARSE
#define OPCODE "tcgen05.mma.sp." CTA_GROUP ".kind::" TEXT(KIND) ".block_scale." TEXT(VECTOR) " [%0], %1, %2, [%6], %3"
#else
#define OPCODE "tcgen05.mma." CTA_GROUP ".kind::" TEXT(KIND) ".block_scale." TEXT(VECTOR) " [%0], %1, %2, %3"
#endif

constexpr u32 CTAS = PAIR ? 2 : 1;
constexpr u32 SFA_COLUMN = 256, SFB_COLUMN = 320, SF_COLUMNS = 32, METADATA_COLUMN = 384;  // behind D: at most 256
constexpr u32 B_CHUNKS = SPARSE ? 2 * CHUNKS : CHUNKS;  // sparse A has half as many elements a row as B

// One thread. D = (A * scale of A) * (B * scale of B); the scale addresses carry the scale-factor id in bits 30 and 31.
DEVICE void mma_scaled(u32 tmem, u64 a_desc, u64 b_desc, u32 idesc, u32 sfa_taddr, u32 sfb_taddr) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 0, 0;\n\t" OPCODE ", [%4], [%5], p;\n\t}"
               :: "r"(tmem), "l"(a_desc), "l"(b_desc), "r"(idesc), "r"(sfa_taddr), "r"(sfb_taddr),
                  "r"(tmem + METADATA_COLUMN) : "memory");
}

// Every group of A keeps its first half, wherever the metadata of the kind lie.
DEVICE void fill_metadata(u32 taddr) {
  u32 words[32];
#pragma unroll
  for (u32 i = 0; i < 32; ++i) words[i] = 0x44444444;
  tcgen05_st_32x32b(taddr + tmem_address(threadIdx.x / WARP * WARP, 0), words);
  tcgen05_wait_st();  // before the MMA reads them
}

// 32 columns of scales. Each byte is `one`, the code of 1, and `step` more for each 1 of a digit of its own place
// cta << 14 | lane << 7 | column << 2 | byte: a digit that `shift` and `mask` pick.
DEVICE void fill_scales(u32 taddr, u32 one, u32 step, u32 shift, u32 mask) {
  const u32 lane = threadIdx.x;
  u32 words[SF_COLUMNS];
#pragma unroll
  for (u32 i = 0; i < SF_COLUMNS; ++i) {
    words[i] = 0;
#pragma unroll
    for (u32 byte = 0; byte < 4; ++byte) {
      words[i] |= one + step * ((cta() << 14 | lane << 7 | i << 2 | byte) >> shift & mask) << 8 * byte;
    }
  }
  tcgen05_st_32x32b(taddr + tmem_address(lane / WARP * WARP, 0), words);
  tcgen05_wait_st();  // before the MMA reads them
}

// `rows` rows of the same chunks of 16 bytes, K-major without swizzle: SBO 128, LBO 16 * rows.
template <u32 COUNT>
DEVICE void stage_rows(u32 smem, u32 rows, const u32* row) {
#pragma unroll 1
  for (u32 i = threadIdx.x; i < COUNT * rows; i += blockDim.x) {
    const u32 r = i / COUNT, chunk = i % COUNT;
    const u32 words[4] = {row[4 * chunk], row[4 * chunk + 1], row[4 * chunk + 2], row[4 * chunk + 3]};
    st_shared_v4(smem + chunk * 16 * rows + r / 8 * 128 + r % 8 * 16, words);
  }
}

extern "C" __global__ void __launch_bounds__(128) CLUSTER
sf_map(const u32* a_rows,       // [element][chunk][4]: one 1 along K
       const u32* b_row,        // [chunk][4]: ones
       u32 one, u32 step,       // scale factor 2^i has the code one + i * step
       u32 elements,            // along K that are looked at
       u32 passes, u32 digit_bits,
       u64 a_desc, u64 b_desc,  // without start addresses
       u32 idesc, u32 sfa_id, u32 sfb_id,
       u32 n,
       u32* d)                  // [scales of A, of B][pass][element][cta][lane][column]
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ u64 barrier;
  __shared__ u32 slot;
  const u32 tmem = take_tensor_memory(slot, barrier), lane = threadIdx.x;
  const u32 a_smem = shared_address(operands), b_smem = a_smem + 16 * CHUNKS * ROWS;

  fill_with_sentinel(tmem);
  if (SPARSE) fill_metadata(tmem + METADATA_COLUMN);
  stage_rows<B_CHUNKS>(b_smem, n / CTAS, b_row);
#pragma unroll 1
  for (u32 i = 0; i < 2 * passes * elements; ++i) {
    const u32 element = i % elements, pass = i / elements % passes;
    const bool of_b = i >= passes * elements;
    if (element == 0) {
      const u32 shift = pass * digit_bits, mask = (1u << digit_bits) - 1;
      fill_scales(tmem + SFA_COLUMN, one, step, shift, of_b ? 0 : mask);
      fill_scales(tmem + SFB_COLUMN, one, step, shift, of_b ? mask : 0);
    }
    stage_rows<CHUNKS>(a_smem, ROWS, a_rows + 4 * CHUNKS * element);
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
      store_registers(d + ((i * CTAS + cta()) * TMEM_LANES + lane) * n + column, words);
    }
  }
  give_back_tensor_memory(tmem);
}
