"""``ld``, ``ldu`` and ``st``, and the instructions that only advise the caches.

Rules enforced here (PTX ISA, "Data Movement and Conversion Instructions"): an access is aligned to its full size,
vectors included; a value narrower than its register is sign-extended for ``.s`` types and zero-extended for all
others; ``_`` in a vector throws an element away. A parameter named by its symbol lies where its function put it: in
the kernel's parameter block, or in the frame of a call.

Cache operators, eviction priorities, prefetch sizes and cache policies are performance hints ("Cache Operators",
"Cache Eviction Priority Hints"), so they are parsed and change nothing. The model's memory is sequentially
consistent, so every ``.weak``, ``.relaxed``, ``.acquire``, ``.release``, ``.volatile`` and ``.mmio`` access at every
scope is as strong as it asks to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import PtxSyntaxError
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.values import TYPES, WORD
from umma_probe.model.state.bytes import POISON_BYTE
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import AddressOperand, Operands
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

LOAD_SPACES = {
    "global": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared::cluster",
    "local": "local",
    "const": "const",
    "param": "param",
    "param::entry": "param",
    "param::func": "param",
}
STORE_SPACES = {name: space for name, space in LOAD_SPACES.items() if name not in ("const", "param::entry")}
SCOPES = ("cta", "cluster", "gpu", "sys")
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
DATA_TYPES = "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f16x2 bf16x2 f32 f64"
EVICTION = (
    *(f"L1::{word}" for word in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")),
    *(f"L2::{word}" for word in ("evict_normal", "evict_first", "evict_last")),
)
PREFETCH_SIZES = ("L2::64B", "L2::128B", "L2::256B")
CACHE_HINT = ("L2::cache_hint",)


@dataclass(frozen=True, slots=True)
class MemoryShape:
    """How one access is cut into words: ``count`` elements of ``parts`` words of ``width`` bytes."""

    width: int
    parts: int
    count: int

    @classmethod
    def of(cls, type_: PtxType, count: int) -> MemoryShape:
        """The shape of ``count`` elements of a type; 128-bit elements are two 64-bit words."""
        return cls(min(type_.bytes, 8), max(type_.bytes // 8, 1), count)

    @property
    def words(self) -> int:
        """Words in all."""
        return self.count * self.parts


def symbol_space(space: str, address: AddressOperand) -> str:
    """The model's space of an access: ``.param`` symbols of a call lie in the local frame."""
    return "local" if space == "param" and address.space == "local" else space


def _vector_count(ops: Operands, index: int, vector: int | None) -> int:
    found = len(ops.items(index))
    if found != (vector or 1):
        raise PtxSyntaxError(
            f"{ops.instruction.text}: operand {index + 1} has {found} elements, must have {vector or 1}"
        )
    return found


def _check_mmio(ops: Operands, space: str | None, vector: int | None, words: dict[str, Any]) -> None:
    """``.mmio`` stands with ``.relaxed.sys``, on global memory, without a vector."""
    if words["mmio"] and (
        (words["order"], words["scope"]) != ("relaxed", "sys") or space not in (None, "global") or vector
    ):
        raise PtxSyntaxError(f"{ops.instruction.text}: .mmio must be .mmio.relaxed.sys on .global, without a vector")


# ---------------------------------------------------------------------- ld
@operation(
    "ld.{mmio?}.{order?}.{scope?}.{space?}.{nc?}.{cache?}.{l1?}.{l2?}.{hint?}.{prefetch?}.{vector?}.{unified?}.{type}",
    refs=(documented("Data Movement and Conversion Instructions: ld"),),
    order=("weak", "relaxed", "acquire", "volatile"),
    scope=SCOPES,
    space=LOAD_SPACES,
    cache=("ca", "cg", "cs", "lu", "cv"),
    l1=EVICTION,
    l2=EVICTION,
    hint=CACHE_HINT,
    prefetch=PREFETCH_SIZES,
    vector=VECTORS,
    type=DATA_TYPES,
)
def ld(ops: Operands, space: str | None, vector: int | None, hint: str | None, type: PtxType, **words: Any) -> Executor:
    """``ld d, [a]{, cache-policy}``."""
    _check_mmio(ops, space, vector, words)
    ops.expect_count(3 if hint else 2)
    return _bind_load(ops, space or "generic", vector, type)


@operation(
    "ldu.{space?}.{vector?}.{type}",
    refs=(documented("Data Movement and Conversion Instructions: ldu"),),
    space=("global",),
    vector=VECTORS,
    type=DATA_TYPES,
)
def ldu(ops: Operands, space: str | None, vector: int | None, type: PtxType) -> Executor:
    """``ldu d, [a]``: a load of data that is the same for all threads; reads like any other."""
    ops.expect_count(2)
    return _bind_load(ops, space or "generic", vector, type)


def _bind_load(ops: Operands, space: str, vector: int | None, type_: PtxType) -> Executor:
    shape = MemoryShape.of(type_, _vector_count(ops, 0, vector))
    # raw bits: only the sign of a sub-word load matters
    held = type_ if type_.signed else TYPES[f"b{type_.bits}"]
    targets = ops.dst_vector(0, held)
    address = ops.address(1)
    space = symbol_space(space, address)
    if shape.parts == 2:
        return _load_wide(space, address, targets, shape)
    if len(targets) == 1:
        return _load_one(space, address, targets[0], shape.width, held.dtype)
    return _load_vector(space, address, targets, shape.width, held.dtype)


