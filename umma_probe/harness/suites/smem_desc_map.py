"""``smem-desc-map``: from which bits of shared memory each element of an operand is fetched, under one descriptor.

The patterns say addresses and nothing else (``harness.address_coding``): the only layouts that the probe trusts are
layout D of the accumulator and those of the unit matrix. What is found is compared with ``layouts.smem_operand``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.address_coding import NOWHERE, BitCoding, ValueCoding
from umma_probe.harness.coding import decode_d
from umma_probe.harness.placement import default_swizzle, place_operand
from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Output, Outputs, passed
from umma_probe.harness.wording import counted
from umma_probe.layouts.smem_operand import element_bit_address, operand_problems
from umma_probe.record.schema import Diagnosis
from umma_probe.spec.descriptors import (
    Problem,
    SmemDescriptor,
    Swizzle,
    decode_smem_desc,
    encode_idesc,
    encode_smem_desc,
    smem_desc_problems,
)
from umma_probe.spec.encoding import encode_exact
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS, MAJORS, check_shape
from umma_probe.spec.machine import TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.harness.address_coding import Addresses

_TYPES = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8"}
_A_ROWS = 128
_B_ROWS = 64
_FINDINGS = ("conflict-k-major-base32b",)
_PATTERN_UNIT = 1024
_MARGIN = 4096
"""Bytes of the pattern beyond the last one that should be fetched."""
_LEAST = 16384
"""Bytes of the pattern at least: what is fetched from a wrong place should still name it."""
_WHOLE = 32768
"""Bytes of the pattern where the documents do not say what is fetched."""


@dataclass(frozen=True)
class DescCase:
    """The operand under test."""

    operand: str
    kind: str
    type: str
    rows: int
    major: str
    desc: SmemDescriptor
    """Its start counts from the first byte of the pattern."""

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> DescCase:
        """Fill in the defaults.

        :raises ConfigError: a type that the kind does not have.
        """
        kind = KINDS[params["kind"]]
        type_ = params["type"] or _TYPES[kind.name]
        if type_ not in kind.operand_types:
            raise ConfigError(f"type is {type_}, must be {' or '.join(kind.operand_types)} under kind::{kind.name}",
                              ref=str(kind.refs[0]))  # fmt: skip
        rows = params["rows"] or (_A_ROWS if params["operand"] == "a" else _B_ROWS)
        swizzle = Swizzle.from_text(params["swizzle"]) if params["swizzle"] else default_swizzle(type_, params["major"])
        compact = place_operand(kind.name, type_, rows, 1, params["major"], swizzle)
        word = encode_smem_desc(
            start_bytes=params["start"],
            lbo_bytes=compact.lbo if params["lbo"] is None else params["lbo"],
            sbo_bytes=compact.sbo if params["sbo"] is None else params["sbo"],
            swizzle=swizzle,
            base_offset=params["base_offset"],
        )
        return cls(params["operand"], kind.name, type_, rows, params["major"], decode_smem_desc(word))

    @property
    def k(self) -> int:
        """Elements of a row."""
        return KINDS[self.kind].k_dense

    @property
    def n(self) -> int:
        """N of the instruction: the rows of B, or of the unit matrix."""
        return self.rows if self.operand == "b" else self.k

    @property
    def unit_type(self) -> str:
        """Type of the unit matrix."""
        return "e4m3" if self.kind == "f8f6f4" else self.type

    @property
    def d_type(self) -> str:
        """Type of D."""
        return KINDS[self.kind].d_types[-1]

    def expected(self, desc: SmemDescriptor | None = None, major: str | None = None) -> Addresses | None:
        """Bit address of each element (rows, k); None where no document says."""
        packing = KINDS[self.kind].packing(self.type)
        try:
            return element_bit_address(
                desc or self.desc, major or self.major, FORMATS[self.type].container_bits, packing,
                np.arange(self.rows)[:, None], np.arange(self.k)[None, :]
            )  # fmt: skip
        except ConfigError:
            return None

    @cached_property
    def size(self) -> int:
        """Bytes of the pattern."""
        expected = self.expected()
        last = _WHOLE if expected is None else int(expected.max()) // 8 + _MARGIN
        return -(-max(last, _LEAST) // _PATTERN_UNIT) * _PATTERN_UNIT

    @cached_property
    def coding(self) -> ValueCoding | BitCoding:
        """How the pattern says addresses."""
        return BitCoding(self.size) if FORMATS[self.type].container_bits < 8 else ValueCoding(self.type, self.size)


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """One launch with all passes; nothing is random."""
    case = DescCase.of(params)
    d_shape = (case.coding.passes, TMEM_LANES, case.n)
    unit_code = np.uint32(encode_exact(1.0, case.unit_type))
    launch = LaunchPlan(
        entry="smem_desc_map",
        args=[
            Input(case.coding.patterns()),
            np.uint32(case.coding.passes),
            np.uint32(case.size),
            unit_code,
            np.uint64(_word(case.desc)),
            np.uint32(case.desc.start_bytes),
            np.uint64(encode_smem_desc(start_bytes=0, lbo_bytes=16 * case.k, sbo_bytes=128)),
            np.uint32(_idesc(case)),
            np.uint32(case.n),
            Output("d", d_shape),
        ],
        dynamic_smem=case.size + _PATTERN_UNIT,
    )
    filled = {**params, "type": case.type, "rows": case.rows, "swizzle": case.desc.swizzle.text,
              "lbo": case.desc.lbo_bytes, "sbo": case.desc.sbo_bytes}  # fmt: skip
    return Experiment(
        params=filled,
        problems=list(_problems(case, arch)),
        defines={
            "KIND": case.kind,
            "OPERAND_A": int(case.operand == "a"),
            "ONE_BITS": KINDS[case.kind].smem_element_bits,
        },
        launches=[launch],
        judge=lambda outputs: judge(case, outputs),
        findings=_FINDINGS if (case.major, case.desc.swizzle) == ("k", Swizzle.B128_BASE32B) else (),
    )


def _word(desc: SmemDescriptor) -> int:
    """Without the start address."""
    return encode_smem_desc(start_bytes=0, lbo_bytes=desc.lbo_bytes, sbo_bytes=desc.sbo_bytes, swizzle=desc.swizzle,
                            base_offset=desc.base_offset)  # fmt: skip


class _OperandFields(TypedDict):
    a_type: str
    b_type: str
    a_major: str
    b_major: str


def _operands(case: DescCase) -> _OperandFields:
    """Of A and B as the instruction descriptor wants them."""
    if case.operand == "a":
        return {"a_type": case.type, "b_type": case.unit_type, "a_major": case.major, "b_major": "k"}
    return {"a_type": case.unit_type, "b_type": case.type, "a_major": "k", "b_major": case.major}


def _idesc(case: DescCase) -> int:
    return encode_idesc(case.kind, d_type=case.d_type, m=_A_ROWS, n=case.n, force=True, **_operands(case))


def _problems(case: DescCase, arch: str) -> Iterator[Problem]:
    if case.operand == "a" and case.rows != _A_ROWS:
        raise ConfigError(f"rows is {case.rows}, must be {_A_ROWS} for A")
    source = "smem" if case.operand == "a" else "tmem"
    yield from check_shape(case.kind, m=_A_ROWS, n=case.n, d_type=case.d_type, a_source=source, arch=arch,
                           **_operands(case))  # fmt: skip
    yield from smem_desc_problems(_word(case.desc), arch=arch)
    row = KINDS[case.kind]
    bits = FORMATS[case.type].container_bits
    yield from operand_problems(case.desc, case.major, bits, row.packing(case.type), case.k)


# ---------------------------------------------------------------------------------------------------------- judgement


def judge(case: DescCase, outputs: Sequence[Outputs]) -> Judgement:
    """The recovered addresses against the documents."""
    (output,) = outputs
    found = recover(case, output["d"])
    expected = case.expected()
    nowhere = found == NOWHERE
    checks = [passed("found", not nowhere.any(), "every element names its place", counted(nowhere.sum(), "element")
                     + " without", _first("names no place of the pattern", nowhere))]  # fmt: skip
    assert expected is not None  # prepare() refuses what no document defines
    wrong = found != expected
    message = _first_wrong(found, expected, wrong)
    if case.desc.base_offset and message:
        message += "; " + _rows(found)
    checks.append(passed("address", not wrong.any(), "as documented", counted(wrong.sum(), "element") + " elsewhere",
                         message))  # fmt: skip
    return Judgement(checks=checks, diagnosis=_diagnose(case, found) if wrong.any() else None)


def recover(case: DescCase, d: np.ndarray[Any, Any]) -> Addresses:
    """Bit address (rows, k) that each element came from, counted from the pattern's first byte."""
    values = decode_d(d, case.d_type)
    if case.operand == "b":
        values = values[:, : case.k, :].transpose(0, 2, 1)
    if isinstance(case.coding, BitCoding):
        return case.coding.element_addresses(values, case.type)
    return case.coding.addresses(values)


