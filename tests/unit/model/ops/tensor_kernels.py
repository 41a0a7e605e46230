"""Kernels around a few tcgen05 instructions: allocation, operands of ones, a commit, and a row of results a thread.

``%base`` is the Tensor Memory address, ``%tid`` and ``%warp`` the thread and its warp, ``%p0`` holds in thread 0 and
``%pw`` in warp 0. ``OUT(i, "%r")`` stores a 32-bit register as result i of the thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.launch import LaunchConfig
from umma_probe.model.machine import Machine
from umma_probe.spec.idesc import encode_idesc
from umma_probe.spec.smem_descriptor import encode_smem_desc

if TYPE_CHECKING:
    from umma_probe.model.launch import Launch

Array = Any
RESULTS = 128
SMEM_BYTES = 32 * 1024

ALLOC = """
@%pw tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {columns};
bar.sync 0;
ld.shared.u32 %base, [slot];
"""
DEALLOC = """
bar.sync 0;
@%pw tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, {columns};
"""
ALLOC_PAIR = ALLOC.replace("cta_group::1", "cta_group::2")
DEALLOC_PAIR = """
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
@%pw tcgen05.dealloc.cta_group::2.sync.aligned.b32 %base, {columns};
"""
INIT = "@%p0 mbarrier.init.shared::cta.b64 [bar], 1;\nbar.sync 0;\n"
ONES = (  # 16 KiB of bf16 ones
    "mov.u32 %x, 0x3F803F80; mov.u32 %y, smem; shl.b32 %z, %tid, 4; add.u32 %y, %y, %z;\n"
    + "".join(f"st.shared.v4.b32 [%y+{2048 * i}], {{%x, %x, %x, %x}};\n" for i in range(8))
)
FENCE = "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
WAIT = """
{{
.reg .pred %done;
WAIT_LOOP:
mbarrier.try_wait.parity.shared::cta.b64 %done, [bar], {parity};
@!%done bra WAIT_LOOP;
}}
"""
COMMIT = "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"


@dataclass
class Ran:
    """The results (CTAs, results, threads) and the finished launch."""

    results: Array
    launch: Launch

    @property
    def rules(self) -> set[str]:
        return {rule for rule, _ in self.launch.findings}

    @property
    def reviews(self) -> set[str]:
        return {rule for rule, _ in self.launch.reviews}


def smem_desc(start: int = 0, rows: int = 128) -> str:
    """PTX that puts the descriptor of a K-major operand without swizzle at ``smem + start`` into ``%d``."""
    word = encode_smem_desc(start_bytes=0, lbo_bytes=16 * rows, sbo_bytes=128)
    return (f"mov.u32 %y, smem; add.u32 %y, %y, {start}; shr.u32 %y, %y, 4; and.b32 %y, %y, 0x3FFF; "
            f"cvt.u64.u32 %d, %y; or.b64 %d, %d, {word:#x};\n")  # fmt: skip


def mma(n: int = 64, *, m: int = 128, group: int = 1, d: str = "%base", enable: str = "0", guard: str = "@%p0 ",
        a: str = "%da") -> str:  # fmt: skip
    """A bf16 MMA of the ones."""
    idesc = encode_idesc("f16", a_type="bf16", b_type="bf16", m=m, n=n)
    operands = smem_desc(0, m // group) + "mov.b64 %da, %d;\n" + smem_desc(8192, n // group) + "mov.b64 %db, %d;\n"
    return (f"{operands}setp.ne.u32 %pe, {enable}, 0;\n"
            f"{guard}tcgen05.mma.cta_group::{group}.kind::f16 [{d}], {a}, %db, {idesc:#x}, %pe;\n")  # fmt: skip


def expand_out(body: str) -> str:
    def store(match: re.Match[str]) -> str:
        return f"st.global.u32 [%out+{int(match[1]) * 512}], {match[2]};"

    return re.sub(r"OUT\((\d+), ?(%\w+)\);?", store, body)


def run(
    body: str,
    *,
    columns: int = 64,
    alloc: bool = True,
    pair: bool = False,
    cluster: int = 1,
    ctas: int | None = None,
    policy: str = "eager",
    arch: str = "sm_100a",
    block: int = 128,
    registers: int = 140,
) -> Ran:
    """Run a kernel of 128 threads a CTA; with ``alloc`` it allocates ``columns`` and frees them at its end."""
    ctas = ctas or cluster
    front, back = (ALLOC_PAIR, DEALLOC_PAIR) if pair else (ALLOC, DEALLOC)
    if alloc:
        body = front.format(columns=columns) + body + back.format(columns=columns)
    text = f""".version 9.0
.target {arch}
.address_size 64
.visible .entry k(.param .u64 p)
{{
.shared .align 4 .b32 slot;
.shared .align 8 .b64 bar;
.shared .align 1024 .b8 smem[{SMEM_BYTES}];
.reg .pred %p0, %pw, %pe, %q<8>;
.reg .b32 %base, %tid, %warp, %x, %y, %z, %cta, %r<{registers}>;
.reg .b16 %h<4>;
.reg .b64 %out, %w, %d, %da, %db;
mov.u32 %tid, %tid.x; shr.u32 %warp, %tid, 5; mov.u32 %cta, %ctaid.x;
setp.eq.u32 %p0, %tid, 0; setp.eq.u32 %pw, %warp, 0;
ld.param.u64 %out, [p]; mad.wide.u32 %out, %cta, {RESULTS * 512}, %out; mad.wide.u32 %out, %tid, 4, %out;
{expand_out(body)}
ret;
}}
"""
    machine = Machine(arch)
    buffer = machine.memory.allocate(ctas * RESULTS * 512, "results")
    machine.memory.write(buffer.address, np.zeros(buffer.size_bytes, np.uint8))
    config = LaunchConfig((ctas, 1, 1), (block, 1, 1), (cluster, 1, 1), explicit_cluster=cluster > 1)
    module = machine.load(text, "kernel.ptx")
    launch = machine.launch(module, "k", config, [buffer.address.to_bytes(8, "little")], policy)
    words = machine.memory.read(buffer.address, buffer.size_bytes).view(np.uint32)
    return Ran(words.reshape(ctas, RESULTS, 128), launch)
