"""One ``wgmma.mma_async`` as the kernel ``probes/wgmma.cu`` is compiled for it, and one launch of that kernel.

A case is a picture of shared memory, two descriptors, and the registers of A and D before: all of it made here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.harness.suite import Input, LaunchPlan, Output
from umma_probe.layouts.wgmma_fragment import FragmentMap, accumulator_fragment, operand_a_fragment
from umma_probe.layouts.wgmma_operand import wgmma_byte_addresses
from umma_probe.spec.problems import Problem
from umma_probe.spec.wgmma import TRANSPOSE_REF, WgmmaKind, encode_wgmma_desc, kind_of, shape_problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from umma_probe.spec.smem_descriptor import SmemDescriptor

THREADS = 128
A_REGISTERS = 4
Bytes = "NDArray[np.uint8]"


@dataclass(frozen=True)
class Instruction:
    """Types, shape and immediates; A and B are K-major unless told otherwise."""

    n: int
    a_type: str
    b_type: str
    d_type: str
    a_in_registers: bool = False
    a_major: str = "k"
    b_major: str = "k"
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False

    @property
    def kind(self) -> WgmmaKind:
        """The row of A's type."""
        return kind_of(self.a_type)

    @property
    def registers(self) -> int:
        """Of D in each thread."""
        return self.kind.registers(self.n, self.d_type)

    @property
    def d_map(self) -> FragmentMap:
        """Where D lies, by the documents."""
        return accumulator_fragment(self.n, self.d_type)

    @property
    def a_map(self) -> FragmentMap:
        """Where A in registers lies, by the documents."""
        return operand_a_fragment(self.kind.element_bits)

    @property
    def text(self) -> str:
        """``wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16``."""
        clamp = ".satfinite" if self.saturate else ""
        types = f"{self.d_type}.{self.a_type}.{self.b_type}"
        return f"wgmma.mma_async.sync.aligned.m64n{self.n}k{self.kind.k}{clamp}.{types}"

    def problems(self) -> list[Problem]:
        """Every rule that it breaks."""
        found = shape_problems(self.a_type, self.b_type, self.d_type, self.n)
        if "mn" in (self.a_major, self.b_major) and not self.kind.transposes:
            found.append(Problem("major", f"an operand is MN-major, must be K-major for {self.a_type}", TRANSPOSE_REF))
        if self.a_in_registers and self.a_major == "mn":
            found.append(Problem("a_major", "A is MN-major in registers, must be in shared memory", TRANSPOSE_REF))
        if self.kind.integer and (self.negate_a or self.negate_b):
            found.append(Problem("negate", f"{self.a_type} operands cannot be negated", TRANSPOSE_REF))
        return found

    def defines(self) -> dict[str, object]:
        """The ``-D`` options of the kernel."""
        count = self.registers
        a_operands = A_REGISTERS if self.a_in_registers else 1
        a_texts = [f"%{count + i}" for i in range(a_operands)]
        return {
            "WGMMA": f'"{self.text}"',
            "REGISTERS_D": count,
            "OPERANDS_D": '"' + ", ".join(f"%{i}" for i in range(count)) + '"',
            "LIST_D": ", ".join(f'"+r"(d[{i}])' for i in range(count)),
            "OPERAND_A": '"{' + ", ".join(a_texts) + '}"' if self.a_in_registers else f'"{a_texts[0]}"',
            "LIST_A": ", ".join(f'"r"(a[{i}])' for i in range(4)) if self.a_in_registers else '"l"(a_at)',
            "OPERAND_B": f'"%{count + a_operands}"',
            "OPERAND_SCALE_D": f'"%{count + a_operands + 1}"',
            "IMMEDIATES": f'"{self._immediates()}"',
        }

    def _immediates(self) -> str:
        if self.kind.integer:
            return ""
        values = [-1 if self.negate_a else 1, -1 if self.negate_b else 1]
        if self.kind.transposes:
            majors = [self.b_major] if self.a_in_registers else [self.a_major, self.b_major]
            values += [int(major == "mn") for major in majors]
        return "".join(f", {value}" for value in values)


def stage(image: NDArray[np.uint8], desc: SmemDescriptor, major: str, codes: NDArray[np.unsignedinteger[Any]]) -> None:
    """Put element codes (rows, k) into a picture of shared memory, where the documents say that they are fetched."""
    data = np.ascontiguousarray(codes)
    addresses = wgmma_byte_addresses(desc, major, data.dtype.itemsize, *data.shape)
    image[addresses] = data.view(np.uint8).reshape(addresses.shape)


def launch(
    instruction: Instruction,
    images: NDArray[np.uint8],
    a_desc: SmemDescriptor,
    b_desc: SmemDescriptor,
    *,
    a_words: NDArray[np.uint32] | None = None,
    before: NDArray[np.uint32] | None = None,
    label: str = "",
) -> LaunchPlan:
    """One case a CTA.

    :param images: (cases, bytes), a multiple of 16 bytes.
    :param a_words: (cases, 128, 4) registers of A.
    :param before: (cases, 128, R) registers of D, which is then accumulated; without them D holds sentinels.
    """
    cases, size = images.shape
    held = np.zeros((cases, THREADS, A_REGISTERS), np.uint32) if a_words is None else a_words
    old = sentinels(cases, instruction.registers) if before is None else before
    return LaunchPlan(
        entry="wgmma",
        args=[
            Input(images),
            Input(held),
            Input(old),
            Output("d", (cases, THREADS, instruction.registers)),
            np.uint64(encode_wgmma_desc(a_desc)),
            np.uint64(encode_wgmma_desc(b_desc)),
            np.uint32(size),
            np.uint32(before is not None),
        ],
        grid=(cases,),
        block=(THREADS,),
        dynamic_smem=size,
        label=label,
    )


def sentinels(cases: int, registers: int) -> NDArray[np.uint32]:
    """Registers (cases, 128, R) of negative NaNs, each naming its place; no instruction makes these."""
    place = np.arange(THREADS * registers, dtype=np.uint32).reshape(1, THREADS, registers)
    words: NDArray[np.uint32] = np.broadcast_to(np.uint32(0xFF80FC00) | (place + 1), (cases, THREADS, registers)).copy()
    return words


def blank_image(*ends: int) -> NDArray[np.uint8]:
    """A picture as large as the last end, rounded up to whole swizzle patterns."""
    return np.zeros(-(-max(ends) // 1024) * 1024, np.uint8)


def first_differences(wrong: NDArray[np.bool_], names: Sequence[str], limit: int = 4) -> str:
    """The first places of a mask, ``m 3 n 5``, in words."""
    places = [" ".join(f"{name} {index}" for name, index in zip(names, place, strict=True))
              for place in np.argwhere(wrong)[:limit]]  # fmt: skip
    rest = int(wrong.sum()) - len(places)
    return ", ".join(places) + (f" and {rest} more" if rest > 0 else "")
