// From which bit of shared memory does tcgen05.cp bring each bit of Tensor Memory? Shared memory holds raw patterns in
// which each bit is one bit of its own address.
//
// Compile-time choices (-D): FORM, as PTX spells what follows the cta_group. One CTA of 128 threads.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

constexpr u32 COLUMNS = 8;  // that the largest form writes

// One thread. Rows of 16 or 32 bytes from where the descriptor says to the lanes that the form says.
DEVICE void tcgen05_cp(u32 taddr, u64 desc) {
  asm volatile("tcgen05.cp.cta_group::1." TEXT(FORM) " [%0], %1;" :: "r"(taddr), "l"(desc) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
cp_map(const uint4* patterns,  // [pass][byte]
       u32 passes, u32 bytes,  // bytes of one pattern
       u64 desc,               // without its start address
       u32 start,              // bytes from the pattern's first, which lies on 1024 bytes
       u32 destination,        // lane << 16 | column
       u32* cells,             // [pass][lane][column from the destination's]
       u32* dump)              // of 32x32b.x32, after the last pass
{
  extern __shared__ __align__(1024) u8 shared[];
  __shared__ u64 barrier;
  __shared__ u32 slot;
  const u32 tmem = take_tensor_memory(slot, barrier), pattern = shared_address(shared), lane = threadIdx.x;

  fill_with_sentinel(tmem);
#pragma unroll 1
  for (u32 pass = 0; pass < passes; ++pass) {
#pragma unroll 1
    for (u32 i = lane; i < bytes / 16; i += blockDim.x) {
      const uint4 chunk = patterns[pass * (bytes / 16) + i];
      const u32 words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
      st_shared_v4(pattern + 16 * i, words);
    }
    hand_over();  // the pattern to the tensor core; and every warp has read the last copy
    issue_and_wait(barrier, pass, [&] { tcgen05_cp(tmem + destination, with_start_address(desc, pattern + start)); });
    u32 words[COLUMNS];
    tcgen05_ld_32x32b(tmem + tmem_address(lane / WARP * WARP, destination & 0xffff), words);
    tcgen05_wait_ld();  // the registers hold nothing before this
    store_registers(cells + (pass * TMEM_LANES + lane) * COLUMNS, words);
  }
  dump_registers<Load_32x32b, 32>(tmem, dump);
  give_back_tensor_memory(tmem);
}
