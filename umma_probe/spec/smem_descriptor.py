"""The shared-memory matrix descriptor of ``tcgen05.mma`` and ``tcgen05.cp`` (64 bits): encode, decode, problems.

Start address, leading and stride byte offset are stored in units of 16 bytes, 14 bits each, so the start is an address
modulo 256 KiB: kernels mask the shared-window address with ``0x3FFFF`` first. Bits 46-48 are the constant ``0b001``.
A start in the middle of a swizzle pattern is legal as long as the pattern itself begins on its own boundary (1024 B for
the 128-byte modes, 512 B for 64B, 256 B for 32B); otherwise ``base_offset`` says where it begins. Public kernels keep
``base_offset`` 0 where there is a pattern; Triton's give it bits 7-9 of the offset where there is none
(``UNSWIZZLED_BASE_OFFSET``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from umma_probe.bits import BitField, BitLayout
from umma_probe.errors import ConfigError, unknown_name
from umma_probe.spec.problems import Problem
from umma_probe.spec.sources import Evidence, Ref, documented, header

if TYPE_CHECKING:
    from collections.abc import Iterator

UNIT_BYTES = 16
ADDRESS_LIMIT = 1 << 18
"""Start, LBO and SBO are below this, in bytes."""
VERSION = 0b001
UNSWIZZLED_BASE_OFFSET = Ref(
    "triton", "tcgen05.cp of several blocks of scales", Evidence.KERNEL,
    "base_offset is bits 7-9 of the block's offset without swizzle, too; its block-scaled kernels are tested on B200",
)  # fmt: skip
"""Against the documents: a base offset without swizzle. There is no pattern that it could move: it says nothing."""

SMEM_DESC = BitLayout(
    "shared-memory descriptor",
    64,
    (
        BitField("start_address", 0, 14),
        BitField("lbo", 16, 14),
        BitField("sbo", 32, 14),
        BitField("version", 46, 3),
        BitField("base_offset", 49, 3),
        BitField("lbo_mode", 52, 1),
        BitField("swizzle", 61, 3),
    ),
)

SMEM_DESC_REFS = (
    documented("Shared memory descriptor layout"),
    header("mma_sm100_desc.hpp, SmemDescriptor"),
)
_LBO_MODE = documented("Shared memory descriptor layout", "absolute leading dimension: sm_103a, K = 96, 128B swizzle")


class Swizzle(Enum):
    """Swizzle mode: (code in the descriptor, bytes of one row of the pattern, name on the command line)."""

    NONE = (0, 16, "none")
    B128_BASE32B = (1, 128, "128B-base32B")
    B128 = (2, 128, "128B")
    B64 = (4, 64, "64B")
    B32 = (6, 32, "32B")

    @property
    def code(self) -> int:
        """Bits 61-63."""
        return int(self.value[0])

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the pattern; 16 without swizzle."""
        return int(self.value[1])

    @property
    def text(self) -> str:
        """``none``, ``32B``, ``64B``, ``128B``, ``128B-base32B``."""
        return str(self.value[2])

    @property
    def atom_bytes(self) -> int:
        """The boundary on which the repeating pattern starts when ``base_offset`` is 0; 16 without swizzle."""
        return self.row_bytes * 8 if self is not Swizzle.NONE else UNIT_BYTES

    @staticmethod
    def from_text(text: str) -> Swizzle:
        """By name.

        :raises ConfigError: unknown, with the nearest names.
        """
        for mode in Swizzle:
            if mode.text == text:
                return mode
        raise ConfigError(unknown_name("swizzle", text, [mode.text for mode in Swizzle]))

    @staticmethod
    def from_code(code: int) -> Swizzle | None:
        """By descriptor code; None for the invalid codes 3, 5 and 7."""
        return next((mode for mode in Swizzle if mode.code == code), None)


@dataclass(frozen=True)
class SmemDescriptor:
    """A decoded descriptor; everything in bytes."""

    start_bytes: int
    """Shared address modulo 256 KiB."""
    lbo_bytes: int
    sbo_bytes: int
    swizzle: Swizzle
    base_offset: int = 0
    lbo_mode: int = 0
    """0: LBO is relative to the start; 1: it is an absolute address."""


