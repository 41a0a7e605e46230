"""Cells of D that nothing wrote, and no known cause why: the observation stands, the mechanism is open.

It may be said where four things are seen: the readbacks agree in every register, so the reader is right; the cells hold
in every launch what they held before, the sentinel of their own lane and column or a stale value; that was no zero in
one launch at least, so *not written* is not *written, with zero*; nothing has changed outside of D, so D does not lie
elsewhere. What made it so (the tensor core, the MMA's form, a store that put the old words back) none of this shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.harness.diagnosis.instruction import untouched
from umma_probe.harness.gemm.judge import differing, expected_elements
from umma_probe.harness.occupancy import NOWHERE, columns, lanes
from umma_probe.harness.readback import joined
from umma_probe.record.schema import Diagnosis
from umma_probe.record.sets import named_set

if TYPE_CHECKING:
    from umma_probe.harness.gemm.trial import BoolArray, Trial

NOT_WRITTEN = "not-written"
OBSERVED = "observed"
"""Confidence in a cause that is seen, and whose own cause is not known."""
_LISTED = 4


def diagnose_not_written(trial: Trial) -> Diagnosis | None:
    """The observation; None where it cannot be made."""
    if trial.clean.read_as_layout_d or not trial.readbacks_agree:
        return None
    place = expected_elements(trial)[0] != NOWHERE
    left = untouched(trial)
    missing = left & place
    wrong = ~_documented(trial) & ~missing
    if not missing.any() or (wrong & ~place).any():
        return None
    cause = f"{NOT_WRITTEN}: {where(missing, place)} hold what they held before the MMA; nothing wrote them"
    return Diagnosis(cause, OBSERVED, _evidence(trial, missing, wrong))


def _documented(trial: Trial) -> BoolArray:
    """Cells (128, 512) that hold in every launch what the documents say."""
    wrong = [differing(trial, trial.expected_words(seen), trial.words(seen)) for seen in trial.seen]
    return np.asarray(~np.any(wrong, axis=0))


def _evidence(trial: Trial, missing: BoolArray, wrong: BoolArray) -> list[str]:
    cells = f"columns {columns(missing)}, lanes {lanes(missing)}"
    names = joined([reading.readback for reading in trial.clean.readings])
    over_sentinel = sum(seen.fill == "sentinel" for seen in trial.seen)
    facts = [f"{names} agree in every register"]
    if over_sentinel:
        facts.insert(0, f"the sentinel is intact in {cells}: each of these {int(missing.sum())} cells names its own "
                     f"lane and column, in {_launches(over_sentinel)} over the sentinel")  # fmt: skip
    else:
        facts.insert(0, f"the values of the GEMM before are intact in {cells}, in {_launches(len(trial.seen))}")
    if trial.shared_as_staged:
        facts.append("shared memory holds what should have been staged, so no operand has a hole")
    if wrong.any():
        facts.append(f"this is not all: columns {columns(wrong)}, lanes {lanes(wrong)} hold other values than expected")
    else:
        facts.append("every other cell is as documented")
    return [*facts, "no known cause predicts this run: that nothing wrote the cells is seen, why is not known"]


def _launches(count: int) -> str:
    return "1 launch" if count == 1 else f"all {count} launches"


def where(missing: BoolArray, place: BoolArray) -> str:
    """The cells, exactly: ``columns 32-35,48-51 of D in all of its lanes``; columns with the same lanes together."""
    groups: dict[bytes, list[int]] = {}
    for column in np.flatnonzero(missing.any(axis=0)):
        groups.setdefault(missing[:, column].tobytes(), []).append(int(column))
    parts = []
    for key, members in groups.items():
        in_lanes = np.frombuffer(key, np.bool_)
        every = bool((in_lanes == place[:, members[0]]).all())
        shown = "all of its lanes" if every else named_set("lane", np.flatnonzero(in_lanes))
        parts.append(f"{named_set('column', np.array(members))} of D in {shown}")
    more = f" and {len(parts) - _LISTED} more sets of columns" if len(parts) > _LISTED else ""
    return "; ".join(parts[:_LISTED]) + more
