// A 3 x 3 convolution, NHWC, padding 1: TMA gathers the pixels under each filter tap (im2col), outside is zero.
#include "common.cuh"

constexpr u32 C = 8, PIXELS = 32;

extern "C" __global__ void im2col_conv(const __grid_constant__ TensorMap map, float* out, const float* filter, u32 w, u32 h) {
  __shared__ __align__(128) float taps[9][PIXELS][C];
  __shared__ __align__(8) u64 full;
  const u32 mbar = shared_address(&full), first = blockIdx.x * PIXELS;
  if (threadIdx.x == 0) {
    mbarrier_init(mbar, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(mbar, sizeof taps);
    const int x = first % w, y = first / w % h, image = first / (w * h);
    for (u32 tap = 0; tap < 9; ++tap)
      asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                   "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
                   :: "r"(shared_address(taps[tap])), "l"(&map), "r"(0), "r"(x - 1), "r"(y - 1), "r"(image), "r"(mbar),
                      "h"(u16(tap % 3)), "h"(u16(tap / 3)) : "memory");
  }
  __syncthreads();
  mbarrier_wait_parity(mbar, 0);
  float sum = 0;
  for (u32 tap = 0; tap < 9; ++tap)
    for (u32 c = 0; c < C; ++c) sum += taps[tap][threadIdx.x][c] * filter[tap * C + c];
  out[first + threadIdx.x] = sum;
}
