"""Copies of boxes (TMA): ``cp.async.bulk.tensor``, ``cp.reduce.async.bulk.tensor``, ``cp.async.bulk.prefetch.tensor``.

Rules enforced here (PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor" and "Restriction on
Tensor Copy instructions"): the rank and the mode of the instruction are those of the map; the shared address is
a multiple of 128; with ``.cta_group::1`` (the default) the mbarrier lies in the destination's CTA, with
``.cta_group::2`` in that CTA or its peer. A multicast copy writes the same offset in every CTA of the mask and
signals the same offset in each of them, or, with ``.cta_group::2``, in whichever of the pair has the mbarrier's parity.

A load counts the whole box towards complete_tx, filled bytes included; of the padded types it counts the packed bytes.
Copies are of the async proxy: a load needs no fence before the tensor core reads, a store reads what generic stores
wrote only behind ``fence.proxy.async``. A store reads its source and writes its destination as two operations, so that
``wait_group.read`` promises no more than it does on silicon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from umma_probe.errors import NotModelled, PtxSyntaxError
from umma_probe.layouts.tma_box import GATHERED_ROWS, Access
from umma_probe.model.code.decode import operation
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.bulk_copy import submit_store
from umma_probe.model.ops.mbarrier import BarrierOperand
from umma_probe.model.ops.tcgen05_alloc import CtaGroup
from umma_probe.model.tma.tma_elements import REDUCTIONS
from umma_probe.model.tma.tma_transfer import BoxAccess, Load, start_load, store_effects
from umma_probe.ptx import nodes
from umma_probe.spec.sources import Evidence, Ref, documented
from umma_probe.spec.tensor_map import RESTRICTIONS

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import AddressOperand, Operands
    from umma_probe.model.threads.frame import Frame

FAMILY = "Data Movement and Conversion Instructions"
COPY = documented(f"{FAMILY}: cp.async.bulk.tensor")
REDUCE = documented(f"{FAMILY}: cp.reduce.async.bulk.tensor")
PREFETCH = documented(f"{FAMILY}: cp.async.bulk.prefetch.tensor")
PACKED_BYTES = Ref("deepgemm", "sm100_fp8_fp4_gemm_1d1d.cuh: num_arrival_bytes", Evidence.KERNEL,
                   "half of the shared bytes are expected for 4-bit elements in 8-bit containers")  # fmt: skip

S32, U16 = TYPES["s32"], TYPES["u16"]
DIMS = {f"{rank}d": rank for rank in range(1, 6)}
LOAD_MODES = {"tile": Access.TILE, "tile::gather4": Access.ROWS, "im2col": Access.IM2COL}
STORE_MODES = {"tile": Access.TILE, "tile::scatter4": Access.ROWS, "im2col_no_offs": Access.IM2COL}
WIDE_MODES = ("im2col::w", "im2col::w::128")
HINT = ("L2::cache_hint",)


@dataclass(frozen=True)
class BoxOperand:
    """``[tensorMap, {coordinates}]`` with the offsets of im2col, resolved to slots."""

    text: str
    map: AddressOperand
    access: Access
    rank: int
    coordinates: tuple[int, ...]
    offsets: tuple[int, ...] = ()

    def of(self, f: Frame) -> list[BoxAccess]:
        """The box of each running thread, its map fetched and checked against the instruction."""
        launch = f.launch
        addresses = self.map.resolve(f).tolist()
        rows = [f.regs[slot][f.sel].tolist() for slot in (*self.coordinates, *self.offsets)]
        boxes = []
        for at, thread in enumerate(f.threads.tolist()):
            fields = launch.tensor_maps.fetch(f, addresses[at], thread)
            values = [row[at] for row in rows]
            count = len(self.coordinates)
            box = BoxAccess(self.text, fields, self.access, tuple(values[:count]), tuple(values[count:]))
            box.check(f, self.rank, thread)
            boxes.append(box)
        return boxes


def _box(ops: Operands, index: int, rank: int, access: Access | None, offsets: int | None = None) -> BoxOperand:
    """The operand at ``index``; ``offsets`` is the operand of im2col offsets."""
    access = access or Access.TILE
    text = ops.instruction.text
    address = ops[index]
    if not isinstance(address, nodes.Address) or len(address.coords) != 1:
        raise PtxSyntaxError(f"{text}: operand {index + 1} must be [tensorMap, {{coordinates}}]")
    coordinates = _vector(ops, address.coords[0])
    wanted = 1 + GATHERED_ROWS if access is Access.ROWS else rank
    if len(coordinates) != wanted:
        raise PtxSyntaxError(f"{text}: {len(coordinates)} coordinates, must be {wanted}")
    if access is Access.ROWS and rank != 2:
        raise PtxSyntaxError(f"{text}: gather4 and scatter4 are for 2d")
    if access is Access.IM2COL and rank < 3:
        raise PtxSyntaxError(f"{text}: im2col is for 3d to 5d")
    slots: tuple[int, ...] = ()
    if offsets is not None:
        items = ops.items(offsets)
        if len(items) != rank - 2:
            raise PtxSyntaxError(f"{text}: {len(items)} im2col offsets, must be {rank - 2}")
        slots = tuple(ops.source(item, U16) for item in items)
    return BoxOperand(text, ops.address_of(address), access, rank,
                      tuple(ops.source(item, S32) for item in coordinates), slots)  # fmt: skip


def _vector(ops: Operands, operand: nodes.Operand) -> tuple[nodes.Operand, ...]:
    return operand.items if isinstance(operand, nodes.Vector) else (operand,)


# ---------------------------------------------------------------------- loads
@operation(
    "cp.async.bulk.tensor.{dim}.{dst}.global.{mode?}.mbarrier::complete_tx::bytes.{multicast?}.{group?}.{hint?}",
    refs=(COPY, RESTRICTIONS, PACKED_BYTES),
    dim=DIMS,
    dst=("shared::cta", "shared::cluster"),
    mode={**LOAD_MODES, **{word: word for word in WIDE_MODES}},
    multicast={"multicast::cluster": True, "multicast::cluster::16b": True},
    group=CtaGroup,
    hint=HINT,
)
def load(
    ops: Operands, dim: int, dst: str, mode: Any, multicast: bool, group: CtaGroup | None, hint: str | None
) -> Executor:
    """``[dst], [map, {coords}], [mbar]{, im2col offsets}{, ctaMask}{, cache-policy}``."""
    if mode in WIDE_MODES:
        raise NotModelled(f"{ops.instruction.text}: the walk of .{mode} is not documented in full")
    im2col = mode is Access.IM2COL
    ops.expect_count(3 + im2col + bool(multicast) + bool(hint))
    if multicast and dst != "shared::cluster":
        raise PtxSyntaxError(f"{ops.instruction.text}: multicast needs .shared::cluster")
    target, barrier = ops.address(0), BarrierOperand(ops.address(2), "shared::cluster")
    box = _box(ops, 1, dim, mode, 3 if im2col else None)
    mask = ops.src(3 + im2col, U16) if multicast else None
    pair = group is CtaGroup.TWO

    def run(f: Frame) -> None:
        memory = f.launch.memory
        addresses = target.resolve(f)
        masks = [None] * f.count if mask is None else f.regs[mask][f.sel].tolist()
        # a multicast names an offset; the rank in the address need not be one of the mask
        space = "shared" if dst == "shared::cta" else "shared::cluster"
        places = memory.shared_offsets(f, space, addresses, 1).tolist()
        barriers = barrier.places(f)
        for at, (thread, access) in enumerate(zip(f.threads.tolist(), box.of(f), strict=True)):
            start_load(f, Load(access, places[at], barriers[at], masks[at], pair, thread))

    return run


# ---------------------------------------------------------------------- stores and reductions
@operation(
    "cp.async.bulk.tensor.{dim}.global.shared::cta.{mode?}.bulk_group.{hint?}",
    refs=(COPY, RESTRICTIONS),
    dim=DIMS,
    mode=STORE_MODES,
    hint=HINT,
)
def store(ops: Operands, dim: int, mode: Access | None, hint: str | None) -> Executor:
    """``[map, {coords}], [src]{, cache-policy}``."""
    return _bind_store(ops, dim, mode, hint, None)


@operation(
    "cp.reduce.async.bulk.tensor.{dim}.global.shared::cta.{operator}.{mode?}.bulk_group.{hint?}",
    refs=(REDUCE, RESTRICTIONS),
    dim=DIMS,
    operator=tuple(REDUCTIONS),
    mode={word: access for word, access in STORE_MODES.items() if access is not Access.ROWS},
    hint=HINT,
)
def reduce(ops: Operands, dim: int, operator: str, mode: Access | None, hint: str | None) -> Executor:
    """``[map, {coords}], [src]{, cache-policy}``: combine with what is there, element by element."""
    return _bind_store(ops, dim, mode, hint, operator)


def _bind_store(ops: Operands, dim: int, mode: Access | None, hint: str | None, operator: str | None) -> Executor:
    ops.expect_count(2 + bool(hint))
    box, source = _box(ops, 0, dim, mode), ops.address(1)

    def run(f: Frame) -> None:
        places = f.launch.memory.shared_offsets(f, "shared", source.resolve(f), 1).tolist()
        alike: dict[tuple[int, int, BoxAccess], list[int]] = {}
        for place, thread, access in zip(places, f.threads.tolist(), box.of(f), strict=True):
            # whole warps issue stores (CUTLASS's epilogues do): equal copies of equal lanes happen at once, as one.
            # Not so reductions, of which each counts.
            who = thread if operator is not None else thread // 32
            alike.setdefault((who, place, access), []).append(thread)
        for (_, place, access), threads in alike.items():
            submit_store(f.launch, threads, *store_effects(f, access, place, threads[0], operator))

    return run


# ---------------------------------------------------------------------- prefetch
@operation(
    "cp.async.bulk.prefetch.tensor.{dim}.L2.global.{mode?}.{hint?}.{priority?}",
    refs=(PREFETCH,),
    dim=DIMS,
    mode={**LOAD_MODES, **{word: word for word in WIDE_MODES}},
    hint=HINT,
    priority=("L2::evict_last",),
)
def prefetch(ops: Operands, dim: int, mode: Any, hint: str | None, priority: str | None) -> Executor:
    """``[map, {coords}]{, im2col offsets}{, cache-policy}``: a hint; the map must still fit the instruction."""
    offsets = mode is Access.IM2COL or mode in WIDE_MODES
    ops.expect_count(1 + offsets + bool(hint))
    if mode in WIDE_MODES:
        return lambda f: None
    box = _box(ops, 0, dim, mode, 1 if offsets else None)

    def run(f: Frame) -> None:
        box.of(f)

    return run
