"""A CTA that ends while a bulk store may still read its shared memory is for review, whatever the policy."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import ptx, run_ptx

DECLARATIONS = ".shared .align 16 .b8 tile[256]; .reg .b32 %addr; .reg .pred %q, %w;"
START = """
mov.u32 %addr, tile; mad.lo.u32 %r0, %tid, 8, %addr; st.shared.u32 [%r0], %tid; st.shared.u32 [%r0+4], %tid;
fence.proxy.async; bar.sync 0;
setp.eq.u32 %q, %tid, 0; setp.lt.u32 %w, %tid, 2;
"""
STORE = "@%q cp.async.bulk.global.shared::cta.bulk_group [%words], [%addr], 64;"
COMMIT = "@%q cp.async.bulk.commit_group;"


def rules(body: str, policy: str = "eager") -> set[str]:
    out = run_ptx(ptx(START + body, DECLARATIONS), np.zeros(64, np.uint32), policy=policy)
    return {rule for rule, _ in out.launch.reviews}


@pytest.mark.parametrize("policy", ["eager", "lazy", "random:2"])
@pytest.mark.parametrize(
    "body",
    [
        STORE + COMMIT,
        STORE,
        STORE + COMMIT + "@%q cp.async.bulk.wait_group.read 1;",
        STORE + "@%q cp.async.bulk.wait_group 0;",
        STORE + COMMIT + STORE + COMMIT + "@%q cp.async.bulk.wait_group.read 1;",
        STORE + COMMIT + "@!%q cp.async.bulk.wait_group 0;",
    ],
)
def test_what_nobody_waited_for(body: str, policy: str) -> None:
    assert rules(body, policy) == {"exit-before-read"}


@pytest.mark.parametrize("policy", ["eager", "lazy"])
@pytest.mark.parametrize(
    "body",
    [
        "",
        STORE + COMMIT + "@%q cp.async.bulk.wait_group.read 0;",
        STORE + COMMIT + "@%q cp.async.bulk.wait_group 0;",
        STORE + STORE + COMMIT + STORE + COMMIT + "@%q cp.async.bulk.wait_group.read 0;",
        STORE + COMMIT + "@%q cp.async.bulk.wait_group.read 1;" + STORE + COMMIT + "cp.async.bulk.wait_group 0;",
    ],
)
def test_what_was_waited_for(body: str, policy: str) -> None:
    assert rules(body, policy) == set()


def test_the_message_names_the_store() -> None:
    out = run_ptx(ptx(START + STORE + COMMIT, DECLARATIONS), np.zeros(64, np.uint32))
    ((_, finding),) = out.launch.reviews.items()
    assert "cp.async.bulk.global.shared::cta.bulk_group (line 18)" in finding.message
    assert out.words[:16].tolist() == [n // 2 for n in range(16)]
