// Which cell does each register of tcgen05.ld and tcgen05.st belong to? Once with registers that say which they are, stored
// with the shape under test and read back with 32x32b; once with cells that say where they lie, the other way round.
//
// Compile-time choices (-D): SHAPE, NUM, REGISTERS of a thread, PACK_16B (.pack::16b and .unpack::16b) and, for 16x32bx2,
// SPLIT: how many columns behind the address the second half of the threads begins.
#include "common.cuh"
#include "dump.cuh"
#include "frame.cuh"

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#if PACK_16B
#define PACKING ".pack::16b"
#define UNPACKING ".unpack::16b"
#else
#define PACKING ""
#define UNPACKING ""
#endif
#ifdef SPLIT
#define HALF_SPLIT ", " TEXT(SPLIT)
#else
#define HALF_SPLIT ""
#endif

constexpr u32 LANES = JOIN(Load_, SHAPE)::lanes;  // of one instruction

// As in common.cuh, with the packing.
DEVICE void load(u32 taddr, u32 (&r)[REGISTERS]) {
  asm volatile("tcgen05.ld.sync.aligned." TEXT(SHAPE) ".x" TEXT(NUM) PACKING ".b32 {" JOIN(OPERANDS_, REGISTERS) "}, [%"
               TEXT(REGISTERS) "]" HALF_SPLIT ";" : JOIN(LIST_, REGISTERS)("=r", r, 0) : "r"(taddr));
}
DEVICE void store(u32 taddr, const u32 (&r)[REGISTERS]) {
  asm volatile("tcgen05.st.sync.aligned." TEXT(SHAPE) ".x" TEXT(NUM) UNPACKING ".b32 [%" TEXT(REGISTERS) "]" HALF_SPLIT
               ", {" JOIN(OPERANDS_, REGISTERS) "};" :: JOIN(LIST_, REGISTERS)("r", r, 0), "r"(taddr) : "memory");
}

// 16 bits that name a half register: never 0, and below any half of the sentinel.
DEVICE u32 register_name(u32 half, u32 warp, u32 thread, u32 i) {
  return 1 + (half << 14 | warp << 12 | thread << 7 | i);
}

// Both halves of each cell name its lane (pass 0) or its column (pass 1); the upper ones have bit 15 set.
DEVICE void fill_with_coordinate(u32 tmem, u32 pass) {
  const u32 lane = threadIdx.x, warp_lane = lane / WARP * WARP;
#pragma unroll 1
  for (u32 column = 0; column < TMEM_COLUMNS; column += 32) {
    u32 words[32];
#pragma unroll
    for (u32 i = 0; i < 32; ++i) words[i] = (pass ? column + i : lane) * 0x10001u | 0x80000000u;
    tcgen05_st_32x32b(tmem + tmem_address(warp_lane, column), words);
  }
  tcgen05_wait_st();  // stores are asynchronous: done only now
}

extern "C" __global__ void __launch_bounds__(128)
ldst_map(u32* stored,  // all of Tensor Memory after the stores: a dump of 32x32b.x32
         u32* loaded,  // [pass][upper half of the lanes][warp][thread][register]
         u32 column)   // of the addresses
{
  __shared__ u64 barrier;
  __shared__ u32 slot;
  const u32 warp = threadIdx.x / WARP, thread = threadIdx.x % WARP;
  const u32 tmem = take_tensor_memory(slot, barrier);
  u32 registers[REGISTERS];

  fill_with_sentinel(tmem);
#pragma unroll
  for (u32 i = 0; i < REGISTERS; ++i) {
    registers[i] = register_name(1, warp, thread, i) << 16 | register_name(0, warp, thread, i);
  }
  for (u32 lane = 0; lane < WARP; lane += LANES) store(tmem + tmem_address(WARP * warp + lane, column), registers);
  tcgen05_wait_st();  // before the cells are read
  dump_registers<Load_32x32b, 32>(tmem, stored);

#pragma unroll 1
  for (u32 pass = 0; pass < 2; ++pass) {
    fill_with_coordinate(tmem, pass);
#pragma unroll 1
    for (u32 half = 0; half < WARP / LANES; ++half) {
      load(tmem + tmem_address(WARP * warp + LANES * half, column), registers);
      tcgen05_wait_ld();  // the registers hold nothing before this; nor may the cells be filled again
      store_registers(loaded + ((pass * (WARP / LANES) + half) * blockDim.x + threadIdx.x) * REGISTERS, registers);
    }
  }
  give_back_tensor_memory(tmem);
}
