"""One issued ``tcgen05.mma``: what its opcode says, and the values of its operands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from umma_probe.errors import IllegalProgram, UndefinedBehavior
from umma_probe.model.mma.datapath import lane_feed
from umma_probe.spec.idesc import IdescFields, decode_idesc, idesc_problems
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.launch import Launch
    from umma_probe.model.mma.datapath import LaneFeed
    from umma_probe.model.numbers.values import Array


@dataclass(frozen=True)
class MmaForm:
    """What the opcode says."""

    kind: str
    cta_group: int = 1
    ws: bool = False
    sparse: bool = False
    a_in_tmem: bool = False
    ashift: bool = False
    scale_vector: str | None = None
    """``1X``, ``2X`` or ``4X`` of a block-scaled kind."""


@dataclass(frozen=True)
class MmaCall:
    """One issued instruction with its operand values."""

    form: MmaForm
    launch: Launch
    pc: int
    thread: int
    slots: tuple[int, ...]
    """The CTA slots that compute, in rank order."""
    d_taddr: int
    a: int
    """A descriptor, or the Tensor Memory address of A."""
    b_desc: int
    idesc: IdescFields
    accumulate: bool
    disabled_lanes: Array | None = None
    """(slots, 128) bool, or None."""
    scale_input_d: int = 0
    zero_columns: Array | None = None
    """(N,) bool: columns of B that count as zero, whatever shared memory holds (``.ws`` zero-column mask)."""
    b_shift: int = 0
    """Column n of D takes column n + shift of B (``.ws``)."""
    metadata: int = 0
    """Tensor Memory address of the sparsity metadata (``.sp``)."""
    scale_a: int = 0
    """Tensor Memory address of A's scale factors (``.block_scale``)."""
    scale_b: int = 0

    @property
    def rows(self) -> int:
        """Rows of D in each CTA."""
        return self.idesc.m // len(self.slots)

    @property
    def k_stored(self) -> int:
        """Elements of a row of A as it is stored: half of K when sparse."""
        return self.idesc.k // (2 if self.form.sparse else 1)

    @property
    def banked(self) -> bool:
        """Whether N is cut into segments, one a bank of lanes."""
        pair_of_128 = self.form.cta_group == 2 and self.idesc.m == 128 and not self.form.sparse
        return self.rows < 128 and (self.form.ws or pair_of_128)

    @property
    def feed(self) -> LaneFeed:
        """Which lanes hold which rows of D.

        :raises IllegalProgram: the lane of D's address does not suit the layout.
        """
        return lane_feed(self.rows, self.banked, self.d_taddr >> 16)

    @property
    def pipeline_key(self) -> object:
        """Two MMAs with the same accumulator, shape and kind execute in order (PTX ISA, "Pipelined
        tcgen05 Instructions")."""
        return self.form.kind, self.slots, self.d_taddr, self.idesc.m, self.idesc.n, self.form.ws

    def operand_type(self, name: str) -> str:
        """The element type of ``A`` or ``B``."""
        type_ = self.idesc.a_type if name == "A" else self.idesc.b_type
        assert type_ is not None  # checked_idesc refuses undefined codes
        return type_


@lru_cache(maxsize=4096)
def checked_idesc(form: MmaForm, word: int, arch: str) -> IdescFields:
    """The decoded instruction descriptor.

    :raises IllegalProgram: the target does not have the kind: its assembler refuses the instruction.
    :raises UndefinedBehavior: the word breaks a rule; on silicon such an MMA may fault or compute anything.
    """
    found = idesc_problems(form.kind, word, cta_group=form.cta_group, ws=form.ws, sparse=form.sparse,
                           a_source="tmem" if form.a_in_tmem else "smem", scale_vector=form.scale_vector,
                           arch=arch)  # fmt: skip
    problems = [problem for problem in found if problem.contradicted is None]
    for problem in problems:
        if problem.field == "arch":
            raise IllegalProgram(f"tcgen05.mma: {problem.message}", ref=str(problem.ref))
    if problems:
        text = "; ".join(problem.message for problem in problems)
        raise UndefinedBehavior(
            f"tcgen05.mma: instruction descriptor {word:#010x} is illegal for kind::{form.kind}: {text}",
            hint=f"umma-probe idesc {word:#010x} --kind {form.kind} shows every field",
            ref=str(problems[0].ref),
        )
    fields = decode_idesc(form.kind, word)
    if form.ashift and fields.m not in (128, 256):
        raise UndefinedBehavior(f"tcgen05.mma.ashift: M is {fields.m}, must be 128 or 256",
                                ref=str(documented("tcgen05.mma", ".ashift")))  # fmt: skip
    return fields
