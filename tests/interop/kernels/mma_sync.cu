// One warp, one m16n8k16 product: A by ldmatrix, B by ldmatrix.trans.
extern "C" __global__ void mma_sync(float* d, const unsigned short* a, const unsigned short* b) {
  __shared__ alignas(16) unsigned short as[16 * 16], bs[16 * 8];
  const unsigned lane = threadIdx.x;
  for (unsigned i = lane; i < 256; i += 32) as[i] = a[i];
  for (unsigned i = lane; i < 128; i += 32) bs[i] = b[i];
  __syncwarp();
  unsigned ra[4], rb[2];
  float c[4] = {0, 0, 0, 0};
  const unsigned at = (unsigned)__cvta_generic_to_shared(&as[lane % 16 * 16 + lane / 16 * 8]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(at));
  const unsigned bt = (unsigned)__cvta_generic_to_shared(&bs[lane % 16 * 8]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(bt));
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  const unsigned row = lane / 4, column = lane % 4 * 2;
  d[row * 8 + column] = c[0]; d[row * 8 + column + 1] = c[1];
  d[(row + 8) * 8 + column] = c[2]; d[(row + 8) * 8 + column + 1] = c[3];
}
