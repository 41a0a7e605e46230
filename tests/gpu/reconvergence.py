"""Does a warp's join release when other lanes spin? Each case in a process of its own, on the GPU and on the model.

    PYTHONPATH=tests/gpu python tests/gpu/reconvergence.py -o reports/silicon-h200/reconvergence.json

Some lanes jump to REST, the others spin until the first ones have done something that comes after REST. If lanes at
REST waited for the whole warp, the kernel would never end. It also stores the mask that is active there.
"""  # fmt: skip

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from measuring import circumstances, save

import umma_probe as up
from umma_probe.errors import UmmaProbeError
from umma_probe.harness.isolation import call_isolated

WAITS = {
    "ld.volatile.global": "L: ld.volatile.global.u32 %r1, [%flag]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;",
    "ld.relaxed.gpu.global": "L: ld.relaxed.gpu.global.u32 %r1, [%flag]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;",
    "atom.global.or": "L: atom.global.or.b32 %r1, [%flag], 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;",
    "nanosleep, ld.volatile.global": "L: nanosleep.u32 100; ld.volatile.global.u32 %r1, [%flag]; "
                                     "setp.eq.u32 %p1, %r1, 0; @%p1 bra L;",
    "ld.volatile.shared": "L: ld.volatile.shared.u32 %r1, [word]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;",
    "mbarrier.test_wait": "L: mbarrier.test_wait.parity.shared.b64 %p1, [gate], 0; @!%p1 bra L;",
    "mbarrier.try_wait": "L: mbarrier.try_wait.parity.shared.b64 %p1, [gate], 0; @!%p1 bra L;",
}  # fmt: skip
WHO = {"lane 0": ("setp.ne.u32 %p0, %t, 0;", 31), "lane 31": ("setp.ne.u32 %p0, %t, 31;", 31),
       "lanes 16 to 31": ("setp.lt.u32 %p0, %t, 16;", 16)}  # fmt: skip
"""Who spins: the predicate of the others, and how many they are."""


def kernel_text(wait: str, who: str) -> str:
    others, count = WHO[who]
    return f""".version 8.4
.target sm_90a
.address_size 64
.shared .align 8 .b64 gate; .shared .u32 word;
.visible .entry k(.param .u64 in_flag, .param .u64 in_out)
{{ .reg .b32 %t, %r1, %r2; .reg .pred %p0, %p1; .reg .b64 %flag, %out, %at;
ld.param.u64 %flag, [in_flag]; ld.param.u64 %out, [in_out]; mov.u32 %t, %tid.x;
setp.eq.u32 %p1, %t, 0;
@%p1 mbarrier.init.shared.b64 [gate], {count}; @%p1 st.shared.u32 [word], 0; bar.sync 0;
{others}
@%p0 bra REST;
{WAITS[wait]}
REST: activemask.b32 %r2;
@%p0 st.volatile.global.u32 [%flag], 1; @%p0 st.volatile.shared.u32 [word], 1;
@%p0 mbarrier.arrive.shared.b64 _, [gate];
mul.wide.u32 %at, %t, 4; add.u64 %out, %out, %at; st.global.u32 [%out], %r2; ret; }}"""


def run(target: str, wait: str, who: str, *, timeout: float | None) -> dict[str, Any]:
    device = up.device(target, arch="sm_90a")
    flag, out = device.array(np.zeros(1, np.uint32)), device.array(np.zeros(32, np.uint32))
    try:
        kernel = device.load_ptx(kernel_text(wait, who))["k"]
        kernel.launch(grid=1, block=32, args=[flag, out], timeout=timeout)
    except UmmaProbeError as error:
        return {"verdict": error.verdict, "message": error.message}
    return {"verdict": "finishes", "active_at_rest": sorted({f"{int(mask):#010x}" for mask in out.numpy()})}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    path = parser.parse_args().output
    cases = []
    for wait in WAITS:
        for who in WHO:
            silicon = call_isolated(run, "cuda:0", wait, who, timeout=3.0)
            model = run("model", wait, who, timeout=30.0)
            cases.append({"waits_with": wait, "who_waits": who, "silicon": silicon, "model": model})
            print(wait, who, silicon, "" if silicon == model else model)
    about = ("Lanes at a place where their warp reconverges go on without lanes that spin before it: independent "
             "thread scheduling. active_at_rest are the masks that the lanes saw there.")  # fmt: skip
    save(path, circumstances("python tests/gpu/reconvergence.py") | {"about": about, "cases": cases})
    return 0 if all(case["silicon"] == case["model"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
