"""Scalar ``cvt``: between integers, between integers and floating types, and between floating types.

Rules enforced here (PTX ISA, "Data Movement and Conversion Instructions: cvt"): the destination type comes first. A
source may lie in a wider register (its low bits count), and an integer result is extended to a wider register by its
own sign. Integers wrap without ``.sat`` and clamp with it; a floating value is always clamped to the integer's range.
NaN becomes 0, or the highest bit alone if the source is f64 or the destination has 64 bits. Rounding is mandatory
wherever a type could need it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.errors import PtxSyntaxError
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers import narrowing
from umma_probe.model.numbers.narrowing import Narrowing
from umma_probe.model.numbers.rounding import Rounding, canonical, directed, flush, sum_to_odd
from umma_probe.model.numbers.values import TYPES
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

Function: TypeAlias = "Callable[..., Any]"

CONVERT = (documented("Data Movement and Conversion Instructions: cvt"),)
INTEGERS = "u8 u16 u32 u64 s8 s16 s32 s64"
FLOATS = "f16 bf16 f32 f64"


class Integral(Enum):
    """Rounding to an integer."""

    RNI = "rni"
    RZI = "rzi"
    RMI = "rmi"
    RPI = "rpi"


_ROUND: dict[Integral, Function] = {
    Integral.RNI: np.rint,
    Integral.RZI: np.trunc,
    Integral.RMI: np.floor,
    Integral.RPI: np.ceil,
}


def conversion(pattern: str, **domains: Any) -> Callable[[Function], Function]:
    """Register a one-source ``cvt`` whose factory takes the slots and returns a function of the source's row.

    f16 and bf16 rows are uint16 words.
    """

    def decorate(factory: Function) -> Function:
        def bind(ops: Operands, dst: PtxType, src: PtxType, **slots: Any) -> Executor:
            ops.expect_count(2)
            target, source = ops.dst(0, _row_type(dst)), ops.src(1, _row_type(src))
            function = factory(dst, src, **slots)

            def run(f: Frame) -> None:
                f.regs[target][f.sel] = function(f.regs[source][f.sel])

            return run

        operation(pattern, refs=CONVERT, **domains)(bind)
        return factory

    return decorate


def _row_type(type_: PtxType) -> PtxType:
    return TYPES["b16"] if type_.name in ("f16", "bf16") else type_


# ---------------------------------------------------------------------- integer to integer
@conversion("cvt.{dst}.{src}", dst=INTEGERS, src=INTEGERS)
def integer(dst: PtxType, src: PtxType) -> Function:
    """Extend or cut."""
    return lambda a: a.astype(dst.dtype)


@conversion("cvt.sat.{dst}.{src}", dst=INTEGERS, src=INTEGERS)
def integer_saturated(dst: PtxType, src: PtxType) -> Function:
    """Clamp."""
    to, of = np.iinfo(dst.dtype), np.iinfo(src.dtype)
    low, high = src.dtype.type(max(to.min, of.min)), src.dtype.type(min(to.max, of.max))
    return lambda a: np.clip(a, low, high).astype(dst.dtype)


# ---------------------------------------------------------------------- floating to integer
@conversion("cvt.{mode}.{ftz?}.{sat?}.{dst}.{src}", mode=Integral, dst=INTEGERS, src=FLOATS)
def to_integer(dst: PtxType, src: PtxType, mode: Integral, ftz: bool, sat: bool) -> Function:
    """Round to an integer and clamp."""
    round_, read = _ROUND[mode], _reader(src, ftz=ftz)
    limits = np.iinfo(dst.dtype)
    over = float(limits.max + 1)
    largest = np.nextafter(over, 0.0)
    of_nan = 1 << (dst.bits - 1) if src.name == "f64" or dst.bits == 64 else 0
    nan = np.array(of_nan, f"u{dst.bytes}").view(dst.dtype)

    def convert(a: Array) -> Array:
        values = round_(read(a).astype(np.float64))
        inside = np.clip(values, float(limits.min), largest)
        result = np.where(values >= over, dst.dtype.type(limits.max), inside.astype(dst.dtype))
        return np.where(np.isnan(values), nan, result)

    return convert


def _reader(src: PtxType, *, ftz: bool) -> Function:
    """Row to float values."""
    if src.name == "f16":
        return lambda a: np.ascontiguousarray(a).view(np.float16).astype(np.float32)
    if src.name == "bf16":
        return lambda a: (a.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if ftz and src.name == "f32":
        return lambda a: canonical(flush(a))
    return lambda a: a


# ---------------------------------------------------------------------- integer to floating
@conversion("cvt.{mode}.{sat?}.{dst}.{src}", mode=Rounding, dst=FLOATS, src=INTEGERS)
def from_integer(dst: PtxType, src: PtxType, mode: Rounding, sat: bool) -> Function:
    """The nearest number in the direction of the mode."""
    if dst.name == "f64":
        exact: Function = _nearest_f64(mode)
    elif src.bits < 64:
        exact = _float64
    else:
        exact = _odd_f64
    finish = narrowing.to(dst.name, Narrowing(mode, sat=sat))
    return lambda a: finish(exact(a))


def _float64(a: Array) -> Array:
    return a.astype(np.float64)


def _split(a: Array) -> tuple[Array, Array]:
    """Upper and lower part of integers as float64, both exact."""
    if a.dtype.itemsize < 8:
        return a.astype(np.float64), np.zeros(len(a))
    half = a.dtype.type(32)
    return (a >> half).astype(np.float64) * 2.0**32, (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64)


def _odd_f64(a: Array) -> Array:
    return sum_to_odd(*_split(a))


def _nearest_f64(mode: Rounding) -> Function:
    if mode is Rounding.RN:
        return _float64

    def convert(a: Array) -> Array:
        high, low = _split(a)
        nearest = high + low
        # |high| >= low or high is 0, so this difference is exact
        return directed(nearest, np.sign(low - (nearest - high)), mode)

    return convert


# ---------------------------------------------------------------------- floating to floating
_WIDENINGS = {("f32", "f16"), ("f32", "bf16"), ("f64", "f16"), ("f64", "bf16"), ("f64", "f32")}
_SAME = {(name, name) for name in FLOATS.split()}
_PLAIN = {("f32", "f32"), ("f64", "f64"), ("f32", "bf16")}
"""Conversions that only move bits, those of NaN too."""


@conversion("cvt.{ftz?}.{sat?}.{dst}.{src}", dst=FLOATS, src=FLOATS)
def widen(dst: PtxType, src: PtxType, ftz: bool, sat: bool) -> Function:
    """To a wider or the same type: exact."""
    if (dst.name, src.name) not in _WIDENINGS | _SAME:
        raise PtxSyntaxError(f"cvt.{dst}.{src}: a rounding modifier is missing")
    if not ftz and not sat and (dst.name, src.name) in _PLAIN:
        return _reader(src, ftz=False)
    read = _reader(src, ftz=ftz)
    finish = narrowing.to(dst.name, Narrowing(Rounding.RN, sat=sat, ftz=ftz))
    return lambda a: finish(read(a))


@conversion("cvt.{mode}.{ftz?}.{sat?}.{dst}.{src}", mode=Integral, dst=FLOATS, src=FLOATS)
def integral(dst: PtxType, src: PtxType, mode: Integral, ftz: bool, sat: bool) -> Function:
    """Round to an integer within one type."""
    if dst is not src:
        raise PtxSyntaxError(f"cvt.{mode.value}.{dst}.{src}: rounding to an integer needs two equal types")
    round_, read = _ROUND[mode], _reader(src, ftz=ftz)
    finish = narrowing.to(dst.name, Narrowing(Rounding.RN, sat=sat))
    return lambda a: finish(round_(read(a)))


@conversion("cvt.{mode}.{ftz?}.{sat?}.{dst}.{src}", mode=Rounding, dst=FLOATS, src=FLOATS)
def narrow(dst: PtxType, src: PtxType, mode: Rounding, ftz: bool, sat: bool) -> Function:
    """To a shorter type, rounded."""
    if (dst.name, src.name) in _WIDENINGS | _SAME and dst.bits > 16:
        raise PtxSyntaxError(f"cvt.{mode.value}.{dst}.{src}: is exact and takes no rounding modifier")
    if sat and dst.name == "bf16":
        raise PtxSyntaxError(f"cvt.{mode.value}.sat.bf16.{src}: .sat does not exist for bf16")
    # an H200 flushes no input of a conversion to f16, though the document has it so
    read = _reader(src, ftz=ftz and dst.name != "f16")
    finish = narrowing.to(dst.name, Narrowing(mode, sat=sat, ftz=ftz))
    if src.name == "f64" and not sat:
        return lambda a: _keep_nan(a, finish(a), dst)
    return lambda a: finish(read(a))


def _keep_nan(values: Array, result: Array, dst: PtxType) -> Array:
    """f64 NaN keep their sign and the upper bits of their payload, as on an H200; the others are canonical."""
    bad = np.isnan(values)
    if bad.any():
        fraction_bits = FORMATS[dst.name].fraction_bits
        words = values[bad].view(np.uint64)
        quiet = np.uint64((1 << (dst.bits - 1)) - (1 << (fraction_bits - 1)))
        payload = (words >> np.uint64(52 - fraction_bits)) & np.uint64((1 << fraction_bits) - 1)
        sign = words >> np.uint64(63) << np.uint64(dst.bits - 1)
        result[bad] = (sign | quiet | payload).astype(f"u{dst.bytes}").view(result.dtype)
    return result


_CLAMPED = "cvt.{mode}.{relu?}.{satfinite?}.{dst}.{src}"


@conversion(_CLAMPED, mode={"rn": Rounding.RN, "rz": Rounding.RZ}, dst="f16 bf16", src="f32")
def narrow_clamped(dst: PtxType, src: PtxType, mode: Rounding, relu: bool, satfinite: bool) -> Function:
    """To a 16-bit type with ``.relu`` or ``.satfinite``."""
    return narrowing.to(dst.name, Narrowing(mode, relu=relu, satfinite=satfinite))


@conversion(_CLAMPED, mode={"rn": Rounding.RN, "rz": Rounding.RZ}, dst="tf32", src="f32")
def to_tf32(dst: PtxType, src: PtxType, mode: Rounding, relu: bool, satfinite: bool) -> Function:
    """To tf32."""
    return narrowing.to("tf32", Narrowing(mode, relu=relu, satfinite=satfinite))


@conversion("cvt.rna.{satfinite?}.{dst}.{src}", dst="tf32", src="f32")
def to_tf32_away(dst: PtxType, src: PtxType, satfinite: bool) -> Function:
    """To tf32, ties away from zero."""
    return narrowing.to("tf32", Narrowing(None, satfinite=satfinite))
