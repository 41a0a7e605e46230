"""Issue of ``tcgen05.mma``: operand slots to values to an operation in flight.

The instruction is issued by one thread and goes into flight; it takes effect after the earlier MMAs onto the same
accumulator with the same shape and kind, and after earlier copies and shifts (PTX ISA, pipelined tcgen05
instructions). A CTA pair needs its peer alive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import IllegalProgram, UmmaProbeError
from umma_probe.model.asynchrony.async_engine import AsyncOp
from umma_probe.model.mma.mma_call import MmaCall, MmaForm, checked_idesc
from umma_probe.model.mma.mma_touches import review_order
from umma_probe.model.mma.tensor_core import execute
from umma_probe.model.mma.zero_column_mask import decode_mask
from umma_probe.model.threads.cta_pair import cta_slots
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import AddressOperand
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.frame import Frame

SCALE_INPUT_REF = documented("tcgen05.mma, scale-input-d", "sm_100a, and sm_100f or higher in the same family")
BEFORE = frozenset({"mma", "cp", "shift"})
WORD = 0xFFFF_FFFF


@dataclass(frozen=True)
class MmaOperands:
    """Slots of an instruction's operands; an address or slot that the form does not have is None or -1."""

    d: AddressOperand
    a_desc: int
    a_address: AddressOperand | None
    b: int
    idesc: int
    enable: tuple[int, bool]
    disabled: tuple[int, ...] = ()
    scale_input: int = 0
    mask: int = -1
    metadata: AddressOperand | None = None
    scale_a: AddressOperand | None = None
    scale_b: AddressOperand | None = None


def executor(form: MmaForm, operands: MmaOperands) -> Executor:
    """Issue one operation a running thread."""

    def run(f: Frame) -> None:
        sel, threads = f.sel, f.threads
        for thread in threads.tolist():
            # several threads may issue, each its own operation
            f.select(slice(thread, thread + 1))
            try:
                _submit(f.launch, _call(f, form, operands, thread))
            except UmmaProbeError as error:
                if error.where is None:
                    f.fault(type(error), error.message, thread, hint=error.hint, ref=error.ref)
                raise
        f.select(sel)

    return run


def _scalar(f: Frame, slot: int) -> int:
    return int(f.regs[slot][f.sel][0])


def _taddr(f: Frame, address: AddressOperand | None) -> int:
    return 0 if address is None else int(address.resolve(f)[0]) & WORD


def _call(f: Frame, form: MmaForm, operands: MmaOperands, thread: int) -> MmaCall:
    launch = f.launch
    idesc = checked_idesc(form, _scalar(f, operands.idesc), launch.arch.name)
    slot, negated = operands.enable
    zero: Array | None = None
    shift = 0
    if operands.mask >= 0:
        zero, shift = decode_mask(_scalar(f, operands.mask), idesc.m, idesc.n, idesc.max_shift)
    if operands.scale_input and launch.arch.compute_capability[0] != 10:
        f.fault(IllegalProgram, f"tcgen05.mma: scale-input-d on {launch.arch.name}", thread, ref=str(SCALE_INPUT_REF))
    call = MmaCall(
        form=form,
        launch=launch,
        pc=launch.pc,
        thread=thread,
        slots=cta_slots(f, form.cta_group, thread, "tcgen05.mma"),
        d_taddr=_taddr(f, operands.d),
        a=_scalar(f, operands.a_desc) if operands.a_address is None else _taddr(f, operands.a_address),
        b_desc=_scalar(f, operands.b),
        idesc=idesc,
        accumulate=bool(_scalar(f, slot)) != negated,
        disabled_lanes=_disabled(f, operands.disabled),
        scale_input_d=operands.scale_input,
        zero_columns=zero,
        b_shift=shift,
        metadata=_taddr(f, operands.metadata),
        scale_a=_taddr(f, operands.scale_a),
        scale_b=_taddr(f, operands.scale_b),
    )
    _ = call.feed  # a wrong lane is a fault of the issuing thread
    return call


def _disabled(f: Frame, slots: tuple[int, ...]) -> Array | None:
    """(CTAs, 128) bool from the mask words: bit i of word j is lane 32 j + i."""
    if not slots:
        return None
    words = np.array([_scalar(f, slot) for slot in slots], np.uint32)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").astype(np.bool_)
    return bits.reshape(-1, 128) if bits.any() else None


def _submit(launch: Launch, call: MmaCall) -> None:
    earlier = [
        op for op in launch.engine.pending(BEFORE, cta=call.slots[0]) if op.kind != "mma" or op.key == call.pipeline_key
    ]
    review_order(call)
    op = AsyncOp(
        "mma", call.pc, call.slots[0], call.thread, lambda: execute(call), tuple(earlier), key=call.pipeline_key
    )
    launch.engine.submit(op)
