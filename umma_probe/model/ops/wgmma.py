"""wgmma.fence, commit_group, wait_group and mma_async of sm_90a: kinds f16, tf32, f8f6f4, i8; A in registers or shared.

Groups belong to a warp. ``wgmma.fence`` orders registers and ordinary accesses to shared memory before later
``mma_async``; shared memory that was stored through the generic proxy needs ``fence.proxy.async`` all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.errors import IllegalProgram, PtxSyntaxError
from umma_probe.model.asynchrony.async_engine import AsyncOp
from umma_probe.model.asynchrony.transfer_groups import Transfer
from umma_probe.model.code.decode import operation
from umma_probe.model.mma.warpgroup import KIND, REFS, WgmmaForm, WgmmaShare, execute
from umma_probe.model.numbers.values import TYPES
from umma_probe.model.ops.tcgen05_alloc import uniform, whole_warp
from umma_probe.ptx import nodes
from umma_probe.spec.sources import documented
from umma_probe.spec.wgmma import WGMMA_KINDS, WgmmaKind, shape_problems

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.launch import Launch
    from umma_probe.model.threads.frame import Frame

FAMILY = "Asynchronous Warpgroup Level Matrix Instructions"
B32, U64 = TYPES["b32"], TYPES["u64"]
TYPE_WORDS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
SHAPES = {f"m64n{n}k{row.k}": (n, row) for row in WGMMA_KINDS.values() for n in range(8, 257, 8)}
"""N, and a kind with this K; the types say which."""


@operation("wgmma.fence.sync.aligned", refs=(documented(f"{FAMILY}: wgmma.fence"),))
def fence(ops: Operands) -> Executor:
    """Registers written before are what later ``mma_async`` read."""
    ops.expect_count(0)

    def run(f: Frame) -> None:
        whole_warp(f, "wgmma.fence")
        f.launch.warpgroups.fenced.update(warp for warp, _ in f.warps())

    return run


@operation("wgmma.commit_group.sync.aligned", refs=(documented(f"{FAMILY}: wgmma.commit_group"),))
def commit_group(ops: Operands) -> Executor:
    """Close the warp's group."""
    ops.expect_count(0)

    def run(f: Frame) -> None:
        whole_warp(f, "wgmma.commit_group")
        f.launch.warpgroups.groups.commit(warp for warp, _ in f.warps())

    return run


@operation("wgmma.wait_group.sync.aligned", refs=(documented(f"{FAMILY}: wgmma.wait_group"),))
def wait_group(ops: Operands) -> Executor:
    """``wgmma.wait_group.sync.aligned N``: at most the N newest groups of the warp are pending."""
    ops.expect_count(1)
    newest = ops.immediate(0)

    def run(f: Frame) -> None:
        whole_warp(f, "wgmma.wait_group")
        warps = [warp for warp, _ in f.warps()]
        f.launch.engine.require(f.launch.warpgroups.groups.waited(warps, newest))

    return run


