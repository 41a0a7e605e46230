// Which waits and fences does the round trip store -> MMA -> load need? Rounds of it, with one of them left out on request;
// each value of D says which round's A and which round's B it was made of.
//
// Compile-time choice (-D): OMIT, one of the names below. One CTA of 128 threads; M = 128, N = 8, kind f16 with bf16.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"

#ifndef OMIT
#define OMIT NO_STEP
#endif

enum Order {
  NO_STEP, ST_WAIT, PROXY, FENCE_BEFORE_MMA, FENCE_AFTER_BARRIER, COMMIT, FENCE_AFTER_COMMIT, LD_WAIT, FENCE_BEFORE_REUSE
};
constexpr bool given(Order step) { return OMIT != step; }

constexpr u32 N = 8;
constexpr u32 A_COLUMN = 64;  // behind D

// D = 1 + m + 256 * (round of A) + 4096 * (round of B): products along k = 0, 1 and 2.
DEVICE u32 bf16(u32 number) { return __float_as_uint(float(number)) >> 16; }

DEVICE void store_a(u32 taddr, u32 round) {
  const u32 words[8] = {bf16(1 + threadIdx.x) | bf16(round) << 16, bf16(4096)};
  tcgen05_st_32x32b(taddr + tmem_address(threadIdx.x / WARP * WARP, 0), words);
}

// 8 rows of 16 elements, K-major without swizzle: LBO 128.
DEVICE void stage_b(u32 smem, u32 round) {
  if (threadIdx.x >= 2 * N) return;
  const u32 row = threadIdx.x / 2, chunk = threadIdx.x % 2;
  const u32 words[4] = {chunk ? 0 : bf16(1) | bf16(256) << 16, chunk ? 0 : bf16(round)};
  st_shared_v4(smem + chunk * 128 + row * 16, words);
}

extern "C" __global__ void __launch_bounds__(128)
fence_order(u32* out,    // [round][lane][column]
            u32 rounds,
            u64 b_desc,  // without its start address
            u32 idesc)
{
  __shared__ __align__(128) u8 b[256];
  __shared__ u64 mma_done, all_done;
  __shared__ u32 slot;
  const u32 lane = threadIdx.x, warp_lane = lane / WARP * WARP, b_smem = shared_address(b);
  if (lane == 0) {
    mbarrier_init(shared_address(&all_done), 1);
    fence_mbarrier_init();  // commits arrive through the async proxy
  }
  const u32 tmem = take_tensor_memory(slot, mma_done);
  fill_with_sentinel(tmem);

  u32 words[N];
#pragma unroll 1
  for (u32 round = 0; round < rounds; ++round) {
    store_a(tmem + A_COLUMN, round % 16);
    stage_b(b_smem, round % 16);
    if (given(ST_WAIT)) tcgen05_wait_st();    // the store has completed: nothing else orders st and mma
    if (given(PROXY)) fence_proxy_async();    // the tensor core reads shared memory through the async proxy
    if (given(FENCE_BEFORE_MMA)) tcgen05_fence_before_thread_sync();  // this thread's st comes before the barrier ...
    __syncthreads();
    if (lane < WARP && elect_sync()) {
      if (given(FENCE_AFTER_BARRIER)) tcgen05_fence_after_thread_sync();  // ... and the MMA after it
      tcgen05_mma_f16_tmem_a(tmem, tmem + A_COLUMN, with_start_address(b_desc, b_smem), idesc, false);
      tcgen05_commit(shared_address(&mma_done));
      if (round == rounds - 1) tcgen05_commit(shared_address(&all_done));
    }
    __syncwarp();
    // only here are the last round's values used: till now nothing but wait::ld keeps this MMA from overwriting them
    if (round > 0) store_registers(out + ((round - 1) * TMEM_LANES + lane) * N, words);

    if (given(COMMIT)) mbarrier_wait_parity(shared_address(&mma_done), round & 1);  // the MMA has completed ...
    if (given(FENCE_AFTER_COMMIT)) tcgen05_fence_after_thread_sync();               // ... and the load comes after it
    __syncwarp();  // tcgen05.ld wants the warp together again
    tcgen05_ld_32x32b(tmem + tmem_address(warp_lane, 0), words);
    if (given(LD_WAIT)) tcgen05_wait_ld();  // D has been read: the next MMA overwrites it
    if (given(FENCE_BEFORE_REUSE)) tcgen05_fence_before_thread_sync();  // the ld comes before the next barrier
    __syncthreads();  // every warp has D, and the MMA has read B
  }
  store_registers(out + ((rounds - 1) * TMEM_LANES + lane) * N, words);

  mbarrier_wait_parity(shared_address(&all_done), 0);  // whatever was left out: no MMA is under way at the end
  give_back_tensor_memory(tmem);
}
