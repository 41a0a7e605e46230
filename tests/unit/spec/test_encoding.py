"""Formats against ml_dtypes and NumPy (independent implementations), code by code, and hand-made words."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.errors import ConfigError
from umma_probe.spec.encoding import decode_to_float64, encode_exact
from umma_probe.spec.formats import FORMATS

REFERENCE = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "s8": np.int8,
    "u8": np.uint8,
}
# name -> every one of these words with its value, worked out by hand from the format's definition
BY_HAND = {
    "tf32": {
        0x3F800000: 1.0,
        0x3F801FFF: 1.0,  # the low 13 bits do not count
        0x3F802000: 1 + 2.0**-10,
        0xC0400000: -3.0,
        0x00002000: 2.0**-136,  # the smallest subnormal
        0x7F801FFF: np.inf,  # a NaN whose payload is cleared
        0xFF800000: -np.inf,
    },
    "ue4m3": {0x00: 0.0, 0x01: 2.0**-9, 0x38: 1.0, 0xB8: 1.0, 0x7E: 448.0, 0x40: 2.0},
    "ue8m0": {0: 2.0**-127, 127: 1.0, 254: 2.0**127},
    "f64": {0x3FF0000000000000: 1.0, 0x8000000000000001: -5e-324, 0x7FF0000000000000: np.inf},
    "s32": {0x80000000: -(2.0**31), 0xFFFFFFFF: -1.0, 5: 5.0},
    "u32": {0x80000000: 2.0**31, 0xFFFFFFFF: 2.0**32 - 1},
}


def all_words(name):
    dtype = np.uint16 if FORMATS[name].bits == 16 else np.uint8
    return np.arange(1 << FORMATS[name].bits, dtype=np.int64).astype(dtype)


@pytest.mark.parametrize("name", REFERENCE)
def test_every_code_agrees_with_an_independent_implementation(name):
    words = all_words(name)
    with np.errstate(invalid="ignore"):  # a signalling NaN widens
        expected = words.view(REFERENCE[name]).astype(np.float64)
    actual = decode_to_float64(words, name)
    np.testing.assert_array_equal(actual, expected)
    finite = ~np.isnan(expected)
    assert (np.signbit(actual) == np.signbit(expected))[finite].all()


@given(st.integers(0, 2**32 - 1))
@settings(derandomize=True, max_examples=300, deadline=None)
def test_f32_agrees_with_numpy(word):
    with np.errstate(invalid="ignore"):
        expected = np.uint32(word).view(np.float32).astype(np.float64)
    np.testing.assert_array_equal(decode_to_float64(word, "f32"), expected)


@pytest.mark.parametrize(("name", "word"), [(name, word) for name, table in BY_HAND.items() for word in table])
def test_words_worked_out_by_hand(name, word):
    assert float(decode_to_float64(word, name)) == BY_HAND[name][word]


@pytest.mark.parametrize(("name", "word"), [("ue8m0", 0xFF), ("ue4m3", 0x7F), ("ue4m3", 0xFF), ("tf32", 0x7F802000)])
def test_nan_words(name, word):
    assert np.isnan(decode_to_float64(word, name))


@pytest.mark.parametrize("name", REFERENCE)
def test_encoding_every_value_gives_its_code_back(name):
    words = all_words(name)
    values = decode_to_float64(words, name)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(encode_exact(values[number], name), words[number])
    assert encode_exact(values, name).dtype == FORMATS[name].word_dtype


@given(st.floats(width=32, allow_nan=False))
@settings(derandomize=True, max_examples=300, deadline=None)
def test_f32_and_f64_encode_as_numpy_does(value):
    assert int(encode_exact(value, "f32")) == int(np.float32(value).view(np.uint32))
    assert int(encode_exact(value, "f64")) == int(np.float64(value).view(np.uint64))


@pytest.mark.parametrize(
    ("name", "word"),
    [("f32", 0x7FFFFFFF), ("tf32", 0x7FFFE000), ("f16", 0x7FFF), ("bf16", 0x7FFF), ("e4m3", 0x7F), ("ue8m0", 0xFF)],
)
def test_nan_encodes_as_the_positive_all_ones_magnitude(name, word):
    assert int(encode_exact(np.nan, name)) == word


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("f16", 65536.0),
        ("f16", 1 + 2.0**-11),
        ("f16", 2.0**-25),
        ("bf16", 257.0),
        ("tf32", 1 + 2.0**-11),
        ("e4m3", 480.0),  # its code is the NaN
        ("e4m3", np.inf),
        ("e5m2", 3.25),
        ("e2m1", 5.0),
        ("e2m1", 8.0),
        ("e2m1", np.nan),
        ("e3m2", np.inf),
        ("ue8m0", 0.0),
        ("ue8m0", 3.0),
        ("ue8m0", -1.0),
        ("ue4m3", -1.0),
        ("s8", 128.0),
        ("s8", 0.5),
        ("u8", -1.0),
        ("u8", np.nan),
        ("s32", 2.0**31),
        ("u32", np.inf),
        ("f32", 1e300),
    ],
)
def test_a_value_that_the_format_lacks_is_refused(name, value):
    with pytest.raises(ConfigError, match=rf"{name}: value\[1\] is"):
        encode_exact([1.0, value], name)


def test_an_unknown_format_is_named_with_its_neighbours():
    with pytest.raises(ConfigError, match="did you mean"):
        decode_to_float64(0, "e4m2")


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=list(FORMATS))
def test_rows_are_consistent_and_cited(fmt):
    assert fmt.refs
    assert fmt.bits == fmt.signed + fmt.exponent_bits + fmt.fraction_bits
    assert fmt.container_bits >= fmt.bits
