// Runs a list of mbarrier operations in one thread and notes what each answers.
//
// Opaque states never leave the kernel: the list refers to them by number, and pending_count reads them.
#include "common.cuh"

enum Op : u32 {
  INIT, ARRIVE, ARRIVE_N, ARRIVE_NO_COMPLETE, ARRIVE_EXPECT_TX, ARRIVE_DROP, EXPECT_TX, COMPLETE_TX,
  TEST_PARITY, TEST_STATE, PENDING, INVAL
};

struct Step { u32 op, value; };

constexpr u32 STATES = 64;

DEVICE bool test_wait_parity(u32 mbar, u32 parity) {
  u32 complete;
  asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.b32 %0, 1, 0, p;\n\t}"
               : "=r"(complete) : "r"(mbar), "r"(parity) : "memory");
  return complete != 0;
}

DEVICE bool test_wait_state(u32 mbar, u64 state) {
  u32 complete;
  asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n\tselp.b32 %0, 1, 0, p;\n\t}"
               : "=r"(complete) : "r"(mbar), "l"(state) : "memory");
  return complete != 0;
}

DEVICE u32 pending_count(u64 state) {
  u32 count;
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
  return count;
}

#define ARRIVAL(name, text)                                                                             \
  DEVICE u64 name(u32 mbar, u32 value) {                                                                \
    u64 state;                                                                                          \
    asm volatile(text " %0, [%1], %2;" : "=l"(state) : "r"(mbar), "r"(value) : "memory");               \
    return state;                                                                                       \
  }
ARRIVAL(arrive_n, "mbarrier.arrive.shared::cta.b64")
ARRIVAL(arrive_no_complete, "mbarrier.arrive.noComplete.shared::cta.b64")
ARRIVAL(arrive_expect_tx, "mbarrier.arrive.expect_tx.shared::cta.b64")
ARRIVAL(arrive_drop, "mbarrier.arrive_drop.shared::cta.b64")

extern "C" __global__ void __launch_bounds__(32)
mbarrier(const Step* steps, u32 count, u32* answers)  // [count]: 0 where an operation answers nothing
{
  __shared__ __align__(8) u64 object;
  __shared__ u64 states[STATES];
  if (threadIdx.x != 0) return;
  const u32 mbar = shared_address(&object);
  u32 held = 0;
#pragma unroll 1
  for (u32 i = 0; i < count; ++i) {
    const u32 value = steps[i].value;
    u32 answer = 0;
    switch (steps[i].op) {
      case INIT: mbarrier_init(mbar, value); break;
      case ARRIVE: states[held++] = arrive_n(mbar, 1); break;
      case ARRIVE_N: states[held++] = arrive_n(mbar, value); break;
      case ARRIVE_NO_COMPLETE: states[held++] = arrive_no_complete(mbar, value); break;
      case ARRIVE_EXPECT_TX: states[held++] = arrive_expect_tx(mbar, value); break;
      case ARRIVE_DROP: states[held++] = arrive_drop(mbar, value); break;
      case EXPECT_TX:
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(mbar), "r"(value) : "memory");
        break;
      case COMPLETE_TX:
        asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(mbar), "r"(value) : "memory");
        break;
      case TEST_PARITY: answer = test_wait_parity(mbar, value); break;
      case TEST_STATE: answer = test_wait_state(mbar, states[value]); break;
      case PENDING: answer = pending_count(states[value]); break;
      case INVAL: mbarrier_inval(mbar); break;
    }
    answers[i] = answer;
  }
}
