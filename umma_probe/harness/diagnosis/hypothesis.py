"""A hypothesis is a cause with candidates, and a candidate is a recipe: what the kernel did, if this is the cause.

A candidate explains a run if it predicts every register of every readback of every launch. That is what makes an answer
more than a guess: a candidate is not scored by resemblance, it is right in all cells or it is dropped. Candidates are
made from the clean recipe and what was seen alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.harness.gemm.predict import Unpredictable, predict
from umma_probe.harness.gemm.registers import load
from umma_probe.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from umma_probe.harness.gemm.recipe import Recipe
    from umma_probe.harness.gemm.trial import Seen, Trial


@dataclass(frozen=True)
class Candidate:
    """One way in which a cause may have come about."""

    what: str
    """In words, after the cause's name."""
    recipe: Recipe
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hypothesis:
    """A cause, and its candidates for a given run."""

    cause: str
    candidates: Callable[[Trial], Iterator[Candidate]]


HYPOTHESES: Registry[Hypothesis] = Registry("hypothesis")


def hypothesis(
    cause: str,
) -> Callable[[Callable[[Trial], Iterator[Candidate]]], Callable[[Trial], Iterator[Candidate]]]:
    """Register a function from a trial to candidates under a cause. Simpler causes are registered first."""

    def register(function: Callable[[Trial], Iterator[Candidate]]) -> Callable[[Trial], Iterator[Candidate]]:
        HYPOTHESES.add(cause, Hypothesis(cause, function))
        return function

    return register


def explains(trial: Trial, recipe: Recipe) -> bool:
    """Whether the recipe predicts every register of every launch, given what shared memory held."""
    telling_first = sorted(trial.seen, key=lambda seen: seen.codes.coded is not None)
    try:
        return all(_predicts(trial, recipe, seen) for seen in telling_first)
    except Unpredictable:
        return False


def _predicts(trial: Trial, recipe: Recipe, seen: Seen) -> bool:
    words = predict(replace(recipe, fill=seen.fill), seen.codes, trial.before, seen.image, trial.arch)
    return all(
        np.array_equal(load(words, reading), registers)
        for reading, registers in zip(recipe.readings, seen.registers, strict=True)
    )
