"""The parameters of a GEMM probe as a clean recipe, and the rules that they may break."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from umma_probe.errors import ConfigError
from umma_probe.harness.gemm.recipe import SMEM_BYTES, Reading, Recipe, Staged, reading_of
from umma_probe.harness.placement import default_swizzle, place_operand
from umma_probe.harness.readback import readbacks_of
from umma_probe.layouts.smem_operand import operand_problems
from umma_probe.spec.descriptors import Swizzle, decode_smem_desc, encode_idesc
from umma_probe.spec.kinds import KINDS, check_shape
from umma_probe.spec.machine import TMEM_COLUMNS
from umma_probe.spec.problems import Problem
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Iterator

_TMEM = documented("Tensor Memory", "128 lanes by 512 columns per CTA")
_SHARED = documented("Shared memory", "bytes per CTA")
_DEFAULT_TYPES = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8"}
_A_COLUMNS_PER_TILE = 8
A_ALIGNMENT = 16
"""Columns on which A begins in Tensor Memory."""


@dataclass(frozen=True)
class GemmCase:
    """A product D (m, n) = A (m, k) * B (n, k)^T on tcgen05. Empty types are the usual ones of the kind."""

    m: int
    n: int
    k: int
    kind: str = "f16"
    a_type: str = ""
    b_type: str = ""
    d_type: str = ""
    a_major: str = "k"
    b_major: str = "k"
    swizzle: str = ""
    ws: bool = False
    a_source: str = "smem"
    sub_n: int = 0
    """N of one MMA; 0 for all of it."""
    column: int = 0
    lane: int = 0
    fill: str = "sentinel"
    readback: str = "32x32b.x32,16x256b.x4"

    @classmethod
    def of(cls, **given: object) -> GemmCase:
        """Fill in the types.

        :raises ConfigError: a type that the kind does not have.
        """
        case = cls(**given)  # type: ignore[arg-type]
        kind = KINDS[case.kind]
        a_type = case.a_type or _DEFAULT_TYPES[kind.name]
        case = replace(case, a_type=a_type, b_type=case.b_type or a_type, d_type=case.d_type or kind.d_types[-1])
        operands = kind.operand_types
        for field, name, known in (("a-type", case.a_type, operands), ("b-type", case.b_type, operands),
                                   ("d-type", case.d_type, kind.d_types)):  # fmt: skip
            if name not in known:
                raise ConfigError(f"{field} is {name}, must be {' or '.join(known)} under kind::{kind.name}",
                                  ref=str(kind.refs[0]))  # fmt: skip
        if case.k % kind.k_dense:
            raise ConfigError(f"K is {case.k}, must be a multiple of {kind.k_dense}, the K of one MMA",
                              ref=str(kind.refs[0]))  # fmt: skip
        if case.n % (case.sub_n or case.n):
            raise ConfigError(f"N is {case.n}, must be a multiple of the sub-tiles' N, {case.sub_n}")
        return case

    @property
    def tiles(self) -> int:
        """MMAs along K."""
        return self.k // KINDS[self.kind].k_dense

    @property
    def mma_n(self) -> int:
        """N of one MMA."""
        return self.sub_n or self.n

    def recipe(self, idesc: int | None = None) -> Recipe:
        """What the kernel is told. The operands lie one behind the other in shared memory."""
        word = idesc if idesc is not None else encode_idesc(
            self.kind, a_type=self.a_type, b_type=self.b_type, d_type=self.d_type, m=self.m, n=self.mma_n,
            a_major=self.a_major, b_major=self.b_major, force=True)  # fmt: skip
        a = self._staged(self.a_type, self.m, self.a_major, 0, 0)
        a_size = 0 if self.a_source == "tmem" else a.placed.size
        b = self._staged(self.b_type, self.n, self.b_major, a_size, self.mma_n)
        return Recipe(
            kind=self.kind, d_type=self.d_type, m=self.m, n=self.mma_n, tiles=self.tiles, a=a, b=b, idesc=word,
            readings=tuple(map(Reading, readbacks_of(self.readback, self.d_type))), ws=self.ws,
            a_in_tmem=self.a_source == "tmem", a_column=self._a_column(), d_column=self.column,
            d_lane=self.lane, d_step=self.mma_n, subs=self.n // self.mma_n, fill=self.fill,
            dumped_bytes=min(a_size + b.placed.size, SMEM_BYTES),
        )  # fmt: skip

    def _staged(self, type_: str, rows: int, major: str, smem: int, sub_rows: int) -> Staged:
        swizzle = Swizzle.from_text(self.swizzle) if self.swizzle else default_swizzle(type_, major)
        placed = place_operand(self.kind, type_, rows, self.tiles, major, swizzle)
        return Staged(type_, rows, placed, smem, reading_of(placed, smem, sub_rows))

    @property
    def _a_columns(self) -> int:
        return _A_COLUMNS_PER_TILE * self.tiles if self.a_source == "tmem" else 0

    def _a_column(self) -> int:
        """Behind D if there is room, else at the very front."""
        behind = -(-(self.column + self.n) // A_ALIGNMENT) * A_ALIGNMENT
        return behind if behind + self._a_columns <= TMEM_COLUMNS else 0

    def problems(self, arch: str) -> Iterator[Problem]:
        """The rules that the case breaks."""
        yield from check_shape(self.kind, m=self.m, n=self.mma_n, a_type=self.a_type, b_type=self.b_type,
                               d_type=self.d_type, ws=self.ws, a_major=self.a_major, b_major=self.b_major,
                               a_source=self.a_source, arch=arch)  # fmt: skip
        if self.column + self.n > TMEM_COLUMNS:
            yield Problem("column", f"column is {self.column}, must be at most {TMEM_COLUMNS - self.n}: "
                          f"D takes {self.n}", _TMEM)  # fmt: skip
        elif self._a_columns and self._a_column() < self.column + self.n and self.column < self._a_columns:
            yield Problem("column", f"column is {self.column}, must leave {self._a_columns} columns for A", _TMEM)
        recipe = self.recipe()
        size = (0 if recipe.a_in_tmem else recipe.a.placed.size) + recipe.b.placed.size
        if size > SMEM_BYTES:
            yield Problem(
                "k", f"the operands take {size} bytes of shared memory, must be at most {SMEM_BYTES}", _SHARED
            )
        if recipe.subs > 1 and self.b_major != "k":
            yield Problem("b_major", "b-major is mn with N sub-tiles, must be k: a sub-tile must begin on eight rows",
                          documented("Canonical layouts"))  # fmt: skip
        yield from self._operand_problems(recipe)

    def _operand_problems(self, recipe: Recipe) -> Iterator[Problem]:
        row = KINDS[self.kind]
        for name in ("b",) if recipe.a_in_tmem else ("a", "b"):
            staged = recipe.operand(name)
            for problem in operand_problems(decode_smem_desc(staged.read.desc), staged.placed.major, staged.bits,
                                            row.packing(staged.type_), row.k_dense):  # fmt: skip
                yield Problem(problem.field, f"{name.upper()}: {problem.message}", problem.ref)