@operation(
    "wgmma.mma_async.sync.aligned.{shape}.{d}.{a}.{b}.{satfinite?}",
    refs=(documented(f"{FAMILY}: wgmma.mma_async"), *REFS),
    shape=SHAPES,
    d=("f16", "f32", "s32"),
    a=TYPE_WORDS,
    b=TYPE_WORDS,
)
def mma_async(ops: Operands, shape: tuple[int, WgmmaKind], d: str, a: str, b: str, satfinite: bool) -> Executor:
    """``D = A * B (+ D)`` of a warpgroup: D in registers, A in registers or shared memory, B in shared memory."""
    form = _form(ops, shape, d, a, b, satfinite)
    d_slots = tuple(ops.dst_vector(0, B32))
    ops.src_vector(0, B32)  # the accumulator is read as well
    registers = form.kind.registers(form.n, d)
    if len(d_slots) != registers:
        raise PtxSyntaxError(f"{ops.instruction.text}: D has {len(d_slots)} registers, must have {registers}")
    a_slots: tuple[int, ...] = ()
    a_desc = -1
    if isinstance(ops[1], nodes.Vector):
        a_slots = tuple(ops.src_vector(1, B32))
        if len(a_slots) != 4:
            raise PtxSyntaxError(f"{ops.instruction.text}: A has {len(a_slots)} registers, must have 4")
    else:
        a_desc = ops.src(1, U64)
    b_desc = ops.src(2, U64)
    scale, negated = ops.pred(3)
    owned = frozenset(ops.writes | {_name(ops, item) for item in ops.items(1) if a_slots})

    def run(f: Frame) -> None:
        whole_warp(f, "wgmma.mma_async")
        sel, threads = f.sel, f.threads
        for warp, positions in f.warps():
            f.select(threads[positions])
            share = WgmmaShare(
                form, f.launch, f.launch.pc, warp, d_slots, a_slots,
                0 if a_slots else uniform(f, a_desc, "wgmma: the descriptor of A"),
                uniform(f, b_desc, "wgmma: the descriptor of B"),
                bool(uniform(f, scale, "wgmma: scale-d")) != negated,
            )  # fmt: skip
            _submit(f.launch, share, owned)
        f.select(sel)

    return run


def _name(ops: Operands, operand: nodes.Operand) -> str:
    text = operand.text if isinstance(operand, nodes.Name) else ""
    return ops.qualified.get(text, text)


def _submit(launch: Launch, share: WgmmaShare, registers: frozenset[str]) -> None:
    if launch.arch.compute_capability != (9, 0):
        raise IllegalProgram(f"wgmma.mma_async: {launch.arch.name} ({launch.arch.gpu}) has no wgmma",
                             ref=str(REFS[0]), hint="run it as sm_90a")  # fmt: skip
    launch.warpgroups.check_warpgroup(share.warp)
    launch.warpgroups.issued(share.warp, share.pc)
    earlier = [op for op in launch.engine.pending(frozenset({KIND}), cta=share.slot) if op.warp == share.warp]
    op = AsyncOp(KIND, share.pc, share.slot, 32 * share.warp, lambda: execute(share), tuple(earlier[-1:]), registers)
    launch.warpgroups.groups.add((share.warp,), Transfer(op, op))
    launch.engine.submit(op)


def _form(ops: Operands, shape: tuple[int, WgmmaKind], d: str, a: str, b: str, satfinite: bool) -> WgmmaForm:
    """Types, shape and immediates, checked against each other."""
    n, same_k = shape
    text = ops.instruction.text
    if problems := shape_problems(a, b, d, n):
        raise PtxSyntaxError(f"{text}: " + "; ".join(problem.message for problem in problems), ref=str(problems[0].ref))
    kind = next(row for row in WGMMA_KINDS.values() if a in row.types)
    if kind.k != same_k.k:
        raise PtxSyntaxError(f"{text}: K is {same_k.k}, must be {kind.k} for {a}")
    if satfinite and not kind.integer:
        raise PtxSyntaxError(f"{text}: .satfinite is for .s32 alone")
    a_in_registers = isinstance(ops[1], nodes.Vector)
    transposes = (2 - a_in_registers) if kind.transposes else 0
    ops.expect_count(4 + (0 if kind.integer else 2) + transposes)
    if kind.integer:
        return WgmmaForm(kind, n, a, b, d, saturate=satfinite)
    signs = [_one_of(ops, index, (1, -1)) for index in (4, 5)]
    majors = ["mn" if _one_of(ops, 6 + index, (0, 1)) else "k" for index in range(transposes)]
    a_major = majors.pop(0) if transposes == 2 else "k"
    b_major = majors[0] if majors else "k"
    return WgmmaForm(kind, n, a, b, d, a_major, b_major, signs[0] < 0, signs[1] < 0)


def _one_of(ops: Operands, index: int, allowed: tuple[int, int]) -> int:
    value = ops.immediate(index)
    if value not in allowed:
        raise PtxSyntaxError(f"{ops.instruction.text}: operand {index + 1} is {value}, must be {allowed[0]} or "
                             f"{allowed[1]}")  # fmt: skip
    return value
