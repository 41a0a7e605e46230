"""ldmatrix, stmatrix, movmatrix against the fragment layout of the ISA, written element by element."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from umma_probe.errors import DeviceError, IllegalProgram, NotModelled, PtxSyntaxError, UndefinedBehavior

REGISTERS = ".reg .b32 %x, %mine; .reg .pred %p; .shared .align 16 .b8 tile[2048];"
START = """mov.u32 %x, tile; mov.u32 %mine, %tid.x; mad.lo.u32 %mine, %mine, 16, %x;
    st.shared.v4.b32 [%mine], {%a, %b, %c, %d};"""
NAMES = "rstu"


def matrices(seed: int) -> np.ndarray:
    """(matrix, row, column): what the 32 rows of a warp hold."""
    return np.random.default_rng(seed).integers(0, 1 << 16, (4, 8, 8), np.uint16)


def rows(m: np.ndarray) -> dict[str, np.ndarray]:
    words = m.reshape(32, 8).view(np.uint32)
    return {name: words[:, i].copy() for i, name in enumerate("abcd")}


def fragment(matrix: np.ndarray) -> list[int]:
    """Lane t holds elements 2(t % 4), 2(t % 4) + 1 of row t / 4, the first in the low half."""
    return [int(matrix[t // 4, 2 * (t % 4)]) | int(matrix[t // 4, 2 * (t % 4) + 1]) << 16 for t in range(32)]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("order", ["m8n8.x{n}{t}.shared.b16", "x{n}{t}.m8n8.shared::cta.b16"])
def test_ldmatrix(count, trans, order):
    m = matrices(1)
    registers = ", ".join(f"%{name}" for name in NAMES[:count])
    form = order.format(n=count, t=trans)
    out = run(f"{START} ldmatrix.sync.aligned.{form} {{{registers}}}, [%mine];", rows(m),
              dict.fromkeys(NAMES[:count], "b32"), declarations=REGISTERS)  # fmt: skip
    for i, name in enumerate(NAMES[:count]):
        assert out[name].tolist() == fragment(m[i].T if trans else m[i])


def test_ldmatrix_of_several_warps_at_scattered_rows():
    both = np.concatenate([matrices(2), matrices(3)])
    body = START + "xor.b32 %x, %mine, 0x70; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r, %s, %t, %u}, [%x];"
    out = run(body, {k: np.concatenate([rows(both[:4])[k], rows(both[4:])[k]]) for k in "abcd"},
              dict.fromkeys(NAMES, "b32"), declarations=REGISTERS, block=64)  # fmt: skip
    for i, name in enumerate(NAMES):
        # the address bits 4 to 6 number the row of a matrix: all flipped, rows come in reverse
        assert out[name].tolist() == fragment(both[i, ::-1]) + fragment(both[4 + i, ::-1])


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix(trans):
    m = matrices(4)
    fragments = {name: np.array(fragment(m[i]), np.uint32) for i, name in enumerate("abcd")}
    body = f"""mov.u32 %x, tile; mov.u32 %mine, %tid.x; mad.lo.u32 %mine, %mine, 16, %x;
        stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%mine], {{%a, %b, %c, %d}};
        ld.shared.v4.b32 {{%r, %s, %t, %u}}, [%mine];"""
    out = run(body, fragments, dict.fromkeys(NAMES, "b32"), declarations=REGISTERS)
    stored = np.stack([out[name] for name in NAMES], axis=1).view(np.uint16).reshape(4, 8, 8)
    assert np.array_equal(stored, m.swapaxes(1, 2) if trans else m)


def test_movmatrix():
    m = matrices(5)[0]
    out = run("movmatrix.sync.aligned.m8n8.trans.b16 %r, %a;", {"a": np.array(fragment(m), np.uint32)}, {"r": "b32"})
    assert out["r"].tolist() == fragment(m.T)


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r}, [%mine+8];", DeviceError, "multiple of 16"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r}, [%mine];", PtxSyntaxError, "has 1 registers, must have 2"),
        ("setp.lt.u32 %p, %lane, 9; @%p movmatrix.sync.aligned.m8n8.trans.b16 %r, %a;", UndefinedBehavior, "9 lanes"),
    ],
)
def test_misuse(body, error, message):
    with pytest.raises(error, match=message):
        run(START + body, rows(matrices(6)), {"r": "b32"}, declarations=REGISTERS)


# ---------------------------------------------------------------------- 8-bit elements
def byte_columns(seed: int) -> np.ndarray:
    """(32 columns, 16 rows) of bytes: two 16x16 matrices, or four 16x8 ones, each column in 16 bytes."""
    return np.random.default_rng(seed).integers(0, 256, (32, 16), np.uint8)


def packed(elements: list[int]) -> int:
    return sum(element << 8 * at for at, element in enumerate(elements))


@pytest.mark.parametrize("count", [1, 2])
def test_ldmatrix_of_bytes(count):
    """Byte e of register r of lane t: row t / 4, or 8 further for the upper two; column 4 (t % 4) + 2 r + e % 2."""
    columns = byte_columns(6)
    words = columns.view(np.uint32)
    names = NAMES[: 2 * count]
    registers = ", ".join(f"%{name}" for name in names)
    body = f"{START} ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8 {{{registers}}}, [%mine];"
    out = run(body, {name: words[:, i].copy() for i, name in enumerate("abcd")}, dict.fromkeys(names, "b32"),
              declarations=REGISTERS)  # fmt: skip
    for at, name in enumerate(names):
        matrix, register = divmod(at, 2)
        expected = [
            packed(
                [
                    int(columns[16 * matrix + 4 * (t % 4) + 2 * register + e % 2, t // 4 + 8 * (e // 2)])
                    for e in range(4)
                ]
            )
            for t in range(32)
        ]
        assert out[name].tolist() == expected


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_of_bytes(count):
    """Byte e of lane t: row t / 4, or 8 further for the upper two; column 2 (t % 4) + e % 2."""
    columns = byte_columns(7)[: 8 * count]
    fragments = {
        name: np.array([packed([int(columns[8 * i + 2 * (t % 4) + e % 2, t // 4 + 8 * (e // 2)]) for e in range(4)])
                        for t in range(32)], np.uint32)
        for i, name in enumerate("abcd"[:count])
    }  # fmt: skip
    registers = ", ".join(f"%{name}" for name in fragments)
    body = f"""mov.u32 %x, tile; mov.u32 %mine, %tid.x; mad.lo.u32 %mine, %mine, 16, %x;
        mov.b32 %r, 0; st.shared.v4.b32 [%mine], {{%r, %r, %r, %r}}; bar.warp.sync -1;
        stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%mine], {{{registers}}};
        ld.shared.v4.b32 {{%r, %s, %t, %u}}, [%mine];"""
    out = run(body, fragments, dict.fromkeys(NAMES, "b32"), declarations=REGISTERS)
    stored = np.stack([out[name] for name in NAMES], axis=1).view(np.uint8).reshape(32, 16)
    assert np.array_equal(stored[: 8 * count], columns)
    assert not stored[8 * count :].any()


@pytest.mark.parametrize(
    ("form", "error", "says"),
    [
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r}, [%x];", PtxSyntaxError, "1 registers, must have 2"),
        ("ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r, %s}, [%x];", NotModelled, "trans"),
        ("ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%r, %s}, [%x];", NotModelled, "x4"),
        ("stmatrix.sync.aligned.m16n8.x1.shared.b8 [%x], {%a};", NotModelled, "trans"),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r}, [%x];", NotModelled, "m8n16"),
    ],
)
def test_forms_of_bytes_that_there_are_not(form, error, says):
    with pytest.raises(error, match=says):
        run(f"mov.u32 %x, tile; {form}", {"a": np.zeros(32, np.uint32)}, dict.fromkeys("rs", "b32"),
            declarations=REGISTERS)  # fmt: skip


def test_bytes_are_for_blackwell():
    form = "mov.u32 %x, tile; stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%x], {%a};"
    with pytest.raises(IllegalProgram, match="8-bit matrices on sm_90a"):
        run(form, {"a": np.zeros(32, np.uint32)}, {"r": "b32"}, declarations=REGISTERS, arch="sm_90a")
