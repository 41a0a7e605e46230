// All lanes of a warp issue the same TMA store, as CUTLASS's epilogues do; each commits and waits for its own group.
struct alignas(64) TensorMap { char bytes[128]; };
extern "C" __global__ void whole_warp_store(const __grid_constant__ TensorMap map, const float* in) {
  __shared__ alignas(128) float tile[8 * 32];
  const unsigned smem = (unsigned)__cvta_generic_to_shared(tile);
  for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) tile[i] = in[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x < 32) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&map), "r"(0), "r"(0), "r"(smem) : "memory");
    asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
  }
}
