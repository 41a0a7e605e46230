"""State spaces of addresses: ``cvta``, ``isspacep``, ``mapa``, ``getctarank``.

Rules enforced here (PTX ISA, "Data Movement and Conversion Instructions"): a generic address of shared memory is the
shared window plus the shared address, one of local memory the local window plus the local address, one of a parameter
the place of the kernel's parameters plus the offset in them; global and constant addresses are generic as they stand.
A shared address carries its CTA's rank in the cluster from bit 24 up, and ``mapa`` replaces that rank; so a
``.shared::cta`` address of the own CTA is a valid ``.shared::cluster`` address. A rank that the cluster lacks gives
an address whose use faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.model.code.decode import alu, operation
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.state.memory import LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW, WINDOW_BYTES
from umma_probe.spec.sources import Evidence, Ref, documented

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

CONVERT = (documented("Data Movement and Conversion Instructions: cvta"),)
IS_SPACE = (documented("Data Movement and Conversion Instructions: isspacep"),)
RANK_BITS_MASK = 0xFF << RANK_SHIFT
RANK_BITS = Ref("cutlass", "Sm100MmaPeerBitMask", Evidence.KERNEL, "2-CTA kernels clear bit 24 to reach the even CTA")
CLUSTER = (documented("Data Movement and Conversion Instructions: mapa"), RANK_BITS)

WINDOWS = {
    "global": 0,
    "const": 0,
    "local": LOCAL_WINDOW,
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
}
"""State space to the generic address of its address 0."""
PARAMETERS = ("param", "param::entry")
"""Parameters start at another generic address in every launch."""

U64 = TYPES["u64"]


@alu("cvta.{window}.u64", operands="u64 u64", window=WINDOWS, refs=CONVERT)
def to_generic(window: int) -> Callable[[Array], Array]:
    """State-space address to generic address."""
    if not window:
        return lambda a: a
    base = np.uint64(window)
    return lambda a: a + base


@alu("cvta.to.{window}.u64", operands="u64 u64", window=WINDOWS, refs=CONVERT)
def from_generic(window: int) -> Callable[[Array], Array]:
    """Generic address to state-space address."""
    if not window:
        return lambda a: a
    base = np.uint64(window)
    return lambda a: a - base


@operation("cvta.{space}.u64", space=PARAMETERS, refs=CONVERT)
def parameter_to_generic(ops: Operands, space: str) -> Executor:
    """Offset in the kernel's parameters to generic address."""
    return _shift_by_parameters(ops, 1)


@operation("cvta.to.{space}.u64", space=PARAMETERS, refs=CONVERT)
def parameter_from_generic(ops: Operands, space: str) -> Executor:
    """Generic address to offset in the kernel's parameters."""
    return _shift_by_parameters(ops, -1)


def _shift_by_parameters(ops: Operands, sign: int) -> Executor:
    ops.expect_count(2)
    target, source = ops.dst(0, U64), ops.src(1, U64)

    def run(f: Frame) -> None:
        base = np.uint64(sign * f.launch.param_address & (1 << 64) - 1)
        f.regs[target][f.sel] = f.regs[source][f.sel] + base

    return run


@operation("isspacep.{space}", space=(*WINDOWS, *PARAMETERS), refs=IS_SPACE)
def isspacep(ops: Operands, space: str) -> Executor:
    """Whether a generic address falls into a state space."""
    ops.expect_count(2)
    target, source = ops.dst(0, TYPES["pred"]), ops.src(1, U64)

    def run(f: Frame) -> None:
        f.regs[target][f.sel] = _in_space(f, space, f.regs[source][f.sel].astype(np.int64))

    return run


def _in_space(f: Frame, space: str, addresses: Array) -> Array:
    if space in ("shared", "shared::cta", "shared::cluster", "local"):
        low = WINDOWS[space]
        inside = (addresses >= low) & (addresses < low + WINDOW_BYTES)
        if space in ("shared", "shared::cta"):
            inside &= (addresses - low) >> RANK_SHIFT == f.launch.cluster_rank_of_thread[f.threads]
        return inside
    parameters = f.launch.param_address
    size = f.launch.program.variables.param_bytes
    in_param = (addresses >= parameters) & (addresses < parameters + size)
    if space.startswith("param"):
        return in_param
    constants = [v for v in f.launch.program.variables.variables.values() if v.space == "const"]
    in_const = np.zeros(len(addresses), np.bool_)
    for v in constants:
        in_const |= (addresses >= v.address) & (addresses < v.address + v.size_bytes)
    if space == "const":
        return in_const
    return (addresses < LOCAL_WINDOW) & ~in_param & ~in_const


@alu("mapa.{space?}.{type}", operands="type type u32", space=("shared::cluster",), type="u32 u64", refs=CLUSTER)
def mapa(space: str | None, type: PtxType) -> Callable[[Array, Array], Array]:
    """The address of the same variable in the CTA of another rank; shared or generic alike."""
    word = type.dtype.type
    kept = word(~RANK_BITS_MASK & ((1 << type.bits) - 1))
    shift = word(RANK_SHIFT)
    return lambda a, rank: (a & kept) | (rank.astype(word) << shift)


@alu("getctarank.{space?}.{type}", operands="u32 type", space=("shared::cluster",), type="u32 u64", refs=CLUSTER)
def getctarank(space: str | None, type: PtxType) -> Callable[[Array], Array]:
    """The rank of the CTA that a shared address belongs to."""
    mask, shift = type.dtype.type(RANK_BITS_MASK), type.dtype.type(RANK_SHIFT)
    return lambda a: (a & mask) >> shift
