"""st.async and red.async with .release: they land in global memory, at the end of the grid at the latest."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from umma_probe.errors import DeviceError, PtxSyntaxError

POLICIES = ["eager", "lazy", "random:1", "random:2"]
MODULE = ".global .align 8 .b8 flags[512];"
PLACE = "mov.u64 %p, flags; mad.lo.u64 %p, %row, 8, %p;"
DECLARE = ".reg .b64 %p, %q; .reg .pred %same;"
VALUES = np.arange(32, dtype=np.uint32) * 7 + 3


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("form", ["st.async.release.gpu.global.u32", "st.async.mmio.release.sys.b32"])
def test_a_waiting_thread_sees_the_value_and_what_was_stored_before(form: str, policy: str) -> None:
    """Lane i stores data and releases a flag to lane 31 - i, which polls for it."""
    body = f"""{PLACE} st.global.u32 [%p+4], 0; st.global.u32 [%p], 0; bar.sync 0;
        st.global.u32 [%p+4], %v; {form} [%p], 1;
        mov.u64 %q, flags; sub.u64 %p, 31, %row; mad.lo.u64 %q, %p, 8, %q;
        POLL: ld.acquire.gpu.global.u32 %d, [%q]; setp.eq.u32 %same, %d, 0; @%same bra POLL;
        ld.global.u32 %d, [%q+4];"""
    out = run(body, {"v": VALUES}, {"d": "u32"}, declarations=DECLARE, module=MODULE, policy=policy)
    assert (out["d"] == VALUES[::-1]).all()
    assert not out.launch.findings


@pytest.mark.parametrize("policy", POLICIES)
def test_reductions_add_up(policy: str) -> None:
    body = """mov.u64 %p, flags; st.global.u64 [%p], 5; bar.sync 0; cvt.u64.u32 %q, %v;
        red.async.release.gpu.global.add.u64 [%p], %q;
        POLL: ld.acquire.gpu.global.u64 %q, [%p]; setp.ne.u64 %same, %q, TOTAL; @%same bra POLL;
        cvt.u32.u64 %d, %q;""".replace("TOTAL", str(5 + VALUES.sum()))
    out = run(body, {"v": VALUES}, {"d": "u32"}, declarations=DECLARE, module=MODULE, policy=policy)
    assert (out["d"] == 5 + VALUES.sum()).all()


def test_mistakes() -> None:
    with pytest.raises(PtxSyntaxError, match=r"must be \.sys"):
        run(PLACE + "st.async.mmio.release.gpu.global.b32 [%p], 1;", declarations=DECLARE, module=MODULE)
    with pytest.raises(DeviceError, match="aligned"):
        run(PLACE + "st.async.release.gpu.global.b32 [%p+2], 1;", declarations=DECLARE, module=MODULE)
