"""``ldst-map``: which cell each register of ``tcgen05.ld`` and ``tcgen05.st`` belongs to, in both directions.

Each half of a stored register holds a name of its own (half, warp, thread, register), each half of a cell that is
loaded its lane or its column. What is expected follows from ``layouts.tmem_ldst``; what is found needs no layout but
that of 32x32b, which the same probe examines. Where the two halves of 16x32bx2 overlap, two threads store to one cell:
no document says whose word stays, and the report notes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.fills import sentinel_words
from umma_probe.harness.occupancy import place
from umma_probe.harness.readback import THREADS, WARPS, Readback
from umma_probe.harness.suite import Experiment, Judgement, LaunchPlan, Output, Outputs, noted, passed
from umma_probe.harness.wording import counted
from umma_probe.layouts.tmem_ldst import LdStMap, LdStShape, LdStSpec, ldst_map, parse
from umma_probe.record.schema import Check
from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES
from umma_probe.spec.problems import Problem
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.harness.suite import Array

_TMEM = documented("Tensor Memory", "128 lanes by 512 columns per CTA")
_READBACK = Readback(parse("32x32b.x32"))
_PARTITION = 32
_LOW = 0xFFFF
_UPPER = 0x8000
"""Marks the upper half of a cell that is loaded."""


@dataclass(frozen=True)
class LdStCase:
    """One form at one column."""

    spec: LdStSpec
    column: int
    split: int | None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> LdStCase:
        """From the parameters; a form that does not exist is a wrong parameter."""
        spec = LdStSpec(LdStShape(params["shape"]), params["num"], params["pack"])
        return cls(spec, params["column"], params["split"])

    @cached_property
    def map(self) -> LdStMap:
        """What the documents say.

        :raises ConfigError: a split for a shape that has none.
        """
        return ldst_map(self.spec.shape, self.spec.num, pack=self.spec.pack, half_split=self.split)

    @property
    def halves(self) -> int:
        """Instructions for all lanes of a warp."""
        return _PARTITION // self.spec.shape.lanes

    @property
    def loaded_shape(self) -> tuple[int, int, int, int, int]:
        """(pass, half of the lanes, warp, thread, register)."""
        return 2, self.halves, WARPS, THREADS, self.spec.registers

    def cells(self, high: bool) -> tuple[Array, Array]:
        """Lane and column of (half of the lanes, warp, thread, register), or of their upper 16 bits."""
        column = self.map.column if not high or self.map.column_high is None else self.map.column_high
        half, warp = np.indices((self.halves, WARPS))[..., None, None]
        lane = _PARTITION * warp + self.spec.shape.lanes * half + self.map.lane
        return lane, np.broadcast_to(self.column + column, lane.shape)

    @cached_property
    def shared_cells(self) -> Array:
        """Cells that two threads store to, (128, 512): where the halves of 16x32bx2 overlap."""
        writers = np.zeros((TMEM_LANES, TMEM_COLUMNS), np.int64)
        for high in (False, True)[: 1 + self.spec.pack]:
            np.add.at(writers, self.cells(high), 1)
        return np.asarray(writers > 1)


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """One launch; nothing is random and no target differs."""
    case = LdStCase.of(params)
    last = TMEM_COLUMNS - case.map.columns_used
    problems = []
    if case.column > last:
        message = f"column is {case.column}, must be at most {last}: {case.spec} takes {case.map.columns_used} columns"
        if last < 0:
            raise ConfigError(message, ref=str(_TMEM))
        problems.append(Problem("column", message, _TMEM))
    defines: dict[str, object] = {
        "SHAPE": case.spec.shape.value,
        "NUM": case.spec.num,
        "REGISTERS": case.spec.registers,
        "PACK_16B": int(case.spec.pack),
    }
    if case.map.half_split is not None:
        defines["SPLIT"] = case.map.half_split
    return Experiment(
        params={**params, "split": case.map.half_split},
        problems=problems,
        defines=defines,
        launches=[
            LaunchPlan(
                entry="ldst_map",
                args=[
                    Output("stored", _READBACK.dump_shape),
                    Output("loaded", case.loaded_shape),
                    np.uint32(case.column),
                ],
            )
        ],
        judge=lambda outputs: judge(case, outputs),
    )


def judge(case: LdStCase, outputs: Sequence[Outputs]) -> Judgement:
    """Both directions against the documents."""
    (output,) = outputs
    stored = _READBACK.words(output["stored"])
    return Judgement([*_store_checks(case, stored), *_load_checks(case, output["loaded"])])


# ------------------------------------------------------------------------------------------------------------- stores


def _names(case: LdStCase, high: int) -> Array:
    """The name of each half register, shape (half of the lanes, warp, thread, register)."""
    _, warp, thread, register = np.indices((case.halves, WARPS, THREADS, case.spec.registers))
    names: Array = 1 + (high << 14 | warp << 12 | thread << 7 | register)
    return names


def _store_checks(case: LdStCase, stored: Array) -> Iterator[Check]:
    """What lies in every half of every cell; where ``.unpack::16b`` leaves upper halves open, those are noted."""
    sentinel = sentinel_words()
    expected = sentinel.copy()
    known = np.full(expected.shape, 0xFFFFFFFF, np.uint32)
    if case.spec.pack:
        for high in (0, 1):
            cells = case.cells(bool(high))
            expected[cells] = _names(case, high)
            known[cells] = _LOW
        yield noted("upper-halves", _upper_halves(stored[known == _LOW], sentinel[known == _LOW]))
    else:
        expected[case.cells(False)] = _names(case, 1) << 16 | _names(case, 0)
    if case.shared_cells.any():
        known[case.shared_cells] = 0
        yield noted("overlap", _whose(stored[case.shared_cells]))
    wrong = (stored ^ expected) & known != 0
    kept = wrong & (stored == sentinel)
    yield passed("stored", not wrong.any(), "all in their cells", counted(wrong.sum(), "cell") + " wrong",
                 f"{place(wrong)}: {_first_stored(stored, expected, wrong)}")  # fmt: skip
    yield passed("not-written", not kept.any(), "no cell", counted(kept.sum(), "cell"),
                 f"{place(kept)} still hold the sentinel")  # fmt: skip


def _whose(words: Array) -> str:
    """Which of two threads' words the cells hold."""
    second = ((words & _LOW) - 1 >> 7 & 31) >= THREADS // 2
    if second.all() or not second.any():
        return f"the word of the {'second' if second.all() else 'first'} 16 threads stays"
    return "now the one, now the other of the two threads' words stays"


