"""``pair-map`` on the model: layouts A, B and C, the lane mask, and planted faults of either witness."""

from pathlib import Path

import pytest
from probe_runs import POLICIES, edited_kernel, failed, passes, run

from umma_probe.errors import ConfigError
from umma_probe.harness.suites import pair_map as suite
from umma_probe.layouts.tmem_accumulator import AccumulatorLayout, layout_map
from umma_probe.model.mma import operand_fetch


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("m", "sparse"), [("256", False), ("128", False), ("128", True)])
def test_layouts(m: str, sparse: bool, policy: str) -> None:
    passes(run("pair-map", m=m, sparse=sparse, n=32, policy=policy))


@pytest.mark.parametrize("kind", ["tf32", "f8f6f4", "i8"])
def test_kinds(kind: str) -> None:
    passes(run("pair-map", kind=kind, n=32))
    passes(run("pair-map", kind=kind, n=32, sparse=True))


def test_largest_and_upper_half() -> None:
    passes(run("pair-map", n=256))
    passes(run("pair-map", m="128", sparse=True, taddr_lane="16"))


@pytest.mark.parametrize(("m", "sparse", "lane"), [("256", False, "0"), ("256", True, "0"), ("128", True, "16")])
def test_a_in_tensor_memory(m: str, sparse: bool, lane: str) -> None:
    passes(run("pair-map", a_source="tmem", m=m, sparse=sparse, taddr_lane=lane, n=48))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_in_tensor_memory_twice(policy: str) -> None:
    passes(run("pair-map", a_source="tmem", m="128", n=48, policy=policy))


@pytest.mark.parametrize("kind", ["tf32", "f8f6f4", "i8"])
def test_kinds_of_a_in_tensor_memory(kind: str) -> None:
    passes(run("pair-map", a_source="tmem", kind=kind, m="128", n=32))


def test_a_without_the_copy_for_the_second_half_of_n(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layout B: lanes 64 to 127 multiply with their own copy of A; they hold sentinels here."""
    with edited_kernel("a.rows, !SPARSE, d_lane", "a.rows == 64 ? 32 : 128, false, 0", tmp_path, monkeypatch):
        report = run("pair-map", a_source="tmem", m="128", n=32)
    assert {"cta-0-elements", "cta-1-elements"} <= failed(report)


@pytest.mark.parametrize("word", [0, 7])
def test_lane_mask(word: int) -> None:
    report = run("pair-map", n=16, disabled_word=word)
    passes(report)
    expected = {check.name: check.expected for check in report.checks}
    assert expected[f"cta-{word // 4}-written"] == "1536 cells"
    assert expected[f"cta-{1 - word // 4}-written"] == "2048 cells"


def test_machine_in_which_each_cta_has_all_of_b_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both halves of N come from the first CTA: the columns of the second are named wrongly, in both CTAs."""
    original = operand_fetch.fetch_smem

    def of_the_first(call, slot, name, *rest):  # type: ignore[no-untyped-def]
        return original(call, call.slots[0] if name == "B" else slot, name, *rest)

    monkeypatch.setattr(operand_fetch, "fetch_smem", of_the_first)
    report = run("pair-map", n=32)
    assert failed(report) == {"cta-0-elements", "cta-1-elements"}
    (check,) = [check for check in report.checks if check.name == "cta-0-elements"]
    assert check.message == ("columns 16-31, lanes 0-127; lane 0, column 16 names (m, n) = [0, 0], must name [0, 16]")


def test_machine_that_lays_sparse_d_out_as_layout_b(monkeypatch: pytest.MonkeyPatch) -> None:
    """What CUTLASS's types say: the probe names the layout."""
    monkeypatch.setattr(suite, "accumulator_map", lambda m, n, **_: layout_map(AccumulatorLayout.C, n))
    report = run("pair-map", m="128", n=32)
    assert failed(report) >= {"cta-0-elements"}
    (check,) = [check for check in report.checks if check.name == "cta-0-elements"]
    assert (check.expected, check.actual) == ("layout C", "layout B")


def test_commit_that_reaches_one_cta_is_a_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with edited_kernel("BOTH_CTAS = 3", "BOTH_CTAS = 1", tmp_path, monkeypatch):
        assert run("pair-map", n=16).verdict == "hang"


def test_shapes_that_do_not_exist() -> None:
    with pytest.raises(ConfigError, match="n is 24, must be a multiple of 16"):
        run("pair-map", n=24)
    with pytest.raises(ConfigError, match="lane of the D address is 16"):
        run("pair-map", m="128", taddr_lane="16")
