"""The tensor core's sum in Python integers, one element at a time, straight from the published rules.

A number is ``(significand, exponent, raw)``: its value is ``significand * 2^exponent``, ``raw`` the encoded exponent.
Shares nothing with the package: neither formats nor rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Number = tuple[int, int, int]

#          exponent bits, fraction bits, bias, special values
FORMATS = {
    "f32": (8, 23, 127, "ieee"),
    "f16": (5, 10, 15, "ieee"),
    "bf16": (8, 7, 127, "ieee"),
    "tf32": (8, 10, 127, "ieee"),
    "e5m2": (5, 2, 15, "ieee"),
    "e4m3": (4, 3, 7, "nan"),
    "e2m3": (2, 3, 1, ""),
    "e3m2": (3, 2, 3, ""),
    "e2m1": (2, 1, 1, ""),
}


def decode(word: int, fmt: str) -> Number | str:
    """A number, or ``"nan"``, ``"+inf"``, ``"-inf"``."""
    if fmt == "tf32":
        word >>= 13
    exponent_bits, fraction_bits, bias, special = FORMATS[fmt]
    fraction = word & ((1 << fraction_bits) - 1)
    exponent = word >> fraction_bits & ((1 << exponent_bits) - 1)
    sign = -1 if word >> (fraction_bits + exponent_bits) & 1 else 1
    if special == "ieee" and exponent == (1 << exponent_bits) - 1:
        return "nan" if fraction else ("+inf" if sign > 0 else "-inf")
    if special == "nan" and exponent == (1 << exponent_bits) - 1 and fraction == (1 << fraction_bits) - 1:
        return "nan"
    raw = (exponent or 1) - bias
    significand = fraction | (1 << fraction_bits if exponent else 0)
    return sign * significand, raw - fraction_bits, raw


def decode_scale(word: int, fmt: str) -> Number | str:
    if fmt == "ue8m0":
        return "nan" if word == 0xFF else (1, word - 127, word - 127)
    return decode(word & 0x7F, "e4m3")


def cut(significand: int, exponent: int, quantum: int) -> int:
    """Units of ``2^quantum``, toward zero."""
    shift = exponent - quantum
    if shift >= 0:
        return significand << shift
    units = abs(significand) >> -shift
    return units if significand >= 0 else -units


def add(numbers: list[tuple[int, int]]) -> tuple[int, int]:
    """The exact sum of (significand, exponent) pairs."""
    lowest = min((exponent for _, exponent in numbers), default=0)
    return sum(significand << (exponent - lowest) for significand, exponent in numbers), lowest


def to_f32(units: int, exponent: int, fraction_bits: int = 23) -> int:
    magnitude = abs(units)
    if magnitude == 0:
        return 0
    sign = 0x8000_0000 if units < 0 else 0
    leading = magnitude.bit_length() - 1 + exponent
    if leading > 127:
        return sign | 0x7F80_0000
    lowest = max(leading, -126) - fraction_bits
    kept = cut(magnitude, exponent, lowest) << (23 - fraction_bits)
    if kept == 0:
        return 0
    if leading < -126:
        return sign | kept
    return sign | (leading + 127) << 23 | (kept & 0x7F_FFFF)


def to_f16(units: int, exponent: int) -> int:
    magnitude = abs(units)
    if magnitude == 0:
        return 0
    sign = 0x8000 if units < 0 else 0
    lowest = max(magnitude.bit_length() - 1 + exponent, -14) - 10
    if exponent >= lowest:
        kept = magnitude << (exponent - lowest)
    else:
        shift = lowest - exponent
        kept, rest = magnitude >> shift, magnitude & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        kept += rest > half or (rest == half and kept & 1)
    if kept == 0:
        return 0
    # adding the significand to the exponent field carries where rounding reached the next power of two
    word = ((lowest + 10 + 14) << 10) + kept
    return sign | min(word, 0x7C00)


SPECIAL_WORDS = {
    "f32": {"nan": 0x7FFF_FFFF, "+inf": 0x7F80_0000, "-inf": 0xFF80_0000},
    "f16": {"nan": 0x7FFF, "+inf": 0x7C00, "-inf": 0xFC00},
}


def special_result(pairs: list[tuple[Any, Any]], c: Any) -> str | None:
    found = set()
    for a, b in pairs:
        if "nan" in (a, b):
            found.add("nan")
        elif isinstance(a, str) or isinstance(b, str):
            signs = []
            for x in (a, b):
                signs.append({"+inf": 1, "-inf": -1}[x] if isinstance(x, str) else (x[0] > 0) - (x[0] < 0))
            found.add({0: "nan", 1: "+inf", -1: "-inf"}[signs[0] * signs[1]])
    if isinstance(c, str):
        found.add(c)
    if "nan" in found or {"+inf", "-inf"} <= found:
        return "nan"
    return found.pop() if found else None


@dataclass
class Product:
    """A product of elements and, where there are any, scales."""

    significand: int
    exponent: int
    raw: int
    scale_raw: int


def plain(products: list[Product], c: Number, fraction_bits: int) -> tuple[int, int]:
    raws = [p.raw for p in products if p.significand] + ([c[2]] if c[0] else [])
    quantum = max(raws, default=0) - fraction_bits
    return sum(cut(p.significand, p.exponent, quantum) for p in products) + cut(c[0], c[1], quantum), quantum


def group_sums(products: list[Product], size: int) -> list[tuple[int, int]]:
    return [add([(p.significand, p.exponent) for p in products[i : i + size]]) for i in range(0, len(products), size)]


def ue4m3(products: list[Product], c: Number) -> tuple[int, int]:
    nonzero = [p for p in products if p.significand]
    if not nonzero:
        return c[0], c[1]
    largest = max(p.raw for p in nonzero)
    if c[0] and c[2] >= largest:
        quantum, size = c[2] - 35, 16
    else:
        quantum, size = max(max([largest] + ([c[2]] if c[0] else [])) - 39, max(p.scale_raw for p in nonzero) - 35), 4
    return cut(c[0], c[1], quantum) + sum(cut(*group, quantum) for group in group_sums(products, size)), quantum


def ue8m0(products: list[Product], c: Number) -> tuple[int, int]:
    nonzero = [p for p in products if p.significand]
    if not nonzero:
        return c[0], c[1]
    largest, largest_scale = max(p.raw for p in nonzero), max(p.scale_raw for p in nonzero)
    quantum = max(max([largest] + ([c[2]] if c[0] else [])) - 39, largest_scale - 35)
    total = cut(c[0], c[1], quantum)
    groups = []
    for first in range(0, len(products), 16):
        group = products[first : first + 16]
        own = [p.raw for p in group if p.significand]
        coarse = max(quantum, c[2] - 35) if own and c[0] and c[2] >= max(own) else quantum
        units = cut(*group_sums(group, 16)[0], coarse) << (coarse - quantum)
        groups.append((units, max((p.scale_raw for p in group if p.significand), default=None)))
        total += units
    subnormal = 0 < to_f32(total, quantum) & 0x7FFF_FFFF < 1 << 23
    if subnormal and not (c[0] and c[2] >= largest):
        floor = 1 << max(-174 - quantum, 0)
        total -= sum(
            units for units, scale in groups if scale is not None and scale < largest_scale and abs(units) < floor
        )
    return total, quantum


def dot(
    kind: str,
    a: list[int],
    b: list[int],
    c: int,
    *,
    a_type: str,
    b_type: str,
    d_type: str,
    scale_a: list[int] | None = None,
    scale_b: list[int] | None = None,
    scale_type: str = "",
    fraction_bits: int = 25,
    result_fraction_bits: int = 23,
) -> int:
    """The word of D. Of sparse A only the elements that are there."""
    numbers = [(decode(x, a_type), decode(y, b_type)) for x, y in zip(a, b, strict=True)]
    c_number = decode(c, d_type)
    scales: list[tuple[Any, Any]] = [((1, 0, 0), (1, 0, 0))]
    if scale_a is not None and scale_b is not None:
        scales = [
            (decode_scale(x, scale_type), decode_scale(y, scale_type)) for x, y in zip(scale_a, scale_b, strict=True)
        ]
    if any("nan" in pair for pair in scales):
        return SPECIAL_WORDS[d_type]["nan"]
    special = special_result(numbers, c_number)
    if special is not None:
        return SPECIAL_WORDS[d_type][special]
    products = []
    for k, (x, y) in enumerate(numbers):
        u, v = scales[k * len(scales) // len(numbers)]
        assert not isinstance(x, str)
        assert not isinstance(y, str)
        products.append(
            Product(x[0] * y[0] * u[0] * v[0], x[1] + y[1] + u[1] + v[1], x[2] + y[2] + u[2] + v[2], u[2] + v[2])
        )
    assert not isinstance(c_number, str)
    if kind in ("mxf4", "mxf4nvf4"):
        units, exponent = (ue4m3 if scale_type == "ue4m3" else ue8m0)(products, c_number)
    else:
        units, exponent = plain(products, c_number, fraction_bits)
    return to_f16(units, exponent) if d_type == "f16" else to_f32(units, exponent, result_fraction_bits)
