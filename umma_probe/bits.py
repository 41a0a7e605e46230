"""Bit fields as data: a word is a tuple of named fields, and encode and decode follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from umma_probe.errors import ConfigError, InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class BitField:
    """Bits ``low`` to ``low + width - 1`` of a word."""

    name: str
    low: int
    width: int

    @property
    def high(self) -> int:
        """The highest bit, inclusive."""
        return self.low + self.width - 1

    @property
    def limit(self) -> int:
        """The largest value that fits."""
        return (1 << self.width) - 1

    def get(self, word: int) -> int:
        """The field's value in ``word``."""
        return (word >> self.low) & self.limit

    def put(self, word: int, value: int) -> int:
        """``word`` with the field replaced.

        :raises ConfigError: the value does not fit.
        """
        if not 0 <= value <= self.limit:
            raise ConfigError(f"{self.name} is {value}, must fit {self.width} bits (0 to {self.limit})")
        return (word & ~(self.limit << self.low)) | (value << self.low)


@dataclass(frozen=True)
class BitLayout:
    """A word of ``width`` bits: fields that do not overlap; what no field covers is reserved."""

    name: str
    width: int
    fields: tuple[BitField, ...]

    def __post_init__(self) -> None:
        taken = 0
        for field in self.fields:
            mask = field.limit << field.low
            if taken & mask or field.high >= self.width:
                raise InternalError(f"{self.name}: field {field.name} overlaps or leaves the word")
            taken |= mask

    def __getitem__(self, name: str) -> BitField:
        for field in self.fields:
            if field.name == name:
                return field
        raise InternalError(f"{self.name} has no field {name}")

    @property
    def reserved_mask(self) -> int:
        """The bits that no field covers."""
        mask = (1 << self.width) - 1
        for field in self.fields:
            mask &= ~(field.limit << field.low)
        return mask

    def encode(self, values: Mapping[str, int]) -> int:
        """The word; fields that are not named are zero."""
        word = 0
        for name, value in values.items():
            word = self[name].put(word, value)
        return word

    def decode(self, word: int) -> dict[str, int]:
        """Every field's value, in the order of the layout."""
        return {field.name: field.get(word) for field in self.fields}
