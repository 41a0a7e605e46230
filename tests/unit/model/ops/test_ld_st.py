"""Loads and stores: extension, vectors, state spaces, cache words, faults with their place."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from umma_probe.errors import DeviceError, NotModelled, PtxSyntaxError
from umma_probe.model.launch import LaunchConfig
from umma_probe.model.machine import Machine

SHARED = ".shared .align 16 .b8 tile[1024]; .reg .b32 %base, %t<8>; .reg .b64 %wide<4>; .reg .b128 %q<2>;"
OWN = "shl.b32 %base, %lane, 4; mov.u32 %t0, tile; add.u32 %base, %base, %t0;"


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ("ld.shared.u8", [0x80, 0x7F]),
        ("ld.shared.s8", [0xFFFFFF80, 0x7F]),
        ("ld.shared.b8", [0x80, 0x7F]),
        ("ld.shared.u16", [0xFF80, 0x017F]),
        ("ld.shared.s16", [0xFFFFFF80, 0x017F]),
        ("ld.volatile.shared.b32", [0x8001FF80, 0x7FFE017F]),
        ("ld.shared::cta.f32", [0x8001FF80, 0x7FFE017F]),
    ],
)
def test_narrow_loads_extend_by_their_own_sign(load, expected):
    words = np.array([0x8001FF80, 0x7FFE017F], np.uint32)
    out = run(f"{OWN} st.shared.b32 [%base], %w; {load} %d, [%base];", {"w": words}, {"d": "u32"}, declarations=SHARED)
    assert out["d"].tolist() == expected


def test_a_narrow_load_fills_a_64_bit_register():
    words = np.array([0x80000001], np.uint32)
    body = f"{OWN} st.shared.b32 [%base], %w; ld.shared.s32 %d, [%base]; ld.shared.u32 %e, [%base];"
    out = run(body, {"w": words}, {"d": "u64", "e": "u64"}, declarations=SHARED)
    assert (out["d"][0], out["e"][0]) == (0xFFFFFFFF80000001, 0x80000001)


def test_narrow_stores_write_their_low_bytes_only():
    body = f"{OWN} st.shared.b32 [%base], 0x11223344; st.shared.b8 [%base+1], %w; ld.shared.b32 %d, [%base];"
    out = run(body, {"w": np.array([0xAABBCCDD], np.uint32)}, {"d": "u32"}, declarations=SHARED)
    assert out["d"][0] == 0x1122DD44


def test_vectors_with_sinks_and_128_bit_words():
    body = f"""{OWN}
        st.shared.v4.b32 [%base], {{%a, %b, %a, 7}};
        ld.shared.v4.u32 {{%t1, _, %t2, %t3}}, [%base];
        ld.shared.b128 %q0, [%base];
        st.shared.b128 [%base+512], %q0;
        ld.shared.v2.b64 {{%wide0, %d}}, [%base+512];
        add.u32 %e, %t1, %t3;"""
    a, b = np.arange(32, dtype=np.uint32), np.arange(32, dtype=np.uint32) * 3
    out = run(body, {"a": a, "b": b}, {"d": "u64", "e": "u32"}, declarations=SHARED)
    assert np.array_equal(out["d"], a.astype(np.uint64) | np.uint64(7) << np.uint64(32))
    assert np.array_equal(out["e"], a + 7)


def test_eight_words_at_once_through_global_memory():
    body = """mad.lo.u64 %wide0, %row, 32, %p;
        st.global.v8.b32 [%wide0], {%a, %a, %a, %a, %a, %a, %a, %b};
        ld.global.nc.L1::no_allocate.L2::evict_first.L2::256B.v8.f32 {_, _, _, _, _, _, %t1, %t2}, [%wide0];
        sub.u32 %d, %t2, %t1;"""
    a, b = np.arange(32, dtype=np.uint32), np.arange(32, dtype=np.uint32) * 5
    body = "mov.u64 %p, scratch; cvta.global.u64 %p, %p;" + body
    out = run(
        body,
        {"a": a, "b": b},
        {"d": "u32"},
        declarations=SHARED + ".reg .b64 %p;",
        module=".global .align 64 .b8 scratch[1024];",
    )
    assert np.array_equal(out["d"], b - a)


def test_generic_addresses_reach_every_window():
    body = """
        mov.u32 %t0, tile; cvt.u64.u32 %wide0, %t0; cvta.shared.u64 %wide0, %wide0;
        mov.u64 %wide1, frame; cvta.local.u64 %wide1, %wide1;
        mov.u64 %wide2, scratch; cvta.global.u64 %wide2, %wide2;
        mad.lo.u64 %wide0, %row, 4, %wide0; mad.lo.u64 %wide2, %row, 4, %wide2;
        rem.u32 %t1, %lane, 3; setp.eq.u32 %one, %t1, 1; setp.eq.u32 %two, %t1, 2;
        selp.b64 %wide3, %wide1, %wide0, %one; selp.b64 %wide3, %wide2, %wide3, %two;
        st.b32 [%wide3], %a; ld.b32 %d, [%wide3];"""
    a = np.arange(32, dtype=np.uint32) + 100
    out = run(
        body,
        {"a": a},
        {"d": "u32"},
        declarations=SHARED + ".local .align 4 .b8 frame[16]; .reg .pred %one, %two;",
        module=".global .align 4 .b8 scratch[128];",
    )
    assert np.array_equal(out["d"], a)


def test_cache_words_change_nothing():
    body = f"""{OWN} mov.b64 %wide0, 0;
        createpolicy.fractional.L2::evict_first.b64 %wide1, 0f3F800000;
        st.relaxed.gpu.shared::cta.b32 [%base], %a;
        prefetch.global.L2 [%wide0]; prefetchu.L1 [%wide0];
        ld.acquire.cta.shared.b32 %d, [%base];"""
    a = np.arange(32, dtype=np.uint32)
    assert np.array_equal(run(body, {"a": a}, {"d": "u32"}, declarations=SHARED)["d"], a)


def test_discarded_memory_is_as_if_never_written():
    body = "mov.u64 %p, scratch; st.global.b32 [%p], 1; discard.global.L2 [%p], 128; ld.global.b32 %d, [%p];"
    out = run(
        body, {}, {"d": "u32"}, block=32, declarations=".reg .b64 %p;", module=".global .align 128 .b8 scratch[128];"
    )
    assert [finding.rule for finding in out.launch.findings.values()] == ["uninitialised-read"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"{OWN} ld.shared.b32 %d, [%base+2];", "misaligned"),
        (f"{OWN} ld.shared.v4.b32 {{%d, _, _, _}}, [%base+4];", "multiple of 16 bytes"),
        ("mov.u32 %d, 0x100000; ld.shared.b32 %d, [%d];", "illegal address 0x100000 in .shared"),
        ("mov.u64 %wide0, 64; ld.global.b32 %d, [%wide0];", "illegal address 0x40 in .global"),
        ("mov.u64 %wide0, 0x7e0000100000; ld.b32 %d, [%wide0];", "in .local"),
    ],
)
def test_faults_name_the_line_and_the_thread(body, message):
    with pytest.raises(DeviceError, match=message) as caught:
        run(body, {}, {"d": "u32"}, block=64, declarations=SHARED)
    place = caught.value.where
    assert place is not None
    assert place.actor == "CTA 0, warp 0, lane 0"
    assert place.source_line.strip() == body.strip()


def test_reading_what_was_never_written_is_a_finding():
    out = run(f"{OWN} ld.shared.b32 %d, [%base];", {}, {"d": "u32"}, block=32, declarations=SHARED)
    (finding,) = out.launch.findings.values()
    assert (finding.rule, finding.actor) == ("uninitialised-read", "CTA 0, warp 0, lane 0")
    assert "0x400" in finding.message
    assert set(out["d"].tolist()) == {0xCDCDCDCD}


def test_wrong_forms_are_refused_before_the_run():
    with pytest.raises(PtxSyntaxError, match="has 2 elements, must have 4"):
        run("ld.shared.v4.b32 {%d, %d}, [tile];", {}, {"d": "u32"}, block=32, declarations=SHARED)
    with pytest.raises(NotModelled, match="v3"):
        run("ld.shared.v3.b32 {%d, %d, %d}, [tile];", {}, {"d": "u32"}, block=32, declarations=SHARED)


def test_parameters_by_symbol_and_by_register():
    text = """.version 9.0
        .target sm_100a
        .address_size 64
        .visible .entry k(.param .u64 out, .param .align 8 .b8 pack[24]) {
        .reg .b64 %p<4>; .reg .b32 %r<4>;
        ld.param.u64 %p0, [out];
        mov.b64 %p1, pack;
        ld.param.v2.u32 {%r0, %r1}, [%p1+8];
        ld.param::entry.s16 %r2, [pack+18];
        cvta.param.u64 %p2, %p1;
        ld.u32 %r3, [%p2+20];
        st.global.v4.u32 [%p0], {%r0, %r1, %r2, %r3};
        ret; }"""
    machine = Machine()
    buffer = machine.memory.allocate(16)
    pack = np.array([1, 2, 3, 4, 0xFFFE0000, 6], np.uint32)
    arguments = [buffer.address.to_bytes(8, "little"), pack.tobytes()]
    machine.launch(machine.load(text), "k", LaunchConfig((1, 1, 1), (1, 1, 1)), arguments)
    assert machine.memory.read(buffer.address, 16).view(np.uint32).tolist() == [3, 4, 0xFFFFFFFE, 6]


def test_memory_mapped_accesses():
    body = """st.mmio.relaxed.sys.global.u32 [cell], 7; ld.global.mmio.relaxed.sys.u32 %d, [cell];"""
    out = run(body, {}, {"d": "u32"}, module=".global .u32 cell;", block=32)
    assert out["d"].tolist() == [7] * 32


@pytest.mark.parametrize(
    "form",
    [
        "ld.mmio.global.u32 %d, [cell];",
        "ld.mmio.relaxed.gpu.global.u32 %d, [cell];",
        "st.mmio.weak.global.u32 [cell], %d;",
        "ld.mmio.relaxed.sys.shared.u32 %d, [cell];",
    ],
)
def test_memory_mapped_accesses_are_relaxed_sys(form):
    with pytest.raises(PtxSyntaxError, match=r"must be \.mmio\.relaxed\.sys"):
        run(form, {}, {"d": "u32"}, module=".global .u32 cell;", block=32)
