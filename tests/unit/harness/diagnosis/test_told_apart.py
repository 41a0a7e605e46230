"""Causes that look alike: what is certain, what is not told apart, and what only seems to fit."""

from __future__ import annotations

import pytest
from planted_trials import planted_trial

from umma_probe.harness.diagnosis.engine import diagnose
from umma_probe.record.schema import Diagnosis


def answer(fault: str, **params: object) -> Diagnosis:
    found = diagnose(planted_trial(fault, **params))
    assert found is not None
    return found


def test_an_unused_offset_leaves_the_swap_of_both_in_doubt() -> None:
    """K-major with a swizzle uses no LBO: a swap is told by SBO alone, which may as well be another wrong stride."""
    found = answer("lbo-sbo-swap")
    assert found.cause.startswith("lbo-sbo-swap: B")
    assert found.confidence == "possible"
    assert any("not told apart by this run: wrong-stride: B is fetched with SBO 16 bytes" in e for e in found.evidence)


def test_a_swap_of_two_offsets_that_both_count_is_certain() -> None:
    found = answer("lbo-sbo-swap", swizzle="none")
    assert (found.cause.split(":")[0], found.confidence) == ("lbo-sbo-swap", "certain")


def test_a_displaced_swizzle_is_no_hole_though_some_of_it_reads_zero() -> None:
    """Bytes of 8-bit elements that were not staged hold the fill, of which some are zero."""
    found = answer("wrong-phase:128", kind="f8f6f4", k=64, m=128)
    assert (found.cause.split(":")[0], found.confidence) == ("wrong-phase", "certain")


@pytest.mark.parametrize(
    ("fault", "params", "cause"),
    [
        ("sub-tile-skipped:1", {"n": 48, "sub_n": 16}, "sub-tile-skipped: no MMA makes sub-tile 1 of the 3 of D"),
        ("lane-mask:0-3", {"a_source": "tmem"}, "lane-mask: lanes 0-3"),
        ("readback:2,pack=off", {"a_type": "f16", "d_type": "f16"}, "readback-pack: readback 2 loads 16x128b.x8"),
        ("readback:0,pack=on", {}, "readback-pack: readback 0 loads 32x32b.x32 with .pack::16b"),
        ("operand-unpacked:unpack::16b", {"a_source": "tmem"}, "operand-unpacked: A is stored with .unpack::16b"),
        ("operand-unpacked", {"a_source": "tmem"}, "operand-unpacked: A lies in Tensor Memory with one element"),
    ],
)  # fmt: skip
def test_mechanisms_are_certain(fault: str, params: dict[str, object], cause: str) -> None:
    found = answer(fault, **params)
    assert found.cause.startswith(cause)
    assert found.confidence == "certain"


def test_columns_left_out_that_no_mechanism_explains_are_observed() -> None:
    found = answer("not-written:8-15")
    assert found.cause.startswith("not-written: columns 8-15 of D in all of its lanes")
    assert found.confidence == "observed"
