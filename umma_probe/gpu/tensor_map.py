"""Tensor maps: the 128 bytes that ``cp.async.bulk.tensor`` reads, encoded by the driver.

The words are those of a launch case; each stands for one value of the driver's enums ("Tensor Map Object Management",
CUDA driver API). Dimensions go fastest first, as the driver wants them, and the fastest has no stride.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError, unknown_name
from umma_probe.gpu.driver import call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DTYPES = {
    "u8": "UINT8",
    "u16": "UINT16",
    "u32": "UINT32",
    "s32": "INT32",
    "u64": "UINT64",
    "s64": "INT64",
    "f16": "FLOAT16",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
    "bf16": "BFLOAT16",
    "f32_ftz": "FLOAT32_FTZ",
    "tf32": "TFLOAT32",
    "tf32_ftz": "TFLOAT32_FTZ",
    "16u4_align8b": "16U4_ALIGN8B",
    "16u4_align16b": "16U4_ALIGN16B",
    "16u6_align16b": "16U6_ALIGN16B",
}
_SWIZZLES = {
    "none": "NONE",
    "32B": "32B",
    "64B": "64B",
    "128B": "128B",
    "128B-atom-32B": "128B_ATOM_32B",
    "128B-atom-32B-flip-8B": "128B_ATOM_32B_FLIP_8B",
    "128B-atom-64B": "128B_ATOM_64B",
}
_INTERLEAVES = {"none": "NONE", "16B": "16B", "32B": "32B"}
_PROMOTIONS = {"none": "NONE", "64B": "L2_64B", "128B": "L2_128B", "256B": "L2_256B"}
_FILLS = {"zero": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"}


@dataclass(frozen=True)
class TensorMap:
    """An encoded map; a kernel takes it by value, as a ``__grid_constant__`` parameter."""

    data: bytes

    def tobytes(self) -> bytes:
        """The 128 bytes."""
        return self.data


def encode_tiled(
    api: Any,
    address: int,
    *,
    dtype: str,
    global_dim: Sequence[int],
    global_strides: Sequence[int],
    box_dim: Sequence[int],
    element_strides: Sequence[int] | None = None,
    offset: int = 0,
    interleave: str = "none",
    swizzle: str = "none",
    l2_promotion: str = "none",
    oob_fill: str = "zero",
) -> TensorMap:
    """Encode a tiled map with ``cuTensorMapEncodeTiled``.

    :param address: of the buffer; ``offset`` bytes are added.
    :param global_dim: elements in each dimension, fastest first; their number is the rank, 1 to 5.
    :param global_strides: bytes between neighbours in each dimension but the fastest.
    :param box_dim: elements of one copy.
    :param element_strides: 1 in each dimension by default.
    :raises ConfigError: an unknown word, lists of unequal length, or values that the driver refuses.
    """
    rank = len(global_dim)
    steps = [1] * rank if element_strides is None else list(element_strides)
    if not (len(box_dim) == len(steps) == rank == len(global_strides) + 1):
        raise ConfigError(
            f"tensor map: global_dim, box_dim and element_strides have {rank}, {len(box_dim)} and {len(steps)} "
            f"entries, must be equal; global_strides has {len(global_strides)}, must be one fewer"
        )
    encoded = call(
        api,
        "cuTensorMapEncodeTiled",
        _member(api.CUtensorMapDataType, "CU_TENSOR_MAP_DATA_TYPE", _DTYPES, "dtype", dtype),
        rank,
        address + offset,
        [api.cuuint64_t(size) for size in global_dim],
        # the driver reads no stride of a map of rank 1, but refuses a null pointer
        [api.cuuint64_t(stride) for stride in global_strides or (0,)],
        [api.cuuint32_t(size) for size in box_dim],
        [api.cuuint32_t(step) for step in steps],
        _member(api.CUtensorMapInterleave, "CU_TENSOR_MAP_INTERLEAVE", _INTERLEAVES, "interleave", interleave),
        _member(api.CUtensorMapSwizzle, "CU_TENSOR_MAP_SWIZZLE", _SWIZZLES, "swizzle", swizzle),
        _member(api.CUtensorMapL2promotion, "CU_TENSOR_MAP_L2_PROMOTION", _PROMOTIONS, "l2_promotion", l2_promotion),
        _member(api.CUtensorMapFloatOOBfill, "CU_TENSOR_MAP_FLOAT_OOB_FILL", _FILLS, "oob_fill", oob_fill),
        doing=f"tensor map of {dtype} {list(global_dim)}, box {list(box_dim)}, swizzle {swizzle}",
    )
    return TensorMap(b"".join(int(word).to_bytes(8, "little") for word in encoded.opaque))


def _member(enum: Any, prefix: str, words: Mapping[str, str], what: str, word: str) -> Any:
    if word not in words:
        raise ConfigError(unknown_name(f"tensor map {what}", word, words))
    name = f"{prefix}_{words[word]}"
    try:
        return getattr(enum, name)
    except AttributeError:
        raise ConfigError(f"tensor map {what}: these CUDA bindings have no {name}; update cuda-python") from None
