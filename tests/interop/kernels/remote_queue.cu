// A queue across a cluster: rank 0 consumes what the others produce into its shared memory. A producer announces an item
// with a remote arrival on the consumer's barrier, and waits on its own for the consumer's remote "taken".
#include "common.cuh"

constexpr u32 ITEM = 32;

DEVICE u32 mapa(u32 smem, u32 rank) {
  u32 address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(smem), "r"(rank));
  return address;
}

DEVICE void arrive_remote(u32 mbar, u32 rank) {
  asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
               "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n\t}" :: "r"(mbar), "r"(rank) : "memory");
}

DEVICE void wait_cluster(u32 mbar, u32 parity) {
  asm volatile("{\n\t.reg .pred p;\nAGAIN:\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n\t"
               "@!p bra AGAIN;\n\t}" :: "r"(mbar), "r"(parity) : "memory");
}

extern "C" __global__ void remote_queue(u32* out, u32 rounds) {
  extern __shared__ u32 items[];  // one for each producer
  __shared__ __align__(8) u64 full[8], taken;
  u32 rank, size;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  if (threadIdx.x == 0) {
    for (u32 i = 1; i < size; ++i) mbarrier_init(shared_address(&full[i]), ITEM);
    mbarrier_init(shared_address(&taken), ITEM);
    fence_mbarrier_init();
  }
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
  u32 sum = 0;
  for (u32 round = 0; round < rounds; ++round) {
    if (rank != 0) {
      if (round != 0) wait_cluster(shared_address(&taken), (round - 1) & 1);
      const u32 there = mapa(shared_address(&items[rank * ITEM + threadIdx.x]), 0);
      asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(there), "r"(rank * 1000 + round * 10 + threadIdx.x) : "memory");
      arrive_remote(shared_address(&full[rank]), 0);
    } else {
      for (u32 from = 1; from < size; ++from) {
        wait_cluster(shared_address(&full[from]), round & 1);
        sum = sum * 3 + items[from * ITEM + threadIdx.x];
        arrive_remote(shared_address(&taken), from);
      }
    }
  }
  if (rank == 0) out[blockIdx.x / size * ITEM + threadIdx.x] = sum;
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}
