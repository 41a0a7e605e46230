// PTX wrappers for tcgen05 kernels, each named like the instruction that it emits. No headers: NVRTC alone compiles this.
//
// Addresses: `taddr` is a Tensor Memory address, lane << 16 | column; `smem` and `mbar` are 32-bit addresses in the
// .shared window (see shared_address). Wrappers that PTX marks .sync.aligned want a whole, converged warp.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__

constexpr u32 TMEM_LANES = 128;
constexpr u32 TMEM_COLUMNS = 512;
constexpr u32 WARP = 32;

DEVICE u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

DEVICE u32 tmem_address(u32 lane, u32 column) { return lane << 16 | column; }

// ---------------------------------------------------------------------------------------------- threads and proxies

// True in one thread of the warp.
DEVICE bool elect_sync() {
  u32 elected;
  asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.b32 %0, 1, 0, p;\n\t}" : "=r"(elected));
  return elected != 0;
}

// Orders this thread's ordinary accesses to shared memory before those that tensor core and TMA make later.
DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

DEVICE uint4 ld_shared_v4(u32 smem) {
  uint4 words;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "r"(smem) : "memory");
  return words;
}

DEVICE void st_shared_v4(u32 smem, const u32 (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
               :: "r"(smem), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
}

// --------------------------------------------------------------------------------------------------------- mbarriers

DEVICE void mbarrier_init(u32 mbar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(mbar), "r"(count) : "memory");
}

// Makes the initialised barriers visible to the whole cluster and to the async proxy.
DEVICE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

DEVICE void mbarrier_inval(u32 mbar) { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(mbar) : "memory"); }

DEVICE bool mbarrier_try_wait_parity(u32 mbar, u32 parity) {
  u32 complete;
  asm volatile("{\n\t.reg .pred p;\n\t"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.b32 %0, 1, 0, p;\n\t}"
               : "=r"(complete) : "r"(mbar), "r"(parity) : "memory");
  return complete != 0;
}

// Returns when the phase of this parity has completed (0 for the first). try_wait may give up early: hence the loop.
DEVICE void mbarrier_wait_parity(u32 mbar, u32 parity) {
  while (!mbarrier_try_wait_parity(mbar, parity)) {}
}

// One arrival; what this thread did before is seen by whoever waits.
DEVICE void mbarrier_arrive(u32 mbar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(mbar) : "memory");
}

// One arrival, and `bytes` more that the phase waits for.
DEVICE void mbarrier_arrive_expect_tx(u32 mbar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(mbar), "r"(bytes) : "memory");
}

// --------------------------------------------------------------------------------------------- TMA: tensors to shared

// What cuTensorMapEncodeTiled makes; a kernel takes it as a const __grid_constant__ parameter.
struct __align__(64) TensorMap { u64 opaque[16]; };

// One thread. Copies a box, its first element at (c0, c1, c2, c3), fastest first; outside the tensor it is filled.
// The barrier's phase loses as many bytes as the box has when they have all arrived.
DEVICE void cp_async_bulk_tensor_4d(u32 smem, const TensorMap& map, u32 c0, u32 c1, u32 c2, u32 c3, u32 mbar) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4, %5}], [%6];"
               :: "r"(smem), "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(mbar) : "memory");
}

// --------------------------------------------------------------------------------------- Tensor Memory: allocation

// One whole warp. Blocks until there is room; the address is written to shared memory.
DEVICE void tcgen05_alloc(u32 smem_destination, u32 columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem_destination), "r"(columns) : "memory");
}

DEVICE void tcgen05_dealloc(u32 taddr, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(taddr), "r"(columns));
}

DEVICE void tcgen05_relinquish_alloc_permit() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
}

// ------------------------------------------------------------------------------------------ Tensor Memory: ordering

DEVICE void tcgen05_wait_ld() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }

DEVICE void tcgen05_wait_st() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

// Before a barrier that hands Tensor Memory on: this thread's tcgen05 operations come before it ...
DEVICE void tcgen05_fence_before_thread_sync() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }

// ... and after the barrier: later ones come after it.
DEVICE void tcgen05_fence_after_thread_sync() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// One thread. The barrier gets one arrival when all earlier mma, cp and shift of this thread have completed.
DEVICE void tcgen05_commit(u32 mbar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(mbar) : "memory");
}

