"""Atomics against NumPy and hand-worked sequences; order-dependent results follow the order of threads."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from umma_probe.errors import PtxSyntaxError

CELL = ".global .align 16 .b8 cell[64];"
REGISTERS = ".reg .b64 %p, %old64; .reg .b32 %x, %y;"
START = "mov.u64 %p, cell;"


def final(update: str, inputs, kind: str, start: str = "0", count: int = 40):
    """The cell after every thread has run ``update``, and what each thread got in %d."""
    body = f"{START} {update} bar.sync 0; ld.global.{kind} %after, [%p];"
    if start != "0":
        body = f"{START} setp.eq.u64 %first, %row, 0; @%first st.global.{kind} [%p], {start}; bar.sync 0;" + body
    declarations = REGISTERS + ".reg .pred %first;"
    out = run(body, inputs, {"d": kind, "after": kind}, declarations=declarations, module=CELL, block=64)
    assert len(set(out["after"].tolist())) == 1
    return out["after"][0], out["d"]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", ["add", "min", "max"])
@pytest.mark.parametrize("space", ["", ".global"])
def test_integer_reductions(kind, op, space):
    signed = kind[0] == "s"
    dtype = np.dtype(f"{'i' if signed else 'u'}{int(kind[1:]) // 8}")
    values = np.random.default_rng(5).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 64, dtype)
    after, _ = final(f"atom{space}.{op}.{kind} %d, [%p], %v;", {"v": values}, kind)
    with np.errstate(all="ignore"):
        expected = {"add": values.sum(dtype=dtype), "min": min(values.min(), 0), "max": max(values.max(), 0)}[op]
    assert after == expected


def test_each_thread_gets_the_value_before_it():
    values = np.arange(64, dtype=np.uint32) * 7
    _, got = final("atom.global.add.u32 %d, [%p], %v;", {"v": values}, "u32")
    assert np.array_equal(got, np.cumsum(values) - values)


@pytest.mark.parametrize(("op", "function"), [("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)])
@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_bitwise(op, function, kind):
    dtype = np.dtype(f"u{int(kind[1:]) // 8}")
    values = np.random.default_rng(6).integers(0, np.iinfo(dtype).max, 64, dtype)
    after, _ = final(f"atom.relaxed.gpu.global.{op}.{kind} %d, [%p], %v;", {"v": values}, kind, start="0x5A5A5A5A")
    assert after == function.reduce(np.concatenate([np.array([0x5A5A5A5A], dtype), values]))


def test_inc_and_dec_wrap_at_their_bound():
    bound = {"v": np.full(64, 9, np.uint32)}
    after, got = final("atom.global.inc.u32 %d, [%p], %v;", bound, "u32")
    assert after == 64 % 10
    assert got.tolist() == [i % 10 for i in range(64)]
    after, got = final("atom.global.dec.u32 %d, [%p], %v;", bound, "u32")
    assert got[:12].tolist() == [0, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 9]
    after, got = final("atom.global.dec.u32 %d, [%p], %v;", bound, "u32", start="1000")
    assert got[:2].tolist() == [1000, 9]


def test_exchange_and_compare_and_swap():
    values = np.arange(64, dtype=np.uint32) + 100
    after, got = final("atom.global.exch.b32 %d, [%p], %v;", {"v": values}, "b32")
    assert after == 163
    assert got.tolist() == [0, *values[:-1].tolist()]
    # only the first thread finds a zero
    after, got = final("atom.global.cas.b32 %d, [%p], 0, %v;", {"v": values}, "b32")
    assert after == 100
    assert got.tolist() == [0] + [100] * 63


def test_floating_sums_are_rounded_one_by_one_in_thread_order():
    values = np.random.default_rng(7).standard_normal(64).astype(np.float32)
    after, got = final("atom.global.add.f32 %d, [%p], %v;", {"v": values}, "f32")
    sums = [np.float32(0)]
    for value in values:
        sums.append(np.float32(sums[-1] + value))
    assert after == sums[-1]
    assert np.array_equal(got, np.array(sums[:-1]))


def test_packed_halves_add_apart():
    halves = np.arange(128, dtype=np.float16).reshape(64, 2)
    after, _ = final("atom.global.add.noftz.f16x2 %d, [%p], %v;", {"v": halves.view(np.uint32)[:, 0]}, "b32")
    total = np.zeros(2, np.float16)
    for pair in halves:
        total = (total + pair).astype(np.float16)
    assert np.array_equal(np.array([after], np.uint32).view(np.float16), total)


def test_bf16_sums_round_to_nearest_even():
    # 256 + 1 is a tie between 256 and 258 in bf16: it goes to the even 256
    body = f"{START} st.global.b16 [%p], 0x4380; atom.global.add.noftz.bf16 %d, [%p], %v; ld.global.b16 %after, [%p];"
    out = run(
        body,
        {"v": np.array([0x3F80], np.uint16)},
        {"d": "b16", "after": "b16"},
        declarations=REGISTERS,
        module=CELL,
        block=1,
    )
    assert (out["d"][0], out["after"][0]) == (0x4380, 0x4380)


def test_vectors_of_floats():
    body = f"""{START} atom.global.v2.f32.add {{%d, %e}}, [%p], {{%v, %v}}; red.global.add.v2.f32 [%p], {{%v, %v}};
        bar.sync 0; ld.global.v2.f32 {{%x, %after}}, [%p];"""
    values = np.ones(32, np.float32)
    out = run(body, {"v": values}, {"d": "f32", "e": "f32", "after": "f32"}, declarations=REGISTERS, module=CELL)
    assert np.array_equal(out["d"], np.arange(32))
    assert set(out["after"].tolist()) == {64.0}


def test_shared_memory_and_128_bits():
    declarations = ".shared .align 16 .b8 tile[16]; .reg .b64 %lo, %hi; .reg .b128 %q<3>;"
    body = """mov.b128 %q0, {%row, %row}; st.shared.b128 [tile], %q0; bar.sync 0;
        mov.b128 %q1, {%v, %v}; atom.shared.exch.b128 %q2, [tile], %q1; mov.b128 {%lo, %d}, %q2;"""
    values = np.arange(4, dtype=np.uint64) + 50
    out = run(body, {"v": values}, {"d": "u64"}, declarations=declarations, block=4)
    # the last store of four threads won, then each thread finds what the one before left
    assert out["d"].tolist() == [3, 50, 51, 52]


def test_what_a_type_does_not_have_is_refused():
    with pytest.raises(PtxSyntaxError, match=r"\.b32 has and, or, xor, exch, cas"):
        run(
            f"{START} red.global.add.b32 [%p], %v;",
            {"v": np.zeros(1, np.uint32)},
            {},
            declarations=REGISTERS,
            module=CELL,
        )


def test_the_same_shared_address_is_another_place_in_another_cta() -> None:
    body = """
    mov.u32 %spot, place;
    st.shared.u32 [%spot], %a;
    atom.shared.add.u32 %old, [%spot], %b;
    ld.shared.u32 %d, [%spot];
    """
    inputs = {"a": np.arange(64, dtype=np.uint32) // 32 * 100, "b": np.full(64, 1, np.uint32)}
    declarations = ".shared .align 4 .b8 place[4];\n.reg .b32 %spot, %old;"
    outcome = run(body, inputs, {"d": "u32"}, declarations=declarations, block=32)
    np.testing.assert_array_equal(outcome["d"], np.repeat([32, 132], 32))
