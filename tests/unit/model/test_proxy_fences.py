"""Who must execute ``fence.proxy.async`` for stores into another CTA's window; where a CTA's memory ends."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import ptx, run_ptx

from umma_probe.errors import DeviceError

DECLARATIONS = ".shared .align 16 .b8 tile[64]; .reg .b32 %addr, %there, %rank; .reg .b64 %to; .reg .pred %q, %first;"
BODY = """
mov.u32 %addr, tile; mov.u32 %rank, %cluster_ctarank; xor.b32 %rank, %rank, 1;
mapa.shared::cluster.u32 %there, %addr, %rank; xor.b32 %rank, %rank, 1;
setp.eq.u32 %first, %rank, 0;
mad.lo.u32 %there, %tid, 4, %there;
setp.lt.u32 %q, %tid, 16;
@%q st.shared::cluster.u32 [%there], %tid;
WRITER
BARRIER
AGAIN
READER
mad.wide.u32 %to, %rank, 64, %words;
setp.eq.u32 %q, %tid, 0;
@%q cp.async.bulk.global.shared::cta.bulk_group [%to], [%addr], 64;
@%q cp.async.bulk.commit_group;
@%q cp.async.bulk.wait_group 0;
BARRIER
"""
BARRIER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
FENCE = "fence.proxy.async;"
OWN = "mad.lo.u32 %r0, %tid, 4, %addr; @%q st.shared.u32 [%r0], %tid;"


def rules(writer: str = "", reader: str = "", again: str = "") -> set[str]:
    """What is found when each CTA of a pair stores into the other's window, whose bulk copy reads it."""
    text = BODY.replace("WRITER", writer).replace("READER", reader).replace("AGAIN", again).replace("BARRIER", BARRIER)
    out = run_ptx(ptx(text, DECLARATIONS), np.zeros(32, np.uint32), grid=2, cluster=2)
    if not again:
        assert out.words.tolist() == [*range(16)] * 2
    return {rule for rule, _ in out.launch.findings}


@pytest.mark.parametrize(("writer", "reader"), [(FENCE, ""), ("", FENCE), (FENCE, FENCE)])
def test_the_cta_that_stored_or_the_cta_that_owns_the_window(writer: str, reader: str) -> None:
    assert rules(writer, reader) == set()


def test_neither() -> None:
    assert rules() == {"missing-proxy-fence"}


def test_a_later_store_is_not_covered() -> None:
    assert rules(FENCE, again=OWN) == {"missing-proxy-fence"}
    assert rules(FENCE, FENCE, again=OWN) == set()


@pytest.mark.parametrize("which", ["@%first", "@!%first"])
def test_one_cta_fences_for_both(which: str) -> None:
    """The window of the other for what it stored there, its own for what the other stored."""
    fence = f"{which} {FENCE}"
    assert rules(reader=fence) == set()
    assert rules(again=OWN + BARRIER, reader=fence) == {"missing-proxy-fence"}  # the other's own store is the other's


@pytest.mark.parametrize(("size", "offset", "legal"), [(4, 0, True), (4, 4, False), (20, 16, True), (20, 20, False)])
def test_the_window_ends_with_the_last_variable(size: int, offset: int, legal: bool) -> None:
    text = ptx(f"mov.u32 %r0, tail; st.shared.u32 [%r0+{offset}], %tid;", f".shared .align 4 .b8 tail[{size}];")
    if legal:
        run_ptx(text, np.zeros(32, np.uint32))
        return
    with pytest.raises(DeviceError, match=f"a CTA's window has {1024 + size} bytes"):
        run_ptx(text, np.zeros(32, np.uint32))


@pytest.mark.parametrize(("offset", "legal"), [(16, True), (20, False)])
def test_so_does_the_local_frame(offset: int, legal: bool) -> None:
    text = ptx(f"mov.u64 %at, frame; st.local.u32 [%at+{offset}], %tid;", ".local .align 4 .b8 frame[20];")
    if legal:
        run_ptx(text, np.zeros(32, np.uint32))
        return
    with pytest.raises(DeviceError, match="the local frame has 20 bytes"):
        run_ptx(text, np.zeros(32, np.uint32))
