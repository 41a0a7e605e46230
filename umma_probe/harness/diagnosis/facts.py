"""What is known of a run that nothing explains: facts, each with the observation that it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.harness.coding import decode_d
from umma_probe.harness.diagnosis.instruction import untouched
from umma_probe.harness.gemm.judge import differing, expected_elements
from umma_probe.harness.occupancy import NOWHERE, columns, lanes

if TYPE_CHECKING:
    from umma_probe.harness.gemm.trial import Trial


def known_facts(trial: Trial) -> list[str]:
    """Sentences, from the certain to the general."""
    facts = []
    if not trial.readbacks_agree:
        facts.append("the readbacks differ: at least one of them does not read what it is believed to")
    if not trial.shared_as_staged:
        facts.append("shared memory does not hold what should have been staged")
    else:
        facts.append("shared memory holds what should have been staged")
    place = expected_elements(trial)[0] != NOWHERE
    left = untouched(trial)
    if (missing := left & place).any() and trial.clean.fill != "zero":
        facts.append(f"not written: columns {columns(missing)}, lanes {lanes(missing)} of D hold what was there before")
    if (changed := ~left & ~place).any():
        facts.append(f"changed outside of D: columns {columns(changed)}, lanes {lanes(changed)}")
    facts += _values(trial, place)
    return facts


def _values(trial: Trial, place: np.ndarray) -> list[str]:
    zero = np.ones(place.shape, np.bool_)
    wrong = np.zeros(place.shape, np.bool_)
    for seen in trial.seen:
        words = trial.words(seen)
        zero &= decode_d(words, trial.clean.d_type) == 0
        wrong |= differing(trial, trial.expected_words(seen), words)
    facts = []
    if (zero & place).any():
        facts.append(f"zero in all launches: columns {columns(zero & place)}, lanes {lanes(zero & place)}")
    wrong &= place & ~zero
    if wrong.any():
        facts.append(f"other values than expected: columns {columns(wrong)}, lanes {lanes(wrong)}")
    return facts
