// Four rows by index into shared memory and out to four others: TMA gather4 and scatter4.
#include "common.cuh"

extern "C" __global__ void gather_scatter(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to,
                                          const int4* rows, const int4* targets) {
  __shared__ __align__(128) u32 box[4][32];
  __shared__ __align__(8) u64 full;
  const u32 mbar = shared_address(&full), smem = shared_address(box);
  const int4 row = rows[blockIdx.x], target = targets[blockIdx.x];
  if (threadIdx.x == 0) {
    mbarrier_init(mbar, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(mbar, sizeof box);
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];"
                 :: "r"(smem), "l"(&from), "r"(0), "r"(row.x), "r"(row.y), "r"(row.z), "r"(row.w), "r"(mbar) : "memory");
  }
  __syncwarp();
  mbarrier_wait_parity(mbar, 0);
  for (u32 r = 0; r < 4; ++r) box[r][threadIdx.x] += blockIdx.x;
  fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];"
                 :: "l"(&to), "r"(0), "r"(target.x), "r"(target.y), "r"(target.z), "r"(target.w), "r"(smem) : "memory");
    asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
  }
}
