// A 7-point stencil: each CTA loads its 8 x 4 x 4 cells with their halo by TMA; what lies outside the volume is zero.
// Along x the halo is four cells wide: a box starts at a multiple of 16 bytes.
struct alignas(64) TensorMap { char bytes[128]; };
extern "C" __global__ void stencil_3d(const __grid_constant__ TensorMap map, int* out, int nx, int ny, int nz) {
  __shared__ alignas(128) int box[6][6][16];
  __shared__ alignas(8) unsigned long long full;
  const unsigned smem = (unsigned)__cvta_generic_to_shared(box), mbar = (unsigned)__cvta_generic_to_shared(&full);
  const int x0 = blockIdx.x * 8, y0 = blockIdx.y * 4, z0 = blockIdx.z * 4;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" :: "r"(mbar) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(mbar), "r"((int)sizeof box) : "memory");
    asm volatile("cp.async.bulk.tensor.3d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                 :: "r"(smem), "l"(&map), "r"(x0 - 4), "r"(y0 - 1), "r"(z0 - 1), "r"(mbar) : "memory");
  }
  __syncthreads();
  asm volatile("{\n\t.reg .pred p;\nWAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n\t@!p bra WAIT;\n\t}"
               :: "r"(mbar) : "memory");
  const int x = threadIdx.x % 8, y = threadIdx.x / 8 % 4, z = threadIdx.x / 32;
  if (x0 + x < nx && y0 + y < ny && z0 + z < nz) {
    const int sum = box[z][y + 1][x + 4] + box[z + 2][y + 1][x + 4] + box[z + 1][y][x + 4] + box[z + 1][y + 2][x + 4] +
                    box[z + 1][y + 1][x + 3] + box[z + 1][y + 1][x + 5] - 6 * box[z + 1][y + 1][x + 4];
    out[((z0 + z) * ny + y0 + y) * nx + x0 + x] = sum;
  }
}
