__device__ __forceinline__ int scale(int x) { return x * 3; }
extern "C" __global__ void debug(int *out, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += scale(i);
  asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %1, 0;\n@p add.s32 %0, %0, 1;\n}" : "+r"(sum) : "r"(n));
  out[threadIdx.x] = sum;
}
