"""The order that the ISA asks for around tcgen05 operations, checked on the text of the FMHA kernel.

PTX ISA, tcgen05 memory consistency model, canonical patterns: a wait for a barrier that orders Tensor Memory is
followed by tcgen05.fence::after_thread_sync; an arrival that hands it on is preceded by fence::before_thread_sync. The
``.sync.aligned`` instructions take a converged warp, so a wait loop or a branch of one lane is followed by
__syncwarp before them. mbarrier.init is followed by its fence before others see it.
"""

from __future__ import annotations

import re

_EVENTS = {
    "method": r"METHOD [\w ]+\(|^fmha\(|^DEVICE void init_barriers",
    "wait": r"mbarrier_wait_parity\(shared_address\(&shared\.(?:s_full|p_full|pv_done)",
    "after": r"tcgen05_fence_after_thread_sync\(\);",
    "before": r"tcgen05_fence_before_thread_sync\(\);",
    "wait_st": r"tcgen05_wait_st\(\);",
    "together": r"__syncwarp\(\);",
    "warp_access": r"tcgen05_(?:ld|st)_32x32b\(|rescale_output\(rescale\)|store_p\(tile, p\)",
    "mma": r"tcgen05_mma_f16",
    "arrive": r"mbarrier_arrive\(shared_address\(&shared\.p_full",
    "one_lane": r"if \(elect_sync\(\)\)",
    "init": r"init_barriers\(shared\);",
    "init_fence": r"fence_mbarrier_init\(\);",
    "barrier": r"__syncthreads\(\);",
}
_PATTERN = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _EVENTS.items()), re.MULTILINE)


def events(source: str) -> list[tuple[str, int]]:
    """What happens in the order of the text, with line numbers; comments do not count."""
    code = re.sub(r"//[^\n]*", "", source)
    return [(str(match.lastgroup), code.count("\n", 0, match.start()) + 1) for match in _PATTERN.finditer(code)]


def order_faults(source: str) -> list[str]:
    """What is missing, with the line that misses it."""
    faults: list[str] = []
    unordered = apart = uninitialised = False
    access_unfenced = False
    for event, line in events(source):
        match event:
            case "method":
                unordered = apart = access_unfenced = False
            case "wait":
                unordered, apart = True, True
            case "after":
                unordered = False
            case "together":
                apart = False
            case "one_lane":
                if apart:  # the other warp's branch: it comes to the barrier in parts
                    faults.append(f"line {line}: no __syncwarp behind the branch of one lane above")
                apart = True
            case "mma" if unordered:
                faults.append(f"line {line}: tcgen05.mma without fence::after_thread_sync since the wait")
            case "warp_access":
                if unordered:
                    faults.append(f"line {line}: tcgen05.ld/st without fence::after_thread_sync since the wait")
                if apart:
                    faults.append(f"line {line}: tcgen05.ld/st by a warp that may be in parts")
                access_unfenced = True
            case "before":
                access_unfenced = False
            case "arrive" if access_unfenced:
                faults.append(f"line {line}: arrival without fence::before_thread_sync since the tcgen05.ld/st")
            case "init":
                uninitialised = True
            case "init_fence":
                uninitialised = False
            case "barrier":
                if uninitialised:
                    faults.append(f"line {line}: barrier without fence.mbarrier_init since the initialisation")
                if apart:
                    faults.append(f"line {line}: barrier for a warp that may be in parts")
    return faults + _end_of_epilogue(source)


def _end_of_epilogue(source: str) -> list[str]:
    """The method that reads O last ends with a fence: the barrier and the deallocation come behind it."""
    names = [
        name for name, _ in events(source[source.index("METHOD void finish(") : source.index("METHOD u32 warp_lane")])
    ]
    return [] if names[-1] == "before" else ["finish: no fence::before_thread_sync behind the last tcgen05.ld"]
