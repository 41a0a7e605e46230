"""Whether the lanes of a warp are together before instructions for the whole warp, checked on the text of the kernel.

A wait loop is left by one lane after the other, and a branch is taken by one; ``__syncwarp`` brings the warp together
before a ``.sync.aligned`` tcgen05 instruction and before a barrier. All lanes come there in any case, and the
``.sync`` waits for them, so no document calls its absence a fault; the kernel does not leave it to the compiler.
"""

from __future__ import annotations

import re

_EVENTS = {
    "method": r"METHOD [\w ]+\(|^fmha\(|^DEVICE void init_barriers",
    "wait": r"mbarrier_wait_parity\(shared_address\(&shared\.(?:s_full|p_full|pv_done)",
    "together": r"__syncwarp\(\);",
    "warp_access": r"tcgen05_(?:ld|st)_32x32b\(|rescale_output\(rescale\)|store_p\(tile, p\)",
    "one_lane": r"if \(elect_sync\(\)\)",
    "barrier": r"__syncthreads\(\);",
}
_PATTERN = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _EVENTS.items()), re.MULTILINE)


def events(source: str) -> list[tuple[str, int]]:
    """What happens in the order of the text, with line numbers; comments do not count."""
    code = re.sub(r"//[^\n]*", "", source)
    return [(str(match.lastgroup), code.count("\n", 0, match.start()) + 1) for match in _PATTERN.finditer(code)]


def order_faults(source: str) -> list[str]:
    """Where a warp may be in parts, with the line."""
    faults: list[str] = []
    apart = False
    for event, line in events(source):
        match event:
            case "method" | "together":
                apart = False
            case "wait":
                apart = True
            case "one_lane":
                if apart:  # the other warp's branch: it comes to the barrier in parts
                    faults.append(f"line {line}: no __syncwarp behind the branch of one lane above")
                apart = True
            case "warp_access" if apart:
                faults.append(f"line {line}: tcgen05.ld/st by a warp that may be in parts")
            case "barrier" if apart:
                faults.append(f"line {line}: barrier for a warp that may be in parts")
    return faults