def _load_one(space: str, address: AddressOperand, target: int, width: int, dtype: Any) -> Executor:
    def run(f: Frame) -> None:
        words = f.launch.memory.load(f, space, address.resolve(f), width)
        f.regs[target][f.sel] = words[:, 0].view(dtype)

    return run


def _load_vector(space: str, address: AddressOperand, targets: list[int], width: int, dtype: Any) -> Executor:
    count = len(targets)

    def run(f: Frame) -> None:
        words = f.launch.memory.load(f, space, address.resolve(f), width, count).view(dtype)
        regs, sel = f.regs, f.sel
        for i, target in enumerate(targets):
            regs[target][sel] = words[:, i]

    return run


def _load_wide(space: str, address: AddressOperand, targets: list[int], shape: MemoryShape) -> Executor:
    def run(f: Frame) -> None:
        words = f.launch.memory.load(f, space, address.resolve(f), shape.width, shape.words)
        for i, target in enumerate(targets):
            f.regs[target][f.sel] = words[:, 2 * i : 2 * i + 2]

    return run


# ---------------------------------------------------------------------- st
@operation(
    "st.{mmio?}.{order?}.{scope?}.{space?}.{cache?}.{l1?}.{l2?}.{hint?}.{vector?}.{type}",
    refs=(documented("Data Movement and Conversion Instructions: st"),),
    order=("weak", "relaxed", "release", "volatile"),
    scope=SCOPES,
    space=STORE_SPACES,
    cache=("wb", "cg", "cs", "wt"),
    l1=EVICTION,
    l2=EVICTION,
    hint=CACHE_HINT,
    vector=VECTORS,
    type=DATA_TYPES,
)
def st(ops: Operands, space: str | None, vector: int | None, hint: str | None, type: PtxType, **words: Any) -> Executor:
    """``st [a], b{, cache-policy}``."""
    _check_mmio(ops, space, vector, words)
    ops.expect_count(3 if hint else 2)
    address = ops.address(0)
    _vector_count(ops, 1, vector)
    sources = ops.src_vector(1, type)
    where = symbol_space(space or "generic", address)
    word = WORD[min(type.bits, 64)]
    if len(sources) == 1 and type.bits < 128:
        (source,) = sources

        def run_one(f: Frame) -> None:
            words = f.regs[source][f.sel].view(word)
            f.launch.memory.store(f, where, address.resolve(f), words[:, None])

        return run_one

    def run(f: Frame) -> None:
        f.launch.memory.store(f, where, address.resolve(f), gather_words(f, sources, word))

    return run


def gather_words(f: Frame, sources: list[int], word: Any) -> Array:
    """Source registers side by side: (n, words); a 128-bit register gives two."""
    parts = [f.regs[source][f.sel].view(word) for source in sources]
    if parts[0].ndim == 2:
        return np.concatenate(parts, axis=1)
    return np.stack(parts, axis=1)


# ---------------------------------------------------------------------- advice to the caches
def _ignored(f: Frame) -> None:
    """A performance hint: no effect that a program could see."""


@operation(
    "prefetch.{space?}.{level}",
    refs=(documented("Data Movement and Conversion Instructions: prefetch, prefetchu"),),
    space=("global", "local", "const", "param"),
    level=("L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"),
)
def prefetch(ops: Operands, **_: Any) -> Executor:
    """``prefetch [a]``."""
    ops.expect_count(1)
    ops.address(0)
    return _ignored


@operation("prefetchu.L1", refs=(documented("Data Movement and Conversion Instructions: prefetch, prefetchu"),))
def prefetchu(ops: Operands) -> Executor:
    """``prefetchu.L1 [a]``."""
    ops.expect_count(1)
    ops.address(0)
    return _ignored


@operation(
    "applypriority.{space?}.L2::evict_normal",
    refs=(documented("Data Movement and Conversion Instructions: applypriority"),),
    space=("global",),
)
def applypriority(ops: Operands, space: str | None) -> Executor:
    """``applypriority [a], 128``."""
    ops.expect_count(2)
    ops.address(0)
    return _ignored


_PRIORITIES = tuple(f"L2::evict_{word}" for word in ("last", "normal", "first", "unchanged"))


@operation(
    "createpolicy.{kind}.{space?}.{primary?}.{secondary?}.{level?}.b64",
    refs=(documented("Data Movement and Conversion Instructions: createpolicy"),),
    kind=("fractional", "range", "cvt"),
    space=("global",),
    primary=_PRIORITIES,
    secondary=_PRIORITIES,
    level=("L2",),
)
def createpolicy(ops: Operands, **_: Any) -> Executor:
    """``createpolicy d, ...``: an opaque cache policy; the model ignores policies, so its word is zero."""
    target = ops.dst(0, TYPES["b64"])

    def run(f: Frame) -> None:
        f.regs[target][f.sel] = 0

    return run


@operation(
    "discard.{space?}.L2",
    refs=(documented("Data Movement and Conversion Instructions: discard", "a weak write of an indeterminate value"),),
    space=("global",),
)
def discard(ops: Operands, space: str | None) -> Executor:
    """``discard [a], size``: the bytes become indeterminate, as if never written."""
    ops.expect_count(2)
    address = ops.address(0)
    size = ops.immediate(1)
    if size != 128:
        raise PtxSyntaxError(f"{ops.instruction.text}: size is {size}, must be 128")

    def run(f: Frame) -> None:
        memory = f.launch.memory
        addresses = address.resolve(f)
        memory.check_alignment(f, addresses, size)
        backing, offsets = memory.locate(f, "global", memory.to_space("global", addresses), size)
        span = offsets[:, None] + np.arange(size)
        backing.data[span] = POISON_BYTE
        backing.written[span] = False

    return run
