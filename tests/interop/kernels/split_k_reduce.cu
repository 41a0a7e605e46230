// Each CTA adds its tile to the same global tile with a TMA reduction.
struct alignas(64) TensorMap { char bytes[128]; };
extern "C" __global__ void split_k_reduce(const __grid_constant__ TensorMap map, const float* parts) {
  __shared__ alignas(128) float tile[16 * 32];
  const unsigned smem = (unsigned)__cvta_generic_to_shared(tile);
  for (unsigned i = threadIdx.x; i < 512; i += blockDim.x) tile[i] = parts[blockIdx.x * 512 + i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&map), "r"(0), "r"(0), "r"(smem) : "memory");
    asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
  }
}
