"""One tensor-core instruction as arithmetic on words: D = A * B^T + C, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError, NotModelled
from umma_probe.model.arith.groups import grouped_sum
from umma_probe.model.arith.integer import integer_sum
from umma_probe.model.arith.operands import Operand, accumulator, operand, scaled
from umma_probe.model.arith.rounding import to_words
from umma_probe.model.arith.specials import apply_specials
from umma_probe.model.arith.window import window_sum
from umma_probe.spec.arithmetic import SCALE_INPUT_D, window_of
from umma_probe.spec.formats import FORMATS

if TYPE_CHECKING:
    from numpy.typing import NDArray


def mma(
    kind: str,
    a_words: NDArray[np.unsignedinteger[Any]],
    b_words: NDArray[np.unsignedinteger[Any]],
    c_words: NDArray[np.unsignedinteger[Any]] | None,
    *,
    a_type: str,
    b_type: str,
    d_type: str,
    saturate: bool = False,
    negate_a: bool = False,
    negate_b: bool = False,
    scale_input_d: int = 0,
    a_valid: NDArray[np.bool_] | None = None,
    scale_a: NDArray[np.unsignedinteger[Any]] | None = None,
    scale_b: NDArray[np.unsignedinteger[Any]] | None = None,
    scale_type: str | None = None,
    arch: str = "sm_100a",
) -> NDArray[np.uint32]:
    """The (M, N) words of D of one instruction; all K products and C are one fused sum.

    :param a_words: (M, K) element words; bits above the format are ignored.
    :param b_words: (N, K) element words.
    :param c_words: (M, N) accumulator words (F16 in the low half), or None where the old D is not read.
    :param scale_input_d: C is multiplied by ``2^-scale_input_d``, exactly and before the window is placed (assumed:
        nothing public says whether it is rounded first).
    :param a_valid: (M, K), for sparse A expanded to the dense K: False where there is no element.
    :param scale_a: (M, S) scale bytes, ``scale_b`` (N, S): S of them share out K evenly. ``scale_type`` names them.
    :raises ConfigError: an unknown kind, type or architecture, or shapes that do not fit.
    :raises NotModelled: ``scale_input_d`` with kind i8, of unknown effect.
    """
    _check_shapes(a_words, b_words, c_words)
    a_format, b_format, d_format = FORMATS[a_type], FORMATS[b_type], FORMATS[d_type]
    if kind == "i8":
        if scale_input_d:
            raise NotModelled(
                f"kind i8: scale-input-d is {scale_input_d}, must be 0",
                hint="its effect on integers is unknown",
                ref=str(SCALE_INPUT_D),
            )
        return integer_sum(a_words, b_words, c_words, a_format, b_format, saturate=saturate, valid=a_valid)
    window = window_of(arch, kind, scale_type)
    with np.errstate(all="ignore"):
        a = operand(a_words, a_format, negate=negate_a, valid=a_valid)
        b = operand(b_words, b_format, negate=negate_b)
        c = None if c_words is None else accumulator(c_words, d_format, scale_input_d)
        a_scales = _scales("scale_a", scale_a, scale_type, a)
        b_scales = _scales("scale_b", scale_b, scale_type, b)
        if a_scales is not None and b_scales is not None:
            a, b = scaled(a, a_scales), scaled(b, b_scales)
        if window.groups is None:
            total = window_sum(a, b, c, window.fraction_bits)
        elif a_scales is None or b_scales is None:
            raise ConfigError(f"kind {kind}: scale_a and scale_b are missing, must be given")
        else:
            total = grouped_sum(a, b, c, a_scales, b_scales, window, expansion=1 if a_valid is None else 2)
        words = to_words(total, d_type, window)
        if any(part is not None and part.specials is not None for part in (a, b, c, a_scales, b_scales)):
            apply_specials(words, a, b, c, d_type=d_type, valid=a_valid, a_scales=a_scales, b_scales=b_scales)
    return words


def _scales(
    name: str, words: NDArray[np.unsignedinteger[Any]] | None, scale_type: str | None, elements: Operand
) -> Operand | None:
    if words is None or scale_type is None:
        return None
    rows, K = elements.values.shape
    if words.ndim != 2 or len(words) != rows or words.shape[1] == 0 or K % words.shape[1]:
        raise ConfigError(f"mma: {name} is {words.shape}, must be ({rows}, a divisor of {K})")
    return operand(words, FORMATS[scale_type])


def _check_shapes(a_words: NDArray[Any], b_words: NDArray[Any], c_words: NDArray[Any] | None) -> None:
    if a_words.ndim != 2 or b_words.ndim != 2 or a_words.shape[1] != b_words.shape[1]:
        raise ConfigError(f"mma: A is {a_words.shape} and B is {b_words.shape}, must be (M, K) and (N, K)")
    expected = (len(a_words), len(b_words))
    if c_words is not None and c_words.shape != expected:
        raise ConfigError(f"mma: C is {c_words.shape}, must be (M, N) = {expected}")
