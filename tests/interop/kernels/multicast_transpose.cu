// A cluster of two: each CTA loads half of a 64 x 64 tile by TMA and multicasts it to both; then each writes the
// transpose of its half of the columns. The tile lies in the 128B swizzle, which the kernel undoes by hand.
struct alignas(64) TensorMap { char bytes[128]; };
extern "C" __global__ void __cluster_dims__(2, 1, 1)
multicast_transpose(const __grid_constant__ TensorMap map, unsigned short* out, unsigned rows) {
  __shared__ alignas(1024) unsigned char tile[64 * 128];
  __shared__ alignas(8) unsigned long long arrived;
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const unsigned smem = (unsigned)__cvta_generic_to_shared(tile), mbar = (unsigned)__cvta_generic_to_shared(&arrived);
  const unsigned row = blockIdx.x / 2 * 64;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(mbar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(mbar), "r"(64 * 128) : "memory");
  }
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(smem + rank * 32 * 128), "l"(&map), "r"(0), "r"(row + rank * 32), "r"(mbar), "h"((short)3) : "memory");
  asm volatile("{\n\t.reg .pred p;\nAGAIN:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n\t@!p bra AGAIN;\n\t}"
               :: "r"(mbar) : "memory");
  for (unsigned i = threadIdx.x; i < 32 * 64; i += blockDim.x) {
    const unsigned column = rank * 32 + i / 64, r = i % 64;
    const unsigned byte = r * 128 + column * 2, swizzled = byte ^ (byte >> 3 & 0x70);
    out[column * rows + row + r] = *(const unsigned short*)(tile + swizzled);
  }
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}
