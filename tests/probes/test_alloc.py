"""``alloc`` on the model: proper use passes under every policy, misuse is refused, a broken allocator is found out."""

import numpy as np
import pytest
from probe_runs import POLICIES, failed, passes, run

from umma_probe.model.state.tmem import TensorMemory

FAULTS = ["granularity", "no-columns", "too-many", "growing", "relinquished", "free-twice", "free-inside", "free-size",
          "unallocated", "freed", "out-of-bounds", "lane-alignment", "store-lane", "mma-unallocated",
          "cp-unallocated"]  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
def test_proper_use(policy: str) -> None:
    passes(run("alloc", policy=policy))


def test_few_columns_each() -> None:
    passes(run("alloc", columns="32", ctas=9))


@pytest.mark.parametrize("misuse", FAULTS)
def test_misuse_faults(misuse: str) -> None:
    report = run("alloc", misuse=misuse)
    passes(report)
    assert report.notes[0].startswith(f"{misuse}: tcgen05.")


@pytest.mark.parametrize("misuse", ["other-warp", "sparse-idesc", "dense-idesc"])
def test_what_ptx_leaves_undefined_is_undecided(misuse: str) -> None:
    assert run("alloc", misuse=misuse).verdict == "undecided"


def test_operations_in_flight_fault_when_they_take_effect() -> None:
    for misuse in ("freed", "mma-unallocated", "cp-unallocated"):
        passes(run("alloc", misuse=misuse, policy="lazy"))


def test_a_leak_is_a_finding_and_keeps_nobody_waiting_here() -> None:
    """The model gives every CTA an SM of its own, so that only the sanitizer can see it."""
    report = run("alloc", misuse="leak", ctas=2)
    assert failed(report) == {"sanitizer"}
    assert [note.rule for note in report.sanitizer] == ["tmem-leak"] * len(report.sanitizer)
    assert [check.actual for check in report.checks if check.name == "left-columns"] == ["all 4 CTAs got all columns"]


def test_machine_that_does_not_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TensorMemory, "check", lambda *_: None)
    report = run("alloc", misuse="unallocated")
    assert failed(report) >= {"refused"}


def test_machine_that_gives_columns_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block begins at column 0, and nobody waits."""

    def at_zero(self: TensorMemory, slots: tuple[int, ...], columns: int) -> int:
        for slot in slots:
            self.allocated[slot, :columns] = True
            self.allocations[slot].blocks[0] = columns
        return 0

    monkeypatch.setattr(TensorMemory, "allocate", at_zero)
    monkeypatch.setattr(TensorMemory, "deallocate", lambda *_: [])
    assert failed(run("alloc")) >= {"disjoint", "blocks"}


def test_machine_whose_ctas_share_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TensorMemory.read

    def of_cta_0(self, launch, thread, slot, lanes, columns, what):  # type: ignore[no-untyped-def]
        return original(self, launch, thread, 0 if np.any(self.written[0]) else slot, lanes, columns, what)

    monkeypatch.setattr(TensorMemory, "read", of_cta_0)
    assert "isolation" in failed(run("alloc"))
