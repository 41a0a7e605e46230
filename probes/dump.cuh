// Fill all of Tensor Memory with a sentinel, and read all of it back; the same for shared memory. For CTAs of 128 threads
// that own all 512 columns.
#pragma once

#include "common.cuh"
#include "steps.cuh"

// Says where it was put, and is a NaN that no MMA makes: negative, as an f32 and (low half) as an f16. The 1 keeps the
// low half a NaN in column 0, and no sentinel is all ones.
DEVICE u32 sentinel(u32 lane, u32 column) { return 0xff80fc00u | tmem_address(lane, column + 1); }

DEVICE void fill_with_sentinel(u32 tmem) {
  const u32 lane = threadIdx.x, warp_lane = lane / WARP * WARP;
#pragma unroll 1
  for (u32 column = 0; column < TMEM_COLUMNS; column += 32) {
    u32 words[32];
#pragma unroll
    for (u32 i = 0; i < 32; ++i) words[i] = sentinel(lane, column + i);
    tcgen05_st_32x32b(tmem + tmem_address(warp_lane, column), words);
  }
  if (kept(WAIT_ST)) tcgen05_wait_st();  // stores are asynchronous: done only now
}

DEVICE void fill_with_zero(u32 tmem) {
  const u32 warp_lane = threadIdx.x / WARP * WARP;
  const u32 zeros[32] = {};
#pragma unroll 1
  for (u32 column = 0; column < TMEM_COLUMNS; column += 32) {
    tcgen05_st_32x32b(tmem + tmem_address(warp_lane, column), zeros);
  }
  if (kept(WAIT_ST)) tcgen05_wait_st();
}

// A pattern that tells all 16-byte chunks apart: each of its words has six bits of the chunk's number, twice. As elements
// of any type it is small and finite: what an MMA reads here by mistake is known, and no NaN hides it.
DEVICE void fill_shared(u32 smem, u32 bytes) {
#pragma unroll 1
  for (u32 i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
    const u32 low = i % 64, middle = i / 64 % 64, high = i / 4096;
    const u32 words[4] = {0x40004000u | low * 0x10001u, 0x40004000u | middle * 0x10001u,
                          0x40004000u | high * 0x10001u, 0x40004000u | low * 0x10001u};
    st_shared_v4(smem + 16 * i, words);
  }
}

DEVICE void dump_shared(u32 smem, u32 bytes, u32* out) {
#pragma unroll 1
  for (u32 i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
    reinterpret_cast<uint4*>(out)[i] = ld_shared_v4(smem + 16 * i);
  }
}

// Shapes of tcgen05.ld as types. One instruction reads `lanes` lanes; with R registers that is 32 * R / lanes columns, and
// with .pack::16b twice as many.
#define LOAD_SHAPE(shape, lane_count)                                            \
  struct Load_##shape {                                                          \
    static constexpr u32 lanes = lane_count;                                     \
    template <bool PACK = false, int R>                                          \
    static __device__ __forceinline__ void load(u32 taddr, u32 (&r)[R]) {        \
      if constexpr (PACK) {                                                      \
        tcgen05_ld_##shape##_pack_16b(taddr, r);                                 \
      } else {                                                                   \
        tcgen05_ld_##shape(taddr, r);                                            \
      }                                                                          \
    }                                                                            \
    template <int R>                                                             \
    static __device__ __forceinline__ void store(u32 taddr, const u32 (&r)[R]) { \
      tcgen05_st_##shape(taddr, r);                                              \
    }                                                                            \
  };
LOAD_SHAPE(32x32b, 32)
LOAD_SHAPE(16x64b, 16)
LOAD_SHAPE(16x128b, 16)
LOAD_SHAPE(16x256b, 16)
LOAD_SHAPE(16x32bx2, 16)

template <int R>
DEVICE void store_registers(u32* out, const u32 (&r)[R]) {
  if constexpr (R % 4 == 0) {
#pragma unroll
    for (int i = 0; i < R; i += 4) *reinterpret_cast<uint4*>(out + i) = make_uint4(r[i], r[i + 1], r[i + 2], r[i + 3]);
  } else {
#pragma unroll
    for (int i = 0; i < R; ++i) out[i] = r[i];
  }
}

// Reads all lanes and columns and writes the raw registers: out[instruction][warp][thread][register]. Which cell a
// register came from is for the reader to say. 16-lane shapes take two instructions for the same columns: lower half first.
// Other values of `first_column` and `lane_step`, and loads that PACK though the reader does not think so (or the other
// way), read the wrong cells, for planted faults.
template <class Shape, int R, bool PACKED = false, bool PACK = PACKED>
DEVICE void dump_registers(u32 tmem, u32* out, u32 first_column = 0, u32 lane_step = 16) {
  constexpr u32 narrow = 32 * R / Shape::lanes, columns = PACKED ? 2 * narrow : narrow, halves = 32 / Shape::lanes;
  constexpr u32 last = TMEM_COLUMNS - (PACK ? 2 * narrow : narrow);
  const u32 warp_lane = threadIdx.x / WARP * WARP;
  // The end is no constant to the assembler, which would else unroll in spite of the pragma, and spill.
#pragma unroll 1
  for (u32 i = 0; i * blockDim.x < TMEM_COLUMNS / columns * halves * TMEM_LANES; ++i) {
    u32 registers[R];
    const u32 taddr = tmem + tmem_address(warp_lane + i % halves * lane_step, min(i / halves * columns + first_column, last));
    Shape::template load<PACK>(taddr, registers);
    if constexpr (kept(WAIT_LD)) {
      tcgen05_wait_ld();  // the registers hold nothing before this
    } else {              // the fault: the cells are handed on, and overwritten, while the load may be under way
      const u32 next[R] = {};
      Shape::store(taddr, next);
    }
    store_registers(out + (i * blockDim.x + threadIdx.x) * R, registers);
  }
}
