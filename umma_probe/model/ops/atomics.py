"""``atom`` and ``red``: read-modify-write on global and shared memory.

Threads that meet on one address are applied one after the other in thread order; silicon's order is not defined, so
only results that do not depend on it are comparable. Vector forms are atomic per element (PTX ISA, "Parallel
Synchronization and Communication Instructions: atom", "red").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.element_ops import check_allowed, combiner
from umma_probe.model.numbers.values import WORD
from umma_probe.model.ops.ld_st import CACHE_HINT, SCOPES, VECTORS, gather_words
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import AddressOperand, Operands
    from umma_probe.model.numbers.element_ops import Combine
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

FAMILY = "Parallel Synchronization and Communication Instructions"
SPACES = {
    "global": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared::cluster",
}
MODIFIERS = "{order?}.{scope?}.{space?}.{op}.{noftz?}.{hint?}.{vector?}.{type}"
ORDERS = ("relaxed", "acquire", "release", "acq_rel")
QUALIFIERS: dict[str, Any] = {
    "order": ORDERS,
    "scope": SCOPES,
    "space": SPACES,
    "op": ("add", "inc", "dec", "min", "max", "and", "or", "xor", "exch"),
    "hint": CACHE_HINT,
    "vector": VECTORS,
    "type": "b32 b64 b128 u32 s32 u64 s64 f32 f64 f16 bf16 f16x2 bf16x2",
}
"""What both forms take."""


@dataclass(frozen=True, slots=True)
class Access:
    """One read-modify-write: where, what, and the destination slots of ``atom``."""

    space: str
    address: AddressOperand
    sources: list[int]
    targets: list[int]
    word: Any
    """The memory word of one element."""


@operation(f"atom.{MODIFIERS}", refs=(documented(f"{FAMILY}: atom"),), **QUALIFIERS)
def atom(ops: Operands, space: str | None, op: str, hint: str | None, type: PtxType, **_: Any) -> Executor:
    """``atom.op.type d, [a], b{, cache-policy}``."""
    ops.expect_count(4 if hint else 3)
    return _bind(ops, space, op, type, returns=True)


@operation(f"red.{MODIFIERS}", refs=(documented(f"{FAMILY}: red"),), **QUALIFIERS)
def red(ops: Operands, space: str | None, op: str, hint: str | None, type: PtxType, **_: Any) -> Executor:
    """``red.op.type [a], b{, cache-policy}``."""
    ops.expect_count(3 if hint else 2)
    return _bind(ops, space, op, type, returns=False)


def _bind(ops: Operands, space: str | None, op: str, type_: PtxType, *, returns: bool) -> Executor:
    check_allowed(ops.instruction.text, op, type_)
    first = 1 if returns else 0
    access = Access(
        space=space or "generic",
        address=ops.address(first),
        sources=ops.src_vector(first + 1, type_),
        targets=ops.dst_vector(0, type_) if returns else [],
        word=WORD[min(type_.bits, 64)],
    )
    if type_.bits == 128:
        return lambda f: _exchange_wide(f, access)
    function, dtype = combiner(op, type_)
    return lambda f: _combine(f, access, function, dtype, type_)


def _combine(f: Frame, access: Access, function: Combine, dtype: Any, type_: PtxType) -> None:
    operands = gather_words(f, access.sources, access.word)

    def update(old: Array, at: Array) -> Array:
        # one row of elements a thread; packed types are seen as their 16-bit halves
        fresh = function(old.view(dtype), np.ascontiguousarray(operands[at]).view(dtype))
        return np.asarray(fresh).astype(dtype).view(access.word)

    before = read_modify_write(f, access.space, access.address.resolve(f), access.word, operands.shape[1], update)
    for i, target in enumerate(access.targets):
        f.regs[target][f.sel] = np.ascontiguousarray(before[:, i]).view(type_.dtype)


def read_modify_write(f: Frame, space: str, addresses: Array, word: Any, count: int, update: Any) -> Array:
    """Apply ``update(old words, positions) -> new words`` for every running thread; returns the old words (n, count).

    Threads with different addresses go together; those that share an address go in thread order.
    """
    memory = f.launch.memory
    _, first, place = np.unique(
        _identity(f, space, addresses, np.dtype(word).itemsize), return_index=True, return_inverse=True
    )
    places = addresses[first]
    sel, threads = f.sel, f.threads
    f.select(threads[first])
    initial = memory.load(f, space, places, np.dtype(word).itemsize, count)
    current = np.array(initial)
    before = np.empty((len(addresses), count), word)
    for at in _rounds(place):
        old = current[place[at]]
        before[at] = old
        current[place[at]] = update(old, at)
    # a failed compare-and-swap writes nothing: a lock that many spin on makes no progress by it
    changed = np.flatnonzero((current != initial).any(axis=1))
    if len(changed):
        f.select(threads[first[changed]])
        memory.store(f, space, places[changed], current[changed])
    f.select(sel)
    return before


def _identity(f: Frame, space: str, addresses: Array, size: int) -> Array:
    """What tells places apart: the same shared address is another place in another CTA."""
    memory = f.launch.memory
    if space == "generic" and set(memory.classify(addresses)) == {"shared::cluster"}:
        addresses, space = memory.to_space("shared::cluster", addresses), "shared::cluster"
    return addresses if space in ("global", "generic") else memory.shared_offsets(f, space, addresses, size)


def _rounds(place: Array) -> list[Array]:
    """Positions in rounds: in each round no place twice, and equal places in the order of threads."""
    order = np.argsort(place, kind="stable")
    fresh = np.concatenate([[True], np.diff(place[order]) > 0])
    starts = np.flatnonzero(fresh)
    turn = np.arange(len(place)) - starts[np.cumsum(fresh) - 1]
    return [np.sort(order[turn == n]) for n in range(int(turn.max()) + 1)]


def _exchange_wide(f: Frame, access: Access) -> None:
    operands = gather_words(f, access.sources, access.word)
    before = read_modify_write(f, access.space, access.address.resolve(f), access.word, 2, lambda old, at: operands[at])
    for target in access.targets:
        f.regs[target][f.sel] = before


@operation(
    "atom.{order?}.{scope?}.{space?}.cas.{hint?}.{type}",
    refs=(documented(f"{FAMILY}: atom"),),
    order=ORDERS,
    scope=SCOPES,
    space=SPACES,
    hint=CACHE_HINT,
    type="b16 b32 b64 b128",
)
def atom_cas(ops: Operands, space: str | None, hint: str | None, type: PtxType, **_: Any) -> Executor:
    """``atom.cas.type d, [a], b, c{, cache-policy}``: ``[a] == b ? c : [a]``."""
    ops.expect_count(5 if hint else 4)
    target, address = ops.dst(0, type), ops.address(1)
    compare, fresh = [ops.src(2, type)], [ops.src(3, type)]
    word, words = WORD[min(type.bits, 64)], max(type.bits // 64, 1)
    where = space or "generic"

    def run(f: Frame) -> None:
        wanted, values = gather_words(f, compare, word), gather_words(f, fresh, word)

        def update(old: Array, at: Array) -> Array:
            equal = (old == wanted[at]).all(axis=1, keepdims=True)
            return np.where(equal, values[at], old)

        before = read_modify_write(f, where, address.resolve(f), word, words, update)
        f.regs[target][f.sel] = before if words == 2 else before[:, 0]

    return run
