"""Shared-memory descriptors: CUTLASS's words, encode and decode as inverses, and a broken twin of every rule."""

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.errors import ConfigError
from umma_probe.spec.descriptors import (
    SmemDescriptor,
    Swizzle,
    decode_smem_desc,
    encode_smem_desc,
    smem_desc_problems,
)

VECTORS = Path(__file__).parents[2] / "vectors"
GOOD = 0x4000404000010800  # start 0x8000, LBO 16, SBO 1024, 128B


def golden():
    with (VECTORS / "smem_desc.csv").open() as lines:
        yield from csv.DictReader(line for line in lines if not line.startswith("#"))


def test_every_word_of_cutlass():
    rows = list(golden())
    assert len(rows) == 278
    for row in rows:
        for word in (int(text, 16) for text in row["words"].split()):
            start = (word & 0x3FFF) * 16
            sizes = {"lbo_bytes": int(row["lbo"]), "sbo_bytes": int(row["sbo"])}
            assert encode_smem_desc(start_bytes=start, **sizes, swizzle=row["swizzle"]) == word
            assert decode_smem_desc(word) == SmemDescriptor(
                start, *sizes.values(), Swizzle.from_text(row["swizzle"]), 0, 0
            )
            assert smem_desc_problems(word) == []


offsets = st.integers(0, (1 << 14) - 1).map(lambda units: units * 16)


@given(
    st.builds(SmemDescriptor, offsets, offsets, offsets, st.sampled_from(Swizzle), st.integers(0, 7), st.integers(0, 1))
)
@settings(derandomize=True, max_examples=200, deadline=None)
def test_decode_undoes_encode(desc):
    word = encode_smem_desc(
        start_bytes=desc.start_bytes,
        lbo_bytes=desc.lbo_bytes,
        sbo_bytes=desc.sbo_bytes,
        swizzle=desc.swizzle,
        base_offset=desc.base_offset,
        lbo_mode=desc.lbo_mode,
    )
    assert decode_smem_desc(word) == desc


@pytest.mark.parametrize(
    ("word", "field", "says"),
    [
        (GOOD & ~(7 << 46), "version", "0b000"),
        (GOOD | 1 << 48, "version", "0b101"),
        (GOOD | 1 << 14, "reserved", "14"),
        (GOOD | 1 << 31, "reserved", "31"),
        (GOOD | 1 << 53, "reserved", "53"),
        (GOOD & ~(7 << 61) | 3 << 61, "swizzle", "code 3"),
        (GOOD & ~(7 << 61) | 5 << 61, "swizzle", "code 5"),
        (GOOD & ~(7 << 61) | 7 << 61, "swizzle", "code 7"),
        (GOOD & ~(7 << 61) | 1 << 49, "base_offset", "without swizzle"),
        (GOOD & ~(7 << 61) | 1 << 52, "lbo_mode", "unless swizzle is 128B"),
        (GOOD | 1 << 49 | 1 << 52, "lbo_mode", "base_offset 0"),
    ],
)
def test_each_broken_rule_is_named(word, field, says):
    assert smem_desc_problems(GOOD) == []
    problems = smem_desc_problems(word)
    assert [problem.field for problem in problems] == [field]
    assert says in problems[0].message
    assert (problems[0].contradicted is not None) == (field == "base_offset")


def test_absolute_lbo_is_for_one_target():
    assert smem_desc_problems(GOOD | 1 << 52, arch="sm_103a") == []
    assert [problem.field for problem in smem_desc_problems(GOOD | 1 << 52, arch="sm_100a")] == ["lbo_mode"]


@pytest.mark.parametrize("code", [3, 5, 7])
def test_a_swizzle_without_meaning_cannot_be_decoded(code):
    with pytest.raises(ConfigError, match=f"code {code}"):
        decode_smem_desc(GOOD & ~(7 << 61) | code << 61)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"start_bytes": 8}, "start is 8 bytes"),
        ({"start_bytes": 1 << 18}, "0x3FFFF"),
        ({"lbo_bytes": 100}, "lbo is 100"),
        ({"sbo_bytes": -16}, "sbo is"),
        ({"swizzle": "256B"}, "unknown swizzle"),
        ({"base_offset": 8}, "base_offset is 8"),
        ({"lbo_mode": 2}, "lbo_mode is 2"),
    ],
)
def test_what_cannot_be_encoded_is_refused(values, says):
    with pytest.raises(ConfigError, match=says):
        encode_smem_desc(**{"start_bytes": 0, "lbo_bytes": 0, "sbo_bytes": 0, **values})


def test_force_cuts_down_to_the_field():
    word = encode_smem_desc(start_bytes=0x108008, lbo_bytes=31, sbo_bytes=1024, swizzle="128B", force=True)
    assert word == GOOD


def test_a_word_is_64_bits():
    with pytest.raises(ConfigError, match="64 bits"):
        smem_desc_problems(1 << 64)
