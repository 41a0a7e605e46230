"""``shift-map``: which rows ``tcgen05.shift`` and the ``.ashift`` of ``tcgen05.mma`` move where.

The PTX ISA says that rows move "down" by one, except the last, and that a ``tcgen05.cp.4x256b`` behind a shift is
ordered after it. Direction and extent are inferred from these: lane i takes lane i + 1 of its 32 lanes, and the last
one stays, to be refilled by the copy. Cells hold the sentinel, which names its own place; rows of A are coded by
number. What is found is named by a rule where one fits. Which partitions take part is noted: the PTX ISA's "for a warp"
and the shape 31x256b name the one of the address, CUTLASS's copies speak for all four.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.harness.coding import coded_passes, decode_d, raw_codes
from umma_probe.harness.fills import sentinel_words
from umma_probe.harness.occupancy import place
from umma_probe.harness.placement import place_operand
from umma_probe.harness.readback import Readback
from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Output, Outputs, noted, passed
from umma_probe.harness.wording import counted
from umma_probe.layouts.tmem_ldst import parse
from umma_probe.record.sets import format_set
from umma_probe.spec.descriptors import Problem, Swizzle, encode_idesc, encode_smem_desc
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS, check_shape
from umma_probe.spec.machine import ARCHS, TMEM_LANES
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from umma_probe.harness.coding import CodedPass
    from umma_probe.harness.suite import Array
    from umma_probe.record.schema import Check

_READBACK = Readback(parse("32x32b.x32"))
_TYPES = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8"}
_SHIFT = documented("tcgen05.shift", "only architecture-specific targets have it")
_COLUMNS = 8
_PARTITION = 32
_LAST = _PARTITION - 1
_N = 16
_NOWHERE = -1
_HIDDEN = -1000
"""A fresh row lies over what the shift left."""
_LANES = np.arange(TMEM_LANES)
_FRESH = 0x06000000
"""A fresh word says its row in bits 8-15 and its number in bits 0-7; it is no sentinel."""

_INFERRED = "row i takes row i + 1, the last stays"
# what is found by name; each gives the row that a row takes, of so many
_RULES: dict[str, Callable[[Array, int], Array]] = {
    _INFERRED: lambda row, rows: np.minimum(row + 1, rows - 1),
    "row i takes row i - 1, the first stays": lambda row, rows: np.maximum(row - 1, 0),
    "row i takes row i + 1, in a circle": lambda row, rows: (row + 1) % rows,
    "row i takes row i - 1, in a circle": lambda row, rows: (row - 1) % rows,
    "no row moves": lambda row, rows: row,
}


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """One launch; nothing is random."""
    kind = params["kind"]
    type_, d_type = _TYPES[kind], KINDS[kind].d_types[-1]
    rows, _ = coded_passes(TMEM_LANES, _N, KINDS[kind].k_dense, 1, type_, type_, d_type)
    bits = FORMATS[type_].container_bits
    ashift = params["form"] == "ashift"
    problems: list[Problem] = []
    if ashift:
        problems += check_shape(kind, m=TMEM_LANES, n=_N, a_type=type_, b_type=type_, d_type=d_type, a_source="tmem",
                                arch=arch)  # fmt: skip
    elif not ARCHS[arch].architecture_specific:
        problems.append(Problem("arch", f"arch is {arch}, must be an 'a' target for tcgen05.shift", _SHIFT))
    return Experiment(
        params=params,
        problems=problems,
        defines={"KIND": kind, "A_BITS": bits, "B_BITS": bits},
        launches=[_rows(kind, type_, d_type, rows) if ashift else _cells(params)],
        judge=(lambda outputs: judge_rows(rows, d_type, outputs))
        if ashift
        else (lambda outputs: judge_cells(params["column"], params["refresh"], outputs)),
    )


def _cells(params: Mapping[str, Any]) -> LaunchPlan:
    return LaunchPlan(
        entry="shift_cells",
        args=[
            Input(_fresh()),
            np.uint64(encode_smem_desc(start_bytes=0, lbo_bytes=128, sbo_bytes=256)),
            np.uint32(int(params["lane"]) << 16 | params["column"]),
            np.uint32(params["refresh"]),
            Output("dump", _READBACK.dump_shape),
        ],
        dynamic_smem=256,
    )


def _fresh() -> Array:
    """Words of the four rows that the copy brings, (4, 8)."""
    row, word = np.indices((TMEM_LANES // _PARTITION, _COLUMNS), dtype=np.uint32)
    return np.asarray(_FRESH | row << 8 | word, np.uint32)


def _rows(kind: str, type_: str, d_type: str, coded: CodedPass) -> LaunchPlan:
    b = place_operand(kind, type_, _N, 1, "k", Swizzle.NONE)
    idesc = encode_idesc(kind, a_type=type_, b_type=type_, d_type=d_type, m=TMEM_LANES, n=_N)
    return LaunchPlan(
        entry="shift_rows",
        args=[
            Input(np.asarray(raw_codes(coded.a, type_))),
            Input(np.asarray(raw_codes(coded.b, type_))),
            b.struct(0),
            np.uint32(idesc),
            Output("dump", _READBACK.dump_shape),
        ],
        dynamic_smem=b.size,
    )


# ------------------------------------------------------------------------------------------------------ tcgen05.shift


def judge_cells(column: int, refresh: bool, outputs: Sequence[Outputs]) -> Judgement:
    """From where each cell came."""
    words, sentinel = _READBACK.words(outputs[0]["dump"]), sentinel_words()
    shifted = slice(column, column + _COLUMNS)
    outside = np.ones(words.shape, np.bool_)
    outside[:, shifted] = False
    outside &= words != sentinel
    return Judgement(
        [
            *_cell_checks(words[:, shifted], sentinel[:, shifted], refresh),
            passed("outside", not outside.any(), f"columns {format_set(range(column, column + _COLUMNS))} alone change",
                   counted(outside.sum(), "other cell") + " changed", place(outside)),
        ]
    )  # fmt: skip


def _cell_checks(words: Array, sentinel: Array, refresh: bool) -> Iterator[Check]:
    """``words`` and what was there before, (128, 8)."""
    found = _came_from(words, sentinel)
    last = _LANES % _PARTITION == _LAST
    if refresh:
        wrong = (words[last] != _fresh()).any(axis=1)
        yield passed("refreshed", not wrong.any(), "lane 31 of each partition holds its fresh row",
                     counted(wrong.sum(), "partition") + " otherwise", _refresh_message(words, last))  # fmt: skip
        found[last] = np.where(wrong, found[last], _HIDDEN)
    moves = ((found != _LANES) & (found != _HIDDEN)).reshape(-1, _PARTITION).any(axis=1)
    yield _direction(found, moves)
    yield noted("partitions", f"{format_set(np.flatnonzero(moves))} move" if moves.any() else "none moves")


def _came_from(words: Array, sentinel: Array) -> Array:
    """The lane whose words each lane holds, in the same columns, (128,); -1 for none."""
    same = (words[:, None, :] == sentinel[None, :, :]).all(axis=2)
    return np.where(same.any(axis=1), same.argmax(axis=1), _NOWHERE)


def _direction(found: Array, moves: Array) -> Check:
    actual = _rule(_inside(found)[moves]) if moves.any() else "no row moves"
    if actual is None:
        whole = _rule(found[None, :])
        actual = f"{whole}, over all lanes" if whole else "none of the known rules"
    return passed("direction", actual == _INFERRED, _INFERRED, actual, _listed(found))


def _inside(found: Array) -> Array:
    """Rows counted within each 32 of them, (blocks, 32)."""
    blocks = found.reshape(-1, _PARTITION)
    return np.where(blocks == _HIDDEN, _HIDDEN, blocks - _LANES[::_PARTITION, None])


def _rule(found: Array) -> str | None:
    """The rule that gives these rows, (blocks, rows), in every block."""
    rows = found.shape[1]
    for name, rule in _RULES.items():
        if ((found == rule(np.arange(rows), rows)) | (found == _HIDDEN)).all():
            return name
    return None


def _listed(found: Array) -> str:
    """A few rows: both ends, and where partitions meet."""
    rows = [0, 1, 30, 31, 32, 33, 126, 127]
    return "; ".join(f"{row} takes {'none' if found[row] == _NOWHERE else found[row]}" for row in rows)


def _refresh_message(words: Array, last: Array) -> str:
    return "lane 31 holds " + ", ".join(f"{word:#010x}" for word in words[last][0])


# ------------------------------------------------------------------------------------------------------------ .ashift


def judge_rows(coded: CodedPass, d_type: str, outputs: Sequence[Outputs]) -> Judgement:
    """Which row of A each row of D was made of."""
    words = _READBACK.words(outputs[0]["dump"])[:, :_N]
    named = coded.coordinate(decode_d(words, d_type))
    agree = (named == named[:, :1]).all(axis=1)
    found = np.where(agree, named[:, 0], _NOWHERE)
    nowhere = found == _NOWHERE
    actual = _rule(found[None, :])
    if actual is None:
        each = _rule(_inside(found))
        actual = f"{each}, in each 32" if each else "none of the known rules"
    names = passed("named", not nowhere.any(), "every row of D names a row of A",
                   counted(nowhere.sum(), "row") + " not",
                   f"rows {format_set(np.flatnonzero(nowhere))}")  # fmt: skip
    return Judgement([names, passed("direction", actual == _INFERRED, _INFERRED, actual, _listed(found))])
