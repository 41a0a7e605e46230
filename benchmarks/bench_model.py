"""What the CPU model costs: ``python benchmarks/bench_model.py``.

Everything is a ratio to something plain of the same size that is measured in the same run, so that the machine falls
out. Read the last column.

* Instructions: nanoseconds of one that all threads of a CTA execute together, with 128 and with 1024 threads, and how
  many times NumPy's addition of two arrays of so many words. It is the difference between many rounds and few, so
  launch and loop do not count. An instruction that is far above the others of its kind is worth a look.
* Tensor core: one ``tcgen05.mma`` as a kernel issues it, operand fetch and accumulator included, and how many times the
  float32 product of the same shape.
* Parser: lines of PTX a second, and how many times a regular expression that only finds the words takes.
* FMHA, head dimension 64, 512 x 512: which part of a launch is spent in which operations, themselves; the rest is
  scheduling. Timers cost time, too: read shares, not sums.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from umma_probe.assets import asset_dir
from umma_probe.gpu.nvrtc import compile_source
from umma_probe.harness.manifest import load_probe
from umma_probe.harness.run import run_probe
from umma_probe.harness.suite import load_suite
from umma_probe.model.code.program_builder import ProgramBuilder
from umma_probe.model.launch import Launch, LaunchConfig
from umma_probe.model.machine import Machine
from umma_probe.ptx.parser import parse
from umma_probe.spec.idesc import encode_idesc
from umma_probe.spec.smem_descriptor import encode_smem_desc

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.code.program import Program

UNROLLED, FEW, MANY, REPEATS = 32, 2, 22, 5
INSTRUCTIONS = {
    "add.s32": "add.s32 %a, %a, %b;",
    "mad.lo.s32": "mad.lo.s32 %a, %a, %b, %c;",
    "lop3.b32": "lop3.b32 %a, %a, %b, %c, 0x96;",
    "setp.lt.s32": "setp.lt.s32 %p, %a, %b;",
    "selp.b32": "selp.b32 %a, %a, %b, %q;",
    "fma.rn.f32": "fma.rn.f32 %f, %f, %g, %h;",
    "max.f32": "max.f32 %f, %f, %g;",
    "ex2.approx.ftz.f32": "ex2.approx.ftz.f32 %f, %g;",
    "cvt.rn.bf16x2.f32": "cvt.rn.bf16x2.f32 %a, %f, %g;",
    "add.s32, predicated": "@%q add.s32 %a, %a, %b;",
    "ld.shared.b32": "ld.shared.b32 %a, [%at];",
    "st.shared.b32": "st.shared.b32 [%at], %b;",
    "ld.shared.v4.b32": "ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%at4];",
    "ld.global.b32": "ld.global.b32 %a, [%mine];",
    "st.global.b32": "st.global.b32 [%mine], %b;",
    "shfl.sync.bfly.b32": "shfl.sync.bfly.b32 %a, %b, 16, 31, -1;",
}
TMEM_INSTRUCTIONS = {
    "tcgen05.ld 32x32b.x8": "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%w0, %w1, %w2, %w3, %w4, %w5, %w6, %w7}, [%taddr];",
    "tcgen05.st 32x32b.x8": "tcgen05.st.sync.aligned.32x32b.x8.b32 [%taddr], {%w0, %w1, %w2, %w3, %w4, %w5, %w6, %w7};",
}

KERNEL = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 words, .param .u32 rounds)
{{
.reg .pred %p, %q, %again, %first, %issuer;
.reg .b32 %tid, %warp, %rounds, %a, %b, %c, %at, %at4, %taddr, %v<4>, %w<8>, %done;
.reg .f32 %f, %g, %h;
.reg .b64 %words, %mine;
.shared .align 1024 .b8 memory[16384];
.shared .align 8 .b64 barrier;
.shared .b32 slot;
ld.param.u64 %words, [words];
ld.param.u32 %rounds, [rounds];
mov.u32 %tid, %tid.x;
shr.u32 %warp, %tid, 5;
mad.wide.u32 %mine, %tid, 4, %words;
ld.global.b32 %a, [%mine];
mov.u32 %b, %tid;
mov.u32 %c, 3;
cvt.rn.f32.u32 %f, %tid;
mov.f32 %g, 0f3F400000;
mov.f32 %h, 0f3E800000;
and.b32 %v0, %tid, 1;
setp.eq.u32 %q, %v0, 0;
mov.u32 %v0, memory;
mad.lo.u32 %at, %tid, 4, %v0;
mad.lo.u32 %at4, %tid, 16, %v0;
st.shared.v4.b32 [%at4], {{%b, %b, %b, %b}};
{before}
AGAIN:
{body}
sub.u32 %rounds, %rounds, 1;
setp.ne.u32 %again, %rounds, 0;
@%again bra AGAIN;
{after}
ret;
}}
"""
# all of Tensor Memory for the CTA, its first columns written; %taddr is the warp's quarter
TAKE = """
setp.eq.u32 %first, %warp, 0;
@%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
bar.sync 0;
ld.shared.b32 %taddr, [slot];
and.b32 %v1, %warp, 3;
shl.b32 %v1, %v1, 21;
add.u32 %taddr, %taddr, %v1;
tcgen05.st.sync.aligned.32x32b.x8.b32 [%taddr], {%a, %a, %a, %a, %a, %a, %a, %a};
tcgen05.wait::st.sync.aligned;
"""
GIVE = """
tcgen05.wait::ld.sync.aligned;
tcgen05.wait::st.sync.aligned;
bar.sync 0;
ld.shared.b32 %v1, [slot];
@%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %v1, 512;
"""


