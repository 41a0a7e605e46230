"""``wgmma-desc-map``: from which byte of shared memory ``wgmma`` fetches each element of an operand.

Shared memory holds a picture that no layout code has touched: element number ``i``, counted from the start, is the
digit ``i >> 6 * pass & 63`` in one pass, coded as one of 64 numbers that the type holds. The other operand is an
identity, so the value of D is the element itself, and the passes together name the byte that it came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.coding import decode_d
from umma_probe.harness.placement import place_operand
from umma_probe.harness.suite import Experiment, Judgement, LaunchPlan, Outputs, passed
from umma_probe.harness.wgmma.instruction import Instruction, blank_image, first_differences, launch, stage
from umma_probe.layouts.wgmma_operand import wgmma_byte_addresses
from umma_probe.spec.encoding import decode_to_float64, encode_exact
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.smem_descriptor import SmemDescriptor, Swizzle
from umma_probe.spec.wgmma import M

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from umma_probe.record.schema import Check
    from umma_probe.spec.problems import Problem

DIGITS = 64
PICTURE_BYTES = 64 * 1024
"""What the operand under test may be fetched from; a byte beyond names no place."""


@dataclass(frozen=True)
class MapCase:
    """The operand under test and its descriptor."""

    operand: str
    type: str
    major: str
    n: int
    desc: SmemDescriptor

    @cached_property
    def rows(self) -> int:
        """M or N."""
        return M if self.operand == "a" else self.n

    @cached_property
    def instruction(self) -> Instruction:
        """The identity is the other operand: N = K for A under test."""
        integer = FORMATS[self.type].is_integer
        k = Instruction(self.n, self.type, self.type, "f32").kind.k
        d_type = "s32" if integer else "f32"
        if self.operand == "a":
            return Instruction(k, self.type, self.type, d_type, a_major=self.major)
        return Instruction(self.n, self.type, self.type, d_type, b_major=self.major)

    @property
    def element_bytes(self) -> int:
        """Of one element."""
        return self.instruction.kind.element_bits // 8

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The 64 numbers that stand for digits: small, distinct, none zero."""
        row = FORMATS[self.type]
        if row.bits > 8 or row.is_integer:
            return np.arange(1.0, DIGITS + 1)
        known = decode_to_float64(np.arange(1 << row.bits), row)
        normal = np.unique(known[np.isfinite(known) & (known >= 2.0 ** (1 - row.bias))])
        return np.asarray(normal[:DIGITS], np.float64)

    @property
    def passes(self) -> int:
        """Digits that name every element of the picture."""
        count = PICTURE_BYTES // self.element_bytes
        return next(p for p in range(1, 5) if DIGITS**p >= count)

    def documented(self) -> NDArray[np.int64]:
        """Byte of each element (rows, k), from the picture's start."""
        size = self.element_bytes
        return wgmma_byte_addresses(self.desc, self.major, size, self.rows, self.instruction.kind.k)[:, ::size]


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """See ``Suite.prepare``. Nothing is random: ``seed`` is not used."""
    swizzle = Swizzle.from_text(params["swizzle"])
    kind = Instruction(params["n"], params["type"], params["type"], "f32").kind
    rows = M if params["operand"] == "a" else params["n"]
    placed = place_operand(kind.name, params["type"], rows, 1, params["major"], swizzle)
    lbo = placed.lbo if params["lbo"] is None else params["lbo"]
    sbo = placed.sbo if params["sbo"] is None else params["sbo"]
    desc = SmemDescriptor(params["start"], lbo, sbo, swizzle, params["base_offset"])
    case = MapCase(params["operand"], params["type"], params["major"], params["n"], desc)
    problems: list[Problem] = case.instruction.problems()
    filled = {**params, "lbo": lbo, "sbo": sbo}
    documented = case.documented()
    if documented.max() >= PICTURE_BYTES:
        raise ConfigError(f"the operand reaches byte {int(documented.max())}, must stay below {PICTURE_BYTES}")
    if problems:
        return Experiment(filled, problems, {}, (), lambda _: Judgement([]))
    plans = [_launch(case, number) for number in range(case.passes)]
    return Experiment(filled, problems, case.instruction.defines(), plans, lambda outputs: judge(case, outputs))