def _upper_halves(words: Array, sentinel: Array) -> str:
    upper = words >> 16
    if not upper.any():
        return "zero"
    return "kept" if (upper == sentinel >> 16).all() else "neither zero nor kept"


def _first_stored(stored: Array, expected: Array, wrong: Array) -> str:
    if not wrong.any():
        return ""
    lane, column = (int(index) for index in np.argwhere(wrong)[0])
    found, wanted = int(stored[lane, column]), int(expected[lane, column])
    return f"lane {lane}, column {column} holds {_register(found)}, must hold {_register(wanted)}"


def _register(word: int) -> str:
    """The register that a cell's low half names."""
    name = (word & _LOW) - 1
    if not 0 <= name < _UPPER:
        return f"{word:#010x}, no register"
    half = "upper" if name >> 14 else "lower"
    return f"the {half} half of register {name & 127} of thread {name >> 7 & 31} of warp {name >> 12 & 3}"


# -------------------------------------------------------------------------------------------------------------- loads


def _load_checks(case: LdStCase, loaded: Array) -> Iterator[Check]:
    """Where each register came from: pass 0 says the lane, pass 1 the column."""
    high_mark = 0 if case.spec.pack else _UPPER
    expected = np.stack([case.cells(False), case.cells(True)])  # (half register, lane or column, ...)
    found = np.stack([loaded & _LOW, loaded >> 16]).astype(np.int64)
    found[1] ^= high_mark
    wrong = (found != expected).any(axis=(0, 1))
    yield passed("loaded", not wrong.any(), "all from their cells", counted(wrong.sum(), "register") + " wrong",
                 _first_loaded(case, found, expected, wrong))  # fmt: skip


def _first_loaded(case: LdStCase, found: Array, expected: Array, wrong: Array) -> str:
    if not wrong.any():
        return ""
    half, warp, thread, register = (int(index) for index in np.argwhere(wrong)[0])
    came, must = found[:, :, half, warp, thread, register], expected[:, :, half, warp, thread, register]
    bits = int((came[1] != must[1]).any())
    (lane, column), (wanted_lane, wanted_column) = came[bits], must[bits]
    return (
        f"register {register} of thread {thread} of warp {warp}, lane base {half * case.spec.shape.lanes}, "
        f"bits {16 * bits}-{16 * bits + 15}: came from lane {lane}, column {column}, "
        f"must come from lane {wanted_lane}, column {wanted_column}"
    )
