// Stream-K: the work of all dot products is cut into equal runs. Who has the end of a product adds what the others left in a
// workspace, in their order, when their flags are up. A second grid may start early: it waits for the first.
#include "common.cuh"

extern "C" __global__ void dot_products_by_runs(float* out, const float* a, const float* b, float* workspace, u32* flags, u32 count, u32 k,
                                                u32 share) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const u32 first = blockIdx.x * share, last = min(first + share, count * k);
  for (u32 at = first; at < last;) {
    const u32 product = at / k, stop = min((product + 1) * k, last);
    float sum = 0;
    for (u32 i = at + threadIdx.x; i < stop; i += WARP) sum += a[i] * b[i % k];
    for (u32 step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x == 0) {
      if (stop % k != 0) {  // not the end: leave it
        workspace[blockIdx.x] = sum;
        __threadfence();
        atomicExch(&flags[blockIdx.x], 1);
      } else {
        for (u32 peer = product * k / share; peer < blockIdx.x; ++peer) {
          while (atomicAdd(&flags[peer], 0) == 0) __nanosleep(20);
          __threadfence();
          sum += *(volatile float*)&workspace[peer];
        }
        out[product] = sum;
      }
    }
    at = stop;
  }
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
