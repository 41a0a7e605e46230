// One TMA load: which byte of the tensor arrives in which byte of shared memory, what is filled, what is left alone.
//
// Compile-time choice (-D): RANK. The wait gives up after a while and says so: a wrong byte count is an answer, not a hang.
#include "common.cuh"

struct Start { u32 at[5]; };  // of the box, fastest dimension first; may be negative

#if RANK == 1
#define COORDINATES "{%3}"
#elif RANK == 2
#define COORDINATES "{%3, %4}"
#elif RANK == 3
#define COORDINATES "{%3, %4, %5}"
#elif RANK == 4
#define COORDINATES "{%3, %4, %5, %6}"
#else
#define COORDINATES "{%3, %4, %5, %6, %7}"
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

DEVICE void cp_async_bulk_tensor(u32 smem, const TensorMap& map, const Start& start, u32 mbar) {
  asm volatile("cp.async.bulk.tensor." TEXT(RANK) "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, " COORDINATES "], [%2];"
               :: "r"(smem), "l"(&map), "r"(mbar), "r"(start.at[0]), "r"(start.at[1]), "r"(start.at[2]),
                  "r"(start.at[3]), "r"(start.at[4]) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
tma_map(const __grid_constant__ TensorMap map,
        u32* dump,    // [bytes / 4]: shared memory afterwards
        u32* arrived, // [1]: whether the phase completed
        Start start,
        u32 offset,   // of the box in shared memory
        u32 expected, // bytes that the mbarrier is told to wait for
        u32 bytes)    // of shared memory that are filled before and dumped
{
  extern __shared__ __align__(1024) u8 box[];
  __shared__ __align__(8) u64 full;
  const u32 smem = (shared_address(box) + 1023) & ~1023u, mbar = shared_address(&full);

  const u32 sentinel[4] = {0xa5a5a5a5, 0xa5a5a5a5, 0xa5a5a5a5, 0xa5a5a5a5};
#pragma unroll 1
  for (u32 i = threadIdx.x; i < bytes / 16; i += blockDim.x) st_shared_v4(smem + 16 * i, sentinel);
  if (threadIdx.x == 0) {
    mbarrier_init(mbar, 1);
    fence_mbarrier_init();
  }
  fence_proxy_async();  // the sentinels come before what the copy writes
  __syncthreads();

  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(mbar, expected);
    cp_async_bulk_tensor(smem + offset, map, start, mbar);
    bool done = false;
#pragma unroll 1
    for (u32 tries = 0; tries < 2000 && !done; ++tries) done = mbarrier_try_wait_parity(mbar, 0);
    *arrived = done;
  }
  __syncthreads();

#pragma unroll 1
  for (u32 i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
    reinterpret_cast<uint4*>(dump)[i] = ld_shared_v4(smem + 16 * i);
  }
}
