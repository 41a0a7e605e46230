"""tcgen05.ld and tcgen05.st: Tensor Memory to registers and back, as operations in flight.

A warp reaches the 32 lanes of its own partition (warp index modulo 4), all columns. The lane field of the address
must name that partition; 0 works from every warp (DeepGEMM and others rely on it). Tensor Memory has 128 lanes, so
the field's bits above the seventh say nothing: a kernel that numbers the lanes of a CTA pair from 0 to 255 works on
B200, and is recorded as `review`.

A load reads when it takes effect, not when it is issued; a store's data is taken at issue and lands later. Stores of
one warp land in their order (assumed), and a load comes after the earlier ones of its own warp to its cells
(``landing_stores``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import DeviceError, PtxSyntaxError, UndefinedBehavior
from umma_probe.model.asynchrony.async_engine import AsyncOp
from umma_probe.model.code.decode import operation
from umma_probe.model.mma.datapath import access_box
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.tcgen05_alloc import whole_warp
from umma_probe.model.sanitizer.landing_stores import OWN_REF, Cells, own_stores
from umma_probe.model.sanitizer.tensor_order import LANE_GROUP, Touch
from umma_probe.model.sanitizer.tensor_order import Access as TensorAccess
from umma_probe.model.state.tmem import COLUMN_MASK, LANE_SHIFT
from umma_probe.spec.machine import TMEM_LANES
from umma_probe.spec.sources import Evidence, Ref, assumed, documented

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import AddressOperand, Operands
    from umma_probe.model.launch import Launch
    from umma_probe.model.mma.datapath import AccessBox
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame

    Reduction: TypeAlias = Callable[[Array], Array]
    """(registers, 32) words to (32,) words."""

REFS = (
    documented("tcgen05.ld"),
    documented("tcgen05.st"),
    documented("Access restrictions: a warp reaches its quarter of the lanes"),
    Ref("deepgemm", "epilogues read with lane field 0 from every warp", Evidence.KERNEL),
    Ref(
        "learn-cuda",
        "02e_matmul_sm100/matmul_v5.cu",
        Evidence.KERNEL,
        "the odd CTA of a pair loads from lanes 128 to 255; its result is compared on a B200",
    ),
    assumed(
        "tcgen05.st", "stores of one warp to one cell land in program order; two stores with no wait would settle it"
    ),
    OWN_REF,
)
SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
REPEATS = {f"x{1 << i}": 1 << i for i in range(8)}
MAX_REGISTERS = 128
U32 = TYPES["u32"]
B32 = TYPES["b32"]


@dataclass(frozen=True)
class Access:
    """A decoded ld or st: the box, the address, and whether registers hold two 16-bit halves."""

    what: str
    box: AccessBox
    address: AddressOperand
    packed: bool
    split: int = 0
    """From the address to that of the upper 16 threads; 0 but for 16x32bx2."""

    def cells(self, lane: int, column: int) -> Cells:
        """Lanes and columns of the box at this place."""
        return Cells(tuple(area.at(lane, column) for area in self.box.areas))

    def place(self, f: Frame, warp: int, taddr: int, thread: int) -> tuple[int, int]:
        """(first lane, first column) of the box for a warp.

        :raises DeviceError: a lane is not aligned for the shape.
        :raises UndefinedBehavior: a lane lies in another warp's partition.
        """
        lane = self._lane(f, warp, taddr, thread)
        if self.split and self._lane(f, warp, taddr + self.split, thread) != lane + self.box.areas[1].first_lane:
            f.fault(UndefinedBehavior, f"{self.what}: address {taddr:#010x} and {self.split:#x} behind it are in "
                    "different partitions", thread, ref=str(REFS[2]))  # fmt: skip
        return lane, taddr & COLUMN_MASK

    def _lane(self, f: Frame, warp: int, taddr: int, thread: int) -> int:
        partition = 32 * (warp % f.launch.cta_warps % 4)
        lane = taddr >> LANE_SHIFT
        if not 0 <= lane < TMEM_LANES:
            f.launch.review("tmem-lane-field", f"{self.what}: address {taddr:#010x} has lane {lane}; there are "
                            f"{TMEM_LANES}, and the bits above are taken as ignored: {REFS[4]}", thread)  # fmt: skip
            lane %= TMEM_LANES
        aligned = (0,) if self.box.lanes == 32 else (0, 16)
        if lane % 32 not in aligned:
            f.fault(DeviceError, f"{self.what}: address {taddr:#010x} has lane {lane}; lane % 32 must be "
                    + " or ".join(map(str, aligned)), thread, ref=str(REFS[2]))  # fmt: skip
        if lane >= 32 and lane // 32 * 32 != partition:
            f.fault(UndefinedBehavior, f"{self.what}: address {taddr:#010x} has lane {lane}; this warp reaches lanes "
                    f"{partition} to {partition + 31}", thread, hint="add (warp % 4) << 21 to the address",
                    ref=str(REFS[2]))  # fmt: skip
        return partition + lane % 32


def decode_access(ops: Operands, what: str, shape: str, repeat: int, packed: bool, address: int) -> Access:
    """The access that an instruction describes; ``address`` is the position of its address operand.

    The second half of 16x32bx2 is at the sum of the address and an immediate, which may be negative.

    :raises PtxSyntaxError: too many registers, or a half-split that is no immediate.
    """
    split = ops.immediate(address + 1) if shape == "16x32bx2" else 0
    box = access_box(shape, repeat, split, packed)
    if box.registers > MAX_REGISTERS:
        raise PtxSyntaxError(
            f"{what}.{shape}.x{repeat} needs {box.registers} registers, must be at most {MAX_REGISTERS}"
        )
    return Access(what, box, ops.address(address), packed, split)


def check_registers(access: Access, slots: list[int], ops: Operands) -> None:
    """One register for each that the shape carries.

    :raises PtxSyntaxError: more or fewer.
    """
    if len(slots) != access.box.registers:
        raise PtxSyntaxError(f"{ops.instruction.text}: {len(slots)} registers, must be {access.box.registers}")


@operation("tcgen05.ld.sync.aligned.{shape}.{num}.{pack?}.b32", shape=SHAPES, num=REPEATS,
           pack={"pack::16b": True}, refs=REFS)  # fmt: skip
def load(ops: Operands, shape: str, num: int, pack: bool) -> Executor:
    """Registers <- Tensor Memory."""
    access = decode_access(ops, "tcgen05.ld", shape, num, bool(pack), 1)
    ops.expect_count(3 if shape == "16x32bx2" else 2)
    slots = ops.dst_vector(0, B32)
    check_registers(access, slots, ops)
    return load_executor(access, slots, frozenset(ops.writes))


def load_executor(
    access: Access, slots: list[int], registers: frozenset[str], reduce: Reduction | None = None
) -> Executor:
    """Issue one load a warp. With ``reduce``, the last slot takes the reduction of each thread's words."""

    def run(f: Frame) -> None:
        whole_warp(f, access.what)
        launch = f.launch
        addresses = access.address.resolve(f)
        for warp, positions in f.warps():
            thread = int(f.threads[positions[0]])
            lane, column = access.place(f, warp, _uniform(f, addresses[positions], thread, access), thread)
            _note(launch, access, "ld", lane, column, thread)
            launch.engine.submit(_load_op(launch, access, slots, registers, warp, lane, column, thread, reduce))

    return run


