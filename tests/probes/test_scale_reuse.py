"""``scale-reuse`` on the model: the assumed order holds under every policy, and a machine without it is found out."""

import numpy as np
import pytest
from probe_runs import POLICIES, failed, passes, run

from umma_probe.harness.suites import scale_reuse as suite
from umma_probe.model.ops import tcgen05_cp


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("wait", [False, True])
def test_policies(wait: bool, policy: str) -> None:
    report = run("scale-reuse", policy=policy, wait=wait)
    passes(report)
    assert report.metrics == {"rounds": 12.0, "rounds_wrong": 0.0}


@pytest.mark.parametrize("n", ["16", "128"])
def test_sizes(n: str) -> None:
    passes(run("scale-reuse", n=n))


def left(met: list[int]) -> list[dict[str, np.ndarray]]:
    """What a machine leaves whose round r met the scale factors of round ``met[r]``."""
    values = np.float32(32) * np.exp2(np.array(met, np.float32))
    return [{"d": np.broadcast_to(values[None, :, None], (128, len(met), 16)).copy().view(np.uint32)}]


@pytest.mark.parametrize(
    ("met", "check", "words"),
    [
        ([0, 2, 2, 3], "copy-not-early", "rounds 1: a later round's scale factors"),
        ([0, 0, 1, 3], "copy-in-time", "rounds 1-2: an earlier round's scale factors"),
        ([0, 1, 2, 9], "scaled", "rounds 3: D names no round"),
    ],
)
def test_other_machines_are_told_apart(met: list[int], check: str, words: str) -> None:
    judged = suite.judge(left(met))
    assert [(entry.name, entry.message) for entry in judged.checks if entry.verdict == "fail"] == [(check, words)]
    assert judged.metrics["rounds_wrong"] == len(np.flatnonzero(np.array(met) != np.arange(len(met))))


def test_nothing_written_names_no_round() -> None:
    assert (suite.scaled_by(np.full((128, 4, 16), 0xFF80FC01, np.uint32)) == -1).all()


def test_machine_whose_copies_overtake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcgen05_cp, "BEFORE", frozenset({"shift"}))
    assert "copy-not-early" in failed(run("scale-reuse", policy="random:1"))
