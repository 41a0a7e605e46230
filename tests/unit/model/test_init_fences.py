"""mbarrier.init, then a copy that signals the barrier through the async proxy: what must lie between."""

from __future__ import annotations

import numpy as np
import pytest

from umma_probe.model.launch import LaunchConfig
from umma_probe.model.machine import Machine

KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p)
{{
.shared .align 8 .b64 bar;
.shared .align 16 .b8 smem[64];
.reg .pred %done, %first;
.reg .b32 %tid, %s;
.reg .b64 %in;
mov.u32 %tid, %tid.x; mov.u32 %s, smem; ld.param.u64 %in, [p]; cvta.to.global.u64 %in, %in;
setp.eq.u32 %first, %tid, 0;
@%first mbarrier.init.shared::cta.b64 [bar], 1;
{fence}
bar.sync 0;
@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%in], 64, [bar];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %done, [bar], 0;
@!%done bra WAIT;
ret;
}}
"""
RULE = "missing-mbarrier-init-fence"


@pytest.mark.parametrize(
    ("fence", "rules"),
    [
        ("", [RULE]),
        ("@%first fence.mbarrier_init.release.cluster;", []),
        ("fence.mbarrier_init.release.cluster;", []),
        ("@!%first fence.mbarrier_init.release.cluster;", [RULE]),  # covers what the executing thread initialised
        ("@%first fence.proxy.async.shared::cta;", []),
        ("bar.sync 0; @!%first fence.proxy.async.shared::cta;", []),  # behind a barrier, it may be anybody's
        ("fence.acq_rel.cluster;", [RULE]),  # orders the generic proxy alone
    ],
)
def test_fences(fence: str, rules: list[str]) -> None:
    machine = Machine("sm_100a")
    buffer = machine.memory.allocate(64, "in")
    machine.memory.write(buffer.address, np.zeros(64, np.uint8))
    module = machine.load(KERNEL.format(fence=fence), "kernel.ptx")
    launch = machine.launch(module, "k", LaunchConfig((2, 1, 1), (64, 1, 1)), [buffer.address.to_bytes(8, "little")])
    assert [review.rule for review in launch.reviews.values()] == rules
    assert not launch.findings
    for review in launch.reviews.values():
        assert "mbarrier 'bar'" in review.message
        assert "CTA 0, warp 0, lane 0 initialised it" in review.message
