"""Frames of recursive functions: what a call puts aside and a return brings back.

A function has one place for its registers and variables in the flat register file and in local memory. That is enough
as long as a thread has no second activation of it. For functions that recur every activation gets variables of its own
on a stack behind the static ones (the rows of their addresses are moved there), and the registers of the activation
before are put aside until the return. All strands of a cohort have the same calls behind them, so the same stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.errors import DeviceError
from umma_probe.model.code.operands import SymbolSlot
from umma_probe.model.code.program import ParameterCopy
from umma_probe.model.code.variables import STACK_BYTES
from umma_probe.model.threads.strands import CallRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.model.code.program import CallTarget, FunctionFrame
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame


class CallFrames:
    """The activations of all threads of a launch."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._symbols: dict[str, list[int]] = {}
        self._kept: dict[tuple[str, int], list[tuple[Array, Array]]] = {}
        """(function, depth) to (row, its values at the call), of the threads that are that deep."""

    def enter(self, f: Frame, calls: tuple[CallRecord, ...], target: CallTarget, return_pc: int) -> CallRecord:
        """The running threads, which have made ``calls``, call ``target``: where they return to.

        :raises DeviceError: the stack is full.
        """
        caller_shift = calls[-1].shift if calls else 0
        top = calls[-1].top if calls else 0
        frame = target.frame
        if frame is None:
            self._copy(f, target.copies_in, caller_shift, 0)
            return CallRecord(return_pc, target, 0, top)
        end = top + frame.size_bytes
        if end > STACK_BYTES:
            f.fault(DeviceError, f"call of {target.function}: the stack of a thread is full, {STACK_BYTES} bytes, "
                    f"{len(calls)} calls deep", hint="a GPU has 1 KiB a thread unless cudaDeviceSetLimit says more; "
                    "does the recursion end?")  # fmt: skip
        shift = self._launch.program.variables.stack_offset + top - frame.start
        self._keep(f, frame, (target.function, len(calls)))
        for index in self._symbols_of(target.function):
            slot = self._launch.program.table.slots[index]
            assert isinstance(slot, SymbolSlot)
            address = self._launch.program.variables.variables[slot.name].address + slot.offset + shift
            self._launch.regs[index][f.sel] = address
        self._forget(f, frame.start + shift, frame.size_bytes)
        self._copy(f, target.copies_in, caller_shift, shift)
        return CallRecord(return_pc, target, shift, end)

    def leave(self, f: Frame, calls: tuple[CallRecord, ...]) -> None:
        """The running threads return from the last of ``calls``."""
        record = calls[-1]
        caller_shift = calls[-2].shift if len(calls) > 1 else 0
        self._copy(f, record.target.copies_out, record.shift, caller_shift)
        if record.target.frame is not None:
            for row, values in self._kept[record.target.function, len(calls) - 1]:
                row[f.sel] = values[f.sel]

    def _copy(self, f: Frame, copies: Sequence[ParameterCopy], source: int, destination: int) -> None:
        if copies:
            self._launch.copy_local(
                f, [ParameterCopy(c.source + source, c.destination + destination, c.size_bytes) for c in copies]
            )

    def _keep(self, f: Frame, frame: FunctionFrame, key: tuple[str, int]) -> None:
        kept = self._kept.get(key)
        if kept is None:
            rows = [self._launch.file.read(name) for name in frame.registers]
            rows += [self._launch.regs[index] for index in self._symbols_of(key[0])]
            kept = self._kept[key] = [(row, row.copy()) for row in rows]
        for row, values in kept:
            values[f.sel] = row[f.sel]

    def _symbols_of(self, function: str) -> list[int]:
        """The slots that hold addresses of the function's variables."""
        if function not in self._symbols:
            slots = self._launch.program.table.slots
            self._symbols[function] = [
                index
                for index, slot in enumerate(slots)
                if isinstance(slot, SymbolSlot) and slot.name.startswith(f"{function}::")
                and self._launch.program.variables.variables[slot.name].space == "local"
            ]  # fmt: skip
        return self._symbols[function]

    def _forget(self, f: Frame, start: int, size: int) -> None:
        """A new activation's variables were never written."""
        memory = self._launch.memory
        for thread in f.threads.tolist():
            low = thread * memory.local_bytes + start
            memory.local.written[low : low + size] = False
