"""The rows of a launch: registers by width, constants, special registers and symbol addresses, one row a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.model.code.operands import ConstantSlot, RegisterSlot, ScratchSlot, SpecialSlot, SymbolSlot
from umma_probe.model.code.special_registers import CLOCKS, SPECIAL_REGISTERS
from umma_probe.model.numbers.values import WORD, PtxType, typed_view
from umma_probe.model.state.memory import RANK_SHIFT

if TYPE_CHECKING:
    from umma_probe.model.code.operands import Slot
    from umma_probe.model.code.special_registers import CtaPlace
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array


class RegisterFile:
    """Builds the list of rows that executors index, and refreshes those that depend on the CTA."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.count = launch.thread_count
        self._storage: dict[str, Array] = {}
        self._blocks: list[Array] = []
        """The registers of each width: (register, thread)."""
        self.rows: list[Array] = []
        self.per_cta: list[tuple[int, Slot]] = []
        """Slots whose row differs from CTA to CTA."""
        self.clocks: list[Array] = []
        table = launch.program.table
        self._allocate(table.registers)
        for index, slot in enumerate(table.slots):
            self.rows.append(self._row(index, slot))

    def _allocate(self, registers: dict[str, int]) -> None:
        by_width: dict[int, list[str]] = {}
        for name, bits in registers.items():
            by_width.setdefault(bits, []).append(name)
        for bits, names in by_width.items():
            shape = (len(names), self.count)
            block = np.zeros((*shape, 2), np.uint64) if bits == 128 else np.zeros(shape, WORD[bits])
            self._blocks.append(block)
            self._storage.update(zip(names, block, strict=True))

    def _row(self, index: int, slot: Slot) -> Array:
        match slot:
            case RegisterSlot(name, bits, type_):
                return typed_view(self._storage[name], bits, type_)
            case ConstantSlot(word, type_):
                return np.broadcast_to(_constant(word, type_), (self.count,))
            case ScratchSlot(type_):
                if type_.bits == 128:
                    return np.zeros((self.count, 2), np.uint64)
                return np.zeros(self.count, type_.dtype)
            case SpecialSlot(name, type_):
                row = np.zeros(self.count, type_.dtype)
                if name in CLOCKS:
                    self.clocks.append(row)
                self.per_cta.append((index, slot))
                return row
            case SymbolSlot(_, _, type_):
                self.per_cta.append((index, slot))
                return np.zeros(self.count, type_.dtype)

    def enter(self, slot_number: int, place: CtaPlace) -> None:
        """A CTA takes a slot: fill its part of the rows."""
        launch = self.launch
        low = slot_number * launch.cta_threads
        threads = np.arange(launch.cta_threads)
        part = slice(low, low + launch.cta_threads)
        for index, slot in self.per_cta:
            if isinstance(slot, SpecialSlot):
                self.rows[index][part] = np.asarray(SPECIAL_REGISTERS[slot.name](place, threads)).astype(
                    slot.type.dtype
                )
            elif isinstance(slot, SymbolSlot):
                variable = launch.program.variables.variables[slot.name]
                address = variable.address + slot.offset
                if variable.space == "shared":
                    address += place.rank << RANK_SHIFT
                self.rows[index][part] = slot.type.dtype.type(address & ((1 << slot.type.bits) - 1))

    def fingerprint(self, sel: slice | Array) -> int:
        """A hash of all registers of some threads."""
        return hash(tuple(block[:, sel].tobytes() for block in self._blocks))

    def read(self, name: str) -> Array:
        """The raw row of a register, for tests and tools."""
        return self._storage[name]


def _constant(word: int, type_: PtxType) -> Array:
    if type_.category == "p":
        return np.asarray(bool(word))
    if type_.bits == 128:
        raise NotImplementedError("128-bit constants do not exist in PTX")
    return np.asarray(word, WORD[type_.bits]).view(type_.dtype)
