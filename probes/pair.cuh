// PTX wrappers for a pair of CTAs: clusters of two, and tcgen05 with cta_group::2. All tcgen05 instructions of a kernel have
// one cta_group, so nothing here goes together with its namesake in common.cuh.
#pragma once

#include "common.cuh"

DEVICE u32 cluster_ctarank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// All threads of the cluster; what they did before is seen by all after.
DEVICE void barrier_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// One warp of each CTA of the pair, together: the same columns in both.
DEVICE void tcgen05_alloc_pair(u32 smem_destination, u32 columns) {
  asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem_destination), "r"(columns) : "memory");
}

DEVICE void tcgen05_dealloc_pair(u32 taddr, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" :: "r"(taddr), "r"(columns));
}

DEVICE void tcgen05_relinquish_alloc_permit_pair() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
}

// One thread of the pair. The barrier at this offset in each CTA of the mask gets one arrival when all earlier mma, cp and
// shift of this thread have completed.
DEVICE void tcgen05_commit_pair_multicast(u32 mbar, u16 cta_mask) {
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
               :: "r"(mbar), "h"(cta_mask) : "memory");
}
