"""Element types of launch cases: how they lie in memory, and their values as float64 or integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from umma_probe.errors import ConfigError
from umma_probe.spec.encoding import decode_to_float64


@dataclass(frozen=True)
class CaseType:
    """A dtype of the contract.

    ``word``: the container of one element; ``format``: the row of ``spec.formats`` that gives its value, None for
    plain integers and bits; ``nibbles``: two elements share a byte, the low nibble first.
    """

    name: str
    word: np.dtype[Any]
    format: str | None = None
    nibbles: bool = False

    def byte_count(self, elements: int) -> int:
        """Bytes of that many elements."""
        return -(-elements // 2) if self.nibbles else elements * self.word.itemsize


_FLOAT_WORDS = {
    "f64": "u8", "f32": "u4", "f16": "u2", "bf16": "u2", "tf32": "u4",
    "e4m3": "u1", "e5m2": "u1", "e2m3": "u1", "e3m2": "u1", "ue8m0": "u1", "ue4m3": "u1",
}  # fmt: skip


def _types() -> dict[str, CaseType]:
    rows = [CaseType(f"{letter}{bits}", np.dtype(f"{'i' if letter == 's' else 'u'}{bits // 8}"))
            for letter in "sub" for bits in (8, 16, 32, 64)]  # fmt: skip
    rows += [CaseType(name, np.dtype(word), name) for name, word in _FLOAT_WORDS.items()]
    rows.append(CaseType("e2m1", np.dtype("u1"), "e2m1", nibbles=True))
    return {row.name: row for row in rows}


CASE_TYPES = _types()
IEEE: dict[str, np.dtype[Any]] = {"f64": np.dtype("f8"), "f32": np.dtype("f4"), "f16": np.dtype("f2")}
"""Types that NumPy has."""


def to_values(data: NDArray[np.uint8], type_: CaseType, elements: int) -> NDArray[Any]:
    """The elements' values: float64 for floating types, else integers."""
    if type_.nibbles:
        words: NDArray[Any] = np.stack((data & 0xF, data >> 4), axis=-1).reshape(-1)[:elements]
    else:
        words = data.view(type_.word)[:elements]
    if type_.name in IEEE:
        return np.asarray(words.view(IEEE[type_.name]), np.float64)
    if type_.format is None:
        return words
    return decode_to_float64(words, type_.format)


def from_values(values: NDArray[Any], type_: CaseType) -> NDArray[np.uint8]:
    """Bytes of values, each rounded to nearest even in the type.

    :raises ConfigError: values do not fit an integer type.
    """
    if type_.format is None:
        info = np.iinfo(type_.word)
        # whole numbers stay as they are: a float64 does not hold all of 64 bits
        given = np.asarray(values)
        rounded = given if given.dtype.kind in "iu" else np.rint(given)
        if rounded.size and not (rounded.min() >= info.min and rounded.max() <= info.max):
            raise ConfigError(f"values {rounded.min():g} to {rounded.max():g} do not fit {type_.name}")
        return np.frombuffer(np.ascontiguousarray(rounded.astype(type_.word)).tobytes(), np.uint8)
    words = _round_words(np.asarray(values, np.float64).reshape(-1), type_)
    if type_.nibbles:
        if len(words) % 2:
            words = np.append(words, 0)
        return np.asarray(words[0::2] | words[1::2] << 4, np.uint8)
    return np.ascontiguousarray(words.astype(type_.word)).view(np.uint8)


_ML_NAMES = {
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e2m3": "float6_e2m3fn",
    "e3m2": "float6_e3m2fn",
    "e2m1": "float4_e2m1fn",
    "ue8m0": "float8_e8m0fnu",
}


def _round_words(values: NDArray[np.float64], type_: CaseType) -> NDArray[Any]:
    if type_.name in IEEE:
        ieee: NDArray[Any] = values.astype(IEEE[type_.name]).view(type_.word)
        return ieee
    if type_.name == "tf32":
        # round to nearest even at 10 fraction bits
        words = values.astype(np.float32).view(np.uint32)
        return (words + np.uint32(0xFFF) + (words >> 13 & 1)) & np.uint32(0xFFFFE000)
    if type_.name == "ue4m3":
        return _round_words(np.abs(values), CASE_TYPES["e4m3"])
    import ml_dtypes

    return values.astype(getattr(ml_dtypes, _ML_NAMES[type_.name])).view(
        np.uint8 if type_.word.itemsize == 1 else type_.word
    )
