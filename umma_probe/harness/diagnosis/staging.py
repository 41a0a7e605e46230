"""Faults of staging. Shared memory was read back by ordinary loads, so they show before the tensor core comes in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.harness.diagnosis.hypothesis import Candidate, hypothesis
from umma_probe.harness.gemm.predict import element_addresses, expected_image
from umma_probe.harness.gemm.recipe import UNPACKED_TILE, Storing
from umma_probe.record.sets import format_set
from umma_probe.spec.machine import TMEM_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umma_probe.harness.gemm.passes import Codes
    from umma_probe.harness.gemm.recipe import Recipe
    from umma_probe.harness.gemm.trial import Seen, Trial

_LISTED_TILES = 4


def operands_in_shared(recipe: Recipe) -> tuple[str, ...]:
    """``a`` and ``b``, as far as they are in shared memory."""
    return ("b",) if recipe.a_in_tmem else ("a", "b")


@hypothesis("operand-hole")
def operand_hole(trial: Trial) -> Iterator[Candidate]:
    """Elements that are zero in shared memory in all coded passes, where no element of the probe is zero, and no other
    element is wrong: a displaced one may read zero by chance."""
    for name in operands_in_shared(trial.clean):
        holes = _zero_elements(trial, name)
        if not holes.any() or not _else_as_staged(trial, name, holes):
            continue
        staged = trial.clean.operand(name)
        per_tile = holes.reshape(len(holes), -1, trial.clean.tile_k).transpose(1, 0, 2).reshape(trial.clean.tiles, -1)
        rows = np.flatnonzero(holes.any(axis=1))
        base = trial.seen[0].image.base
        addresses = np.unique(element_addresses(trial.clean, staged, base)[holes] // 8 - base)
        width = max(staged.bits // 8, 1)
        found = format_set(np.unique(addresses[:, None] + np.arange(width)))
        sets = [format_set(np.flatnonzero(tile)) for tile in per_tile]
        places = sets[0] + " of each K tile" if len(set(sets)) == 1 else "; ".join(
            f"{text} of K tile {tile}" for tile, text in enumerate(sets) if text)  # fmt: skip
        axis = "n" if name == "b" else "m"
        evidence = (
            f"{name.upper()} as it lies in shared memory, read back by ordinary loads, is zero at elements {places} "
            f"([{axis}][k] order): rows {axis} = {format_set(rows)}",
            f"bytes of dynamic shared memory: {_shortened(found)}",
            *_written_with_zero(trial),
        )
        yield Candidate(f"operand {name.upper()} has holes, elements {places}", trial.clean, evidence)


def _shortened(text: str) -> str:
    parts = text.split(",")
    return text if len(parts) <= 16 else ",".join(parts[:16]) + f" and {len(parts) - 16} more ranges"


def _zero_elements(trial: Trial, name: str) -> np.ndarray:
    """Elements (rows, K) that read back as zero although staged as something else, in every coded pass."""
    coded = [_found_and_wanted(trial, seen, name) for seen in trial.seen if seen.codes.coded is not None]
    return np.asarray(np.all([(found == 0) & (wanted != 0) for found, wanted in coded], axis=0))


def _else_as_staged(trial: Trial, name: str, holes: np.ndarray) -> bool:
    """Whether the operand is as it should be but for these holes, in every pass."""
    pairs = [_found_and_wanted(trial, seen, name) for seen in trial.seen]
    return all(np.array_equal(found, np.where(holes, 0, wanted)) for found, wanted in pairs)


def _found_and_wanted(trial: Trial, seen: Seen, name: str) -> tuple[Codes, Codes]:
    """Codes (rows, K) of an operand as shared memory holds them, and as they were to be staged."""
    staged = trial.clean.operand(name)
    found = seen.image.gather(element_addresses(trial.clean, staged, seen.image.base), staged.bits)
    return found, seen.codes.a_codes if name == "a" else seen.codes.b_codes


def _written_with_zero(trial: Trial) -> Iterator[str]:
    """From the launches over the sentinel: cells that hold zero were written, so no column is skipped."""
    for seen in trial.seen:
        if seen.fill == "sentinel" and seen.codes.coded is not None:
            words = trial.words(seen)
            zero = (words == 0) & (trial.expected_words(seen) != 0)
            if zero.any():
                yield (f"over the sentinel, columns {format_set(np.flatnonzero(zero.any(axis=0)))} hold zero, not the "
                       "sentinel: written, with zero; the layout skips no column")  # fmt: skip
                return


@hypothesis("wrong-phase")
def wrong_phase(trial: Trial) -> Iterator[Candidate]:
    """Shared memory is what staging with a displaced swizzle pattern would leave."""
    for name in operands_in_shared(trial.clean):
        staged = trial.clean.operand(name)
        for phase in range(16, staged.placed.swizzle.atom_bytes, 16):
            displaced = replace(staged, placed=replace(staged.placed, phase=phase))
            if _staged_so(trial, trial.clean.with_operand(name, displaced)):
                evidence = (f"{name.upper()} lies in shared memory as if the swizzle pattern began {phase} bytes on",)
                yield Candidate(f"{name.upper()} is staged with its swizzle pattern displaced by {phase} bytes",
                                trial.clean, evidence)  # fmt: skip


def _staged_so(trial: Trial, recipe: Recipe) -> bool:
    return all(
        np.array_equal(expected_image(recipe, seen.codes, seen.image.base).data, seen.image.data) for seen in trial.seen
    )


@hypothesis("operand-unpacked")
def operand_unpacked(trial: Trial) -> Iterator[Candidate]:
    """A in Tensor Memory over more columns than an MMA reads: one element, or half a register, in each."""
    clean = trial.clean
    if not clean.a_in_tmem:
        return
    if clean.a.bits < 32:
        yield Candidate("A lies in Tensor Memory with one element a column, unpacked",
                        replace(clean, a_storing=Storing.ONE_A_COLUMN))  # fmt: skip
    if clean.a_column + UNPACKED_TILE * clean.tiles <= TMEM_COLUMNS:
        last = clean.a_column + UNPACKED_TILE * clean.tiles - 1
        yield Candidate(
            "A is stored with .unpack::16b, and an MMA reads packed columns",
            replace(clean, a_storing=Storing.UNPACK_16B),
            (f"columns {clean.a_column}-{last} hold A, 16 bits in the low half of each",),
        )


def differing_elements(trial: Trial) -> Iterator[str]:
    """Which elements of which operand are not at their bytes, in sentences."""
    for name in operands_in_shared(trial.clean):
        pairs = [_found_and_wanted(trial, seen, name) for seen in trial.seen]
        wrong = np.any([found != wanted for found, wanted in pairs], axis=0)
        if wrong.any():
            rows, ks = np.flatnonzero(wrong.any(axis=1)), np.flatnonzero(wrong.any(axis=0))
            yield (f"{int(wrong.sum())} elements of {name.upper()} are not where they belong in shared memory: rows "
                   f"{format_set(rows)}, k {format_set(ks)}")  # fmt: skip
