// How Tensor Memory is allocated: sizes and addresses, a warp that has to wait, several CTAs, and what must not be done.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"

constexpr u32 BLOCKS = 5;  // 256, 128, 64, 32 and 32 columns: all there are

// What a kernel must not do, one at a time.
enum Misuse : u32 {
  SIZE, GROWING, RELINQUISHED, FREE_TWICE, FREE_OTHER, LOAD, LOAD_FREED, STORE, DENSE_MMA, SPARSE_MMA, COPY
};

// One thread. A sparse MMA whose metadata lie at the address of D: it should not come to reading them.
DEVICE void tcgen05_mma_sp_f16(u32 d_taddr, u64 a_desc, u64 b_desc, u32 idesc) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 0, 0;\n\t"
               "tcgen05.mma.sp.cta_group::1.kind::f16 [%0], %1, %2, [%0], %3, p;\n\t}"
               :: "r"(d_taddr), "l"(a_desc), "l"(b_desc), "r"(idesc) : "memory");
}

// One thread. 128 rows of 16 bytes to 4 columns.
DEVICE void tcgen05_cp_128x128b(u32 taddr, u64 desc) {
  asm volatile("tcgen05.cp.cta_group::1.128x128b [%0], %1;" :: "r"(taddr), "l"(desc) : "memory");
}

DEVICE u32 allocate(u32& slot, u32 columns) {
  tcgen05_alloc(shared_address(&slot), columns);
  __syncwarp();  // the address is written before all lanes read it
  return *static_cast<volatile u32*>(&slot);
}

// One CTA. Warp 0 takes everything; warp 1 asks for more, and must not get it before warp 0 frees some.
extern "C" __global__ void __launch_bounds__(64)
alloc_order(u32* taken)  // addresses of the blocks, then: warp 1's, what it saw of `freed`, and one after all is free
{
  __shared__ u32 slots[2];
  __shared__ volatile u32 freed;
  const u32 warp = threadIdx.x / WARP, first_lane = threadIdx.x % WARP == 0;
  u32 blocks[BLOCKS];

  if (threadIdx.x == 0) freed = 0;
  if (warp == 0) {
#pragma unroll
    for (u32 i = 0; i < BLOCKS; ++i) {
      blocks[i] = allocate(slots[0], i == BLOCKS - 1 ? 32 : 256 >> i);
      if (first_lane) taken[i] = blocks[i];
    }
  }
  __syncthreads();  // all columns are taken: whoever allocates now has to wait

  if (warp == 1) {
    const u32 own = allocate(slots[1], 32);
    if (first_lane) {
      taken[BLOCKS] = own;
      taken[BLOCKS + 1] = freed;
    }
    tcgen05_dealloc(own, 32);
  } else {
    if (first_lane) freed = 1;
    __threadfence_block();  // seen before the columns are free
    __syncwarp();
    tcgen05_dealloc(blocks[BLOCKS - 2], 32);
  }
  __syncthreads();  // warp 1 is through

  if (warp == 0) {
#pragma unroll
    for (u32 i = 0; i < BLOCKS; ++i) {
      if (i != BLOCKS - 2) tcgen05_dealloc(blocks[i], i == BLOCKS - 1 ? 32 : 256 >> i);
    }
    const u32 again = allocate(slots[0], 32);  // sizes of a CTA must not grow
    if (first_lane) taken[BLOCKS + 2] = again;
    tcgen05_relinquish_alloc_permit();
    tcgen05_dealloc(again, 32);
  }
}

