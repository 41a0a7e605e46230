"""One experiment of a GEMM probe: the clean recipe, the recipe that is run, its passes, and what they left behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from umma_probe.harness.gemm.launch import HEADER_WORDS
from umma_probe.harness.gemm.predict import SharedImage, Unpredictable, expected_image, filled_shared, predict
from umma_probe.harness.readback import disagreement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.harness.gemm.passes import Pass
    from umma_probe.harness.gemm.recipe import Recipe
    from umma_probe.harness.suite import Outputs

Words = npt.NDArray[np.uint32]
BoolArray = npt.NDArray[np.bool_]
Registers = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Seen:
    """What one launch left: the registers of each readback, and shared memory (dumped bytes over the known fill)."""

    codes: Pass
    fill: str
    registers: tuple[Registers, ...]
    image: SharedImage


@dataclass(frozen=True)
class Trial:
    """The clean recipe, and what was seen. This is all that the diagnosis knows."""

    clean: Recipe
    before: Pass | None
    arch: str
    seen: Sequence[Seen]

    def words(self, seen: Seen, index: int = 0) -> Words:
        """Tensor Memory as readback ``index`` shows it, if it reads as documented; low halves only, if it packs."""
        return self.clean.readings[index].readback.words(seen.registers[index])

    def expected_words(self, seen: Seen) -> Words:
        """Tensor Memory if all is as documented.

        :raises Unpredictable: no document says.
        """
        clean = replace(self.clean, fill=seen.fill)
        return predict(clean, seen.codes, self.before, expected_image(clean, seen.codes, seen.image.base), self.arch)

    @property
    def readbacks_agree(self) -> bool:
        """Whether all show the same Tensor Memory in every launch."""
        return not any(self.differing(seen).any() for seen in self.seen)

    def differing(self, seen: Seen) -> BoolArray:
        """Cells (128, 512) that a readback shows otherwise than the first does."""
        readbacks = [reading.readback for reading in self.clean.readings]
        return disagreement(readbacks, [self.words(seen, index) for index in range(len(readbacks))])

    @property
    def shared_as_staged(self) -> bool:
        """Whether shared memory held in every launch what should have been staged."""
        return all(self.image_as_staged(seen) for seen in self.seen)

    def image_as_staged(self, seen: Seen) -> bool:
        """Whether shared memory holds what should have been staged."""
        expected = expected_image(self.clean, seen.codes, seen.image.base)
        return bool(np.array_equal(expected.data, seen.image.data))


def seen_of(clean: Recipe, codes: Pass, fill: str, output: Outputs) -> Seen:
    """From the buffers of a launch."""
    shared = output["shared"]
    image = filled_shared(int(shared[0]))
    data = np.ascontiguousarray(shared[HEADER_WORDS:]).view(np.uint8)
    image.data[: len(data)] = data
    dumps = tuple(output[f"dump_{index}"] for index in range(len(clean.readings)))
    return Seen(codes, fill, dumps, image)


__all__ = ["Seen", "Trial", "Unpredictable", "seen_of"]
