"""Faults of the reader. Sentinels name their own cells, so a readback that reads elsewhere gives itself away."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from umma_probe.errors import ConfigError
from umma_probe.harness.diagnosis.hypothesis import Candidate, Rank, hypothesis
from umma_probe.harness.gemm.recipe import UPPER_HALF, Reading
from umma_probe.layouts.tmem_ldst import LdStSpec, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umma_probe.harness.gemm.trial import Trial

_SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b")
_LARGEST_SHIFT = 128


@hypothesis("layout-mistaken")
def layout_mistaken(trial: Trial) -> Iterator[Candidate]:
    """The dump is what the documents say, the reader expects something else."""
    if trial.clean.read_as_layout_d:
        yield Candidate("D lies as documented (layout F), and is read as layout D", trial.clean,
                        ("Tensor Memory holds exactly what the documents say for this MMA: 16 rows in each 32 lanes",
                         "the reader takes row m from lane m"))  # fmt: skip


@hypothesis("readback-shape", Rank.READER)
def readback_shape(trial: Trial) -> Iterator[Candidate]:
    """Loaded with one shape, read as another with as many registers."""
    for index, reading in enumerate(trial.clean.readings):
        for spec in _shapes_like(reading.readback.spec):
            other = replace(reading.readback, spec=spec)
            if spec != reading.readback.spec and other.dump_shape == reading.readback.dump_shape:
                yield _reads(trial, index, replace(reading, readback=other),
                             f"readback {index} loads {spec} and is read as {reading.readback}")  # fmt: skip


def _shapes_like(loaded: LdStSpec) -> Iterator[LdStSpec]:
    """Those with as many registers, and packing as this one does."""
    for shape in _SHAPES:
        for num in (1, 2, 4, 8, 16, 32, 64, 128):
            try:
                spec = parse(f"{shape}.x{num}")
            except ConfigError:  # not every shape has every .xNUM
                continue
            if spec.registers == loaded.registers:
                yield replace(spec, pack=loaded.pack)


@hypothesis("readback-pack", Rank.READER)
def readback_pack(trial: Trial) -> Iterator[Candidate]:
    """Loads without the ``.pack::16b`` that the reader believes in, or the other way round."""
    for index, reading in enumerate(trial.clean.readings):
        spec = reading.readback.spec
        plain = replace(spec, pack=False)
        what = (f"readback {index} loads {plain} without .pack::16b, and is read as packed: each register holds one "
                "column, not the low halves of two" if spec.pack else
                f"readback {index} loads {plain} with .pack::16b, and is read as unpacked: each register holds the low "
                "halves of two columns, not one column")  # fmt: skip
        yield _reads(trial, index, replace(reading, pack_mistaken=True), what)


@hypothesis("readback-lane", Rank.READER)
def readback_lane(trial: Trial) -> Iterator[Candidate]:
    """The upper half of a warp's lanes is not reached, or from the wrong lane on."""
    for index, reading in enumerate(trial.clean.readings):
        if reading.readback.halves == 1:
            continue
        for step in range(UPPER_HALF):
            what = f"readback {index} ({reading.readback}) reads lane {step} on for lane {UPPER_HALF} on"
            yield _reads(trial, index, replace(reading, lane_step=step), what)


@hypothesis("readback-column", Rank.READER)
def readback_column(trial: Trial) -> Iterator[Candidate]:
    """All columns are off by the same number."""
    for index, reading in enumerate(trial.clean.readings):
        for shift in range(1, _LARGEST_SHIFT):
            yield _reads(trial, index, replace(reading, column=shift),
                         f"readback {index} ({reading.readback}) reads {shift} columns further right")  # fmt: skip


def _reads(trial: Trial, index: int, reading: Reading, what: str) -> Candidate:
    others = [f"{i} ({one.readback})" for i, one in enumerate(trial.clean.readings) if i != index]
    word, verb = ("readback", "shows") if len(others) == 1 else ("readbacks", "show")
    return Candidate(what, trial.clean.with_reading(index, reading),
                     (f"{word} {' and '.join(others)} {verb} every cell as documented",))  # fmt: skip
