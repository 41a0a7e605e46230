// As frame.cuh, for a pair of CTAs (cta_group::2): the same names, so that one kernel can be built for either. Both CTAs
// call all of it. A kernel includes one of the two.
#pragma once

#include "common.cuh"
#include "pair.cuh"

constexpr u16 BOTH_CTAS = 3;

// From what all threads of both CTAs did to Tensor and shared memory so far, to what any of them does next.
DEVICE void hand_over() {
  fence_proxy_async();                 // the tensor core reads shared memory through the async proxy
  tcgen05_fence_before_thread_sync();  // tcgen05 operations of each thread come before the barrier ...
  barrier_cluster();
  tcgen05_fence_after_thread_sync();   // ... and those of the others after it
}

// Allocates all columns of both CTAs and makes a barrier in each: returns the address of Tensor Memory.
DEVICE u32 take_tensor_memory(u32& slot, u64& barrier) {
  if (threadIdx.x < WARP) {
    tcgen05_alloc_pair(shared_address(&slot), TMEM_COLUMNS);
    tcgen05_relinquish_alloc_permit_pair();
  }
  if (threadIdx.x == 0) {
    mbarrier_init(shared_address(&barrier), 1);
    fence_mbarrier_init();  // commits arrive from the other CTA, too
  }
  hand_over();  // the address is written before the others read it
  return slot;
}

DEVICE void give_back_tensor_memory(u32 tmem) {
  hand_over();  // no CTA frees, or exits, before the other has read and waited
  if (threadIdx.x < WARP) tcgen05_dealloc_pair(tmem, TMEM_COLUMNS);
}

// One thread of the pair calls `issue`; all of both return when what it issued has completed and may be read.
template <class Issue>
DEVICE void issue_and_wait(u64& barrier, u32 uses, const Issue& issue) {
  if (cluster_ctarank() == 0 && threadIdx.x < WARP && elect_sync()) {
    issue();
    tcgen05_commit_pair_multicast(shared_address(&barrier), BOTH_CTAS);
  }
  mbarrier_wait_parity(shared_address(&barrier), uses & 1);  // each CTA waits at its own barrier for the one commit ...
  tcgen05_fence_after_thread_sync();                         // ... and what is read from here on is what that left
  __syncwarp();                                              // tcgen05.ld wants the warp together again
}
