"""``wgmma-numerics``: the words that ``wgmma`` gives for many dot products, against the rule of ``spec/arithmetic``.

Each CTA has one MMA with operands and an accumulator of its own. The operands are drawn so that the rule's edges count:
exponents far apart, cancellation, subnormals, infinities and NaNs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.harness.placement import place_operand
from umma_probe.harness.suite import Experiment, Judgement, Outputs, passed
from umma_probe.harness.wgmma.instruction import Instruction, blank_image, first_differences, launch, stage
from umma_probe.model.arith.mma import mma
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.smem_descriptor import SmemDescriptor, Swizzle
from umma_probe.spec.wgmma import M

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from umma_probe.spec.formats import NumberFormat

    Words = NDArray[np.uint32]
    Random = np.random.Generator

ARCH = "sm_90a"


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """See ``Suite.prepare``; ``seed`` draws the operands."""
    a_type = params["a_type"]
    b_type = params["b_type"] or a_type
    d_type = params["d_type"] or ("s32" if FORMATS[a_type].is_integer else "f32")
    instruction = Instruction(params["n"], a_type, b_type, d_type, negate_a=params["negate_a"],
                              saturate=params["saturate"])  # fmt: skip
    problems = instruction.problems()
    filled = {**params, "b_type": b_type, "d_type": d_type}
    if problems:
        return Experiment(filled, problems, {}, (), lambda _: Judgement([]))
    random = np.random.default_rng((seed, sum(params["data"].encode())))
    draw = DATA[params["data"]]
    shape_a, shape_b, shape_d = (M, instruction.kind.k), (params["n"], instruction.kind.k), (M, params["n"])
    cases = [
        (draw(random, shape_a, FORMATS[a_type]), draw(random, shape_b, FORMATS[b_type]),
         draw(random, shape_d, FORMATS[d_type]))
        for _ in range(params["cases"])
    ]  # fmt: skip
    swizzle = Swizzle.B128
    a = place_operand(instruction.kind.name, a_type, M, 1, "k", swizzle)
    b = place_operand(instruction.kind.name, b_type, params["n"], 1, "k", swizzle)
    a_desc, b_desc = SmemDescriptor(0, a.lbo, a.sbo, swizzle), SmemDescriptor(a.size, b.lbo, b.sbo, swizzle)
    images = np.stack([blank_image(a.size + b.size) for _ in cases])
    for image, (a_words, b_words, _) in zip(images, cases, strict=True):
        stage(image, a_desc, "k", a_words.astype(f"u{instruction.kind.element_bits // 8}"))
        stage(image, b_desc, "k", b_words.astype(f"u{instruction.kind.element_bits // 8}"))
    before = np.stack([instruction.d_map.scatter(c) for _, _, c in cases])
    plan = launch(instruction, images, a_desc, b_desc, before=before, label="dot products")
    return Experiment(filled, problems, instruction.defines(), [plan], lambda out: judge(instruction, cases, out))


def judge(
    instruction: Instruction, cases: Sequence[tuple[Words, Words, Words]], outputs: Sequence[Outputs]
) -> Judgement:
    """The words found, against the rule."""
    bits = FORMATS[instruction.d_type].bits
    found = np.stack([instruction.d_map.gather(np.asarray(words, np.uint32), bits) for words in outputs[0]["d"]])
    expected = np.stack([_rule(instruction, *case) for case in cases]) & np.uint32((1 << bits) - 1)
    wrong = found != expected
    message = ""
    if wrong.any():
        case, m, n = np.argwhere(wrong)[0]
        message = (f"{first_differences(wrong, ('case', 'm', 'n'))}; the first is {found[case, m, n]:#x}, "
                   f"must be {expected[case, m, n]:#x}")  # fmt: skip
    check = passed("words", not wrong.any(), "every word as the rule gives it",
                   f"{int(wrong.sum())} of {wrong.size} differ", message)  # fmt: skip
    return Judgement([check], metrics={"dot_products": float(wrong.size), "differing_words": float(wrong.sum())})


def _rule(instruction: Instruction, a: Words, b: Words, c: Words) -> Words:
    return mma(instruction.kind.name, a, b, c, a_type=instruction.a_type, b_type=instruction.b_type,
               d_type=instruction.d_type, saturate=instruction.saturate, negate_a=instruction.negate_a,
               negate_b=instruction.negate_b, arch=ARCH)  # fmt: skip


# ---------------------------------------------------------------------- operands
def _any_bits(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    """Every code equally likely, NaNs and infinities among them."""
    return random.integers(0, 1 << row.container_bits, shape, dtype=np.uint64).astype(np.uint32)


def _assembled(row: NumberFormat, sign: Any, exponent: Any, fraction: Any) -> Words:
    """Words from fields; exponents beyond the largest finite one are cut."""
    highest = row.exponent_limit - (1 if row.has_inf or row.fraction_bits == 0 else 0)
    field = np.clip(exponent, 0, highest).astype(np.uint64)
    code = (np.asarray(sign, np.uint64) << np.uint64(row.bits - 1)) | field << np.uint64(row.fraction_bits)
    code |= np.asarray(fraction, np.uint64)
    top_is_nan = row.has_nan and not row.has_inf
    if top_is_nan:
        code = np.where(code & np.uint64((1 << row.bits - 1) - 1) == (1 << row.bits - 1) - 1, code - np.uint64(1), code)
    return np.asarray(code << np.uint64(row.container_shift), np.uint32)


def _near(random: Random, shape: tuple[int, int], row: NumberFormat, spread: int) -> Words:
    """Finite numbers whose exponents lie within ``spread`` of one another, around 1."""
    if row.is_integer:
        return _any_bits(random, shape, row)
    centre = row.bias
    exponent = random.integers(centre - spread // 2, centre + spread - spread // 2 + 1, shape)
    return _assembled(row, random.integers(0, 2, shape), exponent, random.integers(0, 1 << row.fraction_bits, shape))


def _normal(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    return _near(random, shape, row, 4)


def _wide(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    return _near(random, shape, row, min(40, row.exponent_limit))


def _small(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    """Subnormals and the smallest normal numbers, one in four an ordinary one."""
    if row.is_integer:
        return _any_bits(random, shape, row)
    low = _assembled(row, random.integers(0, 2, shape), random.integers(0, 3, shape),
                     random.integers(0, 1 << row.fraction_bits, shape))  # fmt: skip
    return np.asarray(np.where(random.random(shape) < 0.25, _normal(random, shape, row), low), np.uint32)


def _cancelling(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    """Columns in pairs of equal size and opposite sign, a few of them one unit apart."""
    words = _near(random, shape, row, 12)
    if row.is_integer:
        return words
    half = shape[1] // 2
    flipped = words[:, :half] ^ np.uint32(1 << (row.bits - 1 + row.container_shift))
    nudge = (random.random((shape[0], half)) < 0.1).astype(np.uint32) << np.uint32(row.container_shift)
    words[:, half : 2 * half] = flipped ^ nudge
    return words


def _special(random: Random, shape: tuple[int, int], row: NumberFormat) -> Words:
    """Ordinary numbers, and one in fifty any code at all."""
    ordinary = _normal(random, shape, row)
    return np.asarray(np.where(random.random(shape) < 0.02, _any_bits(random, shape, row), ordinary), np.uint32)


DATA: dict[str, Callable[[Random, tuple[int, int], NumberFormat], Words]] = {
    "normal": _normal,
    "wide": _wide,
    "small": _small,
    "cancelling": _cancelling,
    "special": _special,
    "any": _any_bits,
}
