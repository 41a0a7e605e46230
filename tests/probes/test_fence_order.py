"""``fence-order`` on the model: right under every policy; what each omission makes visible, under which policy."""

import numpy as np
import pytest
from probe_runs import POLICIES, failed, passes, run

from umma_probe.harness.suites.fence_order import classify

# omission -> policy -> the checks that fail
VISIBLE = {
    "wait-st": {"eager": set(), "lazy": {"no-a"}, "random:2": {"stale-a"}},
    "proxy-fence": {"eager": {"sanitizer"}, "lazy": {"sanitizer"}, "random:2": {"sanitizer"}},
    "commit-wait": {"eager": set(), "lazy": {"sentinel"}, "random:2": {"old-d", "sentinel"}},
    "wait-ld": {"eager": set(), "random:2": {"next-d"}},
}
# omission -> what the model wants looked at; the fence before the next round's barrier covers the one before reuse
FENCES = {
    "fence-before-mma": {"missing-fence-before-thread-sync"},
    "fence-after-barrier": {"missing-fence-after-thread-sync"},
    "fence-after-commit": {"missing-fence-after-thread-sync"},
    "fence-before-reuse": set(),
}


@pytest.mark.parametrize("policy", [*POLICIES, "random:1", "random:2", "random:3"])
def test_the_whole_example_is_right(policy: str) -> None:
    report = run("fence-order", policy=policy)
    passes(report)
    assert not report.reviews
    assert report.metrics == {"rounds": 16.0, "rounds_wrong": 0.0}


@pytest.mark.parametrize(("left_out", "policy"), [(step, policy) for step in VISIBLE for policy in VISIBLE[step]])
def test_omissions_and_the_policies_that_show_them(left_out: str, policy: str) -> None:
    report = run("fence-order", leave_out=left_out, policy=policy)
    assert failed(report) >= VISIBLE[left_out][policy]
    assert failed(report) - {"sanitizer"} == VISIBLE[left_out][policy] - {"sanitizer"}
    visible = bool(failed(report) - {"sanitizer"})
    assert report.notes[0].startswith(f"{left_out} was left out: {'visible in' if visible else 'not visible'}")


@pytest.mark.parametrize(("step", "rules"), FENCES.items())
def test_tcgen05_fences_change_no_value_on_the_model(step: str, rules: set[str]) -> None:
    """They order, and wait for nothing; what the model does is the same without them, but it asks for them."""
    report = run("fence-order", leave_out=step, policy="random:2")
    assert report.metrics["rounds_wrong"] == 0
    assert {entry.rule for entry in report.reviews} == rules


def test_values_are_told_apart() -> None:
    """By hand: round 3 of 4, lane 5: right, A of round 2, B of round 1, D of rounds 2 and 4, nothing known."""
    out = np.zeros((4, 128, 8), np.float32)
    rounds, lanes = np.indices((4, 128))
    out[:] = (1 + lanes + 256 * rounds + 4096 * rounds)[..., None]
    made_of = [(3, 3), (2, 3), (3, 1), (2, 2), (4, 4)]
    out[3, 5, : len(made_of)] = [1 + 5 + 256 * a + 4096 * b for a, b in made_of]
    out[3, 5, 5] = 0.5
    counts = {name: int(count[3]) for name, count in classify(out.view(np.uint32)).items()}
    assert counts == {
        "right": 1024 - 5, "stale-a": 1, "stale-b": 1, "old-d": 1, "next-d": 1, "no-a": 0, "sentinel": 0, "other": 1
    }  # fmt: skip
