// Do repeated tcgen05.st all land? Every warp stores again and again, side by side or to the same cells, and each stored
// register says which store, thread and register it is.
//
// Compile-time choices (-D): SHAPE, REGISTERS of a thread. One CTA of 128 threads.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

constexpr u32 LANES = JOIN(Load_, SHAPE)::lanes;  // of one instruction

extern "C" __global__ void __launch_bounds__(128)
st_repeat(u32* dump,       // of 32x32b.x32
          u32 count,       // stores of each warp to each half of its lanes
          u32 step,        // columns from one store to the next
          u32 column,      // of the first
          u32 wait_each)   // wait::st after every store, not only after the last
{
  __shared__ u64 barrier;
  __shared__ u32 slot;
  const u32 warp_lane = threadIdx.x / WARP * WARP, thread = threadIdx.x % WARP;
  const u32 tmem = take_tensor_memory(slot, barrier);

  fill_with_sentinel(tmem);
#pragma unroll 1
  for (u32 i = 0; i < count; ++i) {
#pragma unroll 1
    for (u32 lane = 0; lane < WARP; lane += LANES) {
      u32 registers[REGISTERS];
#pragma unroll
      for (u32 r = 0; r < REGISTERS; ++r) registers[r] = (i + 1) << 12 | thread << 7 | r;
      JOIN(tcgen05_st_, SHAPE)(tmem + tmem_address(warp_lane + lane, column + i * step), registers);
      if (wait_each) tcgen05_wait_st();
    }
  }
  tcgen05_wait_st();  // before the cells are read
  dump_registers<Load_32x32b, 32>(tmem, dump);
  give_back_tensor_memory(tmem);
}
