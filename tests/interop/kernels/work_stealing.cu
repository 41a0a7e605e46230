// Cluster launch control: a running CTA takes the places of CTAs that have not started, until there are none.
#include "common.cuh"

extern "C" __global__ void work_stealing(u32* done, u32* by) {
  __shared__ __align__(16) u64 answer[2];
  __shared__ __align__(8) u64 answered;
  const u32 mbar = shared_address(&answered), smem = shared_address(answer);
  if (threadIdx.x == 0) { mbarrier_init(mbar, 1); fence_mbarrier_init(); }
  __syncthreads();
  u32 tile = blockIdx.x;
  for (u32 round = 0;; ++round) {
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect_tx(mbar, 16);
      asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                   :: "r"(smem), "r"(mbar) : "memory");
      atomicAdd(&done[tile], tile + 1);
      by[tile] = blockIdx.x;
    }
    mbarrier_wait_parity(mbar, round & 1);
    u32 granted, x;
    asm volatile("{\n\t.reg .b128 word;\n\t.reg .pred p;\n\tld.shared.b128 word, [%2];\n\t"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, word;\n\tselp.u32 %0, 1, 0, p;\n\tmov.u32 %1, 0;\n\t"
                 "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, word;\n\t}"
                 : "=r"(granted), "=r"(x) : "r"(smem) : "memory");
    asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
    __syncthreads();
    if (!granted) return;
    tile = x;
  }
}