def encode_smem_desc(
    *,
    start_bytes: int,
    lbo_bytes: int,
    sbo_bytes: int,
    swizzle: str | Swizzle = Swizzle.NONE,
    base_offset: int = 0,
    lbo_mode: int = 0,
    force: bool = False,
) -> int:
    """The descriptor word.

    :param force: round down to 16 bytes and cut off what does not fit its field.
    :raises ConfigError: an offset is not a multiple of 16 or 256 KiB or more; a field does not hold its value; unknown
        swizzle.
    """
    mode = swizzle if isinstance(swizzle, Swizzle) else Swizzle.from_text(swizzle)
    values = {
        "start_address": _units("start", start_bytes, force),
        "lbo": _units("lbo", lbo_bytes, force),
        "sbo": _units("sbo", sbo_bytes, force),
        "version": VERSION,
        "base_offset": base_offset,
        "lbo_mode": lbo_mode,
        "swizzle": mode.code,
    }
    if force:
        values = {name: value & SMEM_DESC[name].limit for name, value in values.items()}
    return SMEM_DESC.encode(values)


def _units(field: str, value: int, force: bool) -> int:
    if force:
        return value // UNIT_BYTES
    if value % UNIT_BYTES:
        raise ConfigError(f"{field} is {value} bytes, must be a multiple of {UNIT_BYTES}")
    if not 0 <= value < ADDRESS_LIMIT:
        hint = "mask a shared-window address with 0x3FFFF" if field == "start" else ""
        raise ConfigError(f"{field} is {value:#x} bytes, must be 0 to {ADDRESS_LIMIT - UNIT_BYTES:#x}", hint=hint)
    return value // UNIT_BYTES


def decode_smem_desc(word: int) -> SmemDescriptor:
    """The fields of a word; ``smem_desc_problems`` tells what is wrong with it.

    :raises ConfigError: the word does not fit 64 bits, or its swizzle code means nothing.
    """
    raw = _raw(word)
    swizzle = Swizzle.from_code(raw["swizzle"])
    if swizzle is None:
        problem = _swizzle_problem(raw["swizzle"])
        raise ConfigError(f"shared-memory descriptor {word:#018x}: {problem.message}", ref=str(problem.ref))
    return SmemDescriptor(
        start_bytes=raw["start_address"] * UNIT_BYTES,
        lbo_bytes=raw["lbo"] * UNIT_BYTES,
        sbo_bytes=raw["sbo"] * UNIT_BYTES,
        swizzle=swizzle,
        base_offset=raw["base_offset"],
        lbo_mode=raw["lbo_mode"],
    )


def smem_desc_problems(word: int, *, arch: str | None = None) -> list[Problem]:
    """Every rule that the word breaks, whatever the matrix is.

    :param arch: the target, if known: only sm_103a has ``lbo_mode`` 1.
    :raises ConfigError: the word does not fit 64 bits.
    """
    return list(_problems(word, arch))


def _raw(word: int) -> dict[str, int]:
    if not 0 <= word < 1 << SMEM_DESC.width:
        raise ConfigError(f"shared-memory descriptor is {word:#x}, must fit {SMEM_DESC.width} bits")
    return SMEM_DESC.decode(word)


def _swizzle_problem(code: int) -> Problem:
    rule = ", ".join(f"{mode.code} ({mode.text})" for mode in Swizzle)
    return Problem("swizzle", f"swizzle is code {code}, must be {rule}", SMEM_DESC_REFS[0])


def _problems(word: int, arch: str | None) -> Iterator[Problem]:
    raw = _raw(word)
    ref = SMEM_DESC_REFS[0]
    swizzle = Swizzle.from_code(raw["swizzle"])
    if swizzle is None:
        yield _swizzle_problem(raw["swizzle"])
    if raw["version"] != VERSION:
        yield Problem("version", f"bits 46-48 are {raw['version']:#05b}, must be {VERSION:#05b}", ref)
    if reserved := word & SMEM_DESC.reserved_mask:
        bits = ", ".join(str(bit) for bit in range(SMEM_DESC.width) if reserved >> bit & 1)
        yield Problem("reserved", f"reserved bits {bits} are 1, must be 0", ref)
    if raw["base_offset"] and swizzle is Swizzle.NONE:
        yield Problem("base_offset", f"base_offset is {raw['base_offset']}, must be 0 without swizzle", ref,
                      UNSWIZZLED_BASE_OFFSET)  # fmt: skip
    if raw["lbo_mode"]:
        if arch not in (None, "sm_103a"):
            yield Problem("lbo_mode", f"lbo_mode is 1 on {arch}, must be 0; only sm_103a has it", _LBO_MODE)
        if swizzle is not Swizzle.B128 or raw["base_offset"]:
            yield Problem("lbo_mode", "lbo_mode is 1, must be 0 unless swizzle is 128B with base_offset 0", _LBO_MODE)
