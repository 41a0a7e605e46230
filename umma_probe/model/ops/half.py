"""f16, bf16 and their packed forms (PTX ISA, "Half Precision Floating Point Instructions").

Rules enforced here: each result is rounded once, to nearest even; NaN is 0x7fff; ``.ftz`` (f16) flushes subnormal
inputs and results to zeros of their sign; ``.sat`` clamps to [0, 1]; ``.relu`` gives +0 for negative results and
keeps NaN; ``.oob`` gives +0 where a factor is the NaN that TMA fills with, of either sign.

Values are computed as float64, where a product of two is exact, and a sum to odd can be rounded once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.model.code.decode import alu
from umma_probe.model.numbers.rounding import bf16_words, f16_words, f32_to_odd, rectify, saturate, sum_to_odd
from umma_probe.spec.sources import Evidence, Ref, documented

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array, PtxType

Function: TypeAlias = "Callable[..., Any]"

HALF = tuple(
    documented(f"Half Precision Floating Point Instructions: {name}")
    for name in ("add", "sub", "mul", "fma", "neg", "abs")
)
OOB = Ref("silicon-h200", "fma_oob.json", Evidence.MEASURED, "a or b is 0x7ff7 or 0xfff7, whatever c is: +0")
F16 = "f16 f16x2"
BF16 = "bf16 bf16x2"
F16_TINY = 2.0**-14
"""The smallest normal f16."""
_MAGNITUDE, _OOB_NAN = np.uint16(0x7FFF), np.uint16(0x7FF7)


@dataclass(frozen=True)
class HalfFormat:
    """How the 16-bit lanes of a register are read and written."""

    type: PtxType

    @property
    def is_f16(self) -> bool:
        """f16, else bf16."""
        return self.type.name.startswith("f16")

    def lanes(self, register: Array) -> Array:
        """uint16 words, two for each packed register."""
        return np.ascontiguousarray(register).view(np.uint16)

    def register(self, words: Array) -> Array:
        """Back to the element type of the register row."""
        return words.view(self.type.dtype)

    def values(self, words: Array) -> Array:
        """f32 values of lanes, exact."""
        if self.is_f16:
            return words.view(np.float16).astype(np.float32)
        return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)

    def round(self, values: Array) -> Array:
        """Lanes of f32 or float64 values, to nearest even; NaN gives 0x7fff."""
        if self.is_f16:
            return f16_words(values)
        return bf16_words(values if values.dtype == np.float32 else f32_to_odd(values))

    def flush(self, values: Array) -> Array:
        """f16 subnormals to zeros of their sign."""
        return values * (np.abs(values) >= F16_TINY)


def lanewise(type_: PtxType, core: Function, *, ftz: bool = False, finish: Function | None = None) -> Function:
    """A function of registers from ``core``, a function of float64 lanes."""
    form = HalfFormat(type_)

    def apply(*registers: Array) -> Array:
        inputs = [form.values(form.lanes(r)).astype(np.float64) for r in registers]
        if ftz:
            inputs = [form.flush(v) for v in inputs]
        result = core(*inputs)
        if ftz:
            # as for f32: what stays below the normal numbers when rounded with an unbounded exponent
            result = result * ~(np.abs(form.values(form.round(result * 1024.0))) < F16_TINY * 1024.0)
        if finish is not None:
            result = finish(result)
        return form.register(form.round(result))

    return apply


def _fma(a: Array, b: Array, c: Array) -> Array:
    return sum_to_odd(a * b, c)


_CORES: dict[str, tuple[int, Function]] = {
    "add": (2, sum_to_odd),
    "sub": (2, lambda a, b: sum_to_odd(a, -b)),
    "mul": (2, np.multiply),
    "fma": (3, _fma),
}


def _register(opcode: str, count: int, core: Function) -> None:
    operands = ("type",) * (count + 1)
    rn = "rn" if opcode == "fma" else "{rn?}"

    def f16(ftz: bool, sat: bool, type: PtxType, rn: bool = True) -> Function:
        return lanewise(type, core, ftz=ftz, finish=saturate if sat else None)

    def bf16(type: PtxType, rn: bool = True) -> Function:
        return lanewise(type, core)

    alu(f"{opcode}.{rn}.{{ftz?}}.{{sat?}}.{{type}}", operands=operands, type=F16, refs=HALF)(f16)
    alu(f"{opcode}.{rn}.{{type}}", operands=operands, type=BF16, refs=HALF)(bf16)


for _opcode, (_count, _core) in _CORES.items():
    _register(_opcode, _count, _core)


@alu("fma.rn.{ftz?}.relu.{type}", operands="type type type type", type=F16, refs=HALF)
def fma_relu_f16(ftz: bool, type: PtxType) -> Function:
    """a * b + c, negative results to 0."""
    return lanewise(type, _fma, ftz=ftz, finish=rectify)


@alu("fma.rn.relu.{type}", operands="type type type type", type=BF16, refs=HALF)
def fma_relu_bf16(type: PtxType) -> Function:
    """a * b + c, negative results to 0."""
    return lanewise(type, _fma, finish=rectify)


@alu("fma.rn.oob.{relu?}.{type}", operands="type type type type", type=f"{F16} {BF16}", refs=(*HALF, OOB))
def fma_oob(relu: bool, type: PtxType) -> Function:
    """a * b + c, but +0 where a or b is the NaN that TMA fills with."""
    form, plain = HalfFormat(type), lanewise(type, _fma, finish=rectify if relu else None)

    def apply(a: Array, b: Array, c: Array) -> Array:
        outside = (form.lanes(a) & _MAGNITUDE == _OOB_NAN) | (form.lanes(b) & _MAGNITUDE == _OOB_NAN)
        return form.register(np.where(outside, np.uint16(0), form.lanes(plain(a, b, c))))

    return apply
