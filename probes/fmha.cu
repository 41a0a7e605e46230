// Fused attention, forward: O = softmax(scale * Q K^T) V, for one tile of 128 query rows of one head.
//
// Six warps, each with one task: 192 threads. Grid (query tiles, heads, batch); dynamic shared memory sizeof(Shared<HD>).
//
//   warp 5    TMA      Q once, then K and V tiles into a ring
//   warp 4    MMA      S(j) = Q K(j)^T into one of two buffers, then O += P(j) V(j); one elected thread issues all
//   warps 0-3 softmax  thread = query row = lane of Tensor Memory: P(j) from S(j), online: O is rescaled when the
//                      row's maximum grows; at the end O / sum to global memory
//
// The MMA warp issues Q K(j+1) before P(j) V(j), so that the tensor core has work while softmax turns S(j) into P(j).
// Exponentials are powers of two: the maximum, the sum and the exponents are of S * scale * log2(e).
//
// A causal mask is aligned to the last query and the last key: query i sees key j if j <= i + seq_k - seq_q. A row that
// sees no key has O = 0 and LSE = -inf; a tile in which no row sees any has no KV tiles, and nothing is loaded for it.
#include "common.cuh"
#include "fmha_config.cuh"

#define METHOD __device__ __forceinline__

constexpr float LN_2 = 0.693147180559945f;

DEVICE float minus_infinity() { return __int_as_float(0xff800000); }

DEVICE float ex2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

DEVICE float lg2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two numbers as two elements in a word, the first in the low half.
DEVICE u32 pack_elements(float low, float high) {
  u32 word;
#if BF16
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#else
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#endif
  return word;
}

// Four chains instead of one, for the latency. fmaxf takes the number when one side is NaN; the sum shows the NaN.
DEVICE float maximum(const float (&x)[TILE]) {
  float best[4] = {x[0], x[1], x[2], x[3]};
#pragma unroll
  for (u32 i = 4; i < TILE; ++i) best[i % 4] = fmaxf(best[i % 4], x[i]);
  return fmaxf(fmaxf(best[0], best[1]), fmaxf(best[2], best[3]));
}

DEVICE float sum(const float (&x)[TILE]) {
  float part[4] = {x[0], x[1], x[2], x[3]};
#pragma unroll
  for (u32 i = 4; i < TILE; ++i) part[i % 4] += x[i];
  return (part[0] + part[1]) + (part[2] + part[3]);
}

// What the CTA works on.
struct Problem {
  u32 q_row;       // first query row of the tile
  u32 head, kv_head, batch;
  u32 seq_q, seq_k;
  u32 kv_tiles;    // those in which any row of the tile sees a key
  float scale_log2;

  // Keys that a query row sees: the first so many.
  METHOD u32 visible(u32 row) const {
    if (!CAUSAL) return seq_k;
    const u32 end = row + 1 + seq_k;  // seq_q more than the number of visible keys
    return end <= seq_q ? 0 : min(end - seq_q, seq_k);
  }
};

// Intermediate values for the host to look at (DUMP_STAGES), where the kernel has them. Rows are those of all query
// tiles of all heads; `keys` is 128 for each KV tile.
struct StageDump {
  float* s;        // [row][key]: before scale and mask
  float* row_max;  // [row][KV tile]: running maximum after the tile, times scale * log2(e)
  float* row_sum;  // [row][KV tile]: running sum after the tile
  u32* p;          // [row][key / 2]: two elements a word
  u32* o;          // [row][HD]: f32, before the division by the sum
};

// Where a tile of the ring goes and which phase of its barriers that is.
template <u32 STAGES>
struct RingPosition {
  u32 index = 0, stage = 0, phase = 0;

