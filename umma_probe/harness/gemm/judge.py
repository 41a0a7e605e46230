"""What a GEMM probe's dumps show: every cell against the documents, the values against float64 and the arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.harness.coding import decode_d
from umma_probe.harness.gemm.predict import filled_tmem, stage_tmem_a
from umma_probe.harness.occupancy import NOWHERE, Observation, columns, lanes
from umma_probe.harness.readback import LOW_HALF, joined
from umma_probe.harness.suite import noted, passed
from umma_probe.layouts.tmem_accumulator import RecoveredLayout, accumulator_map, recover_layout
from umma_probe.record.schema import CellState, Check
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from umma_probe.harness.gemm.trial import Seen, Trial
    from umma_probe.harness.occupancy import BoolArray, IntArray, Words

_CELLS = (
    (CellState.MISSING, "still hold what was there before: not written"),
    (CellState.ZERO, "hold zero"),
    (CellState.MISPLACED, "hold another element of D"),
    (CellState.WRONG, "hold no element of D"),
    (CellState.UNEXPECTED, "changed although no element belongs there"),
)


def expected_elements(trial: Trial) -> tuple[IntArray, IntArray]:
    """Which element (m, n) of D belongs in each cell (128, 512); -1 for none."""
    clean = trial.clean
    m_at, n_at = (np.full((TMEM_LANES, TMEM_COLUMNS), NOWHERE, np.int64) for _ in range(2))
    held = accumulator_map(clean.m, clean.n, ws=clean.ws, lane_base=clean.d_lane)
    rows: IntArray = np.broadcast_to(np.arange(clean.m)[:, None], held.lane.shape)
    across: IntArray = np.broadcast_to(np.arange(clean.n)[None], held.lane.shape)
    lane = rows if clean.read_as_layout_d else held.lane
    for sub in range(clean.subs):
        column = held.column + clean.d_column + sub * clean.n
        inside = column < TMEM_COLUMNS
        m_at[lane[inside], column[inside]] = rows[inside]
        n_at[lane[inside], column[inside]] = across[inside] + sub * clean.n
    return m_at, n_at


def observe(trial: Trial, coded: Sequence[Seen]) -> Observation:
    """Each cell of the coded passes as an element of D."""
    words = np.stack([trial.words(seen) for seen in coded])
    values = decode_d(words, trial.clean.d_type)
    found = [seen.codes.coded.coordinate(value) for seen, value in zip(coded, values, strict=True) if seen.codes.coded]
    expected_m, expected_n = expected_elements(trial)
    fill = filled_tmem(trial.clean, trial.before, coded[0].image.base, trial.arch)
    return Observation(
        words=words,
        zero=np.asarray((values == 0).all(axis=0)),
        found_m=found[0],
        found_n=found[1],
        expected_m=expected_m,
        expected_n=expected_n,
        operand=_operand_unchanged(trial, coded, words, fill),
        fill=fill,
    )


def _operand_unchanged(trial: Trial, coded: Sequence[Seen], words: Words, fill: Words) -> BoolArray:
    """Where A lies in Tensor Memory as it was staged, in all passes."""
    unchanged = np.zeros((TMEM_LANES, TMEM_COLUMNS), np.bool_)
    if not trial.clean.a_in_tmem:
        return unchanged
    place = slice(trial.clean.a_column, trial.clean.a_column + 8 * trial.clean.tiles)
    unchanged[:, place] = True
    for seen, read in zip(coded, words, strict=True):
        staged = fill.copy()
        stage_tmem_a(trial.clean, staged, seen.codes.a_codes)
        unchanged &= read == staged
    return unchanged


def layout_of(trial: Trial, observed: Observation) -> tuple[str, str]:
    """Name of the documented layout of D and of the recovered one; ``none`` where none fits."""
    clean = trial.clean
    expected = RecoveredLayout(
        accumulator_map(clean.m, clean.n, ws=clean.ws, lane_base=clean.d_lane).layout, clean.d_lane
    )
    if clean.subs > 1:  # side by side, sub-tiles are one accumulator only in layouts with all of N in a row of columns
        right = bool((observed.states[observed.expected] == observed.code(CellState.RIGHT)).all())
        return expected.name, expected.name if right else "none"
    named = (observed.found_m != NOWHERE) & (observed.found_n != NOWHERE) & ~observed.operand
    found_m: IntArray = np.where(named, observed.found_m, NOWHERE)[:, clean.d_column :]
    found_n: IntArray = np.where(named, observed.found_n, NOWHERE)[:, clean.d_column :]
    if clean.fill == "stale":  # stale values may name elements by chance: only D's own columns count
        found_m, found_n = found_m[:, : clean.n], found_n[:, : clean.n]
    return expected.name, recover_layout(found_m, found_n, m=clean.m, n=clean.n).name


def cell_checks(trial: Trial, observed: Observation, all_seen: Sequence[Seen]) -> Iterator[Check]:
    """The readbacks against each other, and every kind of wrong cell."""
    names = joined([reading.readback for reading in trial.clean.readings])
    differs = np.any([trial.differing(seen) for seen in all_seen], axis=0)
    yield passed("readback", not differs.any(), f"{names} agree",
                 "agree" if not differs.any() else f"{int(differs.sum())} cells differ",
                 f"columns {columns(differs)}, lanes {lanes(differs)}")  # fmt: skip
    for state, message in _CELLS:
        cells = observed.at(state)
        count = int(cells.sum())
        where = f"columns {columns(cells)}, lanes {lanes(cells)} {message}"
        yield passed(state.name.lower(), not count, "no cell", "no cell" if not count else f"{count} cells", where)


def value_checks(trial: Trial, all_seen: Sequence[Seen]) -> tuple[list[Check], dict[str, float]]:
    """D of every pass: coded ones equal float64, all equal the arithmetic of the tensor core bit for bit."""
    m_at, n_at = expected_elements(trial)
    place = m_at != NOWHERE
    exact, bits, metrics = 0, 0, {}
    for seen in all_seen:
        words = trial.words(seen)
        reference = seen.codes.reference[m_at[place], n_at[place]]
        values = decode_d(words, trial.clean.d_type)[place]
        if seen.codes.coded:
            exact += int((values != reference).sum())
        else:
            metrics = _metrics(reference, values)
        bits += int(differing(trial, trial.expected_words(seen), words).sum())
    checks = [
        passed("float64", not exact, "equal", "equal" if not exact else f"{exact} values differ",
               "elements of the coded products differ from float64, where they are exact"),
        passed("bit-exact", not bits, "every word", "every word" if not bits else f"{bits} words differ",
               "Tensor Memory is not what the documented arithmetic leaves there, K tile by K tile"),
    ]  # fmt: skip
    if not _whole_words(trial):
        upper = np.concatenate([trial.words(seen)[place] for seen in all_seen]) >> 16
        checks.append(noted("upper-halves", "not zero" if upper.any() else "zero"))
    return checks, metrics


def differing(trial: Trial, expected: Words, actual: Words) -> BoolArray:
    """Cells (128, 512) that differ in what is documented: of a D of 16 bits the upper halves are not."""
    known = np.full(expected.shape, 0xFFFFFFFF, np.uint32)
    if not _whole_words(trial):
        known[expected_elements(trial)[0] != NOWHERE] = LOW_HALF
    return np.asarray((expected ^ actual) & known != 0)


def _whole_words(trial: Trial) -> bool:
    return FORMATS[trial.clean.d_type].container_bits == 32


def _metrics(reference: np.ndarray, values: np.ndarray) -> dict[str, float]:
    finite = np.where(np.isfinite(values), values, 0.0)
    size = float(np.linalg.norm(reference) * np.linalg.norm(finite))
    return {
        "cosine": float(reference @ finite) / size if size else 0.0,
        "max_abs_error": float(np.abs(reference - finite).max()),
    }
