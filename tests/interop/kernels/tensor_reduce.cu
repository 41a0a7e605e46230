// Every CTA reduces its row of words into one row, by TMA. OPERATION is the operation's name.
#include "common.cuh"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

extern "C" __global__ void tensor_reduce(const __grid_constant__ TensorMap map, const uint4* rows) {
  __shared__ __align__(128) uint4 row[8];
  row[threadIdx.x] = rows[blockIdx.x * 8 + threadIdx.x];
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta." TEXT(OPERATION) ".tile.bulk_group [%0, {%1}], [%2];"
                 :: "l"(&map), "r"(0), "r"(shared_address(row)) : "memory");
    asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
  }
}
