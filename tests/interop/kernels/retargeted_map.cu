// One CTA rewrites a tensor map's address, extent and stride in shared memory and publishes it in global memory; the others
// wait for it and copy through it. This is how grouped kernels make their maps.
#include "common.cuh"

extern "C" __global__ void retargeted_map(const __grid_constant__ TensorMap pattern, TensorMap* made, u32* ready, const u32* matrix,
                                          u32 columns, u32 rows, u32* out) {
  __shared__ __align__(128) TensorMap local;
  __shared__ __align__(128) u32 box[8 * 32];
  __shared__ __align__(8) u64 full;
  const u32 smem = shared_address(&local), mbar = shared_address(&full);
  if (blockIdx.x == 0) {
    if (threadIdx.x < 16) local.opaque[threadIdx.x] = pattern.opaque[threadIdx.x];
    __syncwarp();
    if (threadIdx.x == 0) {
      asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "r"(smem), "l"(matrix) : "memory");
      asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;" :: "r"(smem), "r"(columns) : "memory");
      asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" :: "r"(smem), "r"(rows) : "memory");
      asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;"
                   :: "r"(smem), "l"(u64(columns) * 4) : "memory");
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 :: "l"(made), "r"(smem) : "memory");
    if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(ready) : "memory");
    return;
  }
  if (threadIdx.x == 0) {
    u32 seen;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(ready) : "memory"); while (seen == 0);
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(made) : "memory");
    mbarrier_init(mbar, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(mbar, sizeof box);
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared_address(box)), "l"(made), "r"(0), "r"((blockIdx.x - 1) * 8), "r"(mbar) : "memory");
  }
  __syncwarp();
  mbarrier_wait_parity(mbar, 0);
  for (u32 r = 0; r < 8; ++r) out[(blockIdx.x - 1) * 256 + r * 32 + threadIdx.x] = box[r * 32 + threadIdx.x];
}
