"""ldmatrix, stmatrix, movmatrix against the fragment layout of the ISA, written element by element."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from umma_probe.errors import DeviceError, PtxSyntaxError, UndefinedBehavior

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
