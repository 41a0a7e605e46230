"""Nothing in the FMHA kernel's synchronisation is superfluous: without any of it, a witness notices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fmha_mutations import MUTATIONS, Mutation
from fmha_order import order_faults
from probe_runs import run

from umma_probe.assets import asset_file
from umma_probe.backends.model import ModelDevice
from umma_probe.record.schema import Report

POLICIES = ("eager", "lazy", *(f"random:{seed}" for seed in range(8)))
SIZES = {"hd": 32, "pv_n": "16", "seq_q": 128, "seq_k": 768}
"""Six KV tiles: every stage of the ring is used again, every phase comes up at least twice, the last one is odd. PV in
sub-tiles: accumulators that are not ordered against each other, so that more orders are possible."""


def source() -> str:
    return asset_file("probes", "fmha.cu").read_text(encoding="utf-8")


def changed(mutation: Mutation) -> str:
    text = source()
    assert text.count(mutation.old) == 1, "the kernel has changed: so must the table"
    return text.replace(mutation.old, mutation.new)


def reports(monkeypatch: pytest.MonkeyPatch, text: str, p: str, policies: tuple[str, ...]) -> Iterator[Report]:
    original = ModelDevice.compile
    monkeypatch.setattr(
        ModelDevice, "compile", lambda self, _, *rest, **options: original(self, text, *rest, **options)
    )
    for policy in policies:
        yield run("fmha", p=p, policy=policy, **SIZES)


def by(witness: str) -> list[Mutation]:
    return [mutation for mutation in MUTATIONS if mutation.seen_by == witness]


def name(mutation: Mutation) -> str:
    return mutation.name


@pytest.mark.slow
@pytest.mark.parametrize("mutation", by("run"), ids=name)
def test_the_model_notices(monkeypatch: pytest.MonkeyPatch, mutation: Mutation) -> None:
    verdicts = (report.verdict for report in reports(monkeypatch, changed(mutation), mutation.p, POLICIES))
    assert any(verdict != "pass" for verdict in verdicts)


@pytest.mark.parametrize("mutation", by("review"), ids=name)
def test_the_model_asks_for_a_second_look(monkeypatch: pytest.MonkeyPatch, mutation: Mutation) -> None:
    (report,) = reports(monkeypatch, changed(mutation), mutation.p, ("lazy",))
    assert report.verdict == "pass"
    assert {entry.rule for entry in report.reviews} == {mutation.rule}


@pytest.mark.parametrize("mutation", by("order"), ids=name)
def test_the_text_leaves_the_warp_in_parts(mutation: Mutation) -> None:
    assert len(order_faults(changed(mutation))) >= 1


@pytest.mark.parametrize("p", ["tmem", "smem"])
def test_the_kernel_itself_is_clean(p: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert order_faults(source()) == []
    for report in reports(monkeypatch, source(), p, POLICIES[:3]):
        assert report.verdict == "pass"
        assert not report.reviews


def test_every_synchronisation_is_in_the_table() -> None:
    """A wait or fence that is added to the kernel needs a row."""
    text = source()
    words = ("mbarrier_wait_parity(", "tcgen05_commit(", "mbarrier_arrive", "tcgen05_fence_", "tcgen05_wait_",
             "__syncthreads();", "__syncwarp();", "fence_proxy_async();", "fence_mbarrier_init();")  # fmt: skip
    lines = [line.strip() for line in text.splitlines() if any(word in line.split("//")[0] for word in words)]
    covered = [mutation.old for mutation in MUTATIONS]
    missing = [line for line in lines if not any(_touches(old, line) for old in covered)]
    assert missing == []


def _touches(old: str, line: str) -> bool:
    return any(part.strip() and (part.strip() in line or line in part) for part in old.split("\n"))
