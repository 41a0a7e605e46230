"""tcgen05.mma and tcgen05.mma.ws, dense and ``.sp``, kinds f16, tf32, f8f6f4 and i8.

Collector qualifiers only advise the hardware and are ignored: operands must not have changed when a fill is used
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.errors import NotModelled, PtxSyntaxError
from umma_probe.model.code.decode import operation
from umma_probe.model.mma.mma_call import MmaForm
from umma_probe.model.mma.mma_issue import MmaOperands, executor
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.tcgen05_alloc import CtaGroup
from umma_probe.ptx import nodes
from umma_probe.spec.sources import Evidence, Ref, assumed, documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands

REFS = (
    documented("tcgen05.mma"),
    documented("tcgen05.mma.sp"),
    documented("tcgen05.mma.ws"),
    documented("Pipelined tcgen05 Instructions"),
    assumed("tcgen05.mma, disable-output-lane", "with cta_group::2 words 0-3 are lanes of the even CTA, 4-7 of the odd "
            "one; an MMA with one bit set on silicon would settle it"),
    assumed("tcgen05.mma, D of 16 bits", "the upper half of its cell is cleared; probes note it and judge the lower"),
    Ref("assembler", "tcgen05.mma", Evidence.MEASURED, "which forms take a lane mask, .ashift or scale-input-d"),
)  # fmt: skip
KINDS = {f"kind::{name}": name for name in ("f16", "tf32", "f8f6f4", "i8")}
COLLECTOR_A = {f"collector::a::{op}": op for op in ("fill", "use", "lastuse", "discard")}
COLLECTOR_B = {f"collector::b{i}::{op}": (i, op) for i in range(4) for op in ("fill", "use", "lastuse", "discard")}
MAX_SCALE = 15
U32, U64 = TYPES["u32"], TYPES["u64"]


@operation("tcgen05.mma.{sp?}.{group}.{kind}.{ashift?}.{collector?}", group=CtaGroup, kind=KINDS,
           collector=COLLECTOR_A, refs=REFS)  # fmt: skip
def mma(ops: Operands, sp: bool, group: CtaGroup, kind: str, ashift: bool, collector: str | None) -> Executor:
    """D = A * B (+ D)."""
    ops.expect_count(5 + sp, 7 + sp)
    a_in_tmem = isinstance(ops[1], nodes.Address)
    if ashift and not a_in_tmem:
        raise PtxSyntaxError(f"{ops.instruction.text}: .ashift is given, A must be in Tensor Memory then")
    if ashift and collector in ("fill", "use"):
        raise PtxSyntaxError(f"{ops.instruction.text}: .ashift cannot be combined with .collector::a::{collector}")
    at = 4 + sp
    disabled: tuple[int, ...] = ()
    if isinstance(ops[at], nodes.Vector):
        disabled = tuple(ops.src_vector(at, U32))
        if len(disabled) != 4 * group.size:
            raise PtxSyntaxError(f"{ops.instruction.text}: the disable-output-lane vector has {len(disabled)} words, "
                                 f"must have {4 * group.size}")  # fmt: skip
        at += 1
    scale = ops.immediate(at + 1) if len(ops) > at + 1 else 0
    _check_scale_input(ops, kind, scale)
    form = MmaForm(kind, group.size, sparse=sp, a_in_tmem=a_in_tmem, ashift=ashift)
    return executor(form, common_operands(ops, form, at, disabled=disabled, scale_input=scale))


@operation("tcgen05.mma.ws.{sp?}.{group}.{kind}.{collector?}", group={"cta_group::1": CtaGroup.ONE}, kind=KINDS,
           collector=COLLECTOR_B, refs=REFS)  # fmt: skip
def mma_ws(ops: Operands, sp: bool, group: CtaGroup, kind: str, collector: object) -> Executor:
    """The weight-stationary form: M = 32, 64 or 128, lanes in banks."""
    ops.expect_count(5 + sp, 6 + sp)
    form = MmaForm(kind, group.size, ws=True, sparse=sp, a_in_tmem=isinstance(ops[1], nodes.Address))
    mask = ops.src(5 + sp, U64) if len(ops) > 5 + sp else -1
    return executor(form, common_operands(ops, form, 4 + sp, mask=mask))


def _check_scale_input(ops: Operands, kind: str, scale: int) -> None:
    if kind == "i8" and scale:
        raise NotModelled(f"{ops.instruction.text}: scale-input-d is {scale} under kind::i8", ref=str(REFS[5]),
                          hint="assemblers take it, the PTX ISA does not define it")  # fmt: skip
    if not 0 <= scale <= MAX_SCALE or (scale and kind not in ("f16", "tf32")):
        raise PtxSyntaxError(
            f"{ops.instruction.text}: scale-input-d is {scale}, must be 0 to {MAX_SCALE} under kind::f16 or kind::tf32"
        )


def common_operands(ops: Operands, form: MmaForm, enable: int, *, disabled: tuple[int, ...] = (), scale_input: int = 0,
                    mask: int = -1, scales: int | None = None) -> MmaOperands:  # fmt: skip
    """Slots of the operands that every form has, in their places.

    :param enable: position of ``enable-input-d``; ``scales``: of the first scale address, if any.
    """
    return MmaOperands(
        d=ops.address(0),
        a_desc=-1 if form.a_in_tmem else ops.src(1, U64),
        a_address=ops.address(1) if form.a_in_tmem else None,
        b=ops.src(2, U64),
        idesc=ops.src(4 if form.sparse else 3, U32),
        enable=ops.pred(enable),
        disabled=disabled,
        scale_input=scale_input,
        mask=mask,
        metadata=ops.address(3) if form.sparse else None,
        scale_a=None if scales is None else ops.address(scales),
        scale_b=None if scales is None else ops.address(scales + 1),
    )