def seconds(function: Callable[[], object], repeats: int = REPEATS) -> float:
    """The best of some calls, after one for the caches: what the machine does when nobody else uses it."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def per_round(text: str, words: np.ndarray, threads: int) -> float:
    """Seconds of one round of the kernel's loop."""
    machine = Machine()
    buffer = machine.memory.allocate(words.nbytes, "words")
    machine.memory.write(buffer.address, words.view(np.uint8).ravel())
    module = machine.load(text, "bench.ptx")
    config = LaunchConfig((1, 1, 1), (threads, 1, 1), (1, 1, 1))

    def launch(rounds: int) -> None:
        arguments = [buffer.address.to_bytes(8, "little"), rounds.to_bytes(4, "little")]
        finished = machine.launch(module, "k", config, arguments)
        assert not finished.findings, finished.findings

    return (seconds(lambda: launch(MANY)) - seconds(lambda: launch(FEW))) / (MANY - FEW)


def instructions() -> None:
    print(f"{'instruction':26}{'threads':>8}{'ns':>9}{'x NumPy add':>13}")
    for threads in (128, 1024):
        a, b = np.arange(threads, dtype=np.uint32), np.ones(threads, np.uint32)
        out = np.empty_like(a)
        plain = seconds(lambda a=a, b=b, out=out: [np.add(a, b, out=out) for _ in range(1000)]) / 1000
        for table, before, after in ((INSTRUCTIONS, "", ""), (TMEM_INSTRUCTIONS, TAKE, GIVE)):
            for name, line in table.items():
                text = KERNEL.format(before=before, body="\n".join([line] * UNROLLED), after=after)
                cost = per_round(text, a, threads) / UNROLLED
                print(f"{name:26}{threads:8}{cost * 1e9:9.0f}{cost / plain:13.1f}")


MMA_SETUP = """
mul.lo.u32 %v1, %tid, 16;
cvt.u64.u32 %mine, %v1;
add.u64 %mine, %mine, %words;
{copies}
setp.eq.u32 %issuer, %tid, 0;
@%issuer mbarrier.init.shared::cta.b64 [barrier], 1;
fence.proxy.async.shared::cta;
bar.sync 0;
@!%issuer bra WAIT;
setp.ne.u32 %p, 0, 0;
"""
MMA = """
tcgen05.mma.cta_group::1.kind::f16 [%taddr], {a}, {b}, {idesc}, %p;
setp.eq.u32 %p, 0, 0;
"""
MMA_AFTER = """
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [barrier];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p, [barrier], 0;
@!%p bra WAIT;
"""
M, K = 128, 16


