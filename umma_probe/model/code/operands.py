"""The operands of one instruction, resolved to slots: rows of the launch's register list.

A slot is a register seen as a type, a constant, a special register, or a symbol's address. All four are rows over
threads, so an operation reads each of them as ``f.regs[slot][f.sel]`` and needs no cases.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.errors import NotModelled, PtxSyntaxError
from umma_probe.model.numbers.values import TYPES, WORD, PtxType
from umma_probe.ptx import nodes

if TYPE_CHECKING:
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame

U32 = TYPES["u32"]
U64 = TYPES["u64"]
PRED = TYPES["pred"]


@dataclass(frozen=True, slots=True)
class RegisterSlot:
    """A register of ``bits`` width, viewed as ``dtype``; ``part`` is the element of a register vector."""

    name: str
    bits: int
    type: PtxType


@dataclass(frozen=True, slots=True)
class ConstantSlot:
    """A constant: its bits, and how they are viewed."""

    word: int
    type: PtxType


@dataclass(frozen=True, slots=True)
class SpecialSlot:
    """A special register such as ``%tid.x``."""

    name: str
    type: PtxType


@dataclass(frozen=True, slots=True)
class SymbolSlot:
    """The address of a variable plus an offset, in the variable's own state space."""

    name: str
    offset: int
    type: PtxType


@dataclass(frozen=True, slots=True)
class ScratchSlot:
    """Where a thrown-away result (``_``) goes."""

    type: PtxType


Slot: TypeAlias = "RegisterSlot | ConstantSlot | SpecialSlot | SymbolSlot | ScratchSlot"


class SlotTable:
    """All slots of a program, each once. Slots are created while decoding and bound to arrays at launch."""

    def __init__(self, registers: dict[str, int], symbols: frozenset[str], specials: frozenset[str]) -> None:
        self.registers = registers
        """Register name to its width in bits (1 for predicates)."""
        self.symbols = symbols
        self.specials = specials
        self.slots: list[Slot] = []
        self._index: dict[Slot, int] = {}
        self._registers: dict[tuple[str, str], int] = {}

    def slot(self, key: Slot) -> int:
        """The index of that slot, new or known."""
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self.slots)
            self.slots.append(key)
        return index

    def register(self, name: str, type_: PtxType) -> int:
        """The slot of a register seen as a type."""
        index = self._registers.get((name, type_.name))
        if index is None:
            index = self._registers[name, type_.name] = self.slot(RegisterSlot(name, self.registers[name], type_))
        return index


@dataclass(frozen=True, slots=True)
class AddressOperand:
    """``[base + offset]``: the base is a slot of addresses (u32 or u64), the offset a constant."""

    base: int
    offset: int
    space: str | None
    """The state space of a symbol base; None for a register."""

    def resolve(self, f: Frame) -> Array:
        """The addresses of the running threads as int64."""
        base = f.regs[self.base][f.sel].astype(np.int64)
        if self.offset:
            base += self.offset
        return base


