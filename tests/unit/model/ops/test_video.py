"""Scalar video instructions against the PTX ISA's semantics in Python integers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from harness import run

from umma_probe.errors import PtxSyntaxError

EDGES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678, 31, 32, 33]
PAIRS = np.array(list(itertools.product(EDGES, EDGES)), np.uint32)
C = np.random.default_rng(5).integers(0, 1 << 32, len(PAIRS), dtype=np.uint64).astype(np.uint32)
C[: len(EDGES)] = EDGES
PART_BITS = {"": (0, 32), **{f"b{i}": (8 * i, 8) for i in range(4)}, **{f"h{i}": (16 * i, 16) for i in range(2)}}


def extended(word: int, part: str, signed: bool) -> int:
    first, bits = PART_BITS[part]
    value = word >> first & (1 << bits) - 1
    return value - (1 << bits) if signed and value >> bits - 1 else value


def clamp(value: int, bits: int, signed: bool) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return max(low, min(high, value))


def reference(text: str, a: int, b: int, c: int, parts: tuple[str, str, str]) -> int:
    """``vop.dtype.atype.btype ...`` on three words; ``parts`` of d, a and b."""
    name, *words = text.split(".")
    types = [word for word in words if word in ("u32", "s32")]
    if name == "vset":
        types = ["u32", *types]
    d_signed, a_signed, b_signed = (type_ == "s32" for type_ in types)
    x, y = extended(a, parts[1], a_signed), extended(b, parts[2], b_signed)
    distance = min(y, 32) if "clamp" in words else y % 32
    order = {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y, "ne": x != y}
    value = {
        "vadd": lambda: x + y, "vsub": lambda: x - y, "vabsdiff": lambda: abs(x - y), "vmin": lambda: min(x, y),
        "vmax": lambda: max(x, y), "vshl": lambda: x << distance, "vshr": lambda: x >> distance,
        "vset": lambda: int(next(order[word] for word in words if word in order)),
    }[name]()  # fmt: skip
    first, bits = PART_BITS[parts[0]]
    if "sat" in words:
        value = clamp(value, bits, d_signed)
    if bits != 32:
        return c & ~((1 << bits) - 1 << first) | (value & (1 << bits) - 1) << first
    wrapped = (value + (1 << 32)) % (1 << 33) - (1 << 32)
    third = extended(c, "", d_signed)
    # the second operation is the last word, if any
    result = {"add": wrapped + third, "min": min(wrapped, third), "max": max(wrapped, third)}.get(words[-1], value)
    return result & 0xFFFFFFFF


TYPES = ["u32.u32.u32", "s32.s32.s32", "s32.u32.s32", "u32.s32.u32"]
FORMS = [
    *[(f"{name}.{types}{end}", ("", "", "")) for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax") for types in TYPES
      for end in ("", ".sat", ".add", ".sat.min", ".max")],
    *[(f"{name}.{types}.{mode}", ("", "", "")) for name in ("vshl", "vshr")
      for types in ("u32.u32.u32", "s32.s32.u32", "u32.s32.u32") for mode in ("clamp", "wrap", "sat.clamp")],
    *[(f"vset.{types}.{order}", ("", "", "")) for types in ("u32.s32", "s32.s32", "u32.u32")
      for order in ("lt", "le", "gt", "ge", "eq", "ne", "lt.add")],
    ("vadd.s32.u32.s32.sat", ("", "b0", "h0")),
    ("vsub.s32.s32.u32.sat", ("", "h1", "h1")),
    ("vabsdiff.s32.s32.s32.sat", ("h0", "b0", "b2")),
    ("vabsdiff.u32.u32.u32", ("b3", "b1", "b3")),
    ("vadd.s32.s32.s32.sat", ("b1", "", "")),
    ("vshr.u32.u32.u32.wrap", ("", "", "h1")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "parts"), FORMS, ids=lambda value: ".".join(value) if isinstance(value, tuple) else value
)
def test_scalar(text: str, parts: tuple[str, str, str]) -> None:
    d, a, b = (f"%{name}.{part}" if part else f"%{name}" for name, part in zip("dab", parts, strict=True))
    third = ", %c" if parts[0] or text.split(".")[-1] in ("add", "min", "max") else ""
    ran = run(f"{text} {d}, {a}, {b}{third};", {"a": PAIRS[:, 0], "b": PAIRS[:, 1], "c": C}, {"d": "u32"})
    expected = [reference(text, int(x), int(y), int(z), parts) for (x, y), z in zip(PAIRS, C, strict=True)]
    assert ran["d"].tolist() == expected


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize(("end", "shift"), [("", 0), (".sat", 0), (".sat.shr7", 7), (".shr15", 15), (".po", 0)])
def test_vmad(types: str, end: str, shift: int) -> None:
    ran = run(f"vmad.{types}{end} %d, %a, %b, %c;", {"a": PAIRS[:, 0], "b": PAIRS[:, 1], "c": C}, {"d": "u32"})
    _, a_signed, b_signed = (type_ == "s32" for type_ in types.split("."))
    signed = a_signed or b_signed
    for (x, y), z, d in zip(PAIRS.tolist(), C.tolist(), ran["d"].tolist(), strict=True):
        value = extended(x, "", a_signed) * extended(y, "", b_signed) + extended(z, "", signed) + ("po" in end) >> shift
        assert d == (clamp(value, 32, signed) if "sat" in end else value) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("vadd.s32.s32.s32.add %d.b0, %a, %a, %a;", "a second operation and a part"),
        ("vadd.s32.s32.s32 %d.b0, %a, %a;", "has 3 operands, must have 4"),
        ("vadd.s32.s32.s32 %d, %a.x, %a;", "part .x, must be one of b0"),
    ],
)
def test_what_is_refused(body: str, text: str) -> None:
    with pytest.raises(PtxSyntaxError, match=text):
        run(body, {"a": np.zeros(32, np.uint32)}, {"d": "u32"})