// ------------------------------------------------------------------------------- Tensor Memory: ld and st, all .xNUM
//
//   u32 r[16];
//   tcgen05_ld_16x256b(taddr, r);   // tcgen05.ld.sync.aligned.16x256b.x4.b32: the array's size gives .xNUM
//   tcgen05_wait_ld();              // r holds nothing before this
//
// The address is the same in all threads: lane 32 * (warp % 4) (16-lane shapes: + 16 for the upper half), any column.

#define OPERANDS_1 "%0"
#define OPERANDS_2 OPERANDS_1 ", %1"
#define OPERANDS_4 OPERANDS_2 ", %2, %3"
#define OPERANDS_8 OPERANDS_4 ", %4, %5, %6, %7"
#define OPERANDS_10 OPERANDS_8 ", %8, %9"
#define OPERANDS_TEN(t) ", %" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9"
#define OPERANDS_16 OPERANDS_10 ", %10, %11, %12, %13, %14, %15"
#define OPERANDS_30 OPERANDS_10 OPERANDS_TEN(1) OPERANDS_TEN(2)
#define OPERANDS_32 OPERANDS_30 ", %30, %31"
#define OPERANDS_60 OPERANDS_30 OPERANDS_TEN(3) OPERANDS_TEN(4) OPERANDS_TEN(5)
#define OPERANDS_64 OPERANDS_60 ", %60, %61, %62, %63"
#define OPERANDS_120 \
  OPERANDS_60 OPERANDS_TEN(6) OPERANDS_TEN(7) OPERANDS_TEN(8) OPERANDS_TEN(9) OPERANDS_TEN(10) OPERANDS_TEN(11)
#define OPERANDS_128 OPERANDS_120 ", %120, %121, %122, %123, %124, %125, %126, %127"

#define LIST_1(constraint, r, i) constraint(r[i])
#define LIST_2(c, r, i) LIST_1(c, r, i), LIST_1(c, r, (i) + 1)
#define LIST_4(c, r, i) LIST_2(c, r, i), LIST_2(c, r, (i) + 2)
#define LIST_8(c, r, i) LIST_4(c, r, i), LIST_4(c, r, (i) + 4)
#define LIST_16(c, r, i) LIST_8(c, r, i), LIST_8(c, r, (i) + 8)
#define LIST_32(c, r, i) LIST_16(c, r, i), LIST_16(c, r, (i) + 16)
#define LIST_64(c, r, i) LIST_32(c, r, i), LIST_32(c, r, (i) + 32)
#define LIST_128(c, r, i) LIST_64(c, r, i), LIST_64(c, r, (i) + 64)

// tcgen05_ld_16x256b_pack_16b takes the low halves of two columns into each register, tcgen05_st_..._unpack_16b puts the
// halves of each register into two columns: both reach twice as far. For 16-bit accumulators, one element a column.

// (shape, .xNUM, 32-bit registers, what follows the address: the half split of 16x32bx2; the same where two columns count)
#define TCGEN05_LD_ST_SPLIT(shape, num, count, split, wide_split)                                               \
  DEVICE void tcgen05_ld_##shape(u32 taddr, u32 (&r)[count]) {                                                  \
    asm volatile("tcgen05.ld.sync.aligned." #shape ".x" #num ".b32 {" OPERANDS_##count "}, [%" #count "]" split \
                 ";" : LIST_##count("=r", r, 0) : "r"(taddr));                                                  \
  }                                                                                                             \
  DEVICE void tcgen05_st_##shape(u32 taddr, const u32 (&r)[count]) {                                            \
    asm volatile("tcgen05.st.sync.aligned." #shape ".x" #num ".b32 [%" #count "]" split                         \
                 ", {" OPERANDS_##count "};" :: LIST_##count("r", r, 0), "r"(taddr) : "memory");                \
  }                                                                                                             \
  DEVICE void tcgen05_ld_##shape##_pack_16b(u32 taddr, u32 (&r)[count]) {                                       \
    asm volatile("tcgen05.ld.sync.aligned." #shape ".x" #num ".pack::16b.b32 {" OPERANDS_##count "}, [%" #count \
                 "]" wide_split ";" : LIST_##count("=r", r, 0) : "r"(taddr));                                   \
  }                                                                                                             \
  DEVICE void tcgen05_st_##shape##_unpack_16b(u32 taddr, const u32 (&r)[count]) {                               \
    asm volatile("tcgen05.st.sync.aligned." #shape ".x" #num ".unpack::16b.b32 [%" #count "]" wide_split        \
                 ", {" OPERANDS_##count "};" :: LIST_##count("r", r, 0), "r"(taddr) : "memory");                \
  }
#define TCGEN05_LD_ST(shape, num, count) TCGEN05_LD_ST_SPLIT(shape, num, count, "", "")

