"""``cp-map`` on the model: every form, every decompression, and planted faults of either witness."""

from dataclasses import replace

import numpy as np
import pytest
from probe_runs import POLICIES, failed, passes, run

from umma_probe.errors import ConfigError
from umma_probe.harness.suites import cp_map as suite
from umma_probe.model.ops import tcgen05_cp

FORMS = ["128x256b", "128x128b", "4x256b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4"]


@pytest.mark.parametrize(("form", "decompress"), list(zip(FORMS, ["none", "b6x16_p32", "b4x16_p64"] * 2, strict=True)))
def test_forms(form: str, decompress: str) -> None:
    passes(run("cp-map", form=form, decompress=decompress))


@pytest.mark.parametrize("policy", POLICIES)
def test_policies(policy: str) -> None:
    passes(run("cp-map", policy=policy, form="64x128b.warpx2::01_23", column=500))


def test_swizzle_strides_start_and_lane() -> None:
    passes(run("cp-map", form="128x256b", swizzle="64B", sbo=1024))
    passes(run("cp-map", form="4x256b", lane=31, start=48, lbo=512))


def test_machine_that_copies_to_two_partitions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    original = tcgen05_cp.source_rows

    def halved(*args: object) -> object:
        lanes, rows = original(*args)  # type: ignore[arg-type]
        return lanes[:64], rows[:64]

    monkeypatch.setattr(tcgen05_cp, "source_rows", halved)
    report = run("cp-map")
    assert failed(report) == {"written", "scale-factors"}
    (check,) = [check for check in report.checks if check.name == "written"]
    assert check.message == "columns 0-3, lanes 64-127 still hold the sentinel"


def test_machine_with_4_bit_values_in_the_low_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    original = tcgen05_cp._read_rows
    monkeypatch.setattr(tcgen05_cp, "_read_rows", lambda *args: original(*args) >> np.uint32(2))
    report = run("cp-map", form="128x128b", decompress="b4x16_p64")
    assert failed(report) == {"bits"}
    (check,) = [check for check in report.checks if check.name == "bits"]
    assert check.message == "lane 0, column 0, bit 0 came from byte 0 bit 0, must come from nowhere"


def test_wrong_document(monkeypatch: pytest.MonkeyPatch) -> None:
    original = suite.cp_map
    monkeypatch.setattr(suite, "cp_map", lambda *a: replace(original(*a), row=original(*a).row[::-1]))
    assert failed(run("cp-map", form="128x128b")) == {"bits"}


def test_rules() -> None:
    with pytest.raises(ConfigError, match="lane is 3, must be 0 for 128x128b"):
        run("cp-map", form="128x128b", lane=3)
    with pytest.raises(ConfigError, match="form"):
        run("cp-map", form="64x128b")
