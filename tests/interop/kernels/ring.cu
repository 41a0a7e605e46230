// A token goes round the CTAs of a cluster: each waits on its own mbarrier, adds its number, and sends the sum on with
// st.async, which completes the transaction on the next CTA's barrier.
extern "C" __global__ void ring(unsigned* out, unsigned rounds) {
  __shared__ alignas(8) unsigned token;
  __shared__ alignas(8) unsigned long long full;
  unsigned rank, size;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  const unsigned mine = (unsigned)__cvta_generic_to_shared(&token), mbar = (unsigned)__cvta_generic_to_shared(&full);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(mbar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4;" :: "r"(mbar) : "memory");
  }
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0) {
    unsigned next_token, next_mbar;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(next_token) : "r"(mine), "r"((rank + 1) % size));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(next_mbar) : "r"(mbar), "r"((rank + 1) % size));
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned value = 0;
      if (rank != 0 || round != 0) {
        const unsigned parity = (rank == 0 ? round - 1 : round) & 1;
        asm volatile("{\n\t.reg .pred p;\nWAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t"
                     "@!p bra WAIT;\n\t}" :: "r"(mbar), "r"(parity) : "memory");
        value = *(volatile unsigned*)&token;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4;" :: "r"(mbar) : "memory");
      }
      value += rank + 1;
      if (rank == size - 1 && round == rounds - 1) { out[blockIdx.x / size] = value; break; }
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                   :: "r"(next_token), "r"(value), "r"(next_mbar) : "memory");
    }
  }
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}
