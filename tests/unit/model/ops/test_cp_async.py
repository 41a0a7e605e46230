"""Non-bulk asynchronous copies: data, zero fill, groups, and what a policy may show before a wait."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from umma_probe.errors import DeviceError, IllegalProgram, UndefinedBehavior

POLICIES = ["eager", "lazy", "random:1", "random:2"]
MODULE = ".global .align 16 .b8 source[4096];"
REGISTERS = """.reg .pred %p, %q; .reg .b32 %x, %y, %mine, %tid; .reg .b64 %from, %state;
    .shared .align 16 .b8 tile[2048]; .shared .align 8 .b64 gate;"""
# each thread owns 16 bytes of both: four words v, v+1, v+2, v+3
START = """mov.u32 %tid, %tid.x; shl.b32 %mine, %tid, 4; mov.u32 %x, tile; add.u32 %mine, %mine, %x;
    mov.u64 %from, source; mad.lo.u64 %from, %row, 16, %from; add.u32 %x, %v, 1; add.u32 %y, %v, 2;
    st.global.v4.u32 [%from], {%v, %x, %y, %y}; """
READ = "ld.shared.v4.u32 {%a, %b, %c, %d}, [%mine];"
OUTPUTS = dict.fromkeys("abcd", "u32")
VALUES = np.arange(32, dtype=np.uint32) * 100 + 7


def copy(body: str, **options):
    return run(START + body, {"v": VALUES}, OUTPUTS, declarations=REGISTERS, module=MODULE, block=32, **options)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("form", "size"),
    [
        ("cp.async.cg.shared.global [%mine], [%from], 16;", 16),
        ("cp.async.ca.shared::cta.global.L2::128B [%mine], [%from], 16;", 16),
        ("cp.async.ca.shared.global [%mine], [%from], 8;", 8),
        ("cp.async.ca.shared.global.L2::cache_hint [%mine], [%from], 4, 4, %from;", 4),
    ],
)
def test_whole_copies(form, size, policy):
    out = copy(f"{form} cp.async.commit_group; cp.async.wait_group 0; {READ}", policy=policy)
    expected = np.stack([VALUES, VALUES + 1, VALUES + 2, VALUES + 2])
    expected[size // 4 :] = 0xCDCDCDCD
    assert np.array_equal(np.stack([out[name] for name in "abcd"]), expected)
    assert {f.rule for f in out.launch.findings.values()} == (set() if size == 16 else {"uninitialised-read"})


def test_what_the_source_lacks_becomes_zero():
    out = copy(f"rem.u32 %x, %tid, 17; cp.async.cg.shared.global [%mine], [%from], 16, %x; cp.async.wait_all; {READ}")
    rows = np.stack([VALUES, VALUES + 1, VALUES + 2, VALUES + 2], axis=1).view(np.uint8)
    for i in range(32):
        rows[i, i % 17 :] = 0
    assert np.array_equal(np.stack([out[name] for name in "abcd"], axis=1), rows.view(np.uint32))


def test_an_ignored_or_empty_source_is_not_touched():
    body = "setp.ge.u32 %p, %tid, 8; mov.u64 %state, 64; selp.b64 %from, %state, %from, %p; selp.b32 %x, 0, 16, %p;"
    for operand in ("%p", "%x"):
        out = copy(f"{body} cp.async.cg.shared.global [%mine], [%from], 16, {operand}; cp.async.wait_all; {READ}")
        assert out["a"].tolist() == [*VALUES[:8].tolist(), *[0] * 24]


def test_a_wait_leaves_the_newest_groups_pending():
    # under lazy a copy that nobody waits for has not happened
    body = """cp.async.ca.shared.global [%mine], [%from], 4; cp.async.commit_group;
        cp.async.ca.shared.global [%mine+4], [%from+4], 4; cp.async.commit_group;
        cp.async.ca.shared.global [%mine+8], [%from+8], 4;
        cp.async.wait_group 1;"""
    out = copy(f"{body} {READ} cp.async.wait_all;", policy="lazy")
    assert np.array_equal(out["a"], VALUES)
    assert set(out["b"].tolist()) | set(out["c"].tolist()) == {0xCDCDCDCD}


def test_groups_belong_to_a_thread():
    # only the low lanes commit the first copy as a group of its own, so for the others it is in the newest group
    body = """cp.async.ca.shared.global [%mine], [%from], 4; setp.lt.u32 %p, %tid, 8; @%p cp.async.commit_group;
        cp.async.ca.shared.global [%mine+4], [%from+4], 4; cp.async.commit_group;
        @%p bra LOW; mov.u32 %y, 1; cp.async.wait_group 1; bra DONE; LOW: cp.async.wait_group 2; DONE:"""
    out = copy(f"{body} {READ} cp.async.wait_all;", policy="lazy")
    assert set(out["a"].tolist()) == {0xCDCDCDCD}
    out = copy(f"{body.replace('wait_group 2', 'wait_group 1')} {READ} cp.async.wait_all;", policy="lazy")
    assert np.array_equal(out["a"][:8], VALUES[:8])


@pytest.mark.parametrize("policy", POLICIES)
def test_data_is_read_when_the_copy_takes_effect(policy):
    body = "cp.async.ca.shared.global [%mine], [%from], 4; st.global.u32 [%from], 5; cp.async.wait_all; "
    out = copy(body + READ, policy=policy)
    allowed = {"eager": [set(VALUES.tolist())], "lazy": [{5}]}.get(policy, [set(VALUES.tolist()), {5}])
    assert set(out["a"].tolist()) in allowed


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("form", "count"), [("", 1), (".noinc", 33)])
def test_completion_through_an_mbarrier(form, count, policy):
    # without .noinc the arrivals of the copies are added to those that init expects
    body = f"""setp.eq.u32 %q, %tid, 0; @%q mbarrier.init.shared.b64 [gate], {count}; bar.sync 0;
        cp.async.cg.shared.global [%mine], [%from], 16;
        cp.async.mbarrier.arrive{form}.shared::cta.b64 [gate];
        bar.sync 0; @%q mbarrier.arrive.shared.b64 _, [gate];
        WAIT: mbarrier.try_wait.parity.shared.b64 %p, [gate], 0; @!%p bra WAIT;
        xor.b32 %x, %tid, 31; shl.b32 %x, %x, 4; mov.u32 %mine, tile; add.u32 %mine, %mine, %x; {READ}"""
    out = copy(body, policy=policy)
    assert np.array_equal(out["d"], VALUES[::-1] + 2)


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("cp.async.cg.shared.global [%mine], [%from], 8;", IllegalProgram, "cp-size is 8, must be 16"),
        ("cp.async.ca.shared.global [%mine], [%from], 12;", IllegalProgram, "must be 4 or 8 or 16"),
        ("cp.async.ca.shared.global [%mine+4], [%from], 8;", DeviceError, "multiple of 8"),
        ("cp.async.ca.shared.global [%mine], [%from+2], 4;", DeviceError, "multiple of 4"),
        ("cp.async.ca.shared.global [%mine], [%from], 4, 5;", UndefinedBehavior, "src-size is 5"),
        (
            "mov.u64 %from, 64; cp.async.ca.shared.global [%mine], [%from], 4; cp.async.wait_all;",
            DeviceError,
            "illegal",
        ),
    ],
)
def test_misuse(body, error, message):
    with pytest.raises(error, match=message):
        copy(body)


def test_a_late_fault_is_placed_at_the_copy():
    body = "mov.u64 %from, 64;\ncp.async.ca.shared.global [%mine], [%from], 4;\n mov.u32 %x, 1;\n cp.async.wait_all;"
    with pytest.raises(DeviceError) as caught:
        copy(body, policy="lazy")
    assert caught.value.where.source_line.strip().startswith("cp.async.ca")
    assert caught.value.where.actor == "CTA 0, warp 0, lane 0"