def _load_op(launch: Launch, access: Access, slots: list[int], registers: frozenset[str], warp: int, lane: int,
             column: int, thread: int, reduce: Reduction | None) -> AsyncOp:  # fmt: skip
    pc, slot = launch.pc, warp // launch.cta_warps
    regs = launch.regs
    part = slice(warp * 32, warp * 32 + 32)

    def effect() -> None:
        values = read_box(launch, access, pc, thread, slot, lane, column)
        for register, row in zip(slots, values, strict=False):
            regs[register][part] = row
        if reduce is not None:
            regs[slots[-1]][part] = reduce(values)

    after = own_stores(launch, thread, slot, access.cells(lane, column))
    return AsyncOp("ld", pc, slot, thread, effect, after=after, registers=registers)


def read_box(launch: Launch, access: Access, pc: int, thread: int, slot: int, lane: int, column: int) -> Array:
    """The (registers, 32) words of a load; reading a cell that was never written is a finding."""
    box, tmem, what = access.box, launch.tmem, access.what
    _check(launch, access, pc, thread, slot, lane, column)
    if box.whole:
        cells = slice(lane, lane + 32), slice(column, column + box.registers)
        if _has_idle_half(tmem.written[slot][cells]):
            launch.review("idle-lanes", f"{what} reads 16 lanes of {launch.cta_name(slot)} that nothing wrote, beside "
                          "16 written ones: an accumulator of 64 rows (layout F) leaves them untouched",
                          thread)  # fmt: skip
            words: Array = tmem.words[slot][cells].T
            return words
        return tmem.read(launch, thread, slot, *cells, what).T
    lanes, columns = lane + box.lane, column + box.column
    words = tmem.read_cells(launch, thread, slot, lanes, columns, what)
    if access.packed:
        high = tmem.read_cells(launch, thread, slot, lanes, columns + 1, what)
        words = (words & 0xFFFF) | (high << 16)
    return words


