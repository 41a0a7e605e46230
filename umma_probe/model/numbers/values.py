"""PTX types as rows: width, NumPy element type, and how a wider register holds them.

Registers are rows of unsigned words over all threads; an instruction reads and writes them through typed
views. ``bf16`` and the packed and sub-byte formats are kept as raw words: the operations that know them decode them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class PtxType:
    """A type word of an instruction or declaration.

    ``category``: ``b`` untyped bits, ``u`` unsigned, ``s`` signed, ``f`` floating, ``x`` packed or alternate
    floating kept as raw bits, ``p`` predicate.
    """

    name: str
    bits: int
    category: str
    dtype: np.dtype[Any]

    def __hash__(self) -> int:
        # the hash of a NumPy type is slow, and decoding looks up types all the time
        return hash(self.name)

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return self.bits // 8

    @property
    def signed(self) -> bool:
        """Whether a narrower value is sign-extended into a wider register."""
        return self.category == "s"

    def __str__(self) -> str:
        return self.name


def _row(name: str, bits: int, category: str, dtype: Any) -> tuple[str, PtxType]:
    return name, PtxType(name, bits, category, np.dtype(dtype))


TYPES: dict[str, PtxType] = dict(
    [
        _row("pred", 1, "p", np.bool_),
        *(_row(f"b{n}", n, "b", f"u{n // 8}") for n in (8, 16, 32, 64)),
        *(_row(f"u{n}", n, "u", f"u{n // 8}") for n in (8, 16, 32, 64)),
        *(_row(f"s{n}", n, "s", f"i{n // 8}") for n in (8, 16, 32, 64)),
        _row("b128", 128, "b", (np.uint64, (2,))),
        _row("f16", 16, "f", np.float16),
        _row("f32", 32, "f", np.float32),
        _row("f64", 64, "f", np.float64),
        _row("bf16", 16, "x", np.uint16),
        _row("tf32", 32, "x", np.uint32),
        _row("f16x2", 32, "x", np.uint32),
        _row("bf16x2", 32, "x", np.uint32),
        _row("f32x2", 64, "x", np.uint64),
        _row("u16x2", 32, "x", np.uint32),
        _row("s16x2", 32, "x", np.uint32),
        _row("e4m3x2", 16, "x", np.uint16),
        _row("e5m2x2", 16, "x", np.uint16),
        _row("e2m3x2", 16, "x", np.uint16),
        _row("e3m2x2", 16, "x", np.uint16),
        _row("ue8m0x2", 16, "x", np.uint16),
        _row("e2m1x2", 8, "x", np.uint8),
    ]
)

# the unsigned word that holds a register of so many bits
WORD: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
    128: np.dtype((np.uint64, (2,))),
}


def ptx_type(name: str) -> PtxType:
    """The row of that name, with or without the leading dot.

    :raises ConfigError: unknown type.
    """
    try:
        return TYPES[name.lstrip(".")]
    except KeyError:
        raise ConfigError(unknown_name("PTX type", name, TYPES)) from None


def types(names: str) -> dict[str, PtxType]:
    """A modifier domain from blank-separated type names."""
    return {name: TYPES[name] for name in names.split()}


def typed_view(row: NDArray[Any], register_bits: int, type_: PtxType) -> NDArray[Any]:
    """A writable view of the low ``type_.bits`` of a register row.

    :raises ConfigError: the type is wider than the register.
    """
    if type_.bits > register_bits:
        raise ConfigError(f"operand of type .{type_} does not fit a {register_bits}-bit register")
    if register_bits == 128:
        if type_.bits == 128:
            return row
        row, register_bits = row[:, 0], 64
    if type_.bits == register_bits:
        return row.view(type_.dtype)
    # little-endian: the low part comes first
    return row.view(type_.dtype)[:: register_bits // type_.bits]
