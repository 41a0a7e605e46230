"""tcgen05.cp and tcgen05.shift: shared memory to Tensor Memory, and lanes down by one.

The data path, place to element: for each lane the source row that feeds it, see :func:`source_rows`. Rows are read
through the shared-memory descriptor as K-major rows of 16-byte chunks. With decompression, each chunk of 16 packed
4- or 6-bit elements and padding becomes 16 bytes; where an element lies in its byte is not documented (assumed as
noted in ``REFS``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import IllegalProgram, PtxSyntaxError
from umma_probe.layouts.smem_operand import operand_byte_addresses
from umma_probe.model.asynchrony.async_engine import AsyncOp
from umma_probe.model.code.decode import operation
from umma_probe.model.mma.operand_fetch import check_async_read, checked_smem_desc, review_base_offset
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.tcgen05_alloc import CtaGroup
from umma_probe.model.sanitizer.tensor_order import LANE_GROUP, Access, Touch
from umma_probe.model.state.tmem import COLUMN_MASK, LANE_SHIFT
from umma_probe.model.threads.cta_pair import cta_slots
from umma_probe.spec.kinds import Packing
from umma_probe.spec.sources import Evidence, Ref, assumed, documented, header

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import AddressOperand, Operands
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame

REFS = (
    documented("tcgen05.cp"),
    header("mma_traits_sm100.hpp, UTCCP traits", "rows and lanes of every shape"),
    assumed("tcgen05.cp decompression", "4-bit elements land in bits 2-5 of their byte, 6-bit ones in bits 0-5; a raw "
            "readback after cp.b4x16_p64 on silicon would settle it"),
    Ref("deepgemm", "scale factors are copied again with no wait for the MMAs that read them", Evidence.KERNEL,
        "an earlier MMA reads its operands before a later cp overwrites them; not in the PTX ISA's list of pipelines"),
    documented("tcgen05.shift", "rows of 32 bytes, for a warp, from a lane that is a multiple of 32"),
    documented("Data Movement Shape", "31x256b: 31 rows move, so one partition of 32 lanes, that of the address"),
    assumed("tcgen05.shift", "lane i takes lane i + 1, and the last of the 32 lanes keeps its value"),
)  # fmt: skip
SHIFT_REF = documented("tcgen05.shift", "the lane is a multiple of 32; only architecture-specific targets have it")
U64 = TYPES["u64"]
LANES = np.arange(128)
SHIFT_COLUMNS = 8
SHIFT_ROWS = 31
BEFORE = frozenset({"mma", "shift"})
"""Earlier operations that a cp or shift takes effect after (see ``REFS`` for mma before cp)."""

# (shape, multicast) -> (source rows, words per row)
SHAPES = {
    ("128x256b", None): (128, 8),
    ("4x256b", None): (4, 8),
    ("128x128b", None): (128, 4),
    ("64x128b", "warpx2::02_13"): (64, 4),
    ("64x128b", "warpx2::01_23"): (64, 4),
    ("32x128b", "warpx4"): (32, 4),
}
DECOMPRESSIONS = {"b6x16_p32": 6, "b4x16_p64": 4}


def source_rows(shape: str, multicast: str | None, base_lane: int) -> tuple[Array, Array]:
    """(destination lanes, source row of each)."""
    if shape == "4x256b":
        lanes = np.arange(4) * 32 + base_lane
        return lanes, np.arange(4)
    if multicast == "warpx2::02_13":
        return LANES, LANES % 64
    if multicast == "warpx2::01_23":
        return LANES, LANES % 32 + LANES // 64 * 32
    if multicast == "warpx4":
        return LANES, LANES % 32
    return LANES, LANES


@operation("tcgen05.cp.{group}.{shape}.{multicast?}.{to?}.{source?}", group=CtaGroup,
           shape=tuple(dict.fromkeys(shape for shape, _ in SHAPES)),
           multicast=("warpx2::02_13", "warpx2::01_23", "warpx4"), to=("b8x16",), source=DECOMPRESSIONS,
           refs=REFS)  # fmt: skip
def cp(
    ops: Operands, group: CtaGroup, shape: str, multicast: str | None, to: str | None, source: int | None
) -> Executor:
    """Copy rows from shared memory into lanes."""
    ops.expect_count(2)
    if (shape, multicast) not in SHAPES:
        given = f"with .{multicast}" if multicast else "without a multicast"
        raise PtxSyntaxError(f"{ops.instruction.text}: .{shape} {given} does not exist", ref=str(REFS[0]),
                             hint="legal: " + ", ".join(".".join(filter(None, key)) for key in SHAPES))  # fmt: skip
    if (to is None) != (source is None):
        raise PtxSyntaxError(f"{ops.instruction.text}: .b8x16 and .b6x16_p32 or .b4x16_p64 come together",
                             ref=str(REFS[0]))  # fmt: skip
    target, descriptor = ops.address(0), ops.src(1, U64)

    def copy(launch: Launch, pc: int, thread: int, slot: int, taddr: int, word: int) -> None:
        rows, words = SHAPES[shape, multicast]
        lanes, sources = source_rows(shape, multicast, _base_lane(taddr, shape))
        column = taddr & 0xFFFF
        launch.tmem.check(launch, pc, thread, slot, (0, 128), (column, column + words), "tcgen05.cp")
        data = _read_rows(launch, pc, thread, slot, word, rows, words, source)
        launch.tmem.write(slot, lanes[:, None], np.arange(column, column + words)[None, :], data[sources], pc)

    return _in_flight("cp", group, target, descriptor, copy, SHAPES[shape, multicast][1])


def _base_lane(taddr: int, shape: str) -> int:
    lane = taddr >> 16
    if shape != "4x256b" and lane:
        raise IllegalProgram(f"tcgen05.cp.{shape}: address has lane {lane}, must be 0", ref=str(REFS[0]))
    return lane % 32


def _read_rows(launch: Launch, pc: int, thread: int, slot: int, word: int, rows: int, words: int,
               element_bits: int | None) -> Array:  # fmt: skip
    """(rows, words) 32-bit words of the source, decompressed if asked for."""
    desc = checked_smem_desc(word, launch.arch.name)
    review_base_offset(launch, desc, thread, "tcgen05.cp")
    addresses = operand_byte_addresses(desc, "k", 8, Packing.DENSE, rows, words * 4)
    if int(addresses.max()) >= launch.shared.limit:
        raise launch.fault_at(pc, thread, f"tcgen05.cp reads shared address {int(addresses.max()):#x}; the CTA has "
                              f"{launch.shared.limit:#x} bytes")  # fmt: skip
    offsets = addresses + slot * launch.shared.window
    if element_bits is None:
        check_async_read(launch, thread, slot, offsets, "tcgen05.cp")
        data = launch.shared.bytes.data[offsets]
    else:
        chunks = offsets.reshape(rows, -1, 16)[:, :, : 2 * element_bits]
        check_async_read(launch, thread, slot, chunks, "tcgen05.cp")
        bits = np.unpackbits(launch.shared.bytes.data[chunks], axis=2, bitorder="little")
        elements = np.packbits(bits.reshape(rows, -1, 16, element_bits), axis=3, bitorder="little")[..., 0]
        data = np.asarray(elements << 2 if element_bits == 4 else elements, np.uint8).reshape(rows, -1)
    return np.ascontiguousarray(data, dtype=np.uint8).view(np.uint32)


@operation("tcgen05.shift.{group}.down", group=CtaGroup, refs=REFS)
def shift(ops: Operands, group: CtaGroup) -> Executor:
    """Move 8 columns down by one lane, in the 32 lanes from the address on."""
    ops.expect_count(1)

    def move(launch: Launch, pc: int, thread: int, slot: int, taddr: int, word: int) -> None:
        lane, column = taddr >> 16, taddr & 0xFFFF
        if not launch.arch.architecture_specific:
            raise IllegalProgram(f"tcgen05.shift on {launch.arch.name}, must be an 'a' target", ref=str(SHIFT_REF))
        if lane % 32:
            raise IllegalProgram(
                f"tcgen05.shift: address has lane {lane}, must be a multiple of 32", ref=str(SHIFT_REF)
            )
        columns = slice(column, column + SHIFT_COLUMNS)
        ends = (lane, lane + SHIFT_ROWS + 1), (column, column + SHIFT_COLUMNS)
        launch.tmem.check(launch, pc, thread, slot, *ends, "tcgen05.shift")
        words = launch.tmem.words[slot, lane + 1 : lane + SHIFT_ROWS + 1, columns].copy()
        lanes = np.arange(lane, lane + SHIFT_ROWS)
        launch.tmem.write(slot, lanes[:, None], np.arange(column, column + SHIFT_COLUMNS)[None, :], words, pc)
        launch.review(
            "assumed-shift",
            "tcgen05.shift: the direction, and that only the 32 lanes of the address move, are assumed",
            thread,
        )

    return _in_flight("shift", group, ops.address(0), None, move, SHIFT_COLUMNS)


def _lane_groups(kind: str, taddr: int) -> slice:
    """Which groups of lanes it touches; a copy counts as touching all."""
    lane = taddr >> LANE_SHIFT
    return slice(lane // LANE_GROUP, (lane + SHIFT_ROWS + 1) // LANE_GROUP) if kind == "shift" else slice(None)


def _columns(taddr: int, width: int) -> slice:
    return slice(taddr & COLUMN_MASK, (taddr & COLUMN_MASK) + width)


def _in_flight(
    kind: str,
    group: CtaGroup,
    target: AddressOperand,
    descriptor: int | None,
    act: Callable[[Launch, int, int, int, int, int], None],
    width: int,
) -> Executor:
    """Issue one operation a running thread, after the earlier operations that the pipelines order it behind.

    :param width: how many columns it touches.
    """

    def run(f: Frame) -> None:
        launch, pc = f.launch, f.launch.pc
        addresses = target.resolve(f)
        words = None if descriptor is None else f.regs[descriptor][f.sel]
        for position, thread in enumerate(f.threads.tolist()):
            slots = cta_slots(f, group.size, thread, f"tcgen05.{kind}")
            taddr = int(addresses[position]) & 0xFFFF_FFFF
            word = 0 if words is None else int(words[position])

            def effect(thread: int = thread, slots: tuple[int, ...] = slots, taddr: int = taddr,
                       word: int = word) -> None:  # fmt: skip
                for slot in slots:
                    act(launch, pc, thread, slot, taddr, word)

            launch.tensor_order.access(
                Access(pc, thread, kind),
                [
                    Touch(slot, _lane_groups(kind, taddr), _columns(taddr, width), reads=kind == "shift", writes=True)
                    for slot in slots
                ],
            )
            earlier = tuple(launch.engine.pending(BEFORE, cta=slots[0]))
            launch.engine.submit(AsyncOp(kind, pc, slots[0], thread, effect, after=earlier))

    return run
