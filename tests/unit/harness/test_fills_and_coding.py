"""The sentinel, and operands that name their own place; checked with ml_dtypes and NumPy's own matrix product."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from umma_probe.errors import ConfigError
from umma_probe.harness.coding import carried_values, coded_passes, decode_d, raw_codes
from umma_probe.harness.fills import sentinel_origin, sentinel_words

NUMPY_TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "s8": np.int8,
    "u8": np.uint8,
}
# kind: (K, operand types, D types), by the PTX ISA
KINDS = {
    "f16": (16, ("f16", "bf16"), ("f32",)),
    "tf32": (8, ("tf32",), ("f32",)),
    "f8f6f4": (32, ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"), ("f32", "f16")),
    "i8": (32, ("s8", "u8"), ("s32",)),
}
CASES = [(k, a, b, d) for k, types, d_types in KINDS.values() for a, b, d in itertools.product(types, types, d_types)]


def value_of(codes: np.ndarray, type_: str) -> np.ndarray:
    """Codes to values, without the project's own decoder."""
    if type_ == "tf32":
        assert not (codes & 0x1FFF).any(), "tf32 drops the low 13 bits"
        return codes.view(np.float32).astype(np.float64)
    return codes.view(NUMPY_TYPES[type_]).astype(np.float64)


def test_every_sentinel_is_a_nan_that_no_mma_makes() -> None:
    words = sentinel_words()
    assert words.shape == (128, 512)
    assert len(np.unique(words)) == words.size
    assert np.isnan(words.view(np.float32)).all()
    assert (words >> 31 == 1).all(), "the tensor core's NaN is positive"
    halves = (words & 0xFFFF).astype(np.uint16)
    assert np.isnan(halves.view(np.float16)).all()
    assert (halves >> 15 == 1).all()
    assert words.view(np.int32).max() < 0, "sums of a probe's integers are positive"


@pytest.mark.parametrize(("lane", "column"), [(0, 0), (127, 511), (5, 300)])
def test_a_sentinel_tells_where_it_was_put(lane: int, column: int) -> None:
    assert sentinel_origin(int(sentinel_words()[lane, column])) == (lane, column)


@pytest.mark.parametrize("word", [0, 0x7FFFFFFF, 0xFFFFFFFF, 0x3F800000, 0xA5A5A5A5])
def test_other_words_are_no_sentinels(word: int) -> None:
    assert sentinel_origin(word) is None


@pytest.mark.parametrize(("tile_k", "a_type", "b_type", "d_type"), CASES)
@pytest.mark.parametrize("k_tiles", [1, 8])
def test_every_element_names_its_place_exactly(
    tile_k: int, a_type: str, b_type: str, d_type: str, k_tiles: int
) -> None:
    rows, columns = 128, 256
    row_pass, column_pass = coded_passes(rows, columns, tile_k, k_tiles, a_type, b_type, d_type)
    for coded, wanted in ((row_pass, np.arange(rows)[:, None]), (column_pass, np.arange(columns)[None, :])):
        a, b = value_of(raw_codes(coded.a, a_type), a_type), value_of(raw_codes(coded.b, b_type), b_type)
        d = a @ b.T
        assert a.shape == (rows, tile_k * k_tiles)
        assert (a != 0).all(), "an element that is not fetched must change D"
        assert (b != 0).all(), "an element that is not fetched must change D"
        limit = 2048 if d_type == "f16" else 1 << 24
        assert d.max() <= limit, "D holds the sum exactly"
        assert (coded.coordinate(d) == wanted).all()


def test_what_names_no_place_is_told_apart() -> None:
    row_pass, _ = coded_passes(128, 64, 16, 1, "bf16", "bf16", "f32")
    odd = np.array([0.0, np.nan, np.inf, -np.inf, row_pass.bias - 1, row_pass.bias + 128, row_pass.bias + 0.5, -1e30])
    assert (row_pass.coordinate(odd) == -1).all()
    assert row_pass.coordinate(np.array([row_pass.bias + 127.0])).tolist() == [127]


def test_one_wrong_byte_of_the_operand_shows() -> None:
    """Replacing any element of the carrying operand by zero changes the element of D."""
    row_pass, _ = coded_passes(128, 8, 16, 1, "bf16", "bf16", "f32")
    for k in range(16):
        a = row_pass.a.copy()
        a[:, k] = 0
        assert (a @ row_pass.b.T != row_pass.a @ row_pass.b.T).all()


def test_a_sum_beyond_d_is_refused() -> None:
    with pytest.raises(ConfigError, match="f16"):
        coded_passes(128, 256, 32, 16, "e4m3", "e4m3", "f16")


def test_too_many_rows_for_a_narrow_format_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot name 4000 coordinates"):
        carried_values(4000, 8, "e2m1")


def test_d_words_decode_by_type() -> None:
    words = np.array([0x42C80000, 0xFFFF5640, 0xFFFFFFFE], np.uint32)
    assert decode_d(words[:1], "f32").tolist() == [100.0]
    assert decode_d(words[1:2], "f16").tolist() == [100.0], "the high half does not count"
    assert decode_d(words[2:], "s32").tolist() == [-2.0]
