"""One dot product, from words as people and files write them to the word of D.

TF32 and BF16 elements are given as F32 words, of which the tensor core takes the high bits; the others as their own
code in the low bits. The number of elements is the K of one instruction, so that there is one fused sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import ConfigError, unknown_name
from umma_probe.model.arith.mma import mma
from umma_probe.spec.arithmetic import window_of
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS, MmaKind, ScaleVector
from umma_probe.spec.machine import arch as machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_BF16_SHIFT = 16


@dataclass(frozen=True)
class DotProduct:
    """``sum(a[k] * b[k]) + c``; a valid case, or it cannot be made.

    :raises ConfigError: the first rule that is broken, with the field and the element.
    """

    kind: str
    a: tuple[int, ...]
    b: tuple[int, ...]
    c: int
    a_type: str
    b_type: str
    d_type: str
    saturate: bool = False
    scale_a: tuple[int, ...] = ()
    scale_b: tuple[int, ...] = ()
    scale_type: str | None = None
    scale_vec: int | None = None
    arch: str = "sm_100a"

    def __post_init__(self) -> None:
        kind = KINDS[self.kind]
        machine(self.arch)
        self._check_types(kind)
        lengths = sorted({kind.k_dense, *(kind.k_extra or {})})
        for name, words, type_ in (("a", self.a, self.a_type), ("b", self.b, self.b_type)):
            if len(words) not in lengths:
                rule = " or ".join(map(str, lengths))
                raise ConfigError(f"{name} has {len(words)} elements, must have {rule}, the K of kind {self.kind}")
            _check_words(name, words, 32 if type_ == "bf16" else FORMATS[type_].container_bits)
        if len(self.a) != len(self.b):
            raise ConfigError(f"b has {len(self.b)} elements, must have as many as a, {len(self.a)}")
        _check_words("c", (self.c,), FORMATS[self.d_type].container_bits)
        self._check_scales(kind)

    def word(self) -> int:
        """The word of D; F16 has 16 bits."""
        d = mma(
            self.kind,
            _elements(self.a, self.a_type),
            _elements(self.b, self.b_type),
            np.array([[self.c]], dtype=np.uint32),
            a_type=self.a_type,
            b_type=self.b_type,
            d_type=self.d_type,
            saturate=self.saturate,
            scale_a=_row(self.scale_a),
            scale_b=_row(self.scale_b),
            scale_type=self.scale_type,
            arch=self.arch,
        )
        return int(d[0, 0])

    def _check_types(self, kind: MmaKind) -> None:
        operand_types = kind.operand_types
        if kind.block_scaled and self.scale_type not in kind.scale_types:
            rule = " or ".join(kind.scale_types)
            raise ConfigError(f"scale_type is {self.scale_type or 'missing'}, must be {rule} for kind {self.kind}")
        if self.kind != "i8":
            operand_types = window_of(self.arch, self.kind, self.scale_type).operand_types or operand_types
        for name, type_, known in (
            ("a_type", self.a_type, operand_types),
            ("b_type", self.b_type, operand_types),
            ("d_type", self.d_type, kind.d_types),
        ):
            if type_ not in known:
                raise ConfigError(f"{name}: {unknown_name(f'type for kind {self.kind}', type_, known)}")
        if self.kind == "f16" and self.d_type == "f16" and (self.a_type, self.b_type) != ("f16", "f16"):
            raise ConfigError("d_type is f16, must be f32 unless a_type and b_type are both f16")
        if self.saturate and not kind.saturate:
            raise ConfigError(f"saturate is set for kind {self.kind}, must be left out: only i8 saturates")

    def _check_scales(self, kind: MmaKind) -> None:
        if not kind.block_scaled:
            if self.scale_a or self.scale_b or self.scale_type or self.scale_vec:
                raise ConfigError(f"kind {self.kind} has no scale factors, scale_* must be left out")
            return
        vector = self._scale_vector(kind)
        if self.scale_type not in vector.scale_types:
            rule = " or ".join(vector.scale_types)
            raise ConfigError(f"scale_type is {self.scale_type}, must be {rule} with scale_vec {vector.scales}")
        expected = len(self.a) // vector.block_elems
        for name, words in (("scale_a", self.scale_a), ("scale_b", self.scale_b)):
            if len(words) != expected:
                raise ConfigError(
                    f"{name} has {len(words)} words, must have {expected}: one for {vector.block_elems} elements"
                )
            _check_words(name, words, 8)

    def _scale_vector(self, kind: MmaKind) -> ScaleVector:
        legal = {vector.scales: vector for vector in kind.scale_vectors}
        wanted = self.scale_vec
        if wanted is None and len(legal) == 1:
            return kind.scale_vectors[0]
        if wanted not in legal:
            rule = " or ".join(map(str, legal))
            raise ConfigError(f"scale_vec is {wanted or 'missing'}, must be {rule} for kind {self.kind}")
        return legal[wanted]


def _check_words(name: str, words: Sequence[int], bits: int) -> None:
    for index, word in enumerate(words):
        if not 0 <= word < 1 << bits:
            place = name if name == "c" else f"{name}[{index}]"
            raise ConfigError(f"{place} is {word:#x}, must fit {bits} bits")


def _elements(words: Sequence[int], type_: str) -> NDArray[np.uint32]:
    array = np.array([words], dtype=np.uint32)
    return array >> np.uint32(_BF16_SHIFT) if type_ == "bf16" else array


def _row(words: Sequence[int]) -> NDArray[np.uint32] | None:
    return np.array([words], dtype=np.uint32) if words else None
