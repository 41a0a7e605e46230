// A histogram whose bins are spread over the shared memory of a cluster: every CTA adds to every other's bins.
extern "C" __global__ void cluster_histogram(unsigned* out, const unsigned* keys, unsigned count, unsigned bins) {
  extern __shared__ unsigned part[];
  unsigned rank, size;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  const unsigned own = bins / size;
  for (unsigned i = threadIdx.x; i < own; i += blockDim.x) part[i] = 0;
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  const unsigned base = (unsigned)__cvta_generic_to_shared(part);
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const unsigned key = keys[i], home = key / own;
    unsigned address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(base + key % own * 4), "r"(home));
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], 1;" :: "r"(address) : "memory");
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  for (unsigned i = threadIdx.x; i < own; i += blockDim.x) atomicAdd(&out[rank * own + i], part[i]);
}
