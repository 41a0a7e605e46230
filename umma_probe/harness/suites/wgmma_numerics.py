"""``wgmma-numerics``: the words that ``wgmma`` gives for many dot products, against the rule of ``spec/arithmetic``.

Each CTA has one MMA with operands and an accumulator of its own. The operands are drawn so that the rule's edges count:
exponents far apart, cancellation, subnormals, infinities and NaNs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.harness.number_draws import DATA
from umma_probe.harness.placement import place_operand
from umma_probe.harness.suite import Experiment, Judgement, Outputs, passed
from umma_probe.harness.wgmma.instruction import Instruction, blank_image, first_differences, launch, stage
from umma_probe.model.arith.mma import mma
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.smem_descriptor import SmemDescriptor, Swizzle
from umma_probe.spec.wgmma import M

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

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
