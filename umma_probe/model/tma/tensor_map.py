"""The 128 bytes of a tensor map on the model.

NVIDIA's bit layout is not public, so the model has its own: :data:`TENSOR_MAP_WORD`, one little-endian word of 1024
bits. It holds each field in a place of its own, so a map may be copied byte by byte through any memory, and
``tensormap.replace`` changes one field and nothing else. Counts are stored as they are, not less one: a map that was
built on the device and lacks a field is found out. Nothing but the model reads these bytes; a map that the CUDA driver
encoded has no tag and is refused with that reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from umma_probe.bits import BitField, BitLayout
from umma_probe.errors import ConfigError, DeviceError, NotModelled, UndefinedBehavior
from umma_probe.spec.tensor_map import (
    ELEMENTS,
    FILLS,
    INTERLEAVES,
    MAX_RANK,
    PROMOTIONS,
    SWIZZLE_REF,
    SWIZZLES,
    TENSOR_MAP,
    TENSOR_MAP_BYTES,
    Im2col,
    TensorMapFields,
    im2col_fields,
    tensor_map_problems,
    tiled_fields,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TAG = 0x754D
"""Set by every encoder and by ``tensormap.replace``: these bytes are a map of the model."""


def _per_axis(name: str, low: int, width: int, step: int, count: int) -> list[BitField]:
    return [BitField(f"{name}{axis}", low + axis * step, width) for axis in range(count)]


TENSOR_MAP_WORD = BitLayout(
    "tensor map of the model",
    TENSOR_MAP_BYTES * 8,
    (
        BitField("address", 0, 64),
        BitField("tag", 64, 16),
        BitField("rank", 80, 3),  # less one
        BitField("elemtype", 83, 4),  # PTX code
        BitField("interleave_layout", 87, 2),
        BitField("swizzle_mode", 89, 3),
        BitField("swizzle_atomicity", 92, 2),
        BitField("fill_mode", 94, 1),
        BitField("l2_promotion", 95, 2),
        BitField("im2col", 97, 1),
        *_per_axis("global_dim", 128, 33, 64, MAX_RANK),
        *_per_axis("box_dim", 161, 9, 64, MAX_RANK),
        *_per_axis("element_stride", 170, 4, 64, MAX_RANK),
        *_per_axis("global_stride", 448, 64, 64, MAX_RANK - 1),
        *_per_axis("lower_corner", 704, 16, 16, MAX_RANK - 2),
        *_per_axis("upper_corner", 752, 16, 16, MAX_RANK - 2),
        BitField("channels_per_pixel", 800, 9),
        BitField("pixels_per_column", 809, 11),
    ),
)
_ELEMENT_OF_CODE = {element.ptx_code: element.name for element in ELEMENTS.values()}
_SWIZZLE_OF_CODES = {(row.mode_code, row.atomicity_code): row.name for row in SWIZZLES.values()}
_SWIZZLE_96B = 4


@dataclass(frozen=True)
class TensorMap:
    """An encoded map; a kernel takes it by value, as a ``__grid_constant__`` parameter."""

    data: bytes

    def tobytes(self) -> bytes:
        """The 128 bytes."""
        return self.data


# ---------------------------------------------------------------------- fields to bytes and back
def encode_tiled(address: int, **words: Any) -> TensorMap:
    """A tiled map, as ``cuTensorMapEncodeTiled`` makes it; words of ``tiled_fields``.

    :raises ConfigError: an unknown word, or what the driver would refuse; all faults at once.
    """
    return encode_tensor_map(tiled_fields(address, **words))


def encode_im2col(address: int, **words: Any) -> TensorMap:
    """An im2col map, as ``cuTensorMapEncodeIm2col`` makes it; words of ``im2col_fields``.

    :raises ConfigError: an unknown word, or what the driver would refuse; all faults at once.
    """
    return encode_tensor_map(im2col_fields(address, **words))


def encode_tensor_map(fields: TensorMapFields) -> TensorMap:
    """The 128 bytes.

    :raises ConfigError: the fields break a rule of the driver.
    """
    problems = tensor_map_problems(fields)
    if problems:
        raise ConfigError(
            f"tensor map of {fields.dtype} {list(fields.global_dim)}: " + "; ".join(p.message for p in problems),
            ref=str(problems[0].ref),
        )
    swizzle = SWIZZLES[fields.swizzle]
    values = {
        "address": fields.address,
        "tag": TAG,
        "rank": fields.rank - 1,
        "elemtype": fields.element.ptx_code,
        "interleave_layout": INTERLEAVES[fields.interleave],
        "swizzle_mode": swizzle.mode_code,
        "swizzle_atomicity": swizzle.atomicity_code,
        "fill_mode": FILLS[fields.oob_fill],
        "l2_promotion": PROMOTIONS[fields.l2_promotion],
        **_axes("global_dim", fields.global_dim),
        **_axes("box_dim", fields.box_dim),
        **_axes("element_stride", fields.element_strides),
        **_axes("global_stride", fields.global_strides),
    }
    if fields.im2col is not None:
        values |= {
            "im2col": 1,
            **_axes("lower_corner", [value & 0xFFFF for value in fields.im2col.lower_corner]),
            **_axes("upper_corner", [value & 0xFFFF for value in fields.im2col.upper_corner]),
            "channels_per_pixel": fields.im2col.channels_per_pixel,
            "pixels_per_column": fields.im2col.pixels_per_column,
        }
    return TensorMap(TENSOR_MAP_WORD.encode(values).to_bytes(TENSOR_MAP_BYTES, "little"))


def _axes(name: str, values: Sequence[int]) -> dict[str, int]:
    return {f"{name}{axis}": value for axis, value in enumerate(values)}


@lru_cache(maxsize=1024)
def decode_tensor_map(data: bytes) -> TensorMapFields:
    """The fields of 128 bytes, checked: a map that was changed on the device may break any rule.

    :raises DeviceError: these bytes are no tensor map.
    :raises NotModelled: the 96-byte swizzle.
    :raises UndefinedBehavior: the fields break a rule of the driver.
    """
    raw = TENSOR_MAP_WORD.decode(int.from_bytes(data, "little"))
    if raw["tag"] != TAG:
        raise DeviceError(
            "these 128 bytes are no tensor map",
            hint="encode it for this device, or write every field with tensormap.replace after zeroing the 128 bytes",
            ref=str(TENSOR_MAP),
        )
    rank = raw["rank"] + 1
    if raw["swizzle_mode"] == _SWIZZLE_96B:
        raise NotModelled(
            "tensor map: swizzle mode 4, 96 bytes",
            hint="how far apart rows of up to 96 bytes lie is not documented; the driver's encoder lacks the mode",
            ref=str(SWIZZLE_REF),
        )
    swizzle = _SWIZZLE_OF_CODES.get((raw["swizzle_mode"], raw["swizzle_atomicity"]))
    interleave = _name_of(INTERLEAVES, raw["interleave_layout"])
    if swizzle is None or interleave is None or rank > MAX_RANK:
        raise UndefinedBehavior(
            f"tensor map: rank {rank}, interleave code {raw['interleave_layout']}, swizzle mode code "
            f"{raw['swizzle_mode']} with atomicity code {raw['swizzle_atomicity']} mean nothing",
            ref=str(TENSOR_MAP),
        )
    fields = TensorMapFields(
        _ELEMENT_OF_CODE[raw["elemtype"]],
        raw["address"],
        _values(raw, "global_dim", rank),
        _values(raw, "global_stride", rank - 1),
        () if raw["im2col"] else _values(raw, "box_dim", rank),
        _values(raw, "element_stride", rank),
        interleave,
        swizzle,
        _name_of(PROMOTIONS, raw["l2_promotion"]) or "none",
        _name_of(FILLS, raw["fill_mode"]) or "zero",
        _decode_im2col(raw, rank) if raw["im2col"] else None,
    )
    problems = tensor_map_problems(fields)
    if problems:
        raise UndefinedBehavior(
            "tensor map: " + "; ".join(problem.message for problem in problems),
            hint="a map that tensormap.replace changed needs every field right before it is used",
            ref=str(problems[0].ref),
        )
    return fields


def _name_of(codes: Mapping[str, int], code: int) -> str | None:
    return next((name for name, value in codes.items() if value == code), None)


def _values(raw: Mapping[str, int], name: str, count: int) -> tuple[int, ...]:
    return tuple(raw[f"{name}{axis}"] for axis in range(count))


def _decode_im2col(raw: Mapping[str, int], rank: int) -> Im2col:
    lower, upper = (
        tuple((value ^ 0x8000) - 0x8000 for value in _values(raw, name, rank - 2))
        for name in ("lower_corner", "upper_corner")
    )
    return Im2col(lower, upper, raw["channels_per_pixel"], raw["pixels_per_column"])


def replace_field(data: bytes, name: str, value: int) -> bytes:
    """``tensormap.replace`` on one field: the bytes with it changed.

    :param name: a field of :data:`TENSOR_MAP_WORD`.
    :raises ConfigError: the value does not fit the field.
    """
    word = TENSOR_MAP_WORD["tag"].put(int.from_bytes(data, "little"), TAG)
    return TENSOR_MAP_WORD[name].put(word, value).to_bytes(TENSOR_MAP_BYTES, "little")