// Many CTAs. Each marks its own columns and looks at them again and again: no other CTA may write there.
extern "C" __global__ void __launch_bounds__(128)
alloc_share(u32* taken,    // [cta]: address
            u32* foreign,  // [cta][thread]: cells that held another mark than the CTA's own
            u32 columns)
{
  __shared__ u32 slot;
  const u32 warp_lane = threadIdx.x / WARP * WARP;
  if (warp_lane == 0) {
    tcgen05_alloc(shared_address(&slot), columns);  // waits for CTAs of the same SM to free theirs
    tcgen05_relinquish_alloc_permit();
  }
  hand_over();  // the address is written before the others read it
  const u32 tmem = slot;

#pragma unroll 1
  for (u32 column = 0; column < columns; column += 32) {
    const u32 mark[1] = {blockIdx.x << 16 | threadIdx.x << 9 | column};
    tcgen05_st_32x32b(tmem + tmem_address(warp_lane, column), mark);
  }
  tcgen05_wait_st();  // before the marks are read
  u32 wrong = 0;
#pragma unroll 1
  for (u32 look = 0; look < 4; ++look) {
#pragma unroll 1
    for (u32 column = 0; column < columns; column += 32) {
      u32 mark[1];
      tcgen05_ld_32x32b(tmem + tmem_address(warp_lane, column), mark);
      tcgen05_wait_ld();  // the register holds nothing before this
      wrong += mark[0] != (blockIdx.x << 16 | threadIdx.x << 9 | column);
    }
  }
  foreign[blockIdx.x * blockDim.x + threadIdx.x] = wrong;
  if (threadIdx.x == 0) taken[blockIdx.x] = tmem;
  hand_over();  // every warp's loads come before the deallocation
  if (warp_lane == 0) tcgen05_dealloc(tmem, columns);
}

// One warp does one thing that it must not; sizes are arguments, so that no assembler sees them.
extern "C" __global__ void __launch_bounds__(32)
alloc_misuse(u32* out, Misuse misuse, u32 columns, u32 other_columns, u32 offset, u32 idesc)
{
  extern __shared__ __align__(1024) u8 operands[];
  __shared__ u64 barrier;
  __shared__ u32 slot;
  fill_shared(shared_address(operands), 8192);
  fence_proxy_async();  // the tensor core reads shared memory through the async proxy
  __syncwarp();
  if (misuse == RELINQUISHED) tcgen05_relinquish_alloc_permit();
  const u32 tmem = allocate(slot, columns);
  switch (misuse) {
    case GROWING:
      tcgen05_dealloc(allocate(slot, other_columns), other_columns);
      break;
    case FREE_TWICE:
    case LOAD_FREED:
      tcgen05_dealloc(tmem, columns);
      break;
    case FREE_OTHER:
      tcgen05_dealloc(tmem + offset, other_columns);
      break;
    default:
      break;
  }
  if (misuse == LOAD || misuse == LOAD_FREED) {
    u32 word[1];
    tcgen05_ld_32x32b(tmem + offset, word);
    tcgen05_wait_ld();  // the register holds nothing before this
    out[threadIdx.x] = word[0];
  }
  if (misuse == STORE) {
    const u32 words[4] = {};
    tcgen05_st_16x256b(tmem + offset, words);
    tcgen05_wait_st();  // it has landed, if it ever does
  }
  if (misuse >= DENSE_MMA && elect_sync()) {
    const u32 mbar = shared_address(&barrier);
    mbarrier_init(mbar, 1);
    fence_mbarrier_init();  // the commit arrives through the async proxy
    const u64 desc = with_start_address(0x0000400800080000, shared_address(operands));
    if (misuse == DENSE_MMA) tcgen05_mma_f16(tmem + offset, desc, desc, idesc, false);
    if (misuse == SPARSE_MMA) tcgen05_mma_sp_f16(tmem + offset, desc, desc, idesc);
    if (misuse == COPY) tcgen05_cp_128x128b(tmem + offset, desc);
    tcgen05_commit(mbar);
    mbarrier_wait_parity(mbar, 0);  // it has completed, if it ever does
  }
  __syncwarp();
  if (misuse != LOAD_FREED) tcgen05_dealloc(tmem, columns);
}

// Many CTAs that exit without freeing all of Tensor Memory. One that has to share its SM with an earlier one waits for
// good, unless somebody frees what was left.
extern "C" __global__ void __launch_bounds__(32)
alloc_leak(u32* taken)  // [cta]: address
{
  __shared__ u32 slot;
  const u32 tmem = allocate(slot, TMEM_COLUMNS);
  tcgen05_relinquish_alloc_permit();
  if (threadIdx.x == 0) taken[blockIdx.x] = tmem;
}
