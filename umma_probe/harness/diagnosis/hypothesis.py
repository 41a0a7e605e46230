"""A hypothesis is a cause with candidates, and a candidate is a recipe: what the kernel did, if this is the cause.

A candidate explains a run if it predicts every register of every readback of every launch. That is what makes an answer
more than a guess: a candidate is not scored by resemblance, it is right in all cells or it is dropped. Candidates are
made from the clean recipe and what was seen alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from umma_probe.harness.gemm.predict import Unpredictable, predict
from umma_probe.harness.gemm.registers import load
from umma_probe.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from umma_probe.harness.gemm.recipe import Recipe
    from umma_probe.harness.gemm.trial import Trial

    Candidates = Callable[[Trial], Iterator["Candidate"]]

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Candidate:
    """One way in which a cause may have come about."""

    what: str
    """In words, after the cause's name."""
    recipe: Recipe
    evidence: tuple[str, ...] = ()


class Rank(Enum):
    """Which hypotheses are tried, and when."""

    SPECIFIC = 1
    GENERAL = 2
    """An open parameter; named only if nothing specific explains the run, or as what cannot be told from it."""
    READER = 3
    """About one readback; tried if and only if the two differ."""
    CONFLICT = 4
    """MMAs meet in the same cells, in no order that PTX promises: as SPECIFIC, and also where runs differ."""


@dataclass(frozen=True)
class Hypothesis:
    """A cause, and its candidates for a given run."""

    cause: str
    rank: Rank
    candidates: Candidates


HYPOTHESES: Registry[Hypothesis] = Registry("hypothesis")


def hypothesis(cause: str, rank: Rank = Rank.SPECIFIC) -> Callable[[Candidates], Candidates]:
    """Register a function from a trial to candidates under a cause. Simpler causes are registered first."""

    def register(function: Candidates) -> Candidates:
        HYPOTHESES.add(cause, Hypothesis(cause, rank, function))
        return function

    return register


class Explainer:
    """Compares what recipes predict with what was seen; predictions of Tensor Memory are kept for other readbacks."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._telling_first = sorted(trial.seen, key=lambda seen: seen.codes.coded is not None)
        self._words: dict[tuple[Recipe, int], Words | None] = {}

    def explains(self, recipe: Recipe) -> bool:
        """Whether the recipe predicts every register of every launch, given what shared memory held."""
        return all(self._predicts(recipe, index) for index in range(len(self._telling_first)))

    def _predicts(self, recipe: Recipe, index: int) -> bool:
        seen = self._telling_first[index]
        words = self._predicted(replace(recipe, fill=seen.fill, readings=self.trial.clean.readings), index)
        if words is None:
            return False
        try:
            return all(
                np.array_equal(load(words, reading), registers)
                for reading, registers in zip(recipe.readings, seen.registers, strict=True)
            )
        except Unpredictable:
            return False

    def _predicted(self, recipe: Recipe, index: int) -> Words | None:
        key = (recipe, index)
        if key not in self._words:
            seen = self._telling_first[index]
            try:
                self._words[key] = predict(recipe, seen.codes, self.trial.before, seen.image, self.trial.arch)
            except Unpredictable:
                self._words[key] = None
        return self._words[key]
