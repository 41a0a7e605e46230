"""``mov`` in all its forms, and state-space addresses."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from umma_probe.errors import PtxSyntaxError

WORDS = np.array([0x0123_4567_89AB_CDEF, 0, 0xFFFF_FFFF_0000_0001, 0x8000_0000_7FFF_FFFF], np.uint64)


def test_unpack_has_the_low_part_first() -> None:
    out = run("mov.b64 {%lo, %hi}, %a;", {"a": WORDS}, {"lo": "b32", "hi": "b32"})
    assert out["lo"].tolist() == [int(w) & 0xFFFFFFFF for w in WORDS]
    assert out["hi"].tolist() == [int(w) >> 32 for w in WORDS]


def test_four_parts_pack_and_unpack() -> None:
    body = "mov.b64 {%h0, %h1, %h2, %h3}, %a; mov.b64 %d, {%h3, %h2, %h1, %h0};"
    out = run(body, {"a": WORDS}, {"d": "b64", "h2": "b16"}, declarations=".reg .b16 %h0, %h1, %h3;")
    halves = [[int(w) >> shift & 0xFFFF for shift in (0, 16, 32, 48)] for w in WORDS]
    assert out["h2"].tolist() == [h[2] for h in halves]
    assert out["d"].tolist() == [h[3] | h[2] << 16 | h[1] << 32 | h[0] << 48 for h in halves]


def test_bytes_pack_and_a_sink_takes_a_part() -> None:
    body = "mov.b32 {%b0, _, _, %b3}, %a; mov.b32 %d, {%b3, %b0, %b0, %b3};"
    out = run(body, {"a": np.array([0x44332211], np.uint32)}, {"d": "b32"}, declarations=".reg .b8 %b<4>;")
    assert out["d"].tolist() == [0x44111144]


def test_128_bits_are_two_64_bit_parts() -> None:
    body = "mov.b128 %w, {%a, %b}; mov.b128 {%d, %e}, %w;"
    inputs = {"a": WORDS, "b": WORDS[::-1].copy()}
    out = run(body, inputs, {"d": "b64", "e": "b64"}, declarations=".reg .b128 %w;")
    assert out["d"].tolist() == WORDS.tolist()
    assert out["e"].tolist() == WORDS[::-1].tolist()


def test_braces_around_one_operand_mean_nothing() -> None:
    out = run("mov.b64 %d, {%a}; mov.b64 {%e}, %d;", {"a": WORDS}, {"d": "b64", "e": "b64"})
    assert out["e"].tolist() == WORDS.tolist()


def test_constants() -> None:
    body = """mov.u32 %d, 0xFFFFFFFF; mov.b32 %e, 0f3F800000; mov.f32 %f, 0d3FF8000000000000;
    mov.s64 %g, -2; mov.b16 %h, 0x3C00U; mov.pred %p, -1; mov.pred %q, 0; mov.f64 %i, 0f3F000000;"""
    outputs = {"d": "u32", "e": "f32", "f": "f32", "g": "s64", "h": "b16", "p": "pred", "q": "pred", "i": "f64"}
    out = run(body, {}, outputs)
    assert [out[name][0] for name in outputs] == [0xFFFFFFFF, 1.0, 1.5, -2, 0x3C00, True, False, 0.5]


def test_special_registers_in_several_widths() -> None:
    body = "mov.u32 %d, %tid.x; mov.u16 %e, %ntid.x; mov.u32 %f, %laneid; mov.b32 %g, WARP_SZ;"
    out = run(body, {}, {"d": "u32", "e": "u16", "f": "u32", "g": "u32"}, block=64)
    assert out["d"].tolist() == list(range(64))
    assert set(out["e"].tolist()) == {64}
    assert out["f"].tolist() == [*range(32), *range(32)]
    assert set(out["g"].tolist()) == {32}


def test_address_of_a_variable_and_its_generic_form() -> None:
    body = """mov.u32 %d, buf; mov.u64 %e, buf+8; cvta.shared.u64 %f, %e; cvta.to.shared.u64 %g, %f;
    isspacep.shared %p, %f; isspacep.global %q, %f; isspacep.local %s, %f;"""
    outputs = {"d": "u32", "e": "u64", "f": "u64", "g": "u64", "p": "pred", "q": "pred", "s": "pred"}
    out = run(body, {}, outputs, declarations=".shared .align 16 .b8 buf[64];")
    assert (out["e"] == out["d"].astype(np.uint64) + 8).all()
    assert (out["f"] != out["e"]).all()
    assert (out["g"] == out["e"]).all()
    assert out["p"].all()
    assert not out["q"].any()
    assert not out["s"].any()


@pytest.mark.parametrize("space", ["global", "const", "param", "local"])
def test_generic_address_goes_back(space: str) -> None:
    body = f"cvta.{space}.u64 %d, %a; cvta.to.{space}.u64 %e, %d;"
    out = run(body, {"a": np.array([64, 4096], np.uint64)}, {"d": "u64", "e": "u64"})
    assert out["e"].tolist() == [64, 4096]
    assert (out["d"].tolist() == [64, 4096]) == (space in ("global", "const"))


def test_kernel_parameter_has_a_generic_address() -> None:
    body = """mov.b64 %a, out_d; cvta.param.u64 %b, %a; ld.u64 %d, [%b]; ld.param.u64 %e, [out_d];
    isspacep.param %p, %b;"""
    out = run(body, {}, {"d": "u64", "e": "u64", "p": "pred"}, declarations=".reg .b64 %a, %b;")
    assert (out["d"] == out["e"]).all()
    assert out["p"].all()


def test_mapa_puts_the_rank_at_bit_24() -> None:
    body = """mov.u32 %b, buf; mov.u32 %own, %cluster_ctarank; xor.b32 %peer, %own, 1;
    mapa.shared::cluster.u32 %d, %b, %peer; getctarank.shared::cluster.u32 %r, %d;
    cvt.u64.u32 %g, %b; cvta.shared.u64 %g, %g; mapa.u64 %g, %g, %peer; cvta.to.shared::cluster.u64 %g, %g;
    getctarank.u64 %s, %g; mapa.shared::cluster.u32 %z, %d, 0;"""
    outputs = {"b": "u32", "own": "u32", "d": "u32", "r": "u32", "g": "u64", "s": "u32", "z": "u32"}
    out = run(
        body,
        {},
        outputs,
        declarations=".shared .b32 buf; .reg .b32 %peer;",
        block=32,
        cluster=2,
    )
    # one row block: the CTA of rank 0
    assert (out["own"] == 0).all()
    assert (out["d"] == (out["b"] | 1 << 24)).all()
    assert (out["r"] == 1).all()
    assert (out["g"] == out["d"]).all()
    assert (out["s"] == 1).all()
    assert (out["z"] == out["b"]).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mov.b64 {%d, %e, %d}, %a;", "3 parts"),
        ("mov.u64 {%d, %e}, %a;", "2 parts"),
        ("mov.u64 %a, nowhere;", "'nowhere' is not declared"),
        ("mov.u64 5, %a;", "must be a register"),
        ("mov.f32 %d, 1;", "must be a floating-point constant"),
    ],
)
def test_faults(body: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError, match=message):
        run(body, {"a": WORDS}, {"d": "b32", "e": "b32"})
