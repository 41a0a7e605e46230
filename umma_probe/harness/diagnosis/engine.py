"""From what a failed run left to its cause.

1. A run that comes out otherwise under another policy or repetition is a race, or MMAs meet in the same cells: PTX
   orders only those with the same accumulator and shape. Nothing else can be said of it.
2. Every candidate of every hypothesis predicts all registers of all launches (``Explainer``). One cause that
   explains them all is *certain*: its candidates are alone in that among all that are known here. If several do, the
   observation cannot tell them apart: the simplest is *possible*, and the evidence names the others.
3. If none does, but cells of D hold what they held before, that is the cause as far as it is seen (``not_written``);
   its confidence is *observed*, for the mechanism is not known.
4. Else there is no cause: the evidence is what is known, *missing* or *zero* included, and no guess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.harness.diagnosis import fetch, instruction, readback, staging  # noqa: F401  # they register themselves
from umma_probe.harness.diagnosis.facts import known_facts
from umma_probe.harness.diagnosis.hypothesis import HYPOTHESES, Candidate, Explainer, Rank
from umma_probe.harness.diagnosis.not_written import NOT_WRITTEN, diagnose_not_written
from umma_probe.record.schema import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.harness.gemm.recipe import Reading
    from umma_probe.harness.gemm.trial import Trial
    from umma_probe.record.schema import SanitizerFinding

UNEXPLAINED = "unexplained"
_OTHERS = 3


def diagnose(
    trial: Trial, again: Sequence[tuple[str, Trial]] = (), findings: Sequence[SanitizerFinding] = ()
) -> Diagnosis | None:
    """The cause of a failure; None where everything is as documented.

    :param again: the same launches once more, labelled.
    :param findings: the sanitizer's, on the model: evidence only.
    """
    return (
        _race(trial, again, findings)
        or _explained(trial)
        or _as_documented(trial, findings)
        or diagnose_not_written(trial)
        or _unexplained(trial)
    )


def _race(trial: Trial, again: Sequence[tuple[str, Trial]], findings: Sequence[SanitizerFinding]) -> Diagnosis | None:
    differing = [(label, count) for label, other in again if (count := _differences(trial, other))]
    if not differing:
        return None
    evidence = [
        f"{label}: {count} registers differ from the first run, with the same operands" for label, count in differing
    ]
    evidence += [f"sanitizer, {finding.rule}: {finding.message} ({finding.where})" for finding in findings]
    for one in (trial, *(other for _, other in again)):
        if found := _fitting(Explainer(one), Rank.CONFLICT):
            answer = _answer(one, found)
            return Diagnosis(answer.cause, answer.confidence, [*answer.evidence, *evidence])
    return Diagnosis("race: the result depends on when operations in flight take effect; a wait or fence is missing",
                     "certain", evidence)  # fmt: skip


def _differences(trial: Trial, other: Trial) -> int:
    return sum(
        int((mine != theirs).sum())
        for seen, its in zip(trial.seen, other.seen, strict=True)
        for mine, theirs in zip(seen.registers, its.registers, strict=True)
    )


def _explained(trial: Trial) -> Diagnosis | None:
    explainer = Explainer(trial)
    if not trial.readbacks_agree:
        found = _fitting(explainer, Rank.READER)
    else:
        found = _fitting(explainer, Rank.SPECIFIC, Rank.CONFLICT)
        found = _with_others(found, _fitting(explainer, Rank.GENERAL))
    return _answer(trial, found) if found else _wrong_staging(explainer)


def _with_others(found: dict[str, list[Candidate]], general: dict[str, list[Candidate]]) -> dict[str, list[Candidate]]:
    """Specific causes first; a general one that says the same of the kernel is no other cause."""
    known = {candidate.recipe for fitting in found.values() for candidate in fitting}
    others = {cause: [one for one in fitting if one.recipe not in known] for cause, fitting in general.items()}
    return {**found, **{cause: fitting for cause, fitting in others.items() if fitting}}


def _answer(trial: Trial, found: dict[str, list[Candidate]]) -> Diagnosis:
    (cause, fitting), *others = found.items()
    first = fitting[0]
    evidence = [
        *first.evidence,
        f"this predicts every register of {_all_of(trial.clean.readings)} in all {len(trial.seen)} launches",
    ]
    evidence += [f"as well explained by: {candidate.what}" for candidate in fitting[1:_OTHERS]]
    evidence += [f"not told apart by this run: {other}: {ones[0].what}" for other, ones in others]
    return Diagnosis(f"{cause}: {first.what}", "possible" if others else "certain", evidence)


def _all_of(readings: Sequence[Reading]) -> str:
    return "both readbacks" if len(readings) == 2 else f"all {len(readings)} readbacks"


def _fitting(explainer: Explainer, *ranks: Rank) -> dict[str, list[Candidate]]:
    """The candidates that explain the run, by cause.

    Where the clean recipe does, a candidate that changes it cannot be seen, and is none: what remains is about staging
    (shared memory holds something else) or about the reader.
    """
    trial = explainer.trial
    clean_explains = explainer.explains(trial.clean)
    found: dict[str, list[Candidate]] = {}
    for entry in HYPOTHESES.values():
        if entry.rank not in ranks:
            continue
        for candidate in entry.candidates(trial):
            if candidate.recipe == trial.clean if clean_explains else explainer.explains(candidate.recipe):
                found.setdefault(entry.cause, []).append(candidate)
    return found


def _wrong_staging(explainer: Explainer) -> Diagnosis | None:
    """Shared memory is not as it should be, in no way that has a name, and explains all the rest."""
    trial = explainer.trial
    if trial.shared_as_staged or not explainer.explains(trial.clean):
        return None
    return Diagnosis(
        "wrong-staging: an operand does not lie in shared memory as it should",
        "certain",
        [*staging.differing_elements(trial),
         "with shared memory as it is, the documented fetch and layout predict every register: the MMAs are right"],
    )  # fmt: skip


def _as_documented(trial: Trial, findings: Sequence[SanitizerFinding]) -> Diagnosis | None:
    """All cells are right, yet the sanitizer has found something: no other policy showed it."""
    if not findings or not Explainer(trial).explains(trial.clean) or not trial.shared_as_staged:
        return None
    evidence = [f"sanitizer, {finding.rule}: {finding.message} ({finding.where})" for finding in findings]
    evidence.append("every cell is right in this run and in the repetitions")
    return Diagnosis("race: accesses are not ordered; a wait or fence is missing", "likely", evidence)


def _unexplained(trial: Trial) -> Diagnosis | None:
    if Explainer(trial).explains(trial.clean) and trial.shared_as_staged:
        return None
    return Diagnosis(f"{UNEXPLAINED}: no known cause predicts this run", "possible", known_facts(trial))


def causes() -> list[str]:
    """All that can be named, in the order of preference."""
    return ["race", *HYPOTHESES, "wrong-staging", NOT_WRITTEN, UNEXPLAINED]


__all__ = ["UNEXPLAINED", "causes", "diagnose"]
