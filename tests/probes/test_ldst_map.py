"""``ldst-map`` on the model: both directions of every shape, and planted faults of either witness show."""

from dataclasses import replace

import numpy as np
import pytest
from probe_runs import POLICIES, failed, passes, run

from umma_probe.errors import ConfigError
from umma_probe.harness.suites import ldst_map as suite
from umma_probe.model.ops import tcgen05_ldst

SHAPES = {"32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32, "16x32bx2": 128}


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize(("shape", "largest"), SHAPES.items())
def test_smallest_and_largest(shape: str, largest: int, pack: bool) -> None:
    passes(run("ldst-map", shape=shape, num=largest if pack else 1, pack=pack))


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_and_columns(policy: str) -> None:
    passes(run("ldst-map", policy=policy, shape="16x128b", num=2, column=100))
    passes(run("ldst-map", policy=policy, shape="16x32bx2", num=4, pack=True, column=3))


def test_unpack_notes_what_becomes_of_the_upper_halves() -> None:
    report = run("ldst-map", shape="32x32b", num=2, pack=True)
    assert [check.actual for check in report.checks if check.name == "upper-halves"] == ["zero"]


@pytest.mark.parametrize(("split", "pack"), [(64, False), (508, False), (37, True)])
def test_halves_that_lie_apart(split: int, pack: bool) -> None:
    report = run("ldst-map", shape="16x32bx2", num=4, pack=pack, split=split)
    passes(report)
    assert "overlap" not in {check.name for check in report.checks}


@pytest.mark.parametrize("split", [0, 3])
def test_halves_that_overlap_are_noted_not_judged(split: int) -> None:
    report = run("ldst-map", shape="16x32bx2", num=4, split=split)
    passes(report)
    assert [check.expected for check in report.checks if check.name == "overlap"] == ["no document says"]


def test_machine_that_ignores_the_split(monkeypatch: pytest.MonkeyPatch) -> None:
    original = tcgen05_ldst.access_box
    monkeypatch.setattr(
        tcgen05_ldst,
        "access_box",
        lambda shape, repeat, split=0, packed=False: original(shape, repeat, repeat if split else 0, packed),
    )
    report = run("ldst-map", shape="16x32bx2", num=4, split=64)
    assert failed(report) == {"stored", "not-written", "loaded"}
    messages = {check.name: check.message for check in report.checks}
    assert "register 0 of thread 16 of warp 0" in messages["loaded"]
    assert "came from lane 0, column 4, must come from lane 0, column 64" in messages["loaded"]


def test_machine_with_two_lanes_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's map is wrong: both directions say so, and name a register and its two places."""
    original = tcgen05_ldst.access_box

    def swapped(shape: str, *rest: object) -> object:
        box = original(shape, *rest)  # type: ignore[arg-type]
        if shape != "16x256b":
            return box
        return replace(box, lane=np.where(box.lane < 2, 1 - box.lane, box.lane))

    monkeypatch.setattr(tcgen05_ldst, "access_box", swapped)
    report = run("ldst-map", shape="16x256b", num=2)
    assert failed(report) == {"stored", "loaded"}
    messages = {check.name: check.message for check in report.checks}
    assert "lane 0, column 0 holds the lower half of register 0 of thread 4 of warp 0" in messages["stored"]
    assert "came from lane 1, column 0, must come from lane 0, column 0" in messages["loaded"]


def test_wrong_document(monkeypatch: pytest.MonkeyPatch) -> None:
    original = suite.ldst_map

    def shifted(*args: object, **options: object) -> object:
        documented = original(*args, **options)  # type: ignore[arg-type]
        return replace(documented, column=documented.column[:, ::-1])

    monkeypatch.setattr(suite, "ldst_map", shifted)
    assert failed(run("ldst-map", shape="32x32b", num=8)) == {"stored", "loaded"}


def test_forms_that_do_not_exist() -> None:
    with pytest.raises(ConfigError, match="registers is 256"):
        run("ldst-map", shape="16x256b", num=64)
    with pytest.raises(ConfigError, match="num is 3"):
        run("ldst-map", num=3)
    with pytest.raises(ConfigError, match="column is 500, must be at most 480"):
        run("ldst-map", column=500)
    with pytest.raises(ConfigError, match="column is 0, must be at most -1"):
        run("ldst-map", shape="16x32bx2", split=509)
    with pytest.raises(ConfigError, match="half split is 8, must be left out"):
        run("ldst-map", split=8)
