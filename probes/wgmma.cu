// One wgmma.mma_async with everything given: shared memory byte for byte, both descriptors, the registers of A and of D.
//
// Nothing here knows a layout, so whatever the kernel leaves in its registers is the tensor core's own doing. Compile-time
// choices (-D): WGMMA (the opcode), OPERANDS_D, LIST_D (its register operands as asm text and as constraints), REGISTERS_D,
// OPERAND_A, OPERAND_B, OPERAND_SCALE_D (asm text), LIST_A, IMMEDIATES. One warpgroup a CTA, one case a CTA.
#include "wgmma.cuh"

extern "C" __global__ void __launch_bounds__(128)
wgmma(const uint4* images,     // [cta][image_bytes / 16]: what shared memory holds
      const uint4* a_words,    // [cta][128]: A in registers, four words a thread
      const u32* d_before,     // [cta][128][REGISTERS_D]
      u32* d_after,            // the same shape
      u64 a_desc, u64 b_desc,  // relative to the start of the image
      u32 image_bytes,
      u32 accumulate)
{
  extern __shared__ __align__(1024) u8 image[];
  const u32 smem = shared_address(image);
  if (smem % 1024) __trap();  // swizzle patterns would be displaced

  stage_image(smem, images + blockIdx.x * (image_bytes / 16), image_bytes);
  fence_proxy_async();  // wgmma reads shared memory through the async proxy
  __syncthreads();

  const u32 thread = blockIdx.x * 128 + threadIdx.x;
  const uint4 words = a_words[thread];
  const u32 a[4] = {words.x, words.y, words.z, words.w};
  u64 a_at = a_desc + (smem >> 4), b_at = b_desc + (smem >> 4);
  u32 d[REGISTERS_D];
#pragma unroll
  for (u32 i = 0; i < REGISTERS_D; ++i) d[i] = d_before[thread * REGISTERS_D + i];

  wgmma_fence();  // the registers are written before the instruction reads them
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " OPERAND_SCALE_D ", 0;\n\t"
               WGMMA " {" OPERANDS_D "}, " OPERAND_A ", " OPERAND_B ", p" IMMEDIATES ";\n\t}"
               : LIST_D : LIST_A, "l"(b_at), "r"(accumulate) : "memory");
  wgmma_commit_group();
  wgmma_wait_group<0>();  // the registers hold nothing before this

#pragma unroll
  for (u32 i = 0; i < REGISTERS_D; ++i) d_after[thread * REGISTERS_D + i] = d[i];
}
