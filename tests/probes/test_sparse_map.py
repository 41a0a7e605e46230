"""``sparse-map`` on the model: kinds, layouts and selectors, and planted faults of either witness."""

from dataclasses import replace

import numpy as np
import pytest
from probe_runs import POLICIES, failed, passes, run

from umma_probe.errors import ConfigError
from umma_probe.harness.suites import sparse_map as suite
from umma_probe.model.mma import sparse_fetch, tensor_core


@pytest.mark.parametrize("kind", ["f16", "tf32", "f8f6f4", "i8"])
def test_kinds(kind: str) -> None:
    passes(run("sparse-map", kind=kind))


@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4", "mxf4nvf4"])
def test_block_scaled_kinds(kind: str) -> None:
    passes(run("sparse-map", kind=kind))


def test_pairs_of_the_4_bit_kinds_by_hand() -> None:
    """K = 128 in 16 groups of four pairs: lane m, column c / 8, nibble c % 8; 0b1001 keeps pairs 1 and 2."""
    case = suite.SparseCase.of({"kind": "mxf4", "m": "128", "ws": False, "selector": 0, "n": None})
    assert (case.n, case.rule.groups, case.rule.group) == (128, 16, 8)
    assert case.metadata is not None
    assert [array[5, [0, 7, 8, 15]].tolist() for array in (case.metadata.column, case.metadata.nibble)] == [
        [0, 0, 1, 1],
        [0, 7, 0, 7],
    ]
    assert case.kept[:8].tolist() == [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.5]
    assert suite._row(case)[0] == 0x17654321


def test_machine_that_keeps_single_elements_of_the_4_bit_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The codes of the 8-bit kinds, element by element instead of pair by pair."""
    original = sparse_fetch.expand

    def by_element(call, a, codes):  # type: ignore[no-untyped-def]
        a, valid = original(call, a, codes)
        order = np.arange(a.shape[1]).reshape(-1, 4)[:, [0, 2, 1, 3]].ravel()
        return a[:, order], valid[:, order]

    monkeypatch.setattr(tensor_core, "expand", by_element)
    assert "code-1000" in failed(run("sparse-map", kind="mxf4"))


def test_other_n() -> None:
    report = run("sparse-map", kind="f8f6f4", n=72)
    passes(report)
    assert report.params["n"] == 72
    with pytest.raises(ConfigError, match="n is 96, must be a multiple of 8 of at least 128"):
        run("sparse-map", kind="mxf4", n=96)


@pytest.mark.parametrize(("m", "ws"), [("64", False), ("128", True), ("64", True), ("32", True)])
@pytest.mark.parametrize("kind", ["f16", "f8f6f4"])
def test_layouts(kind: str, m: str, ws: bool) -> None:
    passes(run("sparse-map", kind=kind, m=m, ws=ws))


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_and_selector(policy: str) -> None:
    passes(run("sparse-map", policy=policy, selector=1))


def test_recovered_places_of_f16_by_hand() -> None:
    """Rows 0 and 9 of M = 128: groups 0-3 in lane m % 8, 4-7 eight lanes further; row 9 in nibbles 4-7."""
    place = np.array([[0 << 8, 1, 2, 3, 8 << 8], [1 << 8 | 4, 1 << 8 | 5, 1 << 8 | 6, 1 << 8 | 7, 9 << 8 | 4]])
    case = suite.SparseCase("f16", 128, False, 0)
    assert case.metadata is not None
    held = case.metadata.lane << 8 | case.metadata.column << 3 | case.metadata.nibble
    assert held[[0, 9], :5].tolist() == place.tolist()


def test_machine_with_the_halves_of_the_groups_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    original = sparse_fetch._deinterleave
    monkeypatch.setattr(sparse_fetch, "_deinterleave", lambda nibbles: np.roll(original(nibbles), 4, axis=1))
    report = run("sparse-map")
    assert failed(report) == {"place"}
    (check,) = [check for check in report.checks if check.name == "place"]
    assert check.message == (
        "row 0, group 0 takes lane 8, column 0, nibble 0, must take lane 0, column 0, nibble 0 (or a copy)"
    )


def test_machine_with_the_two_indices_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    original = sparse_fetch._kept
    monkeypatch.setattr(sparse_fetch, "_kept", lambda tf32: original(tf32)[:, ::-1])
    report = run("sparse-map", kind="i8")
    assert {f"code-{code:04b}" for code in (0b0100, 0b1000, 0b0110)} <= failed(report)
    (check,) = [check for check in report.checks if check.name == "code-0100"]
    assert check.actual == "a group becomes [2.0, 1.0, 0.0, 0.0]"


def test_wrong_document(monkeypatch: pytest.MonkeyPatch) -> None:
    original = suite.metadata_map

    def shifted(*args: object, **options: object) -> object:
        documented = original(*args, **options)  # type: ignore[arg-type]
        return replace(documented, nibble=documented.nibble ^ 1)

    monkeypatch.setattr(suite, "metadata_map", shifted)
    assert failed(run("sparse-map", kind="i8")) == {"place"}


def test_open_and_illegal_selectors() -> None:
    assert run("sparse-map", selector=2).verdict == "undecided"
    with pytest.raises(ConfigError, match="selector is 1, must be 0 under kind::i8"):
        run("sparse-map", kind="i8", selector=1)
