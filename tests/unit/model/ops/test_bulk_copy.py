"""Bulk copies: to shared memory with an mbarrier, multicast, to global memory by group, reductions, and proxies."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from umma_probe.errors import Deadlock, DeviceError, IllegalProgram, NotModelled, UndefinedBehavior

POLICIES = ["eager", "lazy", "random:1", "random:2"]
MODULE = ".global .align 128 .b8 source[4096]; .global .align 128 .b8 sink[4096];"
REGISTERS = """.reg .pred %p, %q, %one; .reg .b32 %x, %y, %mine, %tid, %rank; .reg .b64 %from, %to, %place;
    .shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 gate;"""
# thread i writes its value to source[i] and waits for all others
START = """mov.u32 %tid, %tid.x; setp.eq.u32 %one, %tid, 0; mov.u32 %x, tile; mad.lo.u32 %mine, %tid, 4, %x;
    mov.u32 %rank, %cluster_ctarank; mov.u64 %from, source; mov.u64 %to, sink;
    mad.lo.u64 %place, %row, 4, %from; st.global.u32 [%place], %v;
    mad.lo.u64 %place, %row, 4, %to; st.global.u32 [%place], 0;
    @%one mbarrier.init.shared.b64 [gate], 1; barrier.cluster.arrive; barrier.cluster.wait;"""
WAIT = "WAIT: mbarrier.try_wait.parity.shared.b64 %p, [gate], 0; @!%p bra WAIT;"
END = "barrier.cluster.arrive; barrier.cluster.wait;"
VALUES = np.arange(64, dtype=np.uint32) * 3 + 1


def bulk(body: str, *, block: int = 64, outputs=None, values=VALUES, **options):
    outputs = {"d": "u32"} if outputs is None else outputs
    return run(START + body, {"v": values}, outputs, declarations=REGISTERS, module=MODULE, block=block, **options)


def rules(out) -> set[str]:
    return {finding.rule for finding in out.launch.findings.values()}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("space", ["shared::cluster", "shared::cta"])
def test_global_to_shared(space, policy):
    body = f"""@!%one bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [gate], 256;
        cp.async.bulk.{space}.global.mbarrier::complete_tx::bytes.L2::cache_hint [tile], [%from], 256, [gate], %from;
        {WAIT} ld.shared.u32 %d, [%mine];"""
    out = bulk(body, policy=policy)
    assert np.array_equal(out["d"], VALUES)
    assert not rules(out)


IGNORING = """@!%one bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [gate], 256;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [tile], [%from], 256, LEFT, RIGHT, [gate];
    WAITLOOP ld.shared.u32 %d, [%mine];""".replace("WAITLOOP", WAIT)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("left", "right"), [(0, 0), (4, 12), (12, 0)])
def test_ignored_bytes_are_counted_and_not_copied(left, right, policy):
    out = bulk(IGNORING.replace("LEFT", str(left)).replace("RIGHT", str(right)), policy=policy)
    inside = slice(left // 4, 64 - right // 4)
    assert np.array_equal(out["d"][inside], VALUES[inside])
    assert rules(out) == ({"uninitialised-read"} if left or right else set())


def test_ignored_bytes_may_lie_outside_of_the_allocation():
    """``part`` ends 4 bytes before the copy does: without .ignore_oob a fault."""
    form = f"""@!%one bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [gate], 16; mov.u64 %from, part;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytesFORM [tile], [%from], 16IGNORED, [gate];
        {WAIT} mov.u32 %d, 0;"""
    module = MODULE + " .global .align 16 .b8 part[12] = {1,2,3,4,5,6,7,8,9,10,11,12};"

    def copied(modifier: str, ignored: str) -> object:
        body = form.replace("FORM", modifier).replace("IGNORED", ignored)
        return run(START + body, {"v": VALUES}, {"d": "u32"}, declarations=REGISTERS, module=module, block=64)

    assert not rules(copied(".ignore_oob", ", 0, 4"))
    with pytest.raises(DeviceError, match="part"):
        copied("", "")


@pytest.mark.parametrize(("left", "right"), [(16, 0), (0, 31)])
def test_too_many_ignored_bytes(left, right):
    with pytest.raises(UndefinedBehavior, match="ignoring less than 16 at each end"):
        bulk(IGNORING.replace("LEFT", str(left)).replace("RIGHT", str(right)))


@pytest.mark.parametrize("policy", POLICIES)
def test_multicast_to_some_ctas_of_a_cluster(policy):
    # CTA 1 copies its own 32 words to CTAs 0, 1 and 3
    values = np.arange(128, dtype=np.uint32) + 500
    body = f"""setp.eq.u32 %p, %rank, 2; @%p bra DONE; @!%one bra WAIT;
        mbarrier.arrive.expect_tx.shared.b64 _, [gate], 128; setp.ne.u32 %p, %rank, 1; @%p bra WAIT;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
            [tile], [%from+128], 128, [gate], 0xB;
        {WAIT} ld.shared.u32 %d, [%mine]; DONE: {END}"""
    out = bulk(body, block=32, cluster=4, values=values, policy=policy)
    expected = np.tile(values[32:64], (4, 1))
    expected[2] = 0
    assert np.array_equal(out["d"].reshape(4, 32), expected)


@pytest.mark.parametrize("policy", POLICIES)
def test_between_the_ctas_of_a_cluster(policy):
    values = np.arange(64, dtype=np.uint32) + 9
    body = f"""st.shared.u32 [%mine], %v; fence.proxy.async.shared::cta;
        @%one mbarrier.arrive.expect_tx.shared.b64 _, [gate], 128;
        bar.sync 0; @!%one bra WAIT; xor.b32 %rank, %rank, 1; mov.u32 %x, tile; mapa.shared::cluster.u32 %y, %x, %rank;
        add.u32 %y, %y, 128; mov.u32 %d, gate; mapa.shared::cluster.u32 %d, %d, %rank;
        cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%y], [%x], 128, [%d];
        {WAIT} ld.shared.u32 %d, [%mine+128]; {END}"""
    out = bulk(body, block=32, cluster=2, values=values, policy=policy)
    assert np.array_equal(out["d"].reshape(2, 32), values.reshape(2, 32)[::-1])
    assert not rules(out)


FILL = "st.shared.u32 [%mine], %v; fence.proxy.async; bar.sync 0;"
READ_BACK = "bar.sync 0; mad.lo.u64 %place, %row, 4, %to; ld.global.u32 %d, [%place];"


@pytest.mark.parametrize("policy", POLICIES)
def test_shared_to_global_by_group(policy):
    body = f"""{FILL} @!%one bra DONE; cp.async.bulk.global.shared::cta.bulk_group [%to], [tile], 256;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE: {READ_BACK}"""
    out = bulk(body, policy=policy)
    assert np.array_equal(out["d"], VALUES)
    assert not rules(out)


def test_waiting_for_the_read_leaves_the_write_pending():
    # the source may be overwritten at once, but the destination is not there yet
    body = f"""{FILL} @!%one bra DONE; cp.async.bulk.global.shared::cta.bulk_group [%to], [tile], 256;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; ld.global.u32 %e, [%to]; st.shared.u32 [tile], 999;
        cp.async.bulk.wait_group 0; DONE: {READ_BACK}"""
    out = bulk(body, outputs={"d": "u32", "e": "u32"}, policy="lazy")
    assert out["e"][0] == 0
    assert np.array_equal(out["d"], VALUES)


def test_a_missing_wait_shows_under_lazy():
    body = f"""{FILL} @!%one bra DONE; cp.async.bulk.global.shared::cta.bulk_group [%to], [tile], 256;
        cp.async.bulk.commit_group; st.shared.u32 [tile], 999; cp.async.bulk.wait_group 0; DONE: {READ_BACK}"""
    assert bulk(body, policy="eager")["d"][0] == VALUES[0]
    assert bulk(body, policy="lazy")["d"][0] == 999


def test_only_the_chosen_bytes_are_written():
    body = f"""{FILL} @!%one bra DONE; mov.b16 %h, 0x00F1;
        cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%to], [tile], 256, %h;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE: {READ_BACK}"""
    values = np.full(64, 0x01020304, np.uint32)
    out = run(
        START + body, {"v": values}, {"d": "u32"}, declarations=REGISTERS + ".reg .b16 %h;", module=MODULE, block=64
    )
    assert out["d"].tolist() == [0x04, 0x01020304, 0, 0] * 16


@pytest.mark.parametrize(
    ("kind", "op", "combine"),
    [
        ("u32", "add", lambda a, b: a + b),
        ("s32", "min", lambda a, b: np.minimum(a.view(np.int32), b.view(np.int32)).view(np.uint32)),
        ("u32", "max", np.maximum),
        ("b32", "xor", np.bitwise_xor),
        ("u64", "add", lambda a, b: (a.view(np.uint64) + b.view(np.uint64)).view(np.uint32)),
        ("f32", "add", lambda a, b: (a.view(np.float32) + b.view(np.float32)).view(np.uint32)),
        ("f16", "add.noftz", lambda a, b: (a.view(np.float16) + b.view(np.float16)).view(np.uint32)),
    ],
)
def test_reductions_into_global_memory(kind, op, combine):
    rng = np.random.default_rng(8)
    values = rng.standard_normal(64).astype(np.float32).view(np.uint32)
    old = rng.standard_normal(64).astype(np.float32).view(np.uint32)
    if kind == "f16":
        values, old = (rng.standard_normal(128).astype(np.float16).view(np.uint32) for _ in range(2))
    body = f"""mad.lo.u64 %place, %row, 4, %to; st.global.u32 [%place], %o; {FILL} @!%one bra DONE;
        cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind} [%to], [tile], 256;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE: {READ_BACK}"""
    out = run(START + body, {"v": values, "o": old}, {"d": "u32"}, declarations=REGISTERS, module=MODULE, block=64)
    with np.errstate(all="ignore"):
        assert np.array_equal(out["d"], combine(old, values))


def test_a_source_that_no_fence_made_visible_is_reported():
    body = f"""st.shared.u32 [%mine], %v; bar.sync 0; @!%one bra DONE;
        cp.async.bulk.global.shared::cta.bulk_group [%to], [tile], 256; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0; DONE: {READ_BACK}"""
    out = bulk(body)
    (finding,) = out.launch.findings.values()
    assert finding.rule == "missing-proxy-fence"
    assert "cp.async.bulk.global" in out.launch.program.text_lines[int(finding.where.split(":")[1]) - 1]


def test_an_unwritten_source_is_reported():
    body = f"""@!%one bra DONE; cp.async.bulk.global.shared::cta.bulk_group [%to], [tile], 256;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE: {READ_BACK}"""
    assert rules(bulk(body)) == {"uninitialised-read"}


COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (f"{COPY} [tile], [%from], 24, [gate];", IllegalProgram, "size is 24, must be a multiple of 16"),
        (f"{COPY} [tile+8], [%from], 16, [gate];", DeviceError, "multiple of 16"),
        (f"{COPY} [tile], [%from+4], 16, [gate];", DeviceError, "multiple of 16"),
        (f"{COPY} [tile], [%from], 8192, [gate];", DeviceError, "illegal address"),
        (f"{COPY}.multicast::cluster [tile], [%from], 16, [gate], 2;", UndefinedBehavior, "ctaMask is 0x0002"),
        (f"{COPY} [tile], [%from], 16, [tile];", UndefinedBehavior, "no mbarrier 'tile'"),
        (f"{COPY} [tile], [%from], 16, [gate+4];", DeviceError, "multiple of 8"),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.s32 [%to], [tile], 16;",
            IllegalProgram,
            "add, min, max",
        ),
        ("cp.async.bulk.shared::cluster.global [tile], [%from], 16;", NotModelled, "none of the modelled forms"),
    ],
)
def test_misuse(body, error, message):
    with pytest.raises(error, match=message):
        bulk(f"@!%one bra DONE; {body} DONE:")


def test_missing_bytes_are_counted_in_a_hang():
    body = f"""@!%one bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [gate], 256;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%from], 128, [gate]; {WAIT}"""
    with pytest.raises(
        Deadlock, match=r"128 transaction bytes missing.*bulk copy of CTA 0, warp 0, lane 0 completed 128"
    ):
        bulk(body, policy="lazy")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("form", "result"),
    [("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32", 0), ("red.async", 1000)],
)
def test_asynchronous_stores_to_another_cta(form, result, policy):
    values = np.arange(64, dtype=np.uint32) + 77
    if form == "red.async":
        form = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"
    body = f"""@%one st.bulk.shared::cta [tile], 128, 0; bar.sync 0; st.shared.u32 [%mine], 1000;
        @%one mbarrier.arrive.expect_tx.shared.b64 _, [gate], 128; {END} xor.b32 %rank, %rank, 1;
        mapa.shared::cluster.u32 %y, %mine, %rank; mov.u32 %x, gate; mapa.shared::cluster.u32 %x, %x, %rank;
        {form} [%y], %v, [%x];
        {WAIT} ld.shared.u32 %d, [%mine]; {END}"""
    out = bulk(body, block=32, cluster=2, values=values, policy=policy)
    assert np.array_equal(out["d"].reshape(2, 32), values.reshape(2, 32)[::-1] + result)