def _first(what: str, at: np.ndarray[Any, Any]) -> str:
    if not at.any():
        return ""
    row, k = (int(index) for index in np.argwhere(at)[0])
    return f"element (row {row}, k {k}) {what}"


def _first_wrong(found: Addresses, expected: Addresses, wrong: np.ndarray[Any, Any]) -> str:
    if not wrong.any():
        return ""
    row, k = (int(index) for index in np.argwhere(wrong)[0])
    return (f"element (row {row}, k {k}) came from {_byte(int(found[row, k]))}, "
            f"must come from {_byte(int(expected[row, k]))}")  # fmt: skip


def _byte(address: int) -> str:
    if address == NOWHERE:
        return "no place of the pattern"
    return f"byte {address // 8}" + (f" bit {address % 8}" if address % 8 else "")


def _rows(found: Addresses) -> str:
    """Where the first element of each of the first rows came from, for a map that nobody foresaw."""
    return "rows begin at bytes " + ", ".join(str(address // 8) for address in found[:16, 0].tolist())


def _diagnose(case: DescCase, found: Addresses) -> Diagnosis | None:
    """The one other reading of the descriptor that fits every element."""
    if case.desc.base_offset:
        reading = case.expected(replace(case.desc, base_offset=0))
        if reading is not None and (reading == found).all():
            return Diagnosis("the base offset is ignored", "certain", [f"all {found.size} elements lie as without it"])
    swapped = replace(case.desc, lbo_bytes=case.desc.sbo_bytes, sbo_bytes=case.desc.lbo_bytes)
    for desc, strides in ((case.desc, ""), (swapped, ", LBO and SBO exchanged")):
        for major in MAJORS:
            for swizzle in Swizzle:
                reading = case.expected(replace(desc, swizzle=swizzle), major)
                if reading is not None and (reading == found).all():
                    cause = f"the operand is fetched as {major.upper()}-major with swizzle {swizzle.text}{strides}"
                    return Diagnosis(cause, "certain", [f"all {found.size} elements lie where this reading has them"])
    return None
