"""Number formats of the tensor core's operands, accumulators and scale factors, one row each.

A row gives the structure from which decoding and encoding follow (``spec/encoding.py``). Three rules cover every row:

- Exponent field 0 means subnormal, unless the format has no fraction (UE8M0: field ``x`` is ``2^(x - 127)``, no zero).
- With Inf, the all-ones exponent holds Inf and NaN as in IEEE 754. With NaN but no Inf, the all-ones magnitude is the
  only NaN. With neither, every code is a number.
- A value sits in the low ``bits`` of its container, except TF32: it is the high 19 bits of an F32 word, and the tensor
  core clears the low 13 bits before it classifies the word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from umma_probe.registry import Registry
from umma_probe.spec.sources import Evidence, Ref, documented


@dataclass(frozen=True)
class NumberFormat:
    """One format: the widths are in bits, ``bias`` is the exponent's; integers have no exponent bits."""

    name: str
    bits: int
    exponent_bits: int
    fraction_bits: int
    bias: int
    has_inf: bool
    has_nan: bool
    signed: bool
    container_bits: int
    refs: tuple[Ref, ...]

    @property
    def is_integer(self) -> bool:
        """Two's complement or unsigned."""
        return self.exponent_bits == 0

    @property
    def has_zero(self) -> bool:
        """False for a bare exponent."""
        return self.is_integer or self.fraction_bits > 0

    @property
    def container_shift(self) -> int:
        """Bits of the container below the value."""
        return self.container_bits - self.bits if self.name == "tf32" else 0

    @property
    def exponent_limit(self) -> int:
        """The all-ones exponent field."""
        return (1 << self.exponent_bits) - 1

    @property
    def word_dtype(self) -> np.dtype[Any]:
        """The smallest unsigned NumPy type that holds one container."""
        size = next(size for size in (8, 16, 32, 64) if size >= self.container_bits)
        return np.dtype(f"u{size // 8}")

    @property
    def nan_word(self) -> int | None:
        """The container word that stands for NaN: the positive code with every magnitude bit set (F32: 0x7fffffff)."""
        if not self.has_nan:
            return None
        return ((1 << (self.exponent_bits + self.fraction_bits)) - 1) << self.container_shift


FORMATS: Registry[NumberFormat] = Registry("number format")

_FUNDAMENTAL = documented("Fundamental Types")
_ALTERNATE = documented("Alternate Floating-Point Data Formats")
_TF32_BITS = Ref("sf-tensor", "tf32 inputs", Evidence.MEASURED, "fraction bits 0-12 are cleared before classification")
_UE4M3_SIGN = Ref("sf-tensor", "mxf4nvf4 with UE4M3", Evidence.MEASURED, "the sign bit is ignored, 0x7f is NaN")


def _float(
    name: str,
    exponent_bits: int,
    fraction_bits: int,
    special: str,
    *refs: Ref,
    signed: bool = True,
    container_bits: int | None = None,
    bias: int | None = None,
) -> None:
    bits = int(signed) + exponent_bits + fraction_bits
    row = NumberFormat(
        name=name,
        bits=bits,
        exponent_bits=exponent_bits,
        fraction_bits=fraction_bits,
        bias=(1 << (exponent_bits - 1)) - 1 if bias is None else bias,
        has_inf=special == "inf+nan",
        has_nan=special != "-",
        signed=signed,
        container_bits=bits if container_bits is None else container_bits,
        refs=refs,
    )
    FORMATS.add(name, row)


def _integer(name: str, bits: int, *, signed: bool) -> None:
    FORMATS.add(name, NumberFormat(name, bits, 0, bits - signed, 0, False, False, signed, bits, (_FUNDAMENTAL,)))


#       name   exponent fraction special   refs
_float("f64", 11, 52, "inf+nan", _FUNDAMENTAL)
_float("f32", 8, 23, "inf+nan", _FUNDAMENTAL)
_float("f16", 5, 10, "inf+nan", _FUNDAMENTAL)
_float("bf16", 8, 7, "inf+nan", _ALTERNATE)
_float("tf32", 8, 10, "inf+nan", _ALTERNATE, _TF32_BITS, container_bits=32)
_float("e4m3", 4, 3, "nan", _ALTERNATE)
_float("e5m2", 5, 2, "inf+nan", _ALTERNATE)
_float("e2m3", 2, 3, "-", _ALTERNATE)
_float("e3m2", 3, 2, "-", _ALTERNATE)
_float("e2m1", 2, 1, "-", _ALTERNATE)
_float("ue8m0", 8, 0, "nan", _ALTERNATE, signed=False)
_float("ue4m3", 4, 3, "nan", _ALTERNATE, _UE4M3_SIGN, signed=False, container_bits=8)
_integer("s8", 8, signed=True)
_integer("u8", 8, signed=False)
_integer("s32", 32, signed=True)
_integer("u32", 32, signed=False)
