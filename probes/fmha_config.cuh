// FMHA: tiles, budgets and descriptors, all decided at compile time.
//
// Compile-time choices (-D): HEAD_DIM 16|32|64|96|128|192|256, BF16 0|1, P_IN_TMEM 0|1, PV_N 16|32|64|HEAD_DIM,
// CAUSAL 0|1, DUMP_STAGES 0|1; and, so that the host's budgets and tensor maps cannot differ from the kernel's,
// EXPECTED_SMEM_BYTES and EXPECTED_PANEL_COLUMNS.
#pragma once

#include "common.cuh"
#include "operands.cuh"

constexpr u32 TILE = 128;      // query rows of a CTA, and keys of a KV tile
constexpr u32 MMA_K = 16;      // kind::f16: K of one MMA, 32 bytes
constexpr u32 MMA_K_BYTES = 32;
constexpr u32 SOFTMAX_WARPS = 4, MMA_WARP = 4, LOAD_WARP = 5, THREADS = 6 * WARP;
constexpr u32 SOFTMAX_THREADS = SOFTMAX_WARPS * WARP;

constexpr u32 MAX_DYNAMIC_SMEM = 227 * 1024;  // of one CTA on sm_100

// Rows as wide as the swizzle, TILE of them: what one TMA box brings and what a descriptor walks over.
template <u32 COLUMNS>
struct Panels {
  static constexpr u32 columns = COLUMNS % 64 == 0 ? 64 : COLUMNS % 32 == 0 ? 32 : 16;
  static constexpr u32 count = COLUMNS / columns;
  static constexpr u32 row_bytes = 2 * columns;
  static constexpr u32 bytes = TILE * row_bytes;
  static constexpr Swizzle swizzle = row_bytes == 128 ? SWIZZLE_128B : row_bytes == 64 ? SWIZZLE_64B : SWIZZLE_32B;

  // Both majors have eight rows of the panel in one swizzle pattern, so the stride is that of eight rows. The leading
  // dimension is not used K-major (1 by convention); MN-major it leads from panel to panel.
  static constexpr u64 descriptor(Major major) {
    const u32 sbo = 8 * row_bytes, lbo = major == MN_MAJOR ? bytes : 16;
    return u64(lbo >> 4) << 16 | u64(sbo >> 4) << 32 | u64(1) << 46 | u64(swizzle) << 61;
  }

  // Start of MMA k along K. K-major: 32 bytes on within the row, then the next panel. MN-major: 16 rows on.
  static constexpr u32 k_major_offset(u32 k) {
    return MMA_K_BYTES * k / row_bytes * bytes + MMA_K_BYTES * k % row_bytes;
  }
  static constexpr u32 mn_major_offset(u32 k, u32 column) {
    return column / columns * bytes + column % columns * 2 + k * MMA_K * row_bytes;
  }
};

// kind::f16 with an f32 accumulator, M = 128. K is not in it: the kind says 16.
constexpr u32 instruction_descriptor(u32 n, Major b_major) {
  return 1u << 4 | u32(BF16) << 7 | u32(BF16) << 10 | u32(b_major) << 16 | n / 8 << 17 | TILE / 16 << 24;
}

// ------------------------------------------------------------------------------------------------------ Tensor Memory
//
// Two S tiles, so that Q K(j+1) runs while softmax works on S(j). P(j), two elements a column, takes the first half of
// S(j)'s columns when S(j) has been read.
constexpr u32 S_COLUMNS = TILE;
constexpr u32 P_COLUMNS = TILE / 2;
constexpr u32 O_COLUMN = 2 * S_COLUMNS;

template <u32 HD>
constexpr u32 allocated_columns() {
  static_assert(P_COLUMNS <= S_COLUMNS, "P takes the place of S");
  static_assert(O_COLUMN + HD <= TMEM_COLUMNS, "S, S and O must fit into Tensor Memory");
  u32 columns = 32;  // tcgen05.alloc takes a power of two from 32
  while (columns < O_COLUMN + HD) columns *= 2;
  return columns;
}

// ------------------------------------------------------------------------------------------------------ shared memory

template <u32 HD>
struct Tile {
  __align__(1024) u16 elements[TILE * HD];  // a swizzle pattern repeats every 1024 bytes at most
};

template <bool IN_SHARED>
struct PTile {
  __align__(1024) u16 p[TILE * TILE];
};
template <>
struct PTile<false> {};

// K and V tiles come through one ring in the order in which the MMAs take them: K0 K1 V0 K2 V1 ... It is as long as
// fits, up to 4.
template <u32 HD>
constexpr u32 ring_stages() {
  constexpr u32 tile = sizeof(Tile<HD>), p = P_IN_TMEM ? 0 : sizeof(PTile<true>);
  constexpr u32 fitting = (MAX_DYNAMIC_SMEM - 1024 - tile - p) / tile;  // 1024: barriers
  static_assert(fitting >= 2, "K(j+1) and V(j) are under way together");
  return fitting < 4 ? fitting : 4;
}

template <u32 HD>
struct Shared : PTile<!P_IN_TMEM> {
  static constexpr u32 stages = ring_stages<HD>();
  Tile<HD> q;
  Tile<HD> ring[stages];
  // Who completes a phase, who waits for it:
  u64 q_full;              // TMA -> MMA
  u64 ring_full[stages];   // TMA -> MMA
  u64 ring_empty[stages];  // MMA -> TMA: the tile has been read
  u64 s_full[2];           // MMA -> softmax: S(j) is there
  u64 p_full;              // softmax -> MMA: P(j) is there, O is scaled to its maximum, S(j) has been read
  u64 pv_done;             // MMA -> softmax, MMA: O has P(j) V(j), P(j) has been read
  u32 tmem;                // where tcgen05.alloc puts the address
};

static_assert(sizeof(Shared<HEAD_DIM>) <= MAX_DYNAMIC_SMEM, "shared memory of a CTA");
#ifdef EXPECTED_SMEM_BYTES
static_assert(sizeof(Shared<HEAD_DIM>) == EXPECTED_SMEM_BYTES, "the host's budget differs from the kernel's");
#endif
#ifdef EXPECTED_PANEL_COLUMNS
static_assert(Panels<HEAD_DIM>::columns == EXPECTED_PANEL_COLUMNS, "the tensor maps' boxes are not the kernel's");
#endif
static_assert(HEAD_DIM % PV_N == 0 && PV_N % 16 == 0 && PV_N <= 256, "sub-tiles of PV cover the head dimension");
