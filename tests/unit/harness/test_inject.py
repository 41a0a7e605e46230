"""The notation of ``--inject``, and what each fault changes."""

import pytest

from umma_probe.errors import ConfigError
from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.recipe import Recipe
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
        ("race:hope", "commit-wait"),
        ("readback:width=3", "shape, column, lane"),
        ("readback:shape=16x256b.x8", "16 registers"),
        ("wrong-idesc:colour=3", "one of m, n"),
        ("wrong-swizzle:128B", "changes nothing"),
        ("stale-accumulator:1", "no arguments"),
    ],
)
def test_wrong_arguments_are_a_usage_error(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        inject(recipe(), text)


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
