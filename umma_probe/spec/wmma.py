"""``wmma``: the shapes of one warp's product through memory, and how many registers each fragment has.

From "Warp-level Matrix Fragment" of the PTX ISA, which counts the registers and leaves open what lies in which. A and B
of f16 have eight registers whatever the shape, so their elements are there more than once. What is not here has 4-bit
or 1-bit elements: the model lacks these.
"""

from __future__ import annotations

from dataclasses import dataclass

from umma_probe.spec.sources import Ref, documented

REF = documented("Warp-level Matrix Fragment")


@dataclass(frozen=True)
class Wmma:
    """A shape with types that go together."""

    m: int
    n: int
    k: int
    operands: tuple[str, ...]
    """Types of A and B, one of them for both."""
    accumulators: tuple[str, ...]
    """Types of C and D."""
    ref: Ref = REF

    @property
    def shape(self) -> str:
        """As the opcode spells it."""
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def kind(self) -> str:
        """The name of its arithmetic."""
        return {"f16": "f16", "bf16": "f16", "tf32": "tf32", "f64": "f64"}.get(self.operands[0], "i8")

    def extent(self, part: str) -> tuple[int, int]:
        """Rows and columns of A (m, k), of B (n, k), else of C and D (m, n)."""
        return {"a": (self.m, self.k), "b": (self.n, self.k)}.get(part, (self.m, self.n))

    def registers(self, part: str, type_: str) -> int:
        """Registers of a fragment in each lane, of 32 bits but for f64."""
        if part in ("a", "b") and type_ == "f16":
            return 8
        rows, columns = self.extent(part)
        return rows * columns // 32 * ELEMENT_BYTES[type_] // register_bytes(type_)


ELEMENT_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "u8": 1, "f32": 4, "s32": 4, "f64": 8}


def register_bytes(type_: str) -> int:
    """Size of one register of a fragment."""
    return max(4, ELEMENT_BYTES[type_])


_SHAPES = ((16, 16, 16), (8, 32, 16), (32, 8, 16))

#        m  n  k   A and B  C and D
WMMAS = (
    *(Wmma(*shape, ("f16",), ("f16", "f32")) for shape in _SHAPES),
    *(Wmma(*shape, ("bf16",), ("f32",)) for shape in _SHAPES),
    *(Wmma(*shape, ("s8", "u8"), ("s32",)) for shape in _SHAPES),
    Wmma(16, 16, 8, ("tf32",), ("f32",)),
    Wmma(8, 8, 4, ("f64",), ("f64",)),
)


def wmma_of(shape: str, part: str, type_: str) -> Wmma | None:
    """A row of this shape whose A, B or accumulator has this type; None if there is none."""
    for row in WMMAS:
        if row.shape == shape and type_ in (row.operands if part in ("a", "b") else row.accumulators):
            return row
    return None
