"""tcgen05.mma with ``.block_scale``, dense and ``.sp``, kinds mxf8f6f4, mxf4 and mxf4nvf4.

Spellings of the scale vector: ``.scale_vec::NX`` (N scales a row for the K of one instruction; architecture-specific
targets only) or ``.blockN`` (one scale for N elements); the default is ``.block32``, and ``kind::mxf4nvf4`` has none.
There is no lane mask, no ``.ashift``, no ``.ws``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.errors import IllegalProgram, PtxSyntaxError
from umma_probe.model.code.decode import operation
from umma_probe.model.mma.mma_call import MmaForm
from umma_probe.model.mma.mma_issue import executor
from umma_probe.model.ops.tcgen05_alloc import CtaGroup
from umma_probe.model.ops.tcgen05_mma import COLLECTOR_A, common_operands
from umma_probe.ptx import nodes
from umma_probe.spec.kinds import KINDS
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.threads.frame import Frame

REFS = (
    documented("tcgen05.mma"),
    documented("tcgen05.mma.sp"),
    documented("Valid combinations of scale_vectorsize with types and MMA-Kind"),
)
SCALED = {f"kind::{name}": name for name in KINDS if KINDS[name].block_scaled}
VECTORS = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")


@operation("tcgen05.mma.{sp?}.{group}.{kind}.block_scale.{vector?}.{collector?}", group=CtaGroup, kind=SCALED,
           vector=VECTORS, collector=COLLECTOR_A, refs=REFS)  # fmt: skip
def mma_scaled(
    ops: Operands, sp: bool, group: CtaGroup, kind: str, vector: str | None, collector: str | None
) -> Executor:
    """D = (A * scale_A) * (B * scale_B) (+ D)."""
    ops.expect_count(7 + sp)
    form = MmaForm(kind, group.size, sparse=sp, a_in_tmem=isinstance(ops[1], nodes.Address),
                   scale_vector=scale_vector(ops, kind, vector))  # fmt: skip
    issue = executor(form, common_operands(ops, form, 6 + sp, scales=4 + sp))
    if vector is None or vector.startswith("block"):
        return issue

    def run(f: Frame) -> None:
        if not f.launch.arch.architecture_specific:
            f.fault(IllegalProgram, f"tcgen05.mma: .{vector} on {f.launch.arch.name}, must be an 'a' target",
                    hint="use .block16 or .block32", ref=str(REFS[0]))  # fmt: skip
        issue(f)

    return run


def scale_vector(ops: Operands, kind: str, written: str | None) -> str:
    """``1X``, ``2X`` or ``4X``.

    :raises PtxSyntaxError: the kind does not have it, or must say which.
    """
    vectors = KINDS[kind].scale_vectors
    if written is None and kind != "mxf4nvf4":
        return vectors[0].name
    for vector in vectors:
        if written in (f"scale_vec::{vector.name}", vector.block_name):
            return vector.name
    legal = " or ".join(f".scale_vec::{v.name} (.{v.block_name})" for v in vectors)
    text = f".{written}" if written else "missing"
    raise PtxSyntaxError(f"{ops.instruction.text}: the scale vector is {text}, must be {legal} under kind::{kind}")
