"""Tensor maps: the 128 bytes that ``cp.async.bulk.tensor`` reads, encoded by the driver.

The driver decides what it takes, not our rules: the silicon is a witness of its own. It refuses everything with one
word, so what the rules of ``spec.tensor_map`` have against the fields is told with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError
from umma_probe.gpu.driver import call
from umma_probe.spec.tensor_map import FILLS, INTERLEAVES, PROMOTIONS, SWIZZLES, TensorMapFields, tensor_map_problems

if TYPE_CHECKING:
    from umma_probe.spec.tensor_map import Im2col


@dataclass(frozen=True)
class TensorMap:
    """An encoded map; a kernel takes it by value, as a ``__grid_constant__`` parameter."""

    data: bytes

    def tobytes(self) -> bytes:
        """The 128 bytes."""
        return self.data


def encode_tensor_map(api: Any, fields: TensorMapFields) -> TensorMap:
    """Encode a map with ``cuTensorMapEncodeTiled`` or ``cuTensorMapEncodeIm2col``.

    :raises ConfigError: lists of the wrong length, a value that these bindings lack, or what the driver refuses.
    """
    _check_lengths(fields)
    im2col = fields.im2col
    function = "cuTensorMapEncodeTiled" if im2col is None else "cuTensorMapEncodeIm2col"
    shape = _box(api, fields) if im2col is None else _columns(im2col)
    steps = [api.cuuint32_t(step) for step in fields.element_strides]
    arguments = [
        _member(api.CUtensorMapDataType, "dtype", fields.dtype, fields.element.driver_code),
        fields.rank,
        fields.address,
        [api.cuuint64_t(size) for size in fields.global_dim],
        # the driver reads no stride of a map of rank 1, but refuses a null pointer
        [api.cuuint64_t(stride) for stride in fields.global_strides or (0,)],
        *shape,
        steps,
        _member(api.CUtensorMapInterleave, "interleave", fields.interleave, INTERLEAVES[fields.interleave]),
        _member(api.CUtensorMapSwizzle, "swizzle", fields.swizzle, SWIZZLES[fields.swizzle].driver_code),
        _member(api.CUtensorMapL2promotion, "l2_promotion", fields.l2_promotion, PROMOTIONS[fields.l2_promotion]),
        _member(api.CUtensorMapFloatOOBfill, "oob_fill", fields.oob_fill, FILLS[fields.oob_fill]),
    ]
    try:
        encoded = call(api, function, *arguments, doing=_title(fields))
    except ConfigError as error:
        problems = tensor_map_problems(fields)
        error.message += "".join(f"; {problem.message}" for problem in problems)
        error.ref = error.ref or (str(problems[0].ref) if problems else "")
        raise
    return TensorMap(b"".join(int(word).to_bytes(8, "little") for word in encoded.opaque))


def _box(api: Any, fields: TensorMapFields) -> list[Any]:
    return [[api.cuuint32_t(size) for size in fields.box_dim]]


def _columns(im2col: Im2col) -> list[Any]:
    return [list(im2col.lower_corner), list(im2col.upper_corner), im2col.channels_per_pixel, im2col.pixels_per_column]


def _check_lengths(fields: TensorMapFields) -> None:
    """The driver reads as many entries of each list as the rank says."""
    rank = fields.rank
    lists = [("global_strides", fields.global_strides, rank - 1), ("element_strides", fields.element_strides, rank)]
    if fields.im2col is None:
        lists.append(("box_dim", fields.box_dim, rank))
    else:
        lists += [("pixel_box_lower_corner", fields.im2col.lower_corner, rank - 2),
                  ("pixel_box_upper_corner", fields.im2col.upper_corner, rank - 2)]  # fmt: skip
    wrong = [f"{name} has {len(values)} entries, must have {count}" for name, values, count in lists
             if len(values) != count]  # fmt: skip
    if wrong:
        raise ConfigError(f"tensor map: global_dim has {rank} entries, but " + "; ".join(wrong))


def _member(enum: Any, what: str, word: str, code: int) -> Any:
    try:
        return enum(code)
    except ValueError:
        raise ConfigError(
            f"tensor map {what}: these CUDA bindings do not know {word}", hint="update cuda-bindings"
        ) from None


def _title(fields: TensorMapFields) -> str:
    what = f"box {list(fields.box_dim)}" if fields.im2col is None else "im2col"
    return f"tensor map of {fields.dtype} {list(fields.global_dim)}, {what}, swizzle {fields.swizzle}"