  METHOD void advance() {
    ++index;
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

template <u32 HD>
DEVICE void init_barriers(Shared<HD>& shared) {
  mbarrier_init(shared_address(&shared.q_full), 1);
#pragma unroll
  for (u32 stage = 0; stage < Shared<HD>::stages; ++stage) {
    mbarrier_init(shared_address(&shared.ring_full[stage]), 1);
    mbarrier_init(shared_address(&shared.ring_empty[stage]), 1);
  }
  mbarrier_init(shared_address(&shared.s_full[0]), 1);
  mbarrier_init(shared_address(&shared.s_full[1]), 1);
  mbarrier_init(shared_address(&shared.p_full), SOFTMAX_THREADS);
  mbarrier_init(shared_address(&shared.pv_done), 1);
}

DEVICE void store_floats(float* to, const float (&values)[TILE]) {
#pragma unroll
  for (u32 i = 0; i < TILE; i += 4) {
    *reinterpret_cast<float4*>(to + i) = make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
  }
}

template <u32 HD>
struct Kernel {
  typedef Panels<HD> Operand;      // Q, K and V
  typedef Panels<TILE> POperand;   // P in shared memory
  typedef Shared<HD> Memory;
  typedef RingPosition<Memory::stages> Position;
  static constexpr u32 tile_bytes = sizeof(Tile<HD>);
  static constexpr u32 chunk = HD < 32 ? HD : 32;  // columns of O in registers at a time

  Memory& shared;
  const Problem& problem;
  u32 tmem;

  METHOD u32 s_taddr(u32 tile) const { return tmem + tile % 2 * S_COLUMNS; }
  METHOD u32 o_taddr() const { return tmem + O_COLUMN; }

  // ------------------------------------------------------------------------------------------------ warp 5: loads
  METHOD void load(const TensorMap& q_map, const TensorMap& k_map, const TensorMap& v_map) const {
    if (problem.kv_tiles == 0) return;
    load_tile(shared.q, shared.q_full, q_map, problem.q_row, problem.head);
    Position position;
    load_next(position, k_map, 0);
#pragma unroll 1
    for (u32 tile = 0; tile < problem.kv_tiles; ++tile) {
      if (tile + 1 < problem.kv_tiles) load_next(position, k_map, tile + 1);
      load_next(position, v_map, tile);
    }
  }

  METHOD void load_next(Position& position, const TensorMap& map, u32 tile) const {
    // The MMAs have read what was there before. In the first round this is the phase before the first: complete.
    mbarrier_wait_parity(shared_address(&shared.ring_empty[position.stage]), position.phase ^ 1);
    load_tile(shared.ring[position.stage], shared.ring_full[position.stage], map, tile * TILE, problem.kv_head);
    position.advance();
  }

  // Rows behind the end of the sequence arrive as zeros, and count as bytes.
  METHOD void load_tile(Tile<HD>& tile, u64& full, const TensorMap& map, u32 row, u32 head) const {
    const u32 mbar = shared_address(&full);
    mbarrier_arrive_expect_tx(mbar, tile_bytes);
#pragma unroll
    for (u32 panel = 0; panel < Operand::count; ++panel) {
      cp_async_bulk_tensor_4d(shared_address(&tile) + panel * Operand::bytes, map, panel * Operand::columns, row, head,
                              problem.batch, mbar);
    }
  }

  // ------------------------------------------------------------------------------------------------- warp 4: MMAs
  METHOD void multiply() const {
    if (problem.kv_tiles == 0) return;
    mbarrier_wait_parity(shared_address(&shared.q_full), 0);
    Position position;
    multiply_qk(position, 0);
#pragma unroll 1
    for (u32 tile = 0; tile < problem.kv_tiles; ++tile) {
      if (tile + 1 < problem.kv_tiles) multiply_qk(position, tile + 1);
      multiply_pv(position, tile);
    }
  }

  // S(tile) = Q K(tile)^T.
  METHOD void multiply_qk(Position& position, u32 tile) const {
    constexpr u32 idesc = instruction_descriptor(TILE, K_MAJOR);
    if (P_IN_TMEM && tile >= 2) {
      // P(tile - 2) lies where S(tile) goes: its MMAs have read it, and MMAs of other accumulators come in no order.
      mbarrier_wait_parity(shared_address(&shared.pv_done), tile & 1);
      tcgen05_fence_after_thread_sync();  // the MMAs below come after the wait
    }
    mbarrier_wait_parity(shared_address(&shared.ring_full[position.stage]), position.phase);
    const u32 q = shared_address(&shared.q), k = shared_address(&shared.ring[position.stage]);
#pragma unroll
    for (u32 i = 0; i < HD / MMA_K; ++i) {
      tcgen05_mma_f16(s_taddr(tile), with_start_address(Operand::descriptor(K_MAJOR), q + Operand::k_major_offset(i)),
                      with_start_address(Operand::descriptor(K_MAJOR), k + Operand::k_major_offset(i)), idesc, i != 0);
    }
    release(position);
    tcgen05_commit(shared_address(&shared.s_full[tile % 2]));
  }

  // O (+)= P(tile) V(tile), in sub-tiles of PV_N columns.
  METHOD void multiply_pv(Position& position, u32 tile) const {
    constexpr u32 idesc = instruction_descriptor(PV_N, MN_MAJOR);  // V is [key][hd]: hd is contiguous
    mbarrier_wait_parity(shared_address(&shared.p_full), tile & 1);
    tcgen05_fence_after_thread_sync();  // softmax has loaded S, stored P and O: the MMAs below come after that
    mbarrier_wait_parity(shared_address(&shared.ring_full[position.stage]), position.phase);
    const u32 v = shared_address(&shared.ring[position.stage]);
#pragma unroll
    for (u32 column = 0; column < HD; column += PV_N) {
#pragma unroll
      for (u32 i = 0; i < TILE / MMA_K; ++i) {
        const u64 v_desc =
            with_start_address(Operand::descriptor(MN_MAJOR), v + Operand::mn_major_offset(i, column));
        const bool accumulate = tile != 0 || i != 0;
        if constexpr (P_IN_TMEM) {
          tcgen05_mma_f16_tmem_a(o_taddr() + column, s_taddr(tile) + i * MMA_K / 2, v_desc, idesc, accumulate);
        } else {
          const u32 p = shared_address(&shared.p) + POperand::k_major_offset(i);
          tcgen05_mma_f16(o_taddr() + column, with_start_address(POperand::descriptor(K_MAJOR), p), v_desc, idesc,
                          accumulate);
        }
      }
    }
    release(position);
    tcgen05_commit(shared_address(&shared.pv_done));
  }

  // Gives the tile back to the loads, if another is to come there: so every arrival has someone who waits for it.
  METHOD void release(Position& position) const {
    if (position.index + Memory::stages < 2 * problem.kv_tiles) {
      tcgen05_commit(shared_address(&shared.ring_empty[position.stage]));
    }
    position.advance();
  }

  // ------------------------------------------------------------------------------------------- warps 0-3: softmax
  METHOD void softmax(u32* __restrict__ o, float* __restrict__ lse, const StageDump& dump) const {
    const u32 row = problem.q_row + threadIdx.x, visible = problem.visible(row);
    // Planes of whole query tiles and of whole KV tiles, for the dump.
    const u64 plane = u64(problem.batch) * gridDim.y + problem.head;
    const u64 dump_row = plane * gridDim.x * TILE + row;
    const u32 all_kv_tiles = (problem.seq_k + TILE - 1) / TILE;

    float row_max = minus_infinity(), row_sum = 0;
#pragma unroll 1
    for (u32 tile = 0; tile < problem.kv_tiles; ++tile) {
      float s[TILE];
      load_scores(tile, s);
      if constexpr (DUMP_STAGES) store_floats(dump.s + (dump_row * all_kv_tiles + tile) * TILE, s);
      mask(tile, visible, s);

      // P relative to the maximum so far; a row that has seen no key yet has none, and 0 does as well.
      const float new_max = fmaxf(row_max, maximum(s) * problem.scale_log2);
      const float origin = new_max == minus_infinity() ? 0 : new_max;
      const float rescale = ex2_approx(row_max - origin);
#pragma unroll
      for (u32 i = 0; i < TILE; ++i) s[i] = ex2_approx(fmaf(s[i], problem.scale_log2, -origin));
      row_sum = fmaf(row_sum, rescale, sum(s));
      row_max = new_max;
      u32 p[TILE / 2];
#pragma unroll
      for (u32 i = 0; i < TILE / 2; ++i) p[i] = pack_elements(s[2 * i], s[2 * i + 1]);
      if constexpr (DUMP_STAGES) {
        dump.row_max[dump_row * all_kv_tiles + tile] = row_max;
        dump.row_sum[dump_row * all_kv_tiles + tile] = row_sum;
        store_registers(dump.p + (dump_row * all_kv_tiles + tile) * (TILE / 2), p);
      }

      if (tile > 0) {
        // P(tile - 1) V(tile - 1) is in O, and P(tile - 1) has been read: both may be written.
        mbarrier_wait_parity(shared_address(&shared.pv_done), (tile - 1) & 1);
        tcgen05_fence_after_thread_sync();  // loads and stores of O come after the wait
        __syncwarp();                       // the wait is a loop that lanes leave one by one; tcgen05.ld takes all 32
        if (__any_sync(0xffffffff, rescale != 1)) rescale_output(rescale);
      }
      store_p(tile, p);
      tcgen05_wait_st();                   // stores are asynchronous: O and P are in Tensor Memory only now
      tcgen05_fence_before_thread_sync();  // they, and the loads of S, come before the arrival
      mbarrier_arrive(shared_address(&shared.p_full));
    }
    finish(row, row_max, row_sum, o, lse, DUMP_STAGES ? dump.o + dump_row * HD : nullptr);
  }

  // The row of S(tile).
  METHOD void load_scores(u32 tile, float (&s)[TILE]) const {
    mbarrier_wait_parity(shared_address(&shared.s_full[tile % 2]), tile / 2 & 1);
    tcgen05_fence_after_thread_sync();  // the load comes after the wait
    __syncwarp();                       // lanes leave the wait one by one; tcgen05.ld takes all 32
    u32 words[TILE];
    tcgen05_ld_32x32b(s_taddr(tile) + warp_lane(), words);
    tcgen05_wait_ld();  // S is read: P may take its columns, and later Q K(tile + 2)
#pragma unroll
    for (u32 i = 0; i < TILE; ++i) s[i] = __uint_as_float(words[i]);
  }

  // Only tiles at the edge have keys that a row of this CTA does not see.
  METHOD void mask(u32 tile, u32 visible, float (&s)[TILE]) const {
    if ((tile + 1) * TILE <= problem.visible(problem.q_row)) return;
    const u32 rest = visible > tile * TILE ? visible - tile * TILE : 0;
#pragma unroll
    for (u32 i = 0; i < TILE; ++i) s[i] = i < rest ? s[i] : minus_infinity();
  }

  METHOD void rescale_output(float factor) const {
#pragma unroll
    for (u32 column = 0; column < HD; column += chunk) {
      u32 words[chunk];
      tcgen05_ld_32x32b(o_taddr() + warp_lane() + column, words);
      tcgen05_wait_ld();  // before the store that overwrites them
#pragma unroll
      for (u32 i = 0; i < chunk; ++i) words[i] = __float_as_uint(__uint_as_float(words[i]) * factor);
      tcgen05_st_32x32b(o_taddr() + warp_lane() + column, words);
    }
  }

  METHOD void store_p(u32 tile, const u32 (&p)[TILE / 2]) const {
    if constexpr (P_IN_TMEM) {
      tcgen05_st_32x32b(s_taddr(tile) + warp_lane(), p);
    } else {
      // 16 bytes at a time to where the swizzle has them.
#pragma unroll
      for (u32 i = 0; i < TILE / 2; i += 4) {
        const u32 byte = 4 * i, panel = byte / POperand::row_bytes;
        const u32 linear = shared_address(&shared.p) + panel * POperand::bytes + threadIdx.x * POperand::row_bytes;
        st_shared_v4(swizzled<POperand::swizzle>(linear + byte % POperand::row_bytes),
                     {p[i], p[i + 1], p[i + 2], p[i + 3]});
      }
      fence_proxy_async();  // the tensor core reads P through the async proxy
    }
  }

  // O / sum, and the logarithm of the sum of exponentials.
  METHOD void finish(u32 row, float row_max, float row_sum, u32* __restrict__ o, float* __restrict__ lse,
                     u32* o_dump) const {
    if (problem.kv_tiles > 0) {
      mbarrier_wait_parity(shared_address(&shared.pv_done), (problem.kv_tiles - 1) & 1);  // the last PV is in O
      tcgen05_fence_after_thread_sync();  // loads of O come after the wait
      __syncwarp();                       // lanes leave the wait one by one; tcgen05.ld takes all 32
    }
    const u64 out_row = (u64(problem.batch) * gridDim.y + problem.head) * problem.seq_q + row;
    const float inverse = row_sum == 0 ? 0 : 1 / row_sum;
#pragma unroll
    for (u32 column = 0; column < HD; column += chunk) {
      u32 words[chunk] = {};
      if (problem.kv_tiles > 0) {
        tcgen05_ld_32x32b(o_taddr() + warp_lane() + column, words);
        tcgen05_wait_ld();  // the registers hold nothing before this
      }
      if constexpr (DUMP_STAGES) store_registers(o_dump + column, words);
      u32 packed[chunk / 2];
#pragma unroll
      for (u32 i = 0; i < chunk / 2; ++i) {
        packed[i] = pack_elements(__uint_as_float(words[2 * i]) * inverse, __uint_as_float(words[2 * i + 1]) * inverse);
      }
      if (row < problem.seq_q) store_registers(o + (out_row * HD + column) / 2, packed);
    }
    if (row < problem.seq_q && lse != nullptr) lse[out_row] = (row_max + lg2_approx(row_sum)) * LN_2;
    tcgen05_fence_before_thread_sync();  // the loads come before the barrier, and so before the deallocation
  }

  // The warp's quarter of the lanes.
  METHOD u32 warp_lane() const { return tmem_address(threadIdx.x / WARP * WARP, 0); }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
fmha(const __grid_constant__ TensorMap q_map,  // [batch][head][query][HD], box 128 rows of one panel
     const __grid_constant__ TensorMap k_map,  // [batch][kv head][key][HD], the same box
     const __grid_constant__ TensorMap v_map,
     u32* __restrict__ o,      // [batch][head][query][HD], two elements a word
     float* __restrict__ lse,  // [batch][head][query], natural logarithm; may be null
     u32 seq_q, u32 seq_k,
     u32 heads_per_kv_head,
     float scale_log2,  // scale * log2(e)
     float* dump_s, float* dump_row_max, float* dump_row_sum, u32* dump_p, u32* dump_o)  // see StageDump; else null
{
  extern __shared__ __align__(1024) u8 memory[];
  auto& shared = *reinterpret_cast<Shared<HEAD_DIM>*>(memory);
  const u32 warp = threadIdx.x / WARP;

  if (warp == MMA_WARP) {
    tcgen05_alloc(shared_address(&shared.tmem), allocated_columns<HEAD_DIM>());
    tcgen05_relinquish_alloc_permit();  // another CTA of this SM may allocate
  }
  if (threadIdx.x == 0) {
    init_barriers(shared);
    fence_mbarrier_init();  // TMA arrives on them through the async proxy
  }
  __syncthreads();  // barriers and address are there

  Problem problem = {};
  problem.q_row = blockIdx.x * TILE;
  problem.head = blockIdx.y;
  problem.kv_head = blockIdx.y / heads_per_kv_head;
  problem.batch = blockIdx.z;
  problem.seq_q = seq_q;
  problem.seq_k = seq_k;
  problem.scale_log2 = scale_log2;
  problem.kv_tiles = (problem.visible(min(problem.q_row + TILE, seq_q) - 1) + TILE - 1) / TILE;
  const Kernel<HEAD_DIM> kernel = {shared, problem, shared.tmem};
  if (warp < SOFTMAX_WARPS) {
    kernel.softmax(o, lse, {dump_s, dump_row_max, dump_row_sum, dump_p, dump_o});
  } else if (warp == MMA_WARP) {
    if (elect_sync()) kernel.multiply();
    __syncwarp();  // the barrier takes whole warps
  } else {
    if (elect_sync()) kernel.load(q_map, k_map, v_map);
    __syncwarp();  // the same
  }
  __syncthreads();  // Tensor Memory has been read
  if (warp == MMA_WARP) tcgen05_dealloc(kernel.tmem, allocated_columns<HEAD_DIM>());
}
