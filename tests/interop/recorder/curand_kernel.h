// In the place of cuRAND's device header: device code that examples name, and that is never run here.
#pragma once

struct curandState_t {};
typedef curandState_t curandState;
typedef curandState_t curandStatePhilox4_32_10_t;

template <class State>
__device__ void curand_init(unsigned long long, unsigned long long, unsigned long long, State*) {}
template <class State> __device__ unsigned curand(State*) { return 0; }
template <class State> __device__ float curand_uniform(State*) { return 0; }
template <class State> __device__ float curand_normal(State*) { return 0; }
template <class State> __device__ double curand_uniform_double(State*) { return 0; }
template <class State> __device__ double curand_normal_double(State*) { return 0; }
template <class State> __device__ float4 curand_uniform4(State*) { return float4{}; }
template <class State> __device__ float4 curand_normal4(State*) { return float4{}; }
