"""What bit-exact tensor-core arithmetic costs: ``python benchmarks/bench_mma_arith.py``.

Each line is one instruction on normally distributed operands, or on small integers (where the window cuts nothing): the
time, how many times that of the same product in NumPy's float32, and how many times faster than when every term is cut;
all measured in this run.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from umma_probe.model.arith import mma, window
from umma_probe.model.arith.exponents import power_of_two
from umma_probe.model.arith.operands import accumulator, operand
from umma_probe.model.arith.rounding import to_words
from umma_probe.spec.arithmetic import WINDOWS
from umma_probe.spec.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS, ROUNDS = 20, 7
WINDOW = WINDOWS["tcgen05/f16"]
"""That of all kinds without scale factors."""
DTYPES = {
    "bf16": (ml_dtypes.bfloat16, np.uint16),
    "f16": (np.float16, np.uint16),
    "tf32": (np.float32, np.uint32),
    "e4m3": (ml_dtypes.float8_e4m3fn, np.uint8),
    "e2m1": (ml_dtypes.float4_e2m1fn, np.uint8),
}
#         kind, type, M, N, K, scale type, scales
CASES = [
    ("f16", "bf16", 128, 64, 16, None, 0),
    ("f16", "bf16", 128, 256, 16, None, 0),
    ("f16", "f16", 128, 64, 16, None, 0),
    ("f16", "f16", 128, 256, 16, None, 0),
    ("tf32", "tf32", 128, 256, 8, None, 0),
    ("f8f6f4", "e4m3", 128, 256, 32, None, 0),
    ("mxf8f6f4", "e4m3", 128, 128, 32, "ue8m0", 1),
    ("mxf4", "e2m1", 128, 128, 64, "ue8m0", 2),
    ("mxf4nvf4", "e2m1", 128, 128, 64, "ue4m3", 4),
]


def milliseconds(function: Callable[[], object]) -> float:
    """The best round, for one call: what the machine does when nobody else uses it."""
    function()
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(REPEATS):
            function()
        best = min(best, time.perf_counter() - start)
    return best / REPEATS * 1e3


def draw(rng: np.random.Generator, shape: tuple[int, int], fill: str) -> np.ndarray:
    return rng.standard_normal(shape) if fill == "normal" else rng.integers(-4, 5, shape).astype(np.float64)


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"{'instruction':34}{'operands':>10}{'ms':>9}{'x float32':>11}{'x as fast as cutting':>22}")
    for kind, type_, M, N, K, scale_type, scales in CASES:
        for fill in ("normal", "integers"):
            a, b = draw(rng, (M, K), fill), draw(rng, (N, K), fill)
            c = draw(rng, (M, N), fill).astype(np.float32)
            dtype, container = DTYPES[type_]
            a_words, b_words = a.astype(dtype).view(container), b.astype(dtype).view(container)
            scale = {}
            if scale_type is not None:
                one, few = (0x38, 16) if scale_type == "ue4m3" else (127, 4)
                scale["scale_a"] = (one + rng.integers(-few, few, (M, scales))).astype(np.uint8)
                scale["scale_b"] = (one + rng.integers(-few, few, (N, scales))).astype(np.uint8)

            types = {"a_type": type_, "b_type": type_, "d_type": "f32", "scale_type": scale_type}
            exact = partial(mma, kind, a_words, b_words, c.view(np.uint32), **types, **scale)
            bits = milliseconds(exact)
            plain = milliseconds(partial(float32_product, a.astype(np.float32), b.astype(np.float32).T, c))
            line = f"{kind} {type_} {M}x{N}x{K}".ljust(34) + f"{fill:>10}{bits:9.3f}{bits / plain:11.1f}"
            if scale_type is None:
                slow = partial(every_term_cut, a_words, b_words, c.view(np.uint32), type_)
                assert (slow() == exact()).all()
                line += f"{milliseconds(slow) / bits:22.1f}"
            print(line)


def float32_product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return a @ b + c


def every_term_cut(a_words: np.ndarray, b_words: np.ndarray, c_words: np.ndarray, type_: str) -> np.ndarray:
    """The same words with no shortcut."""
    a, b = operand(a_words, FORMATS[type_]), operand(b_words, FORMATS[type_])
    c = accumulator(c_words, FORMATS["f32"])
    scale = power_of_two(WINDOW.fraction_bits - window.largest_exponent(a, b, c))
    return to_words(window.sum_term_by_term(a, b, scale) + window.cut(c.values, scale), "f32", WINDOW)


if __name__ == "__main__":
    main()