#define TCGEN05_LD_ST_SHAPE_1(shape)                                                              \
  TCGEN05_LD_ST(shape, 1, 1) TCGEN05_LD_ST(shape, 2, 2) TCGEN05_LD_ST(shape, 4, 4)                \
  TCGEN05_LD_ST(shape, 8, 8) TCGEN05_LD_ST(shape, 16, 16) TCGEN05_LD_ST(shape, 32, 32)            \
  TCGEN05_LD_ST(shape, 64, 64) TCGEN05_LD_ST(shape, 128, 128)

TCGEN05_LD_ST_SHAPE_1(32x32b)
TCGEN05_LD_ST_SHAPE_1(16x64b)

TCGEN05_LD_ST(16x128b, 1, 2)
TCGEN05_LD_ST(16x128b, 2, 4)
TCGEN05_LD_ST(16x128b, 4, 8)
TCGEN05_LD_ST(16x128b, 8, 16)
TCGEN05_LD_ST(16x128b, 16, 32)
TCGEN05_LD_ST(16x128b, 32, 64)
TCGEN05_LD_ST(16x128b, 64, 128)

TCGEN05_LD_ST(16x256b, 1, 4)
TCGEN05_LD_ST(16x256b, 2, 8)
TCGEN05_LD_ST(16x256b, 4, 16)
TCGEN05_LD_ST(16x256b, 8, 32)
TCGEN05_LD_ST(16x256b, 16, 64)
TCGEN05_LD_ST(16x256b, 32, 128)

// The two halves as neighbours: split = NUM columns, or twice as many.
TCGEN05_LD_ST_SPLIT(16x32bx2, 1, 1, ", 1", ", 2")
TCGEN05_LD_ST_SPLIT(16x32bx2, 2, 2, ", 2", ", 4")
TCGEN05_LD_ST_SPLIT(16x32bx2, 4, 4, ", 4", ", 8")
TCGEN05_LD_ST_SPLIT(16x32bx2, 8, 8, ", 8", ", 16")
TCGEN05_LD_ST_SPLIT(16x32bx2, 16, 16, ", 16", ", 32")
TCGEN05_LD_ST_SPLIT(16x32bx2, 32, 32, ", 32", ", 64")
TCGEN05_LD_ST_SPLIT(16x32bx2, 64, 64, ", 64", ", 128")
TCGEN05_LD_ST_SPLIT(16x32bx2, 128, 128, ", 128", ", 256")

// ------------------------------------------------------------------------------------------------------ tensor core
//
// One thread issues for the whole CTA. `accumulate` false: D = A * B, and the old D is not read.
// tcgen05_mma_KIND reads A through a descriptor, tcgen05_mma_KIND_tmem_a from Tensor Memory; _ws is weight stationary.

#define TCGEN05_MMA_FORM(name, opcode, a_type, a_constraint, a_text)                                           \
  DEVICE void name(u32 d_taddr, a_type a, u64 b_desc, u32 idesc, bool accumulate) {                            \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t" opcode " [%0], " a_text ", %2, %3, p;\n\t}" \
                 :: "r"(d_taddr), a_constraint(a), "l"(b_desc), "r"(idesc), "r"(u32(accumulate)) : "memory");  \
  }

#define TCGEN05_MMA_KIND(kind)                                                                              \
  TCGEN05_MMA_FORM(tcgen05_mma_##kind, "tcgen05.mma.cta_group::1.kind::" #kind, u64, "l", "%1")             \
  TCGEN05_MMA_FORM(tcgen05_mma_##kind##_tmem_a, "tcgen05.mma.cta_group::1.kind::" #kind, u32, "r", "[%1]")  \
  TCGEN05_MMA_FORM(tcgen05_mma_ws_##kind, "tcgen05.mma.ws.cta_group::1.kind::" #kind, u64, "l", "%1")       \
  TCGEN05_MMA_FORM(tcgen05_mma_ws_##kind##_tmem_a, "tcgen05.mma.ws.cta_group::1.kind::" #kind, u32, "r", "[%1]")

TCGEN05_MMA_KIND(f16)
TCGEN05_MMA_KIND(tf32)
TCGEN05_MMA_KIND(f8f6f4)
TCGEN05_MMA_KIND(i8)

// A shared-memory descriptor: the given one has everything but the start address, which is counted in 16 bytes.
DEVICE u64 with_start_address(u64 desc, u32 smem) { return desc | (smem & 0x3ffff) >> 4; }
