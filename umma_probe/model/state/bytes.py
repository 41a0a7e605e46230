"""Bytes with word views, and a shadow beside them: which were ever written; where asked for, which were read.

A byte that nobody wrote holds a poison pattern, never a silent zero. The shadow has one flag a byte, so a word of
eight bytes is known or marked as one word of eight flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array

POISON_BYTE = 0xCD
POISON_WORD = np.uint32(0x0101_0101 * POISON_BYTE)
WORDS: dict[int, np.dtype[Any]] = {width: np.dtype(f"u{width}") for width in (1, 2, 4, 8)}
_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3}
_ALL_WRITTEN = {width: dtype.type(0x0101_0101_0101_0101 >> 64 - 8 * width) for width, dtype in WORDS.items()}
"""The flags of a word whose bytes were all written."""


class Bytes:
    """A growable byte array with word views and a shadow of what was ever written."""

    def __init__(self, size: int) -> None:
        self._allocate(size)

    def _allocate(self, size: int) -> None:
        size = -(-max(size, 64) // 64) * 64
        self.data = np.full(size, POISON_BYTE, np.uint8)
        self.written = np.zeros(size, np.bool_)
        self._views = {width: self.data.view(dtype) for width, dtype in WORDS.items()}
        self._flags = {width: self.written.view(dtype) for width, dtype in WORDS.items()}

    def grow(self, size: int) -> None:
        """At least ``size`` bytes, contents kept."""
        if size <= len(self.data):
            return
        data, written = self.data, self.written
        self._allocate(max(size, 2 * len(data)))
        self.data[: len(data)] = data
        self.written[: len(written)] = written

    def gather(self, offsets: Array, width: int, count: int) -> Array:
        """Words of ``width`` bytes: (n, count) from aligned byte offsets (n,)."""
        index = offsets >> _SHIFT[width]
        words: Array = self._views[width][index[:, None] + np.arange(count)]
        return words

    def scatter(self, offsets: Array, width: int, words: Array) -> None:
        """Store (n, count) words; where offsets collide the last thread wins."""
        index = offsets >> _SHIFT[width]
        count = words.shape[1]
        if count > 1:
            self._views[width][index[:, None] + np.arange(count)] = words
        else:
            self._views[width][index] = words[:, 0]
        self.mark(offsets, width * count)

    def mark(self, offsets: Array, size: int) -> None:
        """Note that ``size`` bytes from each offset were written; offsets as for ``all_written``."""
        width, index = _widest_words(offsets, size)
        self._flags[width][index] = _ALL_WRITTEN[width]

    def note_read(self, offsets: Array, size: int) -> None:
        """Somebody reads ``data`` itself at these offsets (as for ``all_written``); see :class:`WatchedBytes`."""

    def note_write(self, offsets: Array, size: int) -> None:
        """Somebody writes ``data`` itself."""

    def all_written(self, offsets: Array, size: int) -> Array:
        """Per offset: whether each of its ``size`` bytes was ever written.

        :param offsets: multiples of the largest power of two that divides ``size`` (at most 8).
        """
        width, index = _widest_words(offsets, size)
        known: Array = self._flags[width][index] == _ALL_WRITTEN[width]
        return known if known.ndim == 1 else np.asarray(known.all(axis=1))


class WatchedBytes(Bytes):
    """The same bytes as another object, with a shadow of what was read and what was written from here on."""

    def __init__(self, seen: Bytes) -> None:
        self.data, self.written = seen.data, seen.written
        self._views, self._flags = seen._views, seen._flags
        self.was_read, self.was_written = np.zeros_like(seen.written), np.zeros_like(seen.written)
        self._read_flags = {width: self.was_read.view(dtype) for width, dtype in WORDS.items()}
        self._write_flags = {width: self.was_written.view(dtype) for width, dtype in WORDS.items()}

    def gather(self, offsets: Array, width: int, count: int) -> Array:
        """As ``Bytes.gather``."""
        self.note_read(offsets, width * count)
        return super().gather(offsets, width, count)

    def scatter(self, offsets: Array, width: int, words: Array) -> None:
        """As ``Bytes.scatter``."""
        self.note_write(offsets, width * words.shape[1])
        super().scatter(offsets, width, words)

    def note_read(self, offsets: Array, size: int) -> None:
        """Bytes that were read."""
        width, index = _widest_words(offsets, size)
        self._read_flags[width][index] = _ALL_WRITTEN[width]

    def note_write(self, offsets: Array, size: int) -> None:
        """Bytes that were written."""
        width, index = _widest_words(offsets, size)
        self._write_flags[width][index] = _ALL_WRITTEN[width]


def _widest_words(offsets: Array, size: int) -> tuple[int, Array]:
    """``size`` bytes from each offset as the widest words that divide it: width and numbers, (n,) or (n, words)."""
    width = min(size & -size, 8)
    index = offsets >> _SHIFT[width]
    return width, index if size == width else index[:, None] + np.arange(size // width)
