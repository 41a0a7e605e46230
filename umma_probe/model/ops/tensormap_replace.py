"""``tensormap.replace`` and ``tensormap.cp_fenceproxy``: tensor maps that a kernel builds or changes itself.

Rules enforced here (PTX ISA, "Data Movement and Conversion Instructions: tensormap.replace", "Parallel Synchronization
and Communication Instructions: tensormap.cp_fenceproxy"): the map is in global memory or in the CTA's shared memory;
``rank`` takes the rank less one; the axis of ``global_stride`` counts from the second dimension; strides are
bytes; codes of element types are those of PTX, not of the driver. The result is checked when a copy uses it, since a
map is built field by field. ``cp_fenceproxy`` is of the whole warp and copies the map to global memory once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import ConfigError, IllegalProgram, UndefinedBehavior
from umma_probe.model.code.decode import operation
from umma_probe.model.ops.tcgen05_alloc import whole_warp
from umma_probe.model.state.global_memory import GLOBAL_BASE
from umma_probe.model.tma.tensor_map import replace_field
from umma_probe.spec.sources import documented
from umma_probe.spec.tensor_map import MAX_RANK, REPLACE, TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import AddressOperand, Operands
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

CP_FENCE = documented("Parallel Synchronization and Communication Instructions: tensormap.cp_fenceproxy")
SCOPES = ("cta", "cluster", "gpu", "sys")
SPACES = {"global": "global", "shared::cta": "shared"}
PLAIN = ("global_address", "rank", "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode")
AXES = {"box_dim": MAX_RANK, "global_dim": MAX_RANK, "element_stride": MAX_RANK, "global_stride": MAX_RANK - 1}
"""Fields with a value for each axis, and how many."""
LIMITS = {"elemtype": 15, "interleave_layout": 2, "swizzle_mode": 4, "swizzle_atomicity": 3, "fill_mode": 1}
WIDE = ("global_address", "global_stride")
"""Fields that take a 64-bit value."""


@operation(
    "tensormap.replace.tile.{field}.{space?}.b1024.{type}",
    refs=(REPLACE,),
    field=(*PLAIN, *AXES),
    space=SPACES,
    type="b32 b64",
)
def replace(ops: Operands, field: str, space: str | None, type: PtxType) -> Executor:
    """``tensormap.replace.tile.field [addr]{, axis}, value``."""
    indexed = field in AXES
    ops.expect_count(3 if indexed else 2)
    if (type.bits == 64) != (field in WIDE):
        raise IllegalProgram(f"{ops.instruction.text}: type is .{type}, must be .b{64 if field in WIDE else 32}")
    name = "address" if field == "global_address" else field
    if indexed:
        axis = ops.immediate(1)
        if not 0 <= axis < AXES[field]:
            raise IllegalProgram(f"{ops.instruction.text}: axis is {axis}, must be 0 to {AXES[field] - 1}")
        name = f"{field}{axis}"
    address, value = ops.address(0), ops.src(len(ops) - 1, type)

    def run(f: Frame) -> None:
        values = f.regs[value][f.sel].tolist()
        for at, place in enumerate(_places(f, space, address)):
            _check_value(f, field, values[at], int(f.threads[at]))
            place.change(f, name, values[at], int(f.threads[at]))

    return run


def _check_value(f: Frame, field: str, value: int, thread: int) -> None:
    limit = LIMITS.get(field)
    if limit is not None and value > limit:
        message = f"tensormap.replace.tile.{field}: value is {value}, must be 0 to {limit}"
        f.fault(UndefinedBehavior, message, thread, ref=str(REPLACE))


class _Place:
    """128 bytes of a tensor map in memory."""

    def __init__(self, space: str, data: Array, written: Array, offset: int) -> None:
        self.space = space
        self.data = data
        self.written = written
        self.offset = offset

    def change(self, f: Frame, name: str, value: int, thread: int) -> None:
        launch = f.launch
        if not self.written.all():
            launch.report("uninitialised-read", "tensormap.replace changes a map that was never all written", thread)
        try:
            data = replace_field(self.data.tobytes(), name, value)
        except ConfigError as error:
            f.fault(UndefinedBehavior, f"tensormap.replace: {error.message}", thread, ref=str(REPLACE))
        self.store(f, np.frombuffer(data, np.uint8))

    def store(self, f: Frame, data: Array) -> None:
        """Overwrite, through the generic proxy."""
        launch = f.launch
        self.data[:] = data
        self.written[:] = True
        launch.progress += 1
        if self.space == "global":
            launch.tensor_maps.changed(self.offset + GLOBAL_BASE)
        else:
            launch.shared.note_generic(np.array([self.offset]), TENSOR_MAP_BYTES, launch.tick())


def _places(f: Frame, space: str | None, address: AddressOperand) -> list[_Place]:
    """The map of each running thread."""
    memory = f.launch.memory
    addresses = address.resolve(f)
    memory.check_alignment(f, addresses, TENSOR_MAP_ALIGNMENT)
    if space is None and address.space is None:
        spaces = memory.classify(addresses)
        if len(spaces) != 1 or "local" in spaces:
            f.fault(UndefinedBehavior, "tensormap.replace: the map must lie in global or in shared memory")
        (space,) = spaces
        addresses = memory.to_space(space, addresses)
    where = space or str(address.space)
    backing, offsets = memory.locate(f, where, addresses, TENSOR_MAP_BYTES)
    kind = "global" if where == "global" else "shared"
    spans = [slice(offset, offset + TENSOR_MAP_BYTES) for offset in offsets.tolist()]
    return [_Place(kind, backing.data[span], backing.written[span], span.start) for span in spans]


@operation(
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{scope}.sync.aligned",
    refs=(CP_FENCE,),
    scope=SCOPES,
)
def cp_fenceproxy(ops: Operands, scope: str) -> Executor:
    """``tensormap.cp_fenceproxy... [dst], [src], 128``: the map to global memory, visible to those that acquire it."""
    ops.expect_count(3)
    if ops.immediate(2) != TENSOR_MAP_BYTES:
        raise IllegalProgram(f"{ops.instruction.text}: size is {ops.immediate(2)}, must be {TENSOR_MAP_BYTES}")
    target, source = ops.address(0), ops.address(1)

    def run(f: Frame) -> None:
        whole_warp(f, "tensormap.cp_fenceproxy")
        targets, sources = _places(f, "global", target), _places(f, "shared", source)
        for _, positions in f.warps():
            if len({(targets[at].offset, sources[at].offset) for at in positions.tolist()}) > 1:
                f.fault(UndefinedBehavior, "tensormap.cp_fenceproxy: addresses differ between the threads of a warp",
                        int(f.threads[positions[0]]), ref=str(CP_FENCE))  # fmt: skip
            first = int(positions[0])
            if not sources[first].written.all():
                f.launch.report("uninitialised-read", "tensormap.cp_fenceproxy copies a map that was never all written",
                                int(f.threads[first]))  # fmt: skip
            targets[first].store(f, sources[first].data.copy())

    return run
