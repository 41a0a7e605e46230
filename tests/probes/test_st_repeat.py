"""``st-repeat`` on the model: repeated stores land, and a machine that loses or reorders them is found out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from probe_runs import POLICIES, edited_kernel, failed, passes, run

from umma_probe.errors import ConfigError
from umma_probe.harness.suites import st_repeat as suite
from umma_probe.model.state.tmem import TensorMemory


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("shape", "num"), [("16x256b", 1), ("16x256b", 2), ("32x32b", 8)])
def test_side_by_side(shape: str, num: int, policy: str) -> None:
    passes(run("st-repeat", shape=shape, num=num, policy=policy))


@pytest.mark.parametrize("wait", ["each", "end"])
def test_to_the_same_cells(wait: str) -> None:
    passes(run("st-repeat", place="same", wait=wait, policy="lazy", column=40))


def test_order_that_no_document_gives_is_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel stores in the opposite order: an earlier number is left."""
    with edited_kernel("(i + 1) << 12", "(count - i) << 12", tmp_path, monkeypatch):
        assert run("st-repeat", place="same", wait="end").verdict == "undecided"
        assert failed(run("st-repeat", place="same", wait="each")) == {"order"}


@pytest.mark.parametrize("shape", ["16x64b", "16x128b", "16x32bx2"])
def test_other_shapes(shape: str) -> None:
    passes(run("st-repeat", shape=shape, num=4, count=3, column=7))


def test_machine_that_loses_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes to columns 16 to 23 are lost: of stores of 8 columns that is number 2."""
    for name in ("write", "write_box"):
        original = getattr(TensorMemory, name)

        def losing(self, slot, lanes, columns, words, pc, original=original):  # type: ignore[no-untyped-def]
            first = columns.start if isinstance(columns, slice) else int(np.min(columns))
            if words.max() >> 12 != 3 or first != 16:
                original(self, slot, lanes, columns, words, pc)

        monkeypatch.setattr(TensorMemory, name, losing)
    report = run("st-repeat", count=4)
    assert failed(report) == {"landed"}
    (check,) = [check for check in report.checks if check.name == "landed"]
    assert (check.actual, check.message.split(" left")[0]) == ("1 store lost", "stores 2")


def test_wrong_document(monkeypatch: pytest.MonkeyPatch) -> None:
    original = suite.ldst_map
    monkeypatch.setattr(suite, "ldst_map", lambda *a: replace(original(*a), lane=original(*a).lane[::-1]))
    assert failed(run("st-repeat", count=2)) == {"registers"}


def test_stores_beyond_tensor_memory() -> None:
    with pytest.raises(ConfigError, match="the last store reaches column 519"):
        run("st-repeat", count=65)
