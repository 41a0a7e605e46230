"""Faults of the instruction: its descriptor, its accumulator, the cells that it may write.

Negate A and negate B are one cause. The tensor core sees an operand in products only, and (-a) * b = a * (-b) for all a
and b: a product's sign is the exclusive or of its factors' signs, for zeros and infinities as well (IEEE 754, 6.3), and
any NaN gives the one canonical NaN (``model.arith``). So no operand and no accumulator tells the two fields apart, and
both at once cannot be seen at all: only the descriptor word itself shows them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.harness.diagnosis.hypothesis import Candidate, Rank, hypothesis
from umma_probe.harness.gemm.judge import expected_elements
from umma_probe.harness.gemm.predict import filled_tmem, stage_tmem_a
from umma_probe.harness.inject import reencode
from umma_probe.harness.occupancy import NOWHERE
from umma_probe.record.sets import format_set, named_set
from umma_probe.spec.idesc import decode_idesc
from umma_probe.spec.kinds import KINDS
from umma_probe.spec.machine import TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umma_probe.harness.gemm.trial import Trial
    from umma_probe.spec.idesc import IdescFields

_N_STEP = 8
_LARGEST_N = 256


def untouched(trial: Trial) -> np.ndarray:
    """Cells (128, 512) that hold in every launch what they held before the MMA."""
    cells = []
    for seen in trial.seen:
        recipe = replace(trial.clean, fill=seen.fill)
        before = filled_tmem(recipe, trial.before, seen.image.base, trial.arch)
        if recipe.a_in_tmem:
            stage_tmem_a(recipe, before, seen.codes.a_codes)
        cells.append(trial.words(seen) == before)
    return np.asarray(np.all(cells, axis=0))


@hypothesis("mma-skipped")
def mma_skipped(trial: Trial) -> Iterator[Candidate]:
    """No MMA, or not all along K."""
    yield Candidate("no MMA was executed", replace(trial.clean, issued_tiles=0),
                    ("every cell of D holds what it held before the MMA",))  # fmt: skip
    for tiles in range(1, trial.clean.tiles):
        yield Candidate(f"only the first {tiles} of {trial.clean.tiles} K tiles are multiplied",
                        replace(trial.clean, issued_tiles=tiles))  # fmt: skip


@hypothesis("sub-tile-skipped")
def sub_tile_skipped(trial: Trial) -> Iterator[Candidate]:
    """Some N sub-tiles of D, all of their cells, were left alone."""
    clean = trial.clean
    left = untouched(trial) | (expected_elements(trial)[0] == NOWHERE)
    first = [clean.d_column + sub * clean.d_step for sub in range(clean.subs)]
    skipped = tuple(sub for sub, column in enumerate(first) if left[:, column : column + clean.n].all())
    if skipped and len(skipped) < clean.subs:
        columns = format_set(np.concatenate([np.arange(first[sub], first[sub] + clean.n) for sub in skipped]))
        yield Candidate(f"no MMA makes {named_set('sub-tile', np.array(skipped))} of the {clean.subs} of D",
                        replace(clean, skipped_subs=skipped),
                        (f"columns {columns} hold what they held before the MMA, in all lanes of D",))  # fmt: skip


@hypothesis("lane-mask")
def lane_mask(trial: Trial) -> Iterator[Candidate]:
    """Some lanes of D, all of their columns, were left alone."""
    place = expected_elements(trial)[0] != NOWHERE
    if trial.clean.ws:
        return
    left = (untouched(trial) | ~place).all(axis=1) & place.any(axis=1)
    if not left.any() or left.sum() == place.any(axis=1).sum():
        return
    edges = np.flatnonzero(np.diff(np.concatenate(([0], left.astype(np.int8), [0]))))
    ranges = tuple((int(low), int(high)) for low, high in zip(edges[::2], edges[1::2], strict=True))
    named = format_set(np.flatnonzero(left))
    yield Candidate(f"lanes {named} were not written: a lane mask disables them",
                    replace(trial.clean, disabled_lanes=ranges),
                    (f"lanes {named} hold what they held before the MMA, in all columns of D",))  # fmt: skip


@hypothesis("wrong-idesc")
def wrong_idesc(trial: Trial) -> Iterator[Candidate]:
    """One field of the instruction descriptor is another one."""
    fields = decode_idesc(trial.clean.kind, trial.clean.idesc)
    for change in _field_changes(trial):
        word = reencode(fields, **change)
        yield Candidate(_named(change, fields), replace(trial.clean, idesc=word),
                        _word_evidence(change, word, fields, trial.clean.idesc))  # fmt: skip


def _field_changes(trial: Trial) -> Iterator[dict[str, Any]]:
    fields, kind = decode_idesc(trial.clean.kind, trial.clean.idesc), KINDS[trial.clean.kind]
    yield from ({"m": m} for m in (32, 64, 128) if m != fields.m)
    yield from ({"n": n} for n in range(_N_STEP, _LARGEST_N + 1, _N_STEP) if n != fields.n)
    for name in ("a_type", "b_type"):
        yield from ({name: type_} for type_ in kind.operand_types if type_ != getattr(fields, name))
    yield from ({"a_type": type_, "b_type": type_} for type_ in kind.operand_types
                if type_ != fields.a_type and type_ != fields.b_type)  # fmt: skip
    yield from ({"d_type": type_} for type_ in kind.d_types if type_ != fields.d_type)
    yield {"negate_a": not fields.negate_a}  # and negate_b with it: see above


def _named(change: dict[str, Any], fields: IdescFields) -> str:
    if "negate_a" in change:
        return "negate-a or negate-b: the product's sign; no values can tell them apart"
    return "field " + ", ".join(f"{name} is {value}, must be {getattr(fields, name)}" for name, value in change.items())


def _word_evidence(change: dict[str, Any], word: int, fields: IdescFields, clean: int) -> tuple[str, ...]:
    if "negate_a" not in change:
        return (f"instruction descriptor {word:#010x} in place of {clean:#010x}",)
    other = reencode(fields, negate_b=not fields.negate_b)
    return (
        f"instruction descriptor {word:#010x} or {other:#010x} in place of {clean:#010x}",
        "(-a) * b = a * (-b) for all a and b, zeros, infinities and NaNs included: compare the descriptor word itself",
    )


@hypothesis("stale-accumulator")
def stale_accumulator(trial: Trial) -> Iterator[Candidate]:
    """The first MMA adds to what the accumulator holds."""
    yield Candidate("the first MMA accumulates into what Tensor Memory held before",
                    replace(trial.clean, accumulate=not trial.clean.accumulate))  # fmt: skip


@hypothesis("shared-columns", Rank.CONFLICT)
def shared_columns(trial: Trial) -> Iterator[Candidate]:
    """Sub-tiles of D overlap, or lie apart."""
    clean = trial.clean
    if clean.subs == 1:
        return
    for step in range(2 * clean.n):
        if step != clean.d_step:
            sharing = ": they share columns" if step < clean.n else ""
            yield Candidate(f"sub-tiles of D begin {step} columns apart, must be {clean.d_step}{sharing}",
                            replace(clean, d_step=step))  # fmt: skip


@hypothesis("d-column")
def d_column(trial: Trial) -> Iterator[Candidate]:
    """D lies at other columns; the sentinels around it, which name their own cells, say that the readback is right."""
    if trial.clean.a_in_tmem:
        written = ~untouched(trial)
        written[:, trial.clean.a_column : trial.clean.a_column + 8 * trial.clean.tiles] = False
    else:
        written = ~untouched(trial)
    columns = np.flatnonzero(written.any(axis=0))
    if len(columns) and int(columns[0]) != trial.clean.d_column:
        found = int(columns[0])
        yield Candidate(f"D begins at column {found}, must be {trial.clean.d_column}",
                        replace(trial.clean, d_column=found),
                        ("what lies beside D is at its own lanes and columns, so the readback is right",))  # fmt: skip


@hypothesis("tmem-overlap", Rank.CONFLICT)
def tmem_overlap(trial: Trial) -> Iterator[Candidate]:
    """A in Tensor Memory lies inside of D."""
    clean = trial.clean
    if not clean.a_in_tmem or _a_where_it_belongs(trial):
        return
    end = min(clean.d_column + clean.total_n, 512 - 8 * clean.tiles + 1)
    for column in range(max(0, clean.d_column - 8 * clean.tiles + 1), end):
        if column != clean.a_column:
            last = clean.a_column + 8 * clean.tiles - 1
            yield Candidate(f"A begins at column {column} of Tensor Memory, inside of D, must be {clean.a_column}",
                            replace(clean, a_column=column),
                            (f"columns {clean.a_column}-{last} do not hold A",))  # fmt: skip


def _a_where_it_belongs(trial: Trial) -> bool:
    clean = trial.clean
    place = slice(clean.a_column, clean.a_column + 8 * clean.tiles)
    for seen in trial.seen:
        staged = np.zeros((TMEM_LANES, 512), np.uint32)
        stage_tmem_a(clean, staged, seen.codes.a_codes)
        if not np.array_equal(trial.words(seen)[:, place], staged[:, place]):
            return False
    return True
