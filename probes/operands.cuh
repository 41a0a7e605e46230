// Operands of tcgen05.mma, from plain row-major global arrays to where the tensor core reads them.
//
// The addresses are the canonical layouts of the PTX ISA ("Matrix operands in shared memory"), written out. Rows are M
// of A or N of B. In global memory an element is its raw code: one byte for types of up to 8 bits, else its own width.
#pragma once

#include "common.cuh"
#include "dump.cuh"

enum Swizzle : u32 { SWIZZLE_NONE = 0, SWIZZLE_128B_BASE32B = 1, SWIZZLE_128B = 2, SWIZZLE_64B = 4, SWIZZLE_32B = 6 };
enum Major : u32 { K_MAJOR = 0, MN_MAJOR = 1 };

// What the host decides about one operand; 40 bytes, passed by value.
struct Operand {
  u64 desc;    // shared-memory descriptor without its start address
  u32 smem;    // where it begins in dynamic shared memory, bytes
  u32 rows;    // M or N
  u32 tile_k;  // K of one MMA, elements
  u32 lbo;     // leading byte offset: as in the descriptor
  u32 sbo;     // stride byte offset: as in the descriptor
  u32 panel;   // swizzled K-major: bytes from one row width of K to the next (no descriptor knows it)
  u32 phase;   // bytes by which the swizzle pattern is displaced: 0, or a planted fault
  u32 unused;
};

template <int BITS> struct CodeOf { typedef u8 type; };
template <> struct CodeOf<16> { typedef u16 type; };
template <> struct CodeOf<32> { typedef u32 type; };

template <Swizzle MODE>
constexpr u32 ROW_BYTES = MODE == SWIZZLE_NONE ? 16 : MODE == SWIZZLE_32B ? 32 : MODE == SWIZZLE_64B ? 64 : 128;

// The swizzle works on the absolute address: bits 7-9 are added (xor) to bits 4-6, or bits 7-8 to bits 5-6.
template <Swizzle MODE>
DEVICE u32 swizzled(u32 smem) {
  if (MODE == SWIZZLE_128B_BASE32B) return smem ^ (smem >> 7 & 3) << 5;
  return smem ^ (smem >> 7 & (ROW_BYTES<MODE> / 16 - 1)) << 4;
}

// K-major: `byte` counts along K within a row. Eight rows are together, `sbo` from the next eight.
template <Swizzle MODE>
DEVICE u32 k_major_address(const Operand& op, u32 base, u32 row, u32 byte) {
  constexpr u32 width = ROW_BYTES<MODE>;
  const u32 next_width = MODE == SWIZZLE_NONE ? op.lbo : op.panel;
  const u32 smem = base + byte / width * next_width + row / 8 * op.sbo + row % 8 * width + byte % width;
  return swizzled<MODE>(smem - op.phase) + op.phase;
}

// MN-major: `byte` counts along M or N. Eight k (four of 32 bits) are together; without swizzle LBO and SBO swap roles.
template <Swizzle MODE>
DEVICE u32 mn_major_address(const Operand& op, u32 base, u32 k, u32 byte) {
  constexpr u32 width = ROW_BYTES<MODE>, k_rows = MODE == SWIZZLE_128B_BASE32B ? 4 : 8;
  const u32 next_width = MODE == SWIZZLE_NONE ? op.sbo : op.lbo;
  const u32 next_k = MODE == SWIZZLE_NONE ? op.lbo : op.sbo;
  const u32 smem = base + byte / width * next_width + k / k_rows * next_k + k % k_rows * width + byte % width;
  return swizzled<MODE>(smem - op.phase) + op.phase;
}

// Bytes from the start of the operand to what MMA number `tile` along K reads. A dense MMA takes 32 bytes of K.
template <Swizzle MODE, Major MAJOR>
DEVICE u32 k_tile_offset(const Operand& op, u32 tile) {
  constexpr u32 width = ROW_BYTES<MODE>;
  if (MAJOR == K_MAJOR) {
    return MODE == SWIZZLE_NONE ? 2 * tile * op.lbo : 32 * tile / width * op.panel + 32 * tile % width;
  }
  constexpr u32 k_rows = MODE == SWIZZLE_128B_BASE32B ? 4 : 8;
  return tile * op.tile_k / k_rows * (MODE == SWIZZLE_NONE ? op.lbo : op.sbo);
}

