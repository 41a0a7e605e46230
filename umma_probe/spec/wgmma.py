"""``wgmma.mma_async`` of sm_90a: kinds, legal N, and the 64-bit matrix descriptor.

M is 64, a row of A and of B has 32 bytes of K. The descriptor is not that of ``tcgen05``: the swizzle has two bits and
other codes, there is no version and no mode bit. Strides, canonical layouts and the swizzle itself are the same, so a
decoded descriptor is a ``SmemDescriptor`` like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

from umma_probe.bits import BitField, BitLayout
from umma_probe.errors import ConfigError, unknown_name
from umma_probe.registry import Registry
from umma_probe.spec.problems import Problem
from umma_probe.spec.smem_descriptor import ADDRESS_LIMIT, UNIT_BYTES, SmemDescriptor, Swizzle
from umma_probe.spec.sources import Ref, documented, header

M = 64
K_BYTES = 32
WARPS = 4
"""Of a warpgroup; each computes 16 rows of D."""

SHAPE_REF = documented("wgmma.mma_async", "matrix shapes per type")
TRANSPOSE_REF = documented("wgmma.mma_async", "imm-trans-a and imm-trans-b: .f16 and .bf16 alone")
DESC_REFS = (
    documented("Asynchronous warpgroup-level matrix: Matrix Descriptor Format"),
    header("mma_sm90_desc.hpp, GmmaDescriptor"),
)

WGMMA_DESC = BitLayout(
    "wgmma matrix descriptor",
    64,
    (
        BitField("start_address", 0, 14),
        BitField("lbo", 16, 14),
        BitField("sbo", 32, 14),
        BitField("base_offset", 49, 3),
        BitField("swizzle", 62, 2),
    ),
)
SWIZZLE_CODES = {Swizzle.NONE: 0, Swizzle.B128: 1, Swizzle.B64: 2, Swizzle.B32: 3}


@dataclass(frozen=True)
class WgmmaKind:
    """The operand types that may meet in one instruction."""

    name: str
    """As ``tcgen05`` calls the kind."""
    types: tuple[str, ...]
    mixed: bool
    """Whether A and B may have different types."""
    k: int
    d_types: tuple[str, ...]
    transposes: bool
    """Whether an operand in shared memory may be MN-major."""
    integer: bool
    refs: tuple[Ref, ...] = (SHAPE_REF, TRANSPOSE_REF)

    @property
    def element_bits(self) -> int:
        """Of one element in shared memory."""
        return 8 * K_BYTES // self.k

    @property
    def legal_n(self) -> tuple[int, ...]:
        """Ascending."""
        if not self.integer:
            return tuple(range(8, 257, 8))
        return (8, 16, 24, *range(32, 257, 16))

    def d_types_of(self, a_type: str) -> tuple[str, ...]:
        """What D may be; bf16 operands have no f16 result."""
        return ("f32",) if a_type == "bf16" else self.d_types

    def registers(self, n: int, d_type: str) -> int:
        """32-bit registers of D in each thread."""
        return n // 4 if d_type == "f16" else n // 2


WGMMA_KINDS: Registry[WgmmaKind] = Registry("wgmma kind")


def _kind(name: str, types: tuple[str, ...], k: int, d_types: tuple[str, ...], *, mixed: bool = False,
          transposes: bool = False, integer: bool = False) -> None:  # fmt: skip
    WGMMA_KINDS.add(name, WgmmaKind(name, types, mixed, k, d_types, transposes, integer))


#      name      types              k   D
_kind("f16", ("f16", "bf16"), 16, ("f16", "f32"), transposes=True)
_kind("tf32", ("tf32",), 8, ("f32",))
_kind("f8f6f4", ("e4m3", "e5m2"), 32, ("f16", "f32"), mixed=True)
_kind("i8", ("s8", "u8"), 32, ("s32",), mixed=True, integer=True)


def kind_of(a_type: str) -> WgmmaKind:
    """The row with this type of A.

    :raises ConfigError: no kind has it.
    """
    for row in WGMMA_KINDS.values():
        if a_type in row.types:
            return row
    known = [name for row in WGMMA_KINDS.values() for name in row.types]
    raise ConfigError(unknown_name("wgmma operand type", a_type, known))


def shape_problems(a_type: str, b_type: str, d_type: str, n: int) -> list[Problem]:
    """Every rule that the types and N break."""
    row = kind_of(a_type)
    problems = []
    if b_type not in (row.types if row.mixed else (a_type,)):
        problems.append(Problem("b_type", f"B is {b_type} and A {a_type}, must be of one kind", SHAPE_REF))
    if d_type not in row.d_types_of(a_type):
        allowed = " or ".join(row.d_types_of(a_type))
        problems.append(Problem("d_type", f"D is {d_type} with {a_type} operands, must be {allowed}", SHAPE_REF))
    if n not in row.legal_n:
        rule = "8, 16, 24, or a multiple of 16 up to 256" if row.integer else "a multiple of 8 up to 256"
        problems.append(Problem("n", f"N is {n}, must be {rule} for {a_type}", SHAPE_REF))
    return problems


# ---------------------------------------------------------------------- descriptor
def encode_wgmma_desc(desc: SmemDescriptor) -> int:
    """The word; the start is taken modulo 256 KiB.

    :raises ConfigError: an offset is no multiple of 16 or does not fit; a swizzle that sm_90 lacks.
    """
    for field, value in (("start", desc.start_bytes), ("lbo", desc.lbo_bytes), ("sbo", desc.sbo_bytes)):
        if value % UNIT_BYTES or not 0 <= value < ADDRESS_LIMIT:
            raise ConfigError(f"{field} is {value} bytes, must be a multiple of {UNIT_BYTES} below {ADDRESS_LIMIT}")
    if desc.swizzle not in SWIZZLE_CODES:
        modes = ", ".join(mode.text for mode in SWIZZLE_CODES)
        raise ConfigError(f"swizzle is {desc.swizzle.text}, must be {modes} on sm_90a", ref=str(DESC_REFS[0]))
    return WGMMA_DESC.encode({
        "start_address": desc.start_bytes // UNIT_BYTES,
        "lbo": desc.lbo_bytes // UNIT_BYTES,
        "sbo": desc.sbo_bytes // UNIT_BYTES,
        "base_offset": desc.base_offset,
        "swizzle": SWIZZLE_CODES[desc.swizzle],
    })  # fmt: skip


def decode_wgmma_desc(word: int) -> SmemDescriptor:
    """The fields of a word; bits that no field covers are ignored."""
    raw = WGMMA_DESC.decode(word)
    mode = next(mode for mode, code in SWIZZLE_CODES.items() if code == raw["swizzle"])
    return SmemDescriptor(
        start_bytes=raw["start_address"] * UNIT_BYTES,
        lbo_bytes=raw["lbo"] * UNIT_BYTES,
        sbo_bytes=raw["sbo"] * UNIT_BYTES,
        swizzle=mode,
        base_offset=raw["base_offset"],
    )
