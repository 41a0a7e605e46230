"""Three witnesses of each case: what the documents say, what the model does, what the silicon does.

The checks of a probe compare its target with the documents. The model and a GPU are compared by what the kernel wrote:
equal digests are equal bits. Where outputs may differ by right (a probe with limits of its own), the limits decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.harness.sweep.case import SweepCase
    from umma_probe.harness.sweep.outcome import CaseResult, SweepResult

SAME, OTHER, INCOMPARABLE = "same bits", "other bits", "not comparable"


@dataclass(frozen=True)
class Testimony:
    """One case."""

    silicon: CaseResult
    model: CaseResult

    @property
    def bits(self) -> str:
        """Whether the two left the same outputs."""
        found = [result.facts.get("outputs") or {} for result in (self.silicon, self.model)]
        if not all(found) or "undecided" in (self.silicon.record.verdict, self.model.record.verdict):
            return INCOMPARABLE
        return SAME if found[0] == found[1] else OTHER

    @property
    def agree(self) -> bool:
        """The same verdict, and where there is something to compare the same bits or both within their limits."""
        same = self.silicon.record.verdict == self.model.record.verdict
        tolerant = bool(self.silicon.facts.get("accuracy"))
        return same and (self.bits != OTHER or tolerant)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "case": self.silicon.name,
            "documents": "agree" if self.silicon.ok else "differ",
            "silicon": self.silicon.record.verdict,
            "model": self.model.record.verdict,
            "bits": self.bits,
            "differing_outputs": self.differing,
        }

    @property
    def differing(self) -> list[str]:
        """Names of the outputs whose bits differ."""
        if self.bits != OTHER:
            return []
        ours, theirs = (result.facts["outputs"] for result in (self.silicon, self.model))
        return sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))


@dataclass(frozen=True)
class Comparison:
    """All cases that both ran."""

    name: str
    testimonies: Sequence[Testimony]

    @cached_property
    def disagreeing(self) -> list[Testimony]:
        """Where silicon and model do not say the same."""
        return [entry for entry in self.testimonies if not entry.agree]

    @property
    def counts(self) -> dict[str, int]:
        """How many cases left the same bits, others, or nothing to compare."""
        return {word: sum(entry.bits == word for entry in self.testimonies) for word in (SAME, OTHER, INCOMPARABLE)}

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "config": self.name,
            "cases": len(self.testimonies),
            "counts": self.counts,
            "disagreeing": [entry.to_json() for entry in self.disagreeing],
            "testimonies": [entry.to_json() for entry in self.testimonies],
        }


def compare(silicon: SweepResult, model: SweepResult) -> Comparison:
    """Pair the cases of two sweeps of one config; of several policies the model's ``eager`` one counts."""
    modelled: dict[str, CaseResult] = {}
    for result in model.results:
        if result.case.spec.policy == "eager":
            modelled.setdefault(_key(result.case), result)
    pairs = [(result, modelled.get(_key(result.case))) for result in silicon.results]
    return Comparison(silicon.name, [Testimony(ours, theirs) for ours, theirs in pairs if theirs is not None])


def _key(case: SweepCase) -> str:
    spec = case.spec
    return repr((spec.probe, sorted(spec.params.items()), spec.seed, spec.force))