class Operands:
    """The operands of one instruction, by position; every method checks and says what is wrong.

    ``reads`` and ``writes`` collect register names, for the tracking of loads in flight.
    """

    def __init__(
        self,
        instruction: nodes.Instruction,
        table: SlotTable,
        spaces: dict[str, str],
        qualified: dict[str, str] | None = None,
    ) -> None:
        self.instruction = instruction
        self.table = table
        self.spaces = spaces
        self.qualified = qualified or {}
        self.reads: set[str] = set()
        self.writes: set[str] = set()

    # ------------------------------------------------------------------ structure
    def __len__(self) -> int:
        return len(self.instruction.operands)

    def __getitem__(self, index: int) -> nodes.Operand:
        operands = self.instruction.operands
        if index >= len(operands):
            raise PtxSyntaxError(f"{self.instruction.text}: operand {index + 1} is missing")
        return operands[index]

    def expect_count(self, low: int, high: int | None = None) -> None:
        """Check the number of operands.

        :raises PtxSyntaxError: it is outside low..high.
        """
        high = low if high is None else high
        if not low <= len(self) <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            raise PtxSyntaxError(f"{self.instruction.text}: has {len(self)} operands, must have {wanted}")

    def _bad(self, operand: nodes.Operand, wanted: str) -> PtxSyntaxError:
        return PtxSyntaxError(f"{self.instruction.text}: operand is a {type(operand).__name__}, must be {wanted}")

    # ------------------------------------------------------------------ scalars
    def src(self, index: int, type_: PtxType) -> int:
        """The slot of a source operand viewed as ``type_``."""
        return self.source(self[index], type_)

    def source(self, operand: nodes.Operand, type_: PtxType) -> int:
        """The slot of any scalar operand node."""
        match operand:
            case nodes.Name(text):
                return self._named(text, type_, 0)
            case nodes.Offset(base, offset):
                return self._named(base.text, type_, offset)
            case nodes.IntImm(value):
                return self.constant(value, type_)
            case nodes.FloatImm(bits, width):
                return self.table.slot(ConstantSlot(_float_word(bits, width, type_), type_))
            case nodes.Vector((single,)):
                return self.source(single, type_)
        raise self._bad(operand, "a register or constant")

    def constant(self, value: int, type_: PtxType) -> int:
        """The slot of an integer constant; a floating type takes its value, not its bits."""
        if type_.category == "f":
            return self.table.slot(ConstantSlot(_float_word(_f64_bits(float(value)), 64, type_), type_))
        if type_.category == "p":
            return self.table.slot(ConstantSlot(int(value != 0), type_))
        return self.table.slot(ConstantSlot(value & ((1 << type_.bits) - 1), type_))

    def _named(self, name: str, type_: PtxType, offset: int) -> int:
        table = self.table
        name = self.qualified.get(name, name)
        if name in table.registers:
            self._check_register(name, type_)
            self.reads.add(name)
            return table.register(name, type_)
        if name in table.specials:
            return table.slot(SpecialSlot(name, type_))
        if name in table.symbols:
            return table.slot(SymbolSlot(name, offset, type_))
        if name == "WARP_SZ":
            return self.constant(32, type_)
        if name.startswith("%"):
            raise NotModelled(f"special register {name}")
        raise PtxSyntaxError(f"{self.instruction.text}: {name} is not declared")

    def _check_register(self, name: str, type_: PtxType) -> None:
        """A predicate is no number, no number is a predicate, and a register is at least as wide as the type."""
        bits = self.table.registers[name]
        if (bits == PRED.bits) != (type_.category == "p") or bits < type_.bits:
            what = "a predicate" if bits == PRED.bits else f"{bits} bits wide"
            wanted = "a predicate" if type_.category == "p" else f"of type .{type_.name}"
            raise PtxSyntaxError(f"{self.instruction.text}: register {name} is {what}, must be {wanted}")

    def dst(self, index: int, type_: PtxType) -> int:
        """The slot of a destination; a narrower type is extended to the register by its own sign."""
        return self.destination(self[index], type_)

    def destination(self, operand: nodes.Operand, type_: PtxType) -> int:
        """The slot of any destination node; ``_`` gives a scratch row."""
        if isinstance(operand, nodes.Vector) and len(operand.items) == 1:
            operand = operand.items[0]
        if isinstance(operand, nodes.Sink):
            return self.table.slot(ScratchSlot(type_))
        if not isinstance(operand, nodes.Name):
            raise self._bad(operand, "a register")
        name = self.qualified.get(operand.text, operand.text)
        if name not in self.table.registers:
            raise PtxSyntaxError(f"{self.instruction.text}: {operand.text} is not a declared register")
        self._check_register(name, type_)
        bits = self.table.registers[name]
        self.writes.add(name)
        if type_.bits < bits and type_.category != "p" and bits != 128:
            type_ = TYPES[f"{'s' if type_.signed else 'u'}{bits}"]
        return self.table.register(name, type_)

    def pred(self, index: int) -> tuple[int, bool]:
        """A predicate source: (slot, negated)."""
        operand = self[index]
        if isinstance(operand, nodes.Not):
            return self.source(operand.operand, PRED), True
        return self.source(operand, PRED), False

    def immediate(self, index: int) -> int:
        """The value of a constant integer operand."""
        operand = self[index]
        if isinstance(operand, nodes.IntImm):
            return operand.value
        raise self._bad(operand, "an integer constant")

    def pair(self, index: int) -> tuple[nodes.Operand, nodes.Operand | None]:
        """``a|b`` as (a, b), and a single destination as (a, None)."""
        operand = self[index]
        if isinstance(operand, nodes.Pair):
            return operand.first, operand.second
        return operand, None

    # ------------------------------------------------------------------ vectors and addresses
    def items(self, index: int) -> tuple[nodes.Operand, ...]:
        """The elements of ``{...}``; a scalar operand counts as one element."""
        operand = self[index]
        return operand.items if isinstance(operand, nodes.Vector) else (operand,)

    def src_vector(self, index: int, type_: PtxType) -> list[int]:
        """The slots of a source vector."""
        return [self.source(item, type_) for item in self.items(index)]

    def dst_vector(self, index: int, type_: PtxType) -> list[int]:
        """The slots of a destination vector."""
        return [self.destination(item, type_) for item in self.items(index)]

    def address(self, index: int) -> AddressOperand:
        """``[base + offset]``."""
        operand = self[index]
        if not isinstance(operand, nodes.Address):
            raise self._bad(operand, "an address in brackets")
        return self.address_of(operand)

    def address_of(self, operand: nodes.Address) -> AddressOperand:
        """The resolved form of any address node (its ``coords`` are left to the caller)."""
        if isinstance(operand.base, nodes.IntImm):
            return AddressOperand(self.constant(operand.base.value, U64), operand.offset, None)
        name = self.qualified.get(operand.base.text, operand.base.text)
        bits = self.table.registers.get(name, 64)
        if name in self.table.registers and bits not in (32, 64):
            raise PtxSyntaxError(
                f"{self.instruction.text}: address register {name} is {bits} bits wide, must be 32 or 64"
            )
        slot = self._named(name, U64 if bits == 64 else U32, 0)
        return AddressOperand(slot, operand.offset, self.spaces.get(name))


def _f64_bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def _float_word(bits: int, width: int, type_: PtxType) -> int:
    """A floating constant's word in ``type_``: 0f constants are exact f32 bits, 0d constants f64 bits."""
    if type_.category != "f":
        return bits & ((1 << type_.bits) - 1)
    if width == type_.bits:
        return bits
    value: Any = np.uint32(bits).view(np.float32) if width == 32 else np.uint64(bits).view(np.float64)
    with np.errstate(all="ignore"):
        return int(np.asarray(value).astype(type_.dtype).view(WORD[type_.bits]))
