"""The notation of ``--inject``, and what each fault changes."""

import pytest

from umma_probe.errors import ConfigError
from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.recipe import Recipe, Storing
from umma_probe.harness.inject import inject, parse_ranges
from umma_probe.spec.idesc import decode_idesc


def recipe(**params: object) -> Recipe:
    return GemmCase.of(**{"m": 128, "n": 64, "k": 64, **params}).recipe()


def test_no_fault_changes_nothing() -> None:
    assert inject(recipe(), None) == recipe()
    assert inject(recipe(), "") == recipe()


def test_ranges() -> None:
    assert parse_ranges("512-575,768-831,5") == ((512, 576), (768, 832), (5, 6))


def test_an_unknown_fault_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="lbo-sbo-swap"):
        inject(recipe(), "lbo-sbo-swop")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("operand-hole:5-2", "RANGES"),
        ("operand-hole:0-1024", "0-1023"),
        ("operand-hole:x", "RANGES"),
        ("wrong-stride:sbo,100", "multiple of 16"),
        ("wrong-stride:both,64", "lbo or sbo"),
        ("shared-columns:8", "one sub-tile"),
        ("operand-unpacked", "A in Tensor Memory"),
        ("sub-tile-skipped:0", "some of the sub-tiles 0-0, not all"),
        ("not-written:4-11", "whole eights"),
        ("not-written:56-71,0-7", "D's 64 columns"),
        ("not-written:0-63", "not all"),
        ("lane-mask:120-128,0", "lanes 0-127"),
        ("readback:2,pack=off", "readback of 0-1"),
        ("readback:0,pack=maybe", "pack=on, pack=off"),
        ("readback:0,pack=off", "changes nothing"),
        ("race:hope", "commit-wait"),
        ("readback:width=3", "shape, column, lane, pack"),
        ("readback:shape=16x256b.x8", "16 registers"),
        ("wrong-idesc:colour=3", "one of m, n"),
        ("wrong-swizzle:128B", "changes nothing"),
        ("stale-accumulator:1", "no arguments"),
        ("operand-hole:-1", "'-1' is no range"),
        ("wrong-major:c", "'c' is no operand"),
        ("lbo-sbo-swap:a,b", "'b' is no operand"),
        ("wrong-stride:sbo,-16", "-16 is not a multiple of 16 from 0 to 262128"),
        ("wrong-stride:lbo,far", "'far' is no number"),
        ("wrong-swizzle:256B", "inject is 'wrong-swizzle:256B'.*unknown swizzle"),
        ("wrong-phase:-16", "-16 is not a multiple of 16 from 0 to 1008"),
        ("wrong-start:262144", "multiple of 16"),
        ("wrong-start:a,-16", "multiple of 16"),
        ("k-panel-stride:-16", "multiple of 16"),
        ("d-column:-1", "from 0 to 65535"),
        ("mma-skipped:0", "from 1 to 4"),
        ("mma-skipped:-1", "from 1 to 4"),
        ("wrong-idesc:n=7", "n of 7 has no code"),
        ("wrong-idesc:m=99999", "from 0 to 512"),
        ("wrong-idesc:negate-a=maybe", "'maybe' is no number"),
        ("readback:0,column=-3", "from 0 to 511"),
        ("readback:0,lane=3", "32 lanes at once"),
    ],
)
def test_wrong_arguments_are_a_usage_error(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        inject(recipe(), text)


def test_arguments_that_lie_in_tensor_memory() -> None:
    with pytest.raises(ConfigError, match="-1 is not from 0 to 511"):
        inject(recipe(a_source="tmem"), "tmem-overlap:-1")
    with pytest.raises(ConfigError, match="-8 is not from 0 to 511"):
        inject(recipe(sub_n=16), "shared-columns:-8")


def test_faults_change_one_thing() -> None:
    clean = recipe()
    swapped = inject(clean, "lbo-sbo-swap:a")
    assert (swapped.a.read.lbo, swapped.a.read.sbo) == (clean.a.read.sbo, clean.a.read.lbo)
    assert swapped.a.placed == clean.a.placed
    assert swapped.b == clean.b
    assert decode_idesc("f16", inject(clean, "wrong-idesc:n=128").idesc).n == 128
    assert decode_idesc("f16", inject(clean, "wrong-major:a").idesc).a_major == "mn"
    assert inject(clean, "unit-forgotten:sbo").b.read.sbo == 16 * clean.b.read.sbo
    assert inject(clean, "lane-mask:0,33,127").lane_mask == (1, 2, 0, 1 << 31)
    assert inject(clean, "lane-mask:0-2,1-3").lane_mask == (0b1111, 0, 0, 0)


def test_columns_left_out_are_mmas_of_8_columns_that_are_not_issued() -> None:
    planted = inject(recipe(), "not-written:8-15,32-47")
    assert (planted.n, planted.subs, planted.d_step, planted.skipped_subs) == (8, 8, 8, (1, 4, 5))
    assert decode_idesc("f16", planted.idesc).n == 8
    assert planted.b.read.sub_step == planted.b.placed.sbo
    assert planted.sub_mask == (0b110010, 0)
    assert inject(recipe(n=256), "not-written:248-255").sub_mask == (1 << 31, 0)
    assert inject(recipe(n=512, sub_n=256), "not-written:256-263").sub_mask == (0, 1)


def test_sub_tiles_are_left_out_by_number() -> None:
    assert inject(recipe(sub_n=16), "sub-tile-skipped:0,2-3").skipped_subs == (0, 2, 3)
    with pytest.raises(ConfigError, match="not all"):
        inject(recipe(sub_n=32), "sub-tile-skipped:0-1")


def test_unpack_takes_twice_the_columns() -> None:
    """A of 16 MMAs takes 128 columns behind a D of 256, and unpacked all that is left; one MMA more is too much."""
    fits = {"n": 256, "a_source": "tmem"}
    assert inject(recipe(**fits, k=256), "operand-unpacked:unpack::16b").a_storing is Storing.UNPACK_16B
    with pytest.raises(ConfigError, match="twice as many columns"):
        inject(recipe(**fits, k=272), "operand-unpacked:unpack::16b")
    with pytest.raises(ConfigError, match="unpack::16b or nothing"):
        inject(recipe(**fits), "operand-unpacked:pack::16b")


def test_a_16_bit_accumulator_has_a_readback_that_packs() -> None:
    clean = recipe(a_type="f16", d_type="f16")
    assert [reading.packs for reading in clean.readings] == [False, False, True]
    assert [reading.packs for reading in inject(clean, "readback:2,pack=off").readings] == [False, False, False]
    assert [reading.packs for reading in inject(clean, "readback:0,pack=on").readings] == [True, False, True]
    assert len(recipe(a_type="f16").readings) == 2
