"""``wgmma-layout``: which register of which thread holds each element of D (and of A), against the documents.

The operands are coded (``harness/coding``): each value of D names its row in one pass, its column in the other. The
registers hold sentinels before, so *not written*, *another element* and *no element* are different answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.harness.coding import CodedPass, coded_passes, decode_d, raw_codes
from umma_probe.harness.placement import place_operand
from umma_probe.harness.suite import Experiment, Judgement, LaunchPlan, Outputs, passed
from umma_probe.harness.wgmma.instruction import THREADS, Instruction, blank_image, launch, sentinels, stage
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.smem_descriptor import SmemDescriptor, Swizzle
from umma_probe.spec.wgmma import M

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from umma_probe.record.schema import Check

NOWHERE = -1


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """See ``Suite.prepare``. Nothing is random: ``seed`` is not used."""
    a_type = params["a_type"]
    b_type = params["b_type"] or a_type
    d_type = params["d_type"] or ("s32" if FORMATS[a_type].is_integer else "f32")
    instruction = Instruction(params["n"], a_type, b_type, d_type, params["a_source"] == "registers")
    problems = instruction.problems()
    swizzle = Swizzle.from_text(params["swizzle"])
    filled = {**params, "b_type": b_type, "d_type": d_type}
    if problems:
        return Experiment(filled, problems, {}, (), lambda _: Judgement([]))
    k = instruction.kind.k
    passes = coded_passes(M, instruction.n, k, 1, a_type, b_type, d_type)
    plans = [_launch(instruction, coded, swizzle) for coded in passes]
    return Experiment(filled, problems, instruction.defines(), plans, lambda out: judge(instruction, passes, out))


def _launch(instruction: Instruction, coded: CodedPass, swizzle: Swizzle) -> LaunchPlan:
    kind = instruction.kind
    a = place_operand(kind.name, instruction.a_type, M, 1, "k", swizzle)
    b = place_operand(kind.name, instruction.b_type, instruction.n, 1, "k", swizzle)
    a_desc = SmemDescriptor(0, a.lbo, a.sbo, swizzle)
    b_desc = SmemDescriptor(a.size, b.lbo, b.sbo, swizzle)
    image = blank_image(a.size + b.size)
    a_codes = raw_codes(coded.a, instruction.a_type)
    stage(image, b_desc, "k", _unsigned(raw_codes(coded.b, instruction.b_type)))
    words = None
    if instruction.a_in_registers:
        words = instruction.a_map.scatter(_unsigned(a_codes))[None]
    else:
        stage(image, a_desc, "k", _unsigned(a_codes))
    return launch(instruction, image[None], a_desc, b_desc, a_words=words, label=f"{coded.name} pass")


def _unsigned(codes: NDArray[Any]) -> NDArray[np.unsignedinteger[Any]]:
    return np.ascontiguousarray(codes).view(f"u{codes.dtype.itemsize}")


def judge(instruction: Instruction, passes: Sequence[CodedPass], outputs: Sequence[Outputs]) -> Judgement:
    """What the registers hold, against the documents."""
    words = [np.asarray(output["d"][0], np.uint32) for output in outputs]
    return Judgement(list(_checks(instruction, passes, words)))


def _checks(
    instruction: Instruction, passes: Sequence[CodedPass], words: Sequence[NDArray[np.uint32]]
) -> Iterator[Check]:
    before = sentinels(1, instruction.registers)[0]
    untouched = np.logical_and.reduce([read == before for read in words])
    count = int(untouched.sum())
    yield passed("written", not count, "every register", f"{untouched.size - count} of {untouched.size} registers",
                 _registers(untouched) + " still hold what they held before")  # fmt: skip
    expected = _expected(instruction)
    found = np.stack([_named(coded, read, instruction.d_type) for coded, read in zip(passes, words, strict=True)], -1)
    nameless = (found == NOWHERE).any(axis=-1)
    yield passed("elements", not nameless.any(), "every value is an element of D",
                 f"{int(nameless.sum())} values are none", _registers(nameless.any(axis=-1)))  # fmt: skip
    wrong = (found != expected).any(axis=-1) & ~nameless
    yield passed("fragment", not (wrong | nameless).any(), "every element at its documented place",
                 f"{int(wrong.sum())} elements at another", _first_misplaced(found, expected, wrong))  # fmt: skip


def _expected(instruction: Instruction) -> NDArray[np.int64]:
    """(128, R, elements a register, 2): the documented (m, n) of each place."""
    per_register = 2 if instruction.d_type == "f16" else 1
    place = np.full((THREADS, instruction.registers, per_register, 2), NOWHERE, np.int64)
    where = instruction.d_map
    m, n = np.meshgrid(np.arange(M), np.arange(instruction.n), indexing="ij")
    place[where.thread, where.register, where.bit // 16, 0] = m
    place[where.thread, where.register, where.bit // 16, 1] = n
    return place


def _named(coded: CodedPass, words: NDArray[np.uint32], d_type: str) -> NDArray[np.int64]:
    """(128, R, elements a register): the coordinate that each value names."""
    parts = [words & 0xFFFF, words >> 16] if d_type == "f16" else [words]
    return np.stack([coded.coordinate(decode_d(np.ascontiguousarray(part), d_type)) for part in parts], axis=-1)


def _registers(mask: NDArray[np.bool_]) -> str:
    places = [f"thread {thread} register {register}" for thread, register in np.argwhere(mask)[:3]]
    return ", ".join(places) + (" ..." if int(mask.sum()) > len(places) else "")


def _first_misplaced(found: NDArray[np.int64], expected: NDArray[np.int64], wrong: NDArray[np.bool_]) -> str:
    if not wrong.any():
        return ""
    thread, register, part = np.argwhere(wrong)[0]
    m, n = found[thread, register, part]
    at = f"thread {thread}, register {register}" + (f", half {part}" if found.shape[2] == 2 else "")
    return f"{at} holds ({m}, {n}), must hold ({expected[thread, register, part, 0]}, " \
           f"{expected[thread, register, part, 1]})"  # fmt: skip
