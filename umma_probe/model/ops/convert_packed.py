"""``cvt`` to and from packed types, and ``cvt.pack`` (PTX ISA, "cvt", "cvt.pack").

Rules enforced here: with two sources a, b the first goes to the upper half of the result. The 8-, 6- and 4-bit types
demand ``.satfinite`` (UE8M0 may go without), hold one value a byte (e2m1x2: a nibble), and are read back exactly into
f16x2 or bf16x2, where ``.satfinite`` (bf16x2 only) makes Inf the largest number. Narrow registers (.b8) hold e2m1x2.
``.scaled::n2::ue8m0`` is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.errors import PtxSyntaxError
from umma_probe.model.code.decode import alu, operation
from umma_probe.model.numbers import narrowing
from umma_probe.model.numbers.narrowing import Narrowing
from umma_probe.model.numbers.rounding import Rounding
from umma_probe.model.numbers.values import TYPES
from umma_probe.spec.encoding import decode_to_float64
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

Function: TypeAlias = "Callable[..., Any]"

CONVERT = (documented("Data Movement and Conversion Instructions: cvt"),)
PACK = (documented("Data Movement and Conversion Instructions: cvt.pack"),)
SMALL = "e4m3x2 e5m2x2 e2m3x2 e3m2x2 e2m1x2"
NEAREST_OR_ZERO = {"rn": Rounding.RN, "rz": Rounding.RZ}
ZERO_OR_UP = {"rz": Rounding.RZ, "rp": Rounding.RP}


def _element(type_: PtxType) -> str:
    return type_.name.removesuffix("x2")


def _half_bits(type_: PtxType) -> int:
    return type_.bits // 2


def _join(upper: Array, lower: Array, type_: PtxType) -> Any:
    """Two codes as one packed word."""
    word = type_.dtype.type
    return (upper.astype(type_.dtype) << word(_half_bits(type_))) | lower.astype(type_.dtype)


# ---------------------------------------------------------------------- two f32
def _from_two(dst: PtxType, how: Narrowing) -> Function:
    convert = narrowing.to(_element(dst), how)
    return lambda a, b: _join(convert(a), convert(b), dst)


@alu(
    "cvt.{mode}.{relu?}.{satfinite?}.{dst}.{src}",
    operands="dst src src",
    mode=NEAREST_OR_ZERO,
    dst="f16x2 bf16x2",
    src="f32",
    refs=CONVERT,
)
def to_halves(mode: Rounding, relu: bool, satfinite: bool, dst: PtxType, src: PtxType) -> Function:
    """Two f32 to f16x2 or bf16x2."""
    return _from_two(dst, Narrowing(mode, relu=relu, satfinite=satfinite))


@alu("cvt.rn.satfinite.{relu?}.{dst}.{src}", operands="dst src src", dst=SMALL, src="f32", refs=CONVERT)
def to_small(relu: bool, dst: PtxType, src: PtxType) -> Function:
    """Two f32 to an 8-, 6- or 4-bit type."""
    return _from_two(dst, Narrowing(relu=relu, satfinite=True))


@alu("cvt.{mode}.{satfinite?}.{dst}.{src}", operands="dst src src", mode=ZERO_OR_UP, dst="ue8m0x2", src="f32",
     refs=CONVERT)  # fmt: skip
def to_scales(mode: Rounding, satfinite: bool, dst: PtxType, src: PtxType) -> Function:
    """Two f32 to UE8M0."""
    return _from_two(dst, Narrowing(mode, satfinite=satfinite))


# ---------------------------------------------------------------------- packed halves
def _halves(words: Array) -> tuple[Array, Array]:
    """(upper, lower) 16-bit words."""
    return (words >> np.uint32(16)).astype(np.uint16), words.astype(np.uint16)


def _from_packed(dst: PtxType, read: Function, how: Narrowing) -> Function:
    convert = narrowing.to(_element(dst), how)

    def apply(words: Array) -> Any:
        upper, lower = _halves(words)
        return _join(convert(read(upper)), convert(read(lower)), dst)

    return apply


def _read_f16(words: Array) -> Array:
    return words.view(np.float16).astype(np.float32)


def _read_bf16(words: Array) -> Array:
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)


@alu("cvt.rn.satfinite.{relu?}.{dst}.{src}", operands="dst src", dst=SMALL, src="f16x2 bf16x2", refs=CONVERT)
def halves_to_small(relu: bool, dst: PtxType, src: PtxType) -> Function:
    """f16x2 or bf16x2 to an 8-, 6- or 4-bit type."""
    read = _read_f16 if _element(src) == "f16" else _read_bf16
    return _from_packed(dst, read, Narrowing(relu=relu, satfinite=True))


@alu("cvt.{mode}.{satfinite?}.{dst}.{src}", operands="dst src", mode=ZERO_OR_UP, dst="ue8m0x2", src="bf16x2",
     refs=CONVERT)  # fmt: skip
def bf16_to_scales(mode: Rounding, satfinite: bool, dst: PtxType, src: PtxType) -> Function:
    """bf16x2 to UE8M0."""
    return _from_packed(dst, _read_bf16, Narrowing(mode, satfinite=satfinite))


# ---------------------------------------------------------------------- back
def _decode_table(src: PtxType, dst: str, how: Narrowing) -> Array:
    """16-bit words of every code of a format."""
    words: Array = narrowing.to(dst, how)(decode_to_float64(np.arange(256), _element(src)).astype(np.float32))
    return words


def _unpack(src: PtxType, table: Array) -> Function:
    bits = _half_bits(src)
    mask = src.dtype.type((1 << bits) - 1)

    def apply(words: Array) -> Any:
        upper, lower = table[words >> src.dtype.type(bits)], table[words & mask]
        return (upper.astype(np.uint32) << np.uint32(16)) | lower

    return apply


@alu("cvt.rn.{relu?}.{dst}.{src}", operands="dst src", dst="f16x2", src=SMALL, refs=CONVERT)
def small_to_f16(relu: bool, dst: PtxType, src: PtxType) -> Function:
    """An 8-, 6- or 4-bit type to f16x2."""
    return _unpack(src, _decode_table(src, "f16", Narrowing(relu=relu)))


@alu("cvt.rn.{relu?}.{satfinite?}.{dst}.{src}", operands="dst src", dst="bf16x2", src=SMALL, refs=CONVERT)
def small_to_bf16(relu: bool, satfinite: bool, dst: PtxType, src: PtxType) -> Function:
    """An 8-, 6- or 4-bit type to bf16x2."""
    return _unpack(src, _decode_table(src, "bf16", Narrowing(relu=relu, satfinite=satfinite)))


@alu("cvt.rn.{dst}.{src}", operands="dst src", dst="bf16x2", src="ue8m0x2", refs=CONVERT)
def from_scales(dst: PtxType, src: PtxType) -> Function:
    """UE8M0 to bf16x2."""
    return _unpack(src, _decode_table(src, "bf16", Narrowing()))


# ---------------------------------------------------------------------- cvt.pack
_PACKED_BITS = {"u16": 16, "s16": 16, "u8": 8, "s8": 8, "u4": 4, "s4": 4, "u2": 2, "s2": 2}


@operation("cvt.pack.sat.{kind}.s32.{accumulate?}", kind=tuple(_PACKED_BITS), accumulate=("b32",), refs=PACK)
def pack(ops: Operands, kind: str, accumulate: str | None) -> Executor:
    """Clamp a and b, put them side by side (a above b), and shift c up to make room."""
    bits = _PACKED_BITS[kind]
    if (accumulate is None) != (bits == 16):
        raise PtxSyntaxError(f"{ops.instruction.text}: 16-bit results take two sources, shorter ones three and .b32")
    ops.expect_count(3 if accumulate is None else 4)
    s32, u32 = TYPES["s32"], TYPES["u32"]
    target, a, b = ops.dst(0, u32), ops.src(1, s32), ops.src(2, s32)
    c = None if accumulate is None else ops.src(3, u32)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    mask, shift = np.uint32((1 << bits) - 1), np.uint32(bits)

    def run(f: Frame) -> None:
        r, s = f.regs, f.sel
        upper, lower = (np.clip(r[i][s], low, high).astype(np.uint32) & mask for i in (a, b))
        word = (upper << shift) | lower
        if c is not None:
            word |= r[c][s] << (shift + shift)
        r[target][s] = word

    return run
