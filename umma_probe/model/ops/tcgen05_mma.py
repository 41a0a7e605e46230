"""tcgen05.mma and tcgen05.mma.ws, dense, kinds f16, tf32, f8f6f4 and i8.

The instruction is issued by one thread and goes into flight; it takes effect after the earlier MMAs onto the same
accumulator with the same shape, and after earlier copies and shifts (PTX ISA, pipelined tcgen05 instructions).
Collector qualifiers only advise the hardware and are ignored: operands must not have changed when a fill is used
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import IllegalProgram, PtxSyntaxError, UmmaProbeError
from umma_probe.model.async_engine import AsyncOp
from umma_probe.model.decode import operation
from umma_probe.model.ops.tcgen05_alloc import CtaGroup
from umma_probe.model.tensor_core import MmaCall, MmaForm, checked_idesc, execute
from umma_probe.model.values import TYPES
from umma_probe.model.zero_column_mask import decode_mask
from umma_probe.ptx import nodes
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.decode import Executor
    from umma_probe.model.frame import Frame
    from umma_probe.model.launch import Launch
    from umma_probe.model.operands import AddressOperand, Operands
    from umma_probe.model.values import Array

REFS = (documented("tcgen05.mma"), documented("tcgen05.mma.ws"), documented("tcgen05 pipelined instructions"))
KINDS = {f"kind::{name}": name for name in ("f16", "tf32", "f8f6f4", "i8")}
COLLECTOR_A = {f"collector::a::{op}": op for op in ("fill", "use", "lastuse", "discard")}
COLLECTOR_B = {f"collector::b{i}::{op}": (i, op) for i in range(4) for op in ("fill", "use", "lastuse", "discard")}
BEFORE = frozenset({"mma", "cp", "shift"})
MAX_SCALE = 15
U32, U64 = TYPES["u32"], TYPES["u64"]


@dataclass(frozen=True)
class MmaOperands:
    """Slots of an instruction's operands."""

    d: AddressOperand
    a_desc: int
    a_address: AddressOperand | None
    b: int
    idesc: int
    enable: tuple[int, bool]
    disabled: tuple[int, ...] = ()
    scale: int = 0
    mask: int = -1


@operation("tcgen05.mma.{group}.{kind}.{ashift?}.{collector?}", group=CtaGroup, kind=KINDS, collector=COLLECTOR_A,
           refs=REFS)  # fmt: skip
def mma(ops: Operands, group: CtaGroup, kind: str, ashift: bool, collector: str | None) -> Executor:
    """D = A * B (+ D)."""
    ops.expect_count(5, 7)
    a_in_tmem = isinstance(ops[1], nodes.Address)
    if ashift and not a_in_tmem:
        raise PtxSyntaxError("tcgen05.mma.ashift: A must be in Tensor Memory")
    if ashift and collector in ("fill", "use"):
        raise PtxSyntaxError(f"tcgen05.mma.ashift cannot be combined with .collector::a::{collector}")
    at = 4
    disabled: tuple[int, ...] = ()
    if isinstance(ops[at], nodes.Vector):
        disabled = tuple(ops.src_vector(at, U32))
        if len(disabled) != 4 * group.size:
            raise PtxSyntaxError(f"{ops.instruction.text}: the disable-output-lane vector has {len(disabled)} words, "
                                 f"must have {4 * group.size}")  # fmt: skip
        at += 1
    scale = 0
    if len(ops) > at + 1:
        scale = ops.immediate(at + 1)
        if kind not in ("f16", "tf32") or not 0 <= scale <= MAX_SCALE:
            raise PtxSyntaxError(
                f"{ops.instruction.text}: scale-input-d is {scale}; 0 to {MAX_SCALE}, kinds f16 and tf32 only"
            )
    operands = _operands(ops, a_in_tmem, at, disabled=disabled, scale=scale)
    return _executor(MmaForm(kind, group.size, a_in_tmem=a_in_tmem, ashift=bool(ashift)), operands)


@operation("tcgen05.mma.ws.{group}.{kind}.{collector?}", group={"cta_group::1": CtaGroup.ONE}, kind=KINDS,
           collector=COLLECTOR_B, refs=REFS)  # fmt: skip
def mma_ws(ops: Operands, group: CtaGroup, kind: str, collector: object) -> Executor:
    """The weight-stationary form: M = 32, 64 or 128, lanes in banks."""
    ops.expect_count(5, 6)
    a_in_tmem = isinstance(ops[1], nodes.Address)
    mask = ops.src(5, U64) if len(ops) > 5 else -1
    operands = _operands(ops, a_in_tmem, 4, mask=mask)
    return _executor(MmaForm(kind, 1, ws=True, a_in_tmem=a_in_tmem), operands)


def _operands(ops: Operands, a_in_tmem: bool, enable: int, *, disabled: tuple[int, ...] = (), scale: int = 0,
              mask: int = -1) -> MmaOperands:  # fmt: skip
    return MmaOperands(
        d=ops.address(0),
        a_desc=-1 if a_in_tmem else ops.src(1, U64),
        a_address=ops.address(1) if a_in_tmem else None,
        b=ops.src(2, U64),
        idesc=ops.src(3, U32),
        enable=ops.pred(enable),
        disabled=disabled,
        scale=scale,
        mask=mask,
    )


def _executor(form: MmaForm, operands: MmaOperands) -> Executor:
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


def _call(f: Frame, form: MmaForm, operands: MmaOperands, thread: int) -> MmaCall:
    launch = f.launch
    idesc = checked_idesc(form, _scalar(f, operands.idesc), False, launch.arch.name)
    slot, negated = operands.enable
    a = operands.a_address
    zero: Array | None = None
    shift = 0
    if operands.mask >= 0:
        zero, shift = decode_mask(_scalar(f, operands.mask), idesc.m, idesc.n, idesc.max_shift)
    return MmaCall(
        form=form,
        launch=launch,
        pc=launch.pc,
        thread=thread,
        slots=_cta_slots(f, form, thread),
        d_taddr=int(operands.d.resolve(f)[0]) & 0xFFFF_FFFF,
        a=_scalar(f, operands.a_desc) if a is None else int(a.resolve(f)[0]) & 0xFFFF_FFFF,
        b_desc=_scalar(f, operands.b),
        idesc=idesc,
        accumulate=bool(_scalar(f, slot)) != negated,
        disabled_lanes=_disabled(f, operands.disabled),
        scale_input_d=operands.scale,
        zero_columns=zero,
        b_shift=shift,
    )


def _cta_slots(f: Frame, form: MmaForm, thread: int) -> tuple[int, ...]:
    """The CTA, or the pair whose ranks differ in bit 0."""
    launch = f.launch
    slot = thread // launch.cta_threads
    if form.cta_group == 1:
        return (slot,)
    rank = int(launch.cluster_rank_of_thread[thread])
    if launch.cluster_size < 2:
        f.fault(IllegalProgram, "cta_group::2 in a cluster of one CTA; it needs a pair", thread, ref=str(REFS[0]))
    even = slot - (rank & 1)
    return (even, even + 1)


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
    op = AsyncOp(
        "mma", call.pc, call.slots[0], call.thread, lambda: execute(call), tuple(earlier), key=call.pipeline_key
    )
    launch.engine.submit(op)
