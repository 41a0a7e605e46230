// Compaction with ballots, segmented work by match_any, reductions by redux, and a divergent loop with early exits.
extern "C" __global__ void warp_patterns(int* kept, int* counts, const int* in, int* steps) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int value = in[threadIdx.x];
  const unsigned votes = __ballot_sync(~0u, value > 0);
  if (value > 0) kept[warp * 32 + __popc(votes & ((1u << lane) - 1))] = value;
  const unsigned same = __match_any_sync(~0u, value & 3);
  if (lane == __ffs(same) - 1) atomicAdd(&counts[value & 3], __popc(same));
  const int top = __reduce_max_sync(~0u, value), sum = __reduce_add_sync(~0u, value);
  if (lane == 0) counts[4 + warp] = top * 1000 + sum;
  int n = 0;
  for (int v = value < 0 ? -value : value; v != 1 && n < 40; ++n) {
    if (v == 0) break;
    v = v % 2 ? 3 * v + 1 : v / 2;
  }
  steps[threadIdx.x] = n;
}
