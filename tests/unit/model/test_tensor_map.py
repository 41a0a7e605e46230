"""The model's tensor maps: every field survives, the driver's rules are held, bytes that are no map are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.errors import ConfigError, DeviceError, NotModelled, UndefinedBehavior
from umma_probe.model.tma.tensor_map import (
    decode_tensor_map,
    encode_im2col,
    encode_tensor_map,
    encode_tiled,
    replace_field,
)
from umma_probe.spec.tensor_map import ELEMENTS, SWIZZLES, Im2col, TensorMapFields

TILED: dict[str, Any] = {"dtype": "bf16", "global_dim": [256, 128, 8], "global_strides": [512, 65536],
                         "box_dim": [64, 128, 1]}  # fmt: skip
IM2COL: dict[str, Any] = {
    "dtype": "f16", "global_dim": [64, 14, 9, 2], "global_strides": [128, 1792, 16128], "channels_per_pixel": 32,
    "pixels_per_column": 64, "pixel_box_lower_corner": [-1, -2], "pixel_box_upper_corner": [-1, 1],
}  # fmt: skip


def test_a_tiled_map_has_128_bytes_and_all_its_fields() -> None:
    words = {"swizzle": "128B-atom-32B", "l2_promotion": "256B", "oob_fill": "nan", "element_strides": [1, 2, 8]}
    data = encode_tiled(0x10_0000_1000, offset=32, **TILED, **words).tobytes()
    assert len(data) == 128
    assert decode_tensor_map(data) == TensorMapFields(
        "bf16", 0x10_0000_1020, (256, 128, 8), (512, 65536), (64, 128, 1), (1, 2, 8), "none", "128B-atom-32B", "256B",
        "nan",
    )  # fmt: skip


def test_an_im2col_map_keeps_signed_corners() -> None:
    fields = decode_tensor_map(encode_im2col(4096, **IM2COL).data)
    assert fields.im2col == Im2col((-1, -2), (-1, 1), 32, 64)
    assert fields.box_dim == ()
    assert fields.element_strides == (1, 1, 1, 1)


def _legal_fields() -> st.SearchStrategy[TensorMapFields]:
    @st.composite
    def build(draw: st.DrawFn) -> TensorMapFields:
        rank = draw(st.integers(1, 5))
        dtype = draw(st.sampled_from([name for name in ELEMENTS if not ELEMENTS[name].packed]))
        step = max(1, 16 // (ELEMENTS[dtype].bits // 8))
        return TensorMapFields(
            dtype,
            draw(st.integers(0, 2**44)) * 16,
            tuple(draw(st.integers(1, 2**32)) for _ in range(rank)),
            tuple(draw(st.integers(0, 2**36 - 1)) * 16 for _ in range(rank - 1)),
            (step, *(draw(st.integers(1, 256)) for _ in range(rank - 1))),
            tuple(draw(st.integers(1, 8)) for _ in range(rank)),
            swizzle=draw(st.sampled_from(list(SWIZZLES))),
            l2_promotion=draw(st.sampled_from(["none", "64B", "128B", "256B"])),
            oob_fill=draw(st.sampled_from(["zero", "nan"])) if ELEMENTS[dtype].floating else "zero",
        )

    return build()


@settings(max_examples=60, derandomize=True, deadline=None)
@given(_legal_fields())
def test_encoding_loses_nothing(fields: TensorMapFields) -> None:
    assert decode_tensor_map(encode_tensor_map(fields).data) == fields


# driver API, "Tensor Map Object Management": each rule with a value that breaks it
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"global_dim": [], "global_strides": [], "box_dim": []}, "rank is 0"),
        ({"global_dim": [8] * 6, "global_strides": [16] * 5, "box_dim": [8] * 6}, "rank is 6, must be 1 to 5"),
        ({"global_dim": [64, 64], "global_strides": [128], "box_dim": [8, 8], "interleave": "16B"},
         "rank is 2, must be 3 to 5"),
        ({"offset": 8}, "a multiple of 16 bytes"),
        ({"offset": 16, "interleave": "32B", "swizzle": "32B"}, "a multiple of 32 bytes"),
        ({"global_dim": [256, 0, 8]}, "global_dim[1] is 0"),
        ({"global_dim": [2**32 + 1, 128, 8]}, "global_dim[0]"),
        ({"global_strides": [520, 65536]}, "global_strides[0] is 520"),
        ({"global_strides": [512, 2**40]}, "global_strides[1]"),
        ({"global_strides": [512]}, "must be 2 values, one fewer than the rank"),
        ({"box_dim": [64, 257, 1]}, "box_dim[1] is 257, must be 1 to 256"),
        ({"box_dim": [64, 0, 1]}, "box_dim[1] is 0"),
        ({"box_dim": [60, 8, 1]}, "60 (120 bytes), must be a multiple of 16 bytes"),
        ({"box_dim": [64, 8, 1], "swizzle": "64B"}, "must be at most 64 bytes for swizzle 64B"),
        ({"box_dim": [128, 8, 1], "swizzle": "128B-atom-64B"}, "at most 128 bytes"),
        ({"element_strides": [1, 9, 1]}, "element_strides[1] is 9, must be 1 to 8"),
        ({"element_strides": [1, 1]}, "must be 3 values"),
        ({"interleave": "32B", "swizzle": "64B", "global_strides": [512, 65536]}, "must be 32B (or none)"),
        ({"dtype": "u16", "oob_fill": "nan"}, "not a floating-point type"),
        ({"dtype": "16u4_align8b", "global_dim": [257, 128, 8], "global_strides": [144, 65536]}, "must be even"),
        ({"dtype": "16u4_align16b", "box_dim": [64, 8, 1]}, "64, must be 128"),
        ({"dtype": "16u6_align16b", "box_dim": [128, 8, 1], "global_dim": [192, 128, 8]}, "a multiple of 128"),
        ({"dtype": "16u6_align16b", "box_dim": [128, 8, 1], "swizzle": "64B"}, "swizzle is 64B"),
        ({"dtype": "16u4_align16b", "box_dim": [128, 8, 1], "global_strides": [528, 65536]}, "32 bytes"),
    ],
)  # fmt: skip
def test_what_the_driver_refuses(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        encode_tiled(1 << 32, **{**TILED, **changes})
    assert words in caught.value.message


@pytest.mark.parametrize(
    "legal",
    [
        {"global_strides": [0, 0]},
        {"global_strides": [65536, 512]},
        {"element_strides": [3, 1, 1]},
        {"box_dim": [256, 256, 256]},
        {"box_dim": [64, 8, 1], "swizzle": "128B"},
        {"interleave": "16B", "swizzle": "128B"},
        {"dtype": "16u4_align16b", "box_dim": [128, 8, 1], "swizzle": "128B-atom-32B"},
    ],
)
def test_what_the_driver_takes(legal: dict[str, Any]) -> None:
    encode_tiled(1 << 32, **{**TILED, **legal})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pixel_box_lower_corner": [-129, 0]}, "-128 to 127 for rank 4"),
        ({"pixel_box_lower_corner": [-1]}, "must be 2 values, two fewer than the rank"),
        ({"pixel_box_lower_corner": [13, 0]}, "corners of a box that is not empty"),
        ({"channels_per_pixel": 257}, "channels_per_pixel is 257"),
        ({"pixels_per_column": 1025}, "pixels_per_column is 1025"),
        ({"channels_per_pixel": 30}, "multiple of 16 bytes"),
    ],
)
def test_im2col_rules(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        encode_im2col(1 << 32, **{**IM2COL, **changes})
    assert words in caught.value.message


def test_all_faults_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        encode_tiled(8, **{**TILED, "box_dim": [60, 300, 1]})
    for words in ("address is 0x8", "box_dim[0]", "box_dim[1] is 300"):
        assert words in caught.value.message


@pytest.mark.parametrize(
    ("word", "nearest"), [("dtype", "float16"), ("swizzle", "128"), ("oob_fill", "nans"), ("interleave", "8B")]
)
def test_unknown_words_come_with_the_known_ones(word: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown tensor map {word}"):
        encode_tiled(1 << 32, **{**TILED, word: nearest})


# ---------------------------------------------------------------------- maps changed on the device
def test_replacing_every_field_of_zeroes_builds_a_map() -> None:
    data = bytes(128)
    values = {
        "address": 0x1000, "rank": 1, "elemtype": 10, "global_dim0": 256, "global_dim1": 64, "global_stride0": 512,
        "box_dim0": 64, "box_dim1": 32, "element_stride0": 1, "element_stride1": 1, "swizzle_mode": 3,
        "swizzle_atomicity": 0, "interleave_layout": 0, "fill_mode": 1,
    }  # fmt: skip
    for name, value in values.items():
        data = replace_field(data, name, value)
    assert decode_tensor_map(data) == TensorMapFields(
        "bf16", 0x1000, (256, 64), (512,), (64, 32), (1, 1), "none", "128B", "none", "nan"
    )


def test_a_field_that_was_never_set_is_found() -> None:
    data = replace_field(bytes(128), "rank", 1)
    with pytest.raises(UndefinedBehavior, match=r"global_dim\[0\] is 0"):
        decode_tensor_map(data)


def test_bytes_that_are_no_map() -> None:
    with pytest.raises(DeviceError, match="no tensor map"):
        decode_tensor_map(bytes(range(128)))


def test_atomicity_that_the_width_does_not_have() -> None:
    data = replace_field(encode_tiled(4096, **TILED).data, "swizzle_mode", 2)
    with pytest.raises(UndefinedBehavior, match="atomicity code 1"):
        decode_tensor_map(replace_field(data, "swizzle_atomicity", 1))


def test_the_96_byte_swizzle_is_named() -> None:
    with pytest.raises(NotModelled, match="96 bytes"):
        decode_tensor_map(replace_field(encode_tiled(4096, **TILED).data, "swizzle_mode", 4))


# PTX ISA, tensormap.replace: "elemtype"; the driver's order differs from f32_ftz on
@pytest.mark.parametrize(
    ("name", "driver", "ptx"),
    [("u8", 0, 0), ("f16", 6, 6), ("f32", 7, 7), ("f32_ftz", 10, 8), ("f64", 8, 9), ("bf16", 9, 10), ("tf32", 11, 11),
     ("tf32_ftz", 12, 12), ("16u4_align8b", 13, 13), ("16u4_align16b", 14, 14), ("16u6_align16b", 15, 15)],
)  # fmt: skip
def test_element_codes(name: str, driver: int, ptx: int) -> None:
    assert (ELEMENTS[name].driver_code, ELEMENTS[name].ptx_code) == (driver, ptx)


def test_driver_codes_are_those_of_the_bindings() -> None:
    enum = pytest.importorskip("cuda.bindings.driver").CUtensorMapDataType
    names = {"UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "INT32": "s32", "UINT64": "u64", "INT64": "s64",
             "FLOAT16": "f16", "FLOAT32": "f32", "FLOAT64": "f64", "BFLOAT16": "bf16", "FLOAT32_FTZ": "f32_ftz",
             "TFLOAT32": "tf32", "TFLOAT32_FTZ": "tf32_ftz", "16U4_ALIGN8B": "16u4_align8b",
             "16U4_ALIGN16B": "16u4_align16b", "16U6_ALIGN16B": "16u6_align16b"}  # fmt: skip
    prefix = "CU_TENSOR_MAP_DATA_TYPE_"
    assert {names[m.name.removeprefix(prefix)]: m.value for m in enum} == {
        row.name: row.driver_code for row in ELEMENTS.values()
    }


def test_changing_one_field_leaves_the_others() -> None:
    before = decode_tensor_map(encode_tiled(4096, **TILED).data)
    after = decode_tensor_map(replace_field(encode_tiled(4096, **TILED).data, "address", 8192))
    assert after == replace(before, address=8192)
