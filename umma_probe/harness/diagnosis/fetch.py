"""Faults of what the MMAs are told about an operand in shared memory: the fetch permutes it, or reads elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from umma_probe.harness.diagnosis.hypothesis import Candidate, Rank, hypothesis
from umma_probe.harness.diagnosis.staging import operands_in_shared
from umma_probe.harness.diagnosis.strides import likely_values
from umma_probe.harness.inject import reencode
from umma_probe.spec.descriptors import Swizzle
from umma_probe.spec.idesc import decode_idesc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umma_probe.harness.gemm.recipe import Read
    from umma_probe.harness.gemm.trial import Trial

_FIELD_BYTES = 1 << 18


@hypothesis("lbo-sbo-swap")
def lbo_sbo_swap(trial: Trial) -> Iterator[Candidate]:
    """LBO for SBO and SBO for LBO."""
    for name in operands_in_shared(trial.clean):
        read = trial.clean.operand(name).read
        if read.lbo != read.sbo:
            swapped = replace(read, lbo=read.sbo, sbo=read.lbo)
            yield _told(trial, name, swapped, f"{name.upper()} is fetched with LBO and SBO exchanged "
                        f"({read.sbo} and {read.lbo} bytes)")  # fmt: skip


@hypothesis("unit-forgotten")
def unit_forgotten(trial: Trial) -> Iterator[Candidate]:
    """Bytes in a field that counts 16 bytes."""
    for name in operands_in_shared(trial.clean):
        read = trial.clean.operand(name).read
        for field in ("lbo", "sbo"):
            value = getattr(read, field)
            wrong = value * 16 % _FIELD_BYTES
            if wrong != value:
                yield _told(trial, name, read.changed(**{field: wrong}), f"{field.upper()} of {name.upper()} counts "
                            f"bytes instead of 16 bytes: {wrong} for {value}")  # fmt: skip
    yield Candidate("the start addresses of the descriptors count bytes instead of 16 bytes",
                    replace(trial.clean, start_unit_forgotten=True))  # fmt: skip


@hypothesis("wrong-swizzle")
def wrong_swizzle(trial: Trial) -> Iterator[Candidate]:
    """Another swizzle mode than staged."""
    for name in operands_in_shared(trial.clean):
        read = trial.clean.operand(name).read
        for mode in Swizzle:
            if mode is not read.swizzle:
                yield _told(trial, name, replace(read, swizzle=mode), f"{name.upper()} is fetched with swizzle "
                            f"{mode.text}, and was staged with {read.swizzle.text}")  # fmt: skip


@hypothesis("wrong-major")
def wrong_major(trial: Trial) -> Iterator[Candidate]:
    """The other major-ness than staged (the transpose bits of the instruction descriptor)."""
    fields = decode_idesc(trial.clean.kind, trial.clean.idesc)
    for name in operands_in_shared(trial.clean):
        major = fields.a_major if name == "a" else fields.b_major
        other = "mn" if major == "k" else "k"
        word = reencode(fields, **{f"{name}_major": other})
        yield Candidate(f"{name.upper()} is fetched {other.upper()}-major, and was staged {major.upper()}-major",
                        replace(trial.clean, idesc=word))  # fmt: skip


@hypothesis("k-panel-stride", Rank.GENERAL)
def k_panel_stride(trial: Trial) -> Iterator[Candidate]:
    """Another step from one K tile, or from one row width of K, to the next."""
    if trial.clean.tiles == 1:
        return
    for name in operands_in_shared(trial.clean):
        read = trial.clean.operand(name).read
        field = "jump" if read.run < trial.clean.tiles else "step"
        value = getattr(read, field)
        what = "row width of K" if field == "jump" else "K tile"
        for wrong in likely_values(trial, name, field):
            yield _told(trial, name, read.changed(**{field: wrong}), f"{name.upper()} steps {wrong} bytes to the next "
                        f"{what}, must step {value}")  # fmt: skip


@hypothesis("wrong-start", Rank.GENERAL)
def wrong_start(trial: Trial) -> Iterator[Candidate]:
    """Another start address."""
    for name in operands_in_shared(trial.clean):
        read = trial.clean.operand(name).read
        for wrong in likely_values(trial, name, "smem"):
            yield _told(trial, name, replace(read, smem=wrong), f"{name.upper()} is fetched from byte {wrong} of "
                        f"dynamic shared memory, and was staged at {read.smem}")  # fmt: skip


@hypothesis("wrong-stride", Rank.GENERAL)
def wrong_stride(trial: Trial) -> Iterator[Candidate]:
    """Another LBO or SBO."""
    for name in operands_in_shared(trial.clean):
        read = trial.clean.operand(name).read
        for field in ("lbo", "sbo"):
            for wrong in likely_values(trial, name, field):
                yield _told(trial, name, read.changed(**{field: wrong}), f"{name.upper()} is fetched with "
                            f"{field.upper()} {wrong} bytes, must be {getattr(read, field)}")  # fmt: skip


def _told(trial: Trial, name: str, read: Read, what: str) -> Candidate:
    return Candidate(what, trial.clean.with_read(name, read))