def _launch(case: MapCase, number: int) -> LaunchPlan:
    kind = case.instruction.kind
    unit_rows = case.instruction.n if case.operand == "a" else M
    unit = place_operand(kind.name, case.type, unit_rows, 1, "k", Swizzle.NONE)
    unit_desc = SmemDescriptor(PICTURE_BYTES, unit.lbo, unit.sbo, Swizzle.NONE)
    image = blank_image(PICTURE_BYTES + unit.size)
    index = np.arange(PICTURE_BYTES // case.element_bytes)
    codes = encode_exact(case.values, case.type)[index // DIGITS**number % DIGITS]
    image[:PICTURE_BYTES] = np.ascontiguousarray(codes).view(np.uint8)
    stage(image, unit_desc, "k", np.ascontiguousarray(encode_exact(np.eye(unit_rows, kind.k), case.type)))
    a_desc, b_desc = (case.desc, unit_desc) if case.operand == "a" else (unit_desc, case.desc)
    return launch(case.instruction, image[None], a_desc, b_desc, label=f"digit {number}")


def recover(case: MapCase, outputs: Sequence[Outputs]) -> NDArray[np.int64]:
    """The byte that each element (rows, k) was fetched from, from the picture's start; -1 where a value is no digit."""
    instruction, k = case.instruction, case.instruction.kind.k
    index = np.zeros((case.rows, k), np.int64)
    known = np.ones((case.rows, k), np.bool_)
    for number, output in enumerate(outputs):
        words = instruction.d_map.gather(np.asarray(output["d"][0], np.uint32), 32)
        values = decode_d(words, instruction.d_type)
        elements = values[:, :k] if case.operand == "a" else values[:k, :].T
        digit = np.clip(np.searchsorted(case.values, np.nan_to_num(elements)), 0, DIGITS - 1)
        known &= case.values[digit] == elements
        index += digit * DIGITS**number
    return np.where(known, index * case.element_bytes, -1)


def judge(case: MapCase, outputs: Sequence[Outputs]) -> Judgement:
    """What was fetched, against the documents."""
    found = recover(case, outputs)
    return Judgement(list(_checks(case, found)), notes=[f"Bytes: {_picture(found)}."])


def _checks(case: MapCase, found: NDArray[np.int64]) -> Iterator[Check]:
    nowhere = found < 0
    yield passed("fetched", not nowhere.any(), "every element comes from the picture",
                 f"{int(nowhere.sum())} elements do not", first_differences(nowhere, ("row", "k")))  # fmt: skip
    expected = case.documented()
    wrong = found != expected
    message = ""
    if wrong.any():
        row, k = np.argwhere(wrong)[0]
        message = f"element (row {row}, k {k}) comes from byte {found[row, k]:#x}, must from {expected[row, k]:#x}"
    yield passed("map", not wrong.any(), "every element from its documented byte",
                 f"{int(wrong.sum())} of {wrong.size} from another", message)  # fmt: skip


def _picture(found: NDArray[np.int64]) -> str:
    """The map in few words: the bytes of row 0 along k, and of k = 0 along the rows, at steps of powers of two."""
    ks = [k for k in (0, 1, 2, 4, 8, 16) if k < found.shape[1]]
    rows = [row for row in (0, 1, 2, 4, 7, 8, 16, 32, 64, 128) if row < found.shape[0]]
    along_k = ", ".join(f"k {k} {found[0, k]:#x}" for k in ks)
    along_rows = ", ".join(f"row {row} {found[row, 0]:#x}" for row in rows)
    return f"{along_k}; {along_rows}"