def mma_kernel(n: int, memory: int) -> str:
    """One round is one MMA: K-major operands without swizzle, A from ``memory`` on, B behind it."""
    copies = "\n".join(
        f"ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%mine+{at}];\nst.shared.v4.b32 [%at4+{at}], {{%v0, %v1, %v2, %v3}};"
        for at in range(0, (M + n) * 2 * K, 16 * 128)
    )
    a, b = (
        encode_smem_desc(start_bytes=memory + start, lbo_bytes=16 * rows, sbo_bytes=128)
        for start, rows in ((0, M), (M * 2 * K, n))
    )
    idesc = encode_idesc("f16", a_type="bf16", b_type="bf16", d_type="f32", m=M, n=n)
    body = MMA.format(a=a, b=b, idesc=idesc)
    return KERNEL.format(before=TAKE + MMA_SETUP.format(copies=copies), body=body, after=MMA_AFTER + GIVE)


def tensor_core() -> None:
    print(f"\n{'tcgen05.mma':26}{'ms':>17}{'x float32':>13}")
    rng = np.random.default_rng(0)
    for n in (64, 256):
        values = rng.standard_normal((M + n) * K).astype(ml_dtypes.bfloat16)
        text = mma_kernel(n, 0)
        start = Machine().load(text, "bench.ptx").program("k").variables.variables["memory"].address
        cost = per_round(mma_kernel(n, start), values.view(np.uint16), 128)
        wide = values.astype(np.float32)
        a, b, c = wide[: M * K].reshape(M, K), wide[M * K :].reshape(n, K), np.zeros((M, n), np.float32)
        plain = seconds(lambda a=a, b=b, c=c: [a @ b.T + c for _ in range(100)]) / 100
        print(f"{f'f16 bf16 {M}x{n}x{K}':26}{cost * 1e3:17.3f}{cost / plain:13.1f}")


def fmha_ptx() -> str:
    contract = load_probe("fmha")
    experiment = load_suite("fmha").prepare(contract.resolve({}), "sm_100a", 0)
    source = asset_dir("probes") / contract.source
    options = [f"-D{key}={value}" for key, value in experiment.defines.items()]
    return compile_source(source.read_text(), str(source), arch="sm_100a", kind="ptx", options=options).ptx


def parser() -> None:
    text = fmha_ptx()
    words = re.compile(r"[\w.$%:]+|\S")
    cost, plain = seconds(lambda: parse(text, "fmha.ptx"), 3), seconds(lambda: words.findall(text))
    print(f"\n{'parser':26}{'lines/s':>17}{'x finding words':>17}")
    print(f"{'fmha.cu':26}{text.count(chr(10)) / cost:17.0f}{cost / plain:17.1f}")


class Clock:
    """Time by name, each without what runs inside it."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inner = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self._inner.append(0.0)
            start = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                took = time.perf_counter() - start
                self.spent[name] += took - self._inner.pop()
                self._inner[-1] += took

        return call


def family(opcode: str) -> str:
    parts = opcode.split(".")
    return ".".join(parts[:2]) if parts[0] in ("tcgen05", "mbarrier", "ld", "st", "ex2", "cp") else parts[0]


def fmha() -> None:
    clock = Clock()
    build, run, effect = ProgramBuilder.build, Launch.run, Launch._run_effect

    def timed_build(builder: ProgramBuilder, entry: str) -> Program:
        program = build(builder, entry)
        for step in program.steps:
            step.execute = clock.timed(family(step.instruction.text), step.execute)
        return program

    ProgramBuilder.build = timed_build  # type: ignore[method-assign]
    Launch.run = clock.timed("scheduling", run)  # type: ignore[method-assign]
    Launch._run_effect = clock.timed("what was in flight: MMA, TMA", effect)  # type: ignore[method-assign]
    try:
        report = run_probe("fmha", {"hd": 64, "seq_q": 512, "seq_k": 512}, target="model")
    finally:
        ProgramBuilder.build, Launch.run, Launch._run_effect = build, run, effect  # type: ignore[method-assign]
    assert report.verdict == "pass"
    total = sum(clock.spent.values())
    print(f"\n{'fmha hd 64, 512 x 512':34}{'ms':>9}{'share':>13}")
    for name, cost in clock.spent.most_common(16):
        print(f"{name:34}{cost * 1e3:9.0f}{cost / total:13.1%}")
    print(f"{'all':34}{total * 1e3:9.0f}")


if __name__ == "__main__":
    instructions()
    tensor_core()
    parser()
    fmha()
