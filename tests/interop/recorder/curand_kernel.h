// In the place of cuRAND's device header: any numbers do for the operands of examples.
#pragma once

struct curandState_t { unsigned x; };
typedef curandState_t curandState;
typedef curandState_t curandStatePhilox4_32_10_t;

template <class State>
__device__ unsigned curand(State* s) {
  s->x = s->x * 1664525u + 1013904223u;
  return s->x ^ (s->x >> 15);
}
template <class State>
__device__ void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset, State* s) {
  s->x = (unsigned)(seed * 2654435761u + sequence * 40503u + offset + 12345u);
  curand(s);
  curand(s);
}
template <class State> __device__ float curand_uniform(State* s) { return (curand(s) >> 8) * (1.0f / (1 << 24)); }
template <class State> __device__ float curand_normal(State* s) { return curand_uniform(s) - 0.5f; }
template <class State> __device__ double curand_uniform_double(State* s) { return curand_uniform(s); }
template <class State> __device__ double curand_normal_double(State* s) { return curand_normal(s); }
template <class State>
__device__ float4 curand_uniform4(State* s) {
  return float4{curand_uniform(s), curand_uniform(s), curand_uniform(s), curand_uniform(s)};
}
template <class State> __device__ float4 curand_normal4(State* s) { return curand_uniform4(s); }