def _note(launch: Launch, access: Access, kind: str, lane: int, column: int, thread: int) -> None:
    """Tell the review of fences which cells are touched."""
    slot, stores = thread // launch.cta_threads, kind == "st"
    launch.tensor_order.access(
        TensorAccess(launch.pc, thread, kind),
        [
            Touch(slot, slice(l0 // LANE_GROUP, l1 // LANE_GROUP), slice(c0, c1), reads=not stores, writes=stores)
            for l0, l1, c0, c1 in access.cells(lane, column).areas
        ],
    )


def _has_idle_half(written: Array) -> bool:
    """One half of the 32 lanes is written throughout, the other nowhere."""
    low, high = written[:16], written[16:]
    return bool((low.all() and not high.any()) or (high.all() and not low.any()))


def _check(launch: Launch, access: Access, pc: int, thread: int, slot: int, lane: int, column: int) -> None:
    for l0, l1, c0, c1 in access.cells(lane, column).areas:
        launch.tmem.check(launch, pc, thread, slot, (l0, l1), (c0, c1), access.what)


@operation("tcgen05.st.sync.aligned.{shape}.{num}.{unpack?}.b32", shape=SHAPES, num=REPEATS,
           unpack={"unpack::16b": True}, refs=REFS)  # fmt: skip
def store(ops: Operands, shape: str, num: int, unpack: bool) -> Executor:
    """Tensor Memory <- registers."""
    access = decode_access(ops, "tcgen05.st", shape, num, bool(unpack), 0)
    ops.expect_count(3 if shape == "16x32bx2" else 2)
    slots = ops.src_vector(len(ops) - 1, B32)
    check_registers(access, slots, ops)

    def run(f: Frame) -> None:
        whole_warp(f, "tcgen05.st")
        launch = f.launch
        addresses = access.address.resolve(f)
        for warp, positions in f.warps():
            thread = int(f.threads[positions[0]])
            lane, column = access.place(f, warp, _uniform(f, addresses[positions], thread, access), thread)
            part = slice(warp * 32, warp * 32 + 32)
            _note(launch, access, "st", lane, column, thread)
            values = np.stack([launch.regs[s][part] for s in slots])
            launch.engine.submit(_store_op(launch, access, values, warp, lane, column, thread))

    return run


def _store_op(launch: Launch, access: Access, values: Array, warp: int, lane: int, column: int, thread: int) -> AsyncOp:
    pc, slot = launch.pc, warp // launch.cta_warps
    before = tuple(op for op in launch.engine.pending(frozenset({"st"}), cta=slot) if op.warp == warp)

    def effect() -> None:
        write_box(launch, access, pc, thread, slot, lane, column, values)

    return AsyncOp("st", pc, slot, thread, effect, after=before[-1:], key=access.cells(lane, column))


def write_box(launch: Launch, access: Access, pc: int, thread: int, slot: int, lane: int, column: int,
              values: Array) -> None:  # fmt: skip
    """Write the (registers, 32) words of a store."""
    box, tmem = access.box, launch.tmem
    _check(launch, access, pc, thread, slot, lane, column)
    if box.whole:
        tmem.write_box(slot, slice(lane, lane + 32), slice(column, column + box.registers), values.T, pc)
        return
    lanes, columns = lane + box.lane, column + box.column
    if access.packed:
        # the upper half of each column: kept or cleared is not documented; the model clears it
        tmem.write(slot, lanes, columns + 1, values >> 16, pc)
        values = values & 0xFFFF
    tmem.write(slot, lanes, columns, values, pc)


def _uniform(f: Frame, addresses: Array, thread: int, access: Access) -> int:
    first = int(addresses[0])
    if (addresses != first).any():
        f.fault(UndefinedBehavior, f"{access.what}: the address differs between the threads of a warp; must be uniform",
                thread, ref=str(REFS[0]))  # fmt: skip
    return first & 0xFFFF_FFFF
