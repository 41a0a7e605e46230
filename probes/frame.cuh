// What every probe of one CTA begins and ends with: all of Tensor Memory, one barrier for commits, 128 threads.
#pragma once

#include "common.cuh"

// From what all threads did to Tensor and shared memory so far, to what any of them does next.
DEVICE void hand_over() {
  fence_proxy_async();                 // the tensor core reads shared memory through the async proxy
  tcgen05_fence_before_thread_sync();  // tcgen05 operations of each thread come before the barrier ...
  __syncthreads();
  tcgen05_fence_after_thread_sync();   // ... and those of the others after it
}

// Allocates all columns and makes the barrier: returns the address of Tensor Memory.
DEVICE u32 take_tensor_memory(u32& slot, u64& barrier) {
  if (threadIdx.x < WARP) {
    tcgen05_alloc(shared_address(&slot), TMEM_COLUMNS);
    tcgen05_relinquish_alloc_permit();
  }
  if (threadIdx.x == 0) {
    mbarrier_init(shared_address(&barrier), 1);
    fence_mbarrier_init();  // commits arrive through the async proxy
  }
  hand_over();  // the address is written before the others read it
  return slot;
}

DEVICE void give_back_tensor_memory(u32 tmem) {
  hand_over();  // every warp's accesses come before the deallocation
  if (threadIdx.x < WARP) tcgen05_dealloc(tmem, TMEM_COLUMNS);
}

// One thread calls `issue`; all return when what it issued has completed and may be read. `uses` counts the barrier's.
template <class Issue>
DEVICE void issue_and_wait(u64& barrier, u32 uses, const Issue& issue) {
  if (threadIdx.x < WARP && elect_sync()) {
    issue();
    tcgen05_commit(shared_address(&barrier));
  }
  mbarrier_wait_parity(shared_address(&barrier), uses & 1);  // the operations have completed ...
  tcgen05_fence_after_thread_sync();                         // ... and what is read from here on is what they left
  __syncwarp();                                              // tcgen05.ld wants the warp together again
}
