"""``mma.sync``: the shapes of one warp's product, and which types each takes.

From "Warp-level Matrix Instructions: mma" of the PTX ISA. What is not here is sparse, 4-bit or 1-bit, or belongs to one
target (``.kind::`` forms): the model lacks these. C and D have one type: the assembler refuses an f32 D of an f16 C and
the reverse in these shapes (ptxas 13.0, ``reports/fidelity-sm90-h200.json``).
"""

from __future__ import annotations

from dataclasses import dataclass

from umma_probe.spec.sources import Ref, documented

REF = documented("Warp-level Matrix Instructions: mma")


@dataclass(frozen=True)
class WarpMma:
    """A shape with types that go together."""

    m: int
    n: int
    k: int
    operands: tuple[str, ...]
    """Types of A and B."""
    accumulators: tuple[str, ...]
    """Types of C and D."""
    mixed: bool = False
    """Whether A and B may differ."""
    ref: Ref = REF

    @property
    def shape(self) -> str:
        """As the opcode spells it."""
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def element_bits(self) -> int:
        """Of A and B in registers."""
        return {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64}.get(self.operands[0], 8)

    @property
    def register_bits(self) -> int:
        """Of one register of a fragment."""
        return max(32, self.element_bits)

    @property
    def kind(self) -> str:
        """The name of its arithmetic."""
        return {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "f64": "f64"}.get(self.operands[0], "i8")


_BYTES = ("s8", "u8")
_FP8 = ("e4m3", "e5m2")

#       m   n  k   A and B     C and D
WARP_MMAS = (
    WarpMma(16, 8, 8, ("f16",), ("f16", "f32")),
    WarpMma(16, 8, 16, ("f16",), ("f16", "f32")),
    WarpMma(16, 8, 8, ("bf16",), ("f32",)),
    WarpMma(16, 8, 16, ("bf16",), ("f32",)),
    WarpMma(16, 8, 4, ("tf32",), ("f32",)),
    WarpMma(16, 8, 8, ("tf32",), ("f32",)),
    WarpMma(16, 8, 16, _FP8, ("f16", "f32"), mixed=True),
    WarpMma(16, 8, 32, _FP8, ("f16", "f32"), mixed=True),
    WarpMma(8, 8, 16, _BYTES, ("s32",), mixed=True),
    WarpMma(16, 8, 16, _BYTES, ("s32",), mixed=True),
    WarpMma(16, 8, 32, _BYTES, ("s32",), mixed=True),
    WarpMma(8, 8, 4, ("f64",), ("f64",)),
    WarpMma(16, 8, 4, ("f64",), ("f64",)),
    WarpMma(16, 8, 8, ("f64",), ("f64",)),
    WarpMma(16, 8, 16, ("f64",), ("f64",)),
)


def warp_mma(shape: str, a: str, b: str) -> WarpMma | None:
    """The row of a shape and two operand types; None if there is none."""
    for row in WARP_MMAS:
        if row.shape == shape and a in row.operands and b in row.operands and (row.mixed or a == b):
            return row
    return None
