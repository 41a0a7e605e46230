"""Every wait, fence, commit, arrival and phase of the FMHA kernel, and the kernel without it.

A mutation is a change of the source text, which must occur exactly once. ``seen_by`` says which witness must notice:

- ``run``: the model ends with a fault, a deadlock, something undefined, a sanitizer finding, or a wrong result;
- ``review``: the model asks for a second look, by ``rule``. Registers of a tcgen05.ld in flight are honoured without
  tcgen05.wait::ld on silicon (PTX ISA, "Register dependencies, same thread"), so values are right; the order against
  the next store is not guaranteed. Kernels of CUTLASS and Triton run without tcgen05.fence and without
  fence.mbarrier_init; the ISA asks for them all the same;
- ``order``: the text of the kernel no longer brings lanes together before an instruction for the whole warp
  (``fmha_order``). The model cannot tell, and silicon may not either: ptxas brings them together where the model does.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """One change; ``p`` is the form of the kernel that has it, ``rule`` what the model says where it asks to look."""

    name: str
    old: str
    new: str
    seen_by: str = "run"
    p: str = "tmem"
    rule: str = "ld-register-dependence"


def _wait(barrier: str, parity: str) -> str:
    return f"mbarrier_wait_parity(shared_address(&shared.{barrier}), {parity});"


def _commit(barrier: str) -> str:
    return f"tcgen05_commit(shared_address(&shared.{barrier}));"


def _arrive(barrier: str) -> str:
    return f"mbarrier_arrive(shared_address(&shared.{barrier}));"


_RING = "ring_empty[position.stage]"
_FULL = _wait("ring_full[position.stage]", "position.phase")
_NO_AFTER, _NO_BEFORE = "missing-fence-after-thread-sync", "missing-fence-before-thread-sync"
_AFTER, _BEFORE = "tcgen05_fence_after_thread_sync();", "tcgen05_fence_before_thread_sync();"

MUTATIONS = (
    # ------------------------------------------------------------------ loads
    Mutation("load without the wait for a free stage", _wait(_RING, "position.phase ^ 1"), ""),
    Mutation("load waits for the other phase", _wait(_RING, "position.phase ^ 1"), _wait(_RING, "position.phase")),
    Mutation("load without arrival", "mbarrier_arrive_expect_tx(mbar, tile_bytes);", ""),
    Mutation("load expects no bytes", "mbarrier_arrive_expect_tx(mbar, tile_bytes);", "mbarrier_arrive(mbar);"),
    Mutation("ring without phase toggle", "stage = 0, phase ^= 1;", "stage = 0;"),
    # ------------------------------------------------------------------ MMAs
    Mutation("QK without the wait for Q", _wait("q_full", "0"), ""),
    Mutation("QK without the wait for K", f"{_FULL}\n    const u32 q", "const u32 q"),
    Mutation("QK overwrites P in use", _wait("pv_done", "tile & 1"), ""),
    Mutation("QK without fence after the wait", f"{_AFTER}  // the MMAs below come after the wait", "",
             "review", rule=_NO_AFTER),
    Mutation("QK without commit", _commit("s_full[tile % 2]"), ""),
    Mutation("QK arrives at once", _commit("s_full[tile % 2]"), _arrive("s_full[tile % 2]")),
    Mutation("PV without the wait for V", f"{_FULL}\n    const u32 v", "const u32 v"),
    Mutation("PV without the wait for P", _wait("p_full", "tile & 1"), ""),
    Mutation("PV waits for the first phase only", _wait("p_full", "tile & 1"), _wait("p_full", "0")),
    Mutation("PV without fence after the wait", f"{_AFTER}  // softmax has loaded S", "//", "review", rule=_NO_AFTER),
    Mutation("PV without commit", _commit("pv_done"), ""),
    Mutation("PV arrives at once", _commit("pv_done"), _arrive("pv_done")),
    Mutation("stage not released", _commit(_RING), ""),
    Mutation("stage released at once", _commit(_RING), _arrive(_RING)),
    # ------------------------------------------------------------------ softmax
    Mutation("softmax without the wait for S", _wait("s_full[tile % 2]", "tile / 2 & 1"), ""),
    Mutation("softmax waits for the first phase only", _wait("s_full[tile % 2]", "tile / 2 & 1"),
             _wait("s_full[tile % 2]", "0")),
    Mutation("S loaded without fence", f"{_AFTER}  // the load comes after the wait", "", "review", rule=_NO_AFTER),
    Mutation("S loaded by a warp in parts", "__syncwarp();                       // lanes leave the wait one by one;"
             " tcgen05.ld takes all 32\n    u32 words[TILE];", "u32 words[TILE];", "order"),
    Mutation("S not waited for", "tcgen05_wait_ld();  // S is read", "// S is read", "review"),
    Mutation("O rescaled while PV runs", _wait("pv_done", "(tile - 1) & 1"), ""),
    Mutation("O rescaled after the first phase only", _wait("pv_done", "(tile - 1) & 1"), _wait("pv_done", "0")),
    Mutation("O rescaled without fence", f"{_AFTER}  // loads and stores of O come after the wait", "",
             "review", rule=_NO_AFTER),
    Mutation("O rescaled by a warp in parts", "__syncwarp();                       // the wait is a loop", "// a loop",
             "order"),
    Mutation("O stored before it is loaded", "tcgen05_wait_ld();  // before the store", "//", "review"),
    Mutation("P and O not waited for", "tcgen05_wait_st(); ", ""),
    Mutation("P handed on without fence", f"{_BEFORE}  // they, and the loads of S", "//", "review", rule=_NO_BEFORE),
    Mutation("P not handed on", _arrive("p_full"), ""),
    Mutation("P handed on by one thread", "&shared.p_full), SOFTMAX_THREADS", "&shared.p_full), 1"),
    Mutation("P without proxy fence", "fence_proxy_async();", "", p="smem"),
    # ------------------------------------------------------------------ epilogue
    Mutation("O read while PV runs", _wait("pv_done", "(problem.kv_tiles - 1) & 1"), ""),
    Mutation("O read after the first phase", _wait("pv_done", "(problem.kv_tiles - 1) & 1"), _wait("pv_done", "0")),
    Mutation("O read without fence", f"{_AFTER}  // loads of O come after the wait", "", "review", rule=_NO_AFTER),
    Mutation("O read by a warp in parts", "__syncwarp();                       // lanes leave the wait one by one;"
             " tcgen05.ld takes all 32\n    }", "}", "order"),
    Mutation("O not waited for", "tcgen05_wait_ld();  // the registers hold", "// the registers hold", "review"),
    Mutation("O read, no fence before the end", f"{_BEFORE}  // the loads come before the barrier", "//",
             "review", rule=_NO_BEFORE),
    # ------------------------------------------------------------------ begin and end
    Mutation("barriers without proxy fence", "fence_mbarrier_init();", "", "review",
             rule="missing-mbarrier-init-fence"),
    Mutation("no barrier after the set-up", "__syncthreads();  // barriers and address are there", ""),
    Mutation("no barrier before the end", "__syncthreads();  // Tensor Memory has been read", ""),
    Mutation("MMA warp in parts at the barrier", "__syncwarp();  // the barrier takes whole warps", "", "order"),
    Mutation("load warp in parts at the barrier", "__syncwarp();  // the same", "", "order"),
    Mutation("Tensor Memory not freed", "if (warp == MMA_WARP) tcgen05_dealloc", "if (false) tcgen05_dealloc"),
    Mutation("a pointer freed instead of the base", "tcgen05_dealloc(kernel.tmem,",
             "tcgen05_dealloc(shared_address(&shared.tmem),"),
)  # fmt: skip