// `count` elements of BITS, `pitch` bits apart, from bit `first`: into little-endian words.
template <int BITS, int COUNT, int PITCH, int FIRST, int WORDS>
DEVICE void pack(const typename CodeOf<BITS>::type* codes, u32 stride, u32 (&words)[WORDS]) {
#pragma unroll
  for (int i = 0; i < WORDS; ++i) words[i] = 0;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    const u32 code = codes[i * stride];
    const int bit = FIRST + i * PITCH;
    words[bit / 32] |= code << bit % 32;
    if (bit % 32 + BITS > 32) words[bit / 32 + 1] |= code >> (32 - bit % 32);
  }
}

// Stages codes[rows][k] in shared memory, 16 bytes at a time; all threads of the CTA take part. Elements narrower than
// 8 bits lie in groups of 16 at the start of each 16 bytes.
template <int BITS, Swizzle MODE, Major MAJOR>
DEVICE void stage_in_shared(const Operand& op, u32 base, const typename CodeOf<BITS>::type* codes, u32 k) {
  constexpr u32 group = BITS < 8 ? 16 : 128 / BITS;
  const u32 groups = (MAJOR == K_MAJOR ? k : op.rows) / group;  // along the direction that is contiguous
  const u32 across = MAJOR == K_MAJOR ? op.rows : k;
#pragma unroll 1
  for (u32 i = threadIdx.x; i < groups * across; i += blockDim.x) {
    const u32 g = i % groups, a = i / groups;
    u32 words[4];
    if (MAJOR == K_MAJOR) {
      pack<BITS, group, BITS, 0>(codes + a * k + g * group, 1, words);
      st_shared_v4(k_major_address<MODE>(op, base, a, 16 * g), words);
    } else {
      pack<BITS, group, BITS, 0>(codes + g * group * k + a, k, words);
      st_shared_v4(mn_major_address<MODE>(op, base, a, 16 * g), words);
    }
  }
}

// Which row of A a lane of Tensor Memory holds, -1 for none. Each bank of lanes of .ws has a copy of its own.
DEVICE int a_row_of_lane(u32 lane, u32 m, bool ws, u32 lane_base) {
  if (ws) return int(lane % m);
  if (m > 64) return lane < m ? int(lane) : -1;
  return (lane & 16) == lane_base ? int(lane / 32 * 16 + lane % 16) : -1;  // M = 64: 16 rows in each 32 lanes
}

// How A is stored into Tensor Memory. Only PACKED is what an MMA reads; the others are faults to plant.
enum Storing {
  PACKED,        // as many elements a column as it has room for
  ONE_A_COLUMN,
  UNPACK_16B,    // packed registers, but with .unpack::16b: each half goes to a column of its own
};

// Stages codes[rows][k] in Tensor Memory: one MMA reads 8 columns. Elements narrower than 8 bits take 8 each: 4-bit ones
// bits 2-5, 6-bit ones bits 0-5.
template <int BITS, Storing STORING = PACKED>
DEVICE void stage_in_tmem(u32 taddr, int row, const typename CodeOf<BITS>::type* codes, u32 k, u32 tiles) {
  constexpr int container = STORING == ONE_A_COLUMN ? 32 : BITS < 8 ? 8 : BITS, first = BITS == 4 ? 2 : 0;
  constexpr int per_8_columns = 256 / container;
  const u32 lane = threadIdx.x, warp_lane = lane / WARP * WARP;
#pragma unroll 1
  for (u32 tile = 0; tile < tiles; ++tile) {
    u32 words[8];
    if (row >= 0) {
      pack<BITS, per_8_columns, container, first>(codes + row * k + tile * per_8_columns, 1, words);
    } else {
#pragma unroll
      for (u32 i = 0; i < 8; ++i) words[i] = sentinel(lane, (taddr & 0xffff) + 8 * tile + i);
    }
    if constexpr (STORING == UNPACK_16B) {
      tcgen05_st_32x32b_unpack_16b(taddr + tmem_address(warp_lane, 16 * tile), words);
    } else {
      tcgen05_st_32x32b(taddr + tmem_address(warp_lane, 8 * tile), words);
    }
  }
  if (kept(WAIT_ST)) tcgen05_wait_st();  // stores are asynchronous: done only now
}
