"""Against the real bindings: their enums and types exist without a driver; the encoding call itself is replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver

from umma_probe.errors import ConfigError
from umma_probe.gpu.tensor_map import encode_tensor_map
from umma_probe.spec.tensor_map import fields_from_words


class Recorder:
    def __init__(self) -> None:
        self.arguments: tuple[Any, ...] = ()
        self.status: Any = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(driver, name)

    def cuTensorMapEncodeTiled(self, *arguments: Any) -> tuple[int, SimpleNamespace]:  # noqa: N802
        self.arguments = arguments
        return self.status, SimpleNamespace(opaque=[driver.cuuint64_t(word) for word in range(16)])

    def cuTensorMapEncodeIm2col(self, *arguments: Any) -> tuple[int, SimpleNamespace]:  # noqa: N802
        return self.cuTensorMapEncodeTiled(*arguments)


def encode(api: Recorder, address: int, **words: Any) -> Any:
    return encode_tensor_map(api, fields_from_words(address, words))


FIELDS = {"global_dim": [64, 256, 8], "global_strides": [1024, 128], "box_dim": [64, 128, 1]}


def test_the_words_of_a_launch_case_reach_the_driver() -> None:
    api = Recorder()
    tensor_map = encode(
        api, 0x1000, dtype="bf16", offset=64, swizzle="128B-atom-32B-flip-8B", interleave="16B", l2_promotion="256B",
        oob_fill="nan", **FIELDS
    )  # fmt: skip
    assert tensor_map.tobytes() == b"".join(word.to_bytes(8, "little") for word in range(16))
    dtype, rank, address, dims, strides, box, steps, interleave, swizzle, promotion, fill = api.arguments
    assert dtype is driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    assert (rank, address) == (3, 0x1040)
    lists = [[int(value) for value in values] for values in (dims, strides, box, steps)]
    assert lists == [[64, 256, 8], [1024, 128], [64, 128, 1], [1, 1, 1]]
    assert interleave is driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_16B
    assert swizzle is driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B
    assert promotion is driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B
    assert fill is driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA


CONTRACT = {
    "dtype": "u8 u16 u32 s32 u64 s64 f16 f32 f64 bf16 f32_ftz tf32 tf32_ftz 16u4_align8b 16u4_align16b 16u6_align16b",
    "swizzle": "none 32B 64B 128B 128B-atom-32B 128B-atom-32B-flip-8B 128B-atom-64B",
    "interleave": "none 16B 32B",
    "oob_fill": "zero nan",
}


@pytest.mark.parametrize(("key", "word"), [(key, word) for key, words in CONTRACT.items() for word in words.split()])
def test_every_word_stands_for_a_value_of_the_driver(key: str, word: str) -> None:
    encode(Recorder(), 0, **({"dtype": "u8"} | {key: word}), **FIELDS)


IM2COL = {
    "dtype": "u16", "global_dim": [32, 9, 8, 3], "global_strides": [64, 576, 4608], "element_strides": [1, 2, 1, 1],
    "pixel_box_lower_corner": [-1, -2], "pixel_box_upper_corner": [1, 0],
    "channels_per_pixel": 16, "pixels_per_column": 24,
}  # fmt: skip


def test_an_im2col_map() -> None:
    api = Recorder()
    encode(api, 0x2000, rank=4, **IM2COL)
    dtype, rank, address, dims, strides, lower, upper, channels, pixels, steps, *modes = api.arguments
    assert dtype is driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16
    assert (rank, address, lower, upper, channels, pixels) == (4, 0x2000, [-1, -2], [1, 0], 16, 24)
    assert [int(v) for v in dims] == [32, 9, 8, 3]
    assert [int(v) for v in strides] == [64, 576, 4608]
    assert [int(v) for v in steps] == [1, 2, 1, 1]
    assert [int(mode) for mode in modes] == [0, 0, 0, 0]


def test_an_unknown_word_and_lists_that_disagree() -> None:
    with pytest.raises(ConfigError, match="unknown tensor map swizzle '128b'; did you mean 128B"):
        encode(Recorder(), 0, dtype="u8", swizzle="128b", **FIELDS)
    with pytest.raises(ConfigError, match="global_strides has 3 entries, must have 2"):
        encode(Recorder(), 0, dtype="u8", **(FIELDS | {"global_strides": [1, 2, 3]}))
    with pytest.raises(ConfigError, match="pixel_box_upper_corner has 1 entries, must have 2"):
        encode(Recorder(), 0, **(IM2COL | {"pixel_box_upper_corner": [1]}))
    with pytest.raises(ConfigError, match="tensor map: rank is 5, must be 4"):
        encode(Recorder(), 0, rank=5, **IM2COL)


def test_what_the_driver_refuses_is_explained_by_the_rules() -> None:
    api = Recorder()
    api.status = driver.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(
        ConfigError, match=r"INVALID_VALUE.*; global_strides.0. is 1023, must be a multiple of 16 bytes"
    ):
        encode(api, 0, dtype="bf16", **(FIELDS | {"global_strides": [1023, 128]}))
