"""wgmma on the model: fragments against the figures of the PTX ISA, products against NumPy, illegal twins."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from umma_probe.errors import IllegalProgram, PtxSyntaxError, UndefinedBehavior
from umma_probe.layouts.wgmma_fragment import accumulator_fragment, operand_a_fragment
from umma_probe.model.launch import LaunchConfig
from umma_probe.model.machine import Machine

N = 16
RNG = np.random.default_rng(90)
# core matrices of 8 rows x 16 bytes: the second 16 bytes of K lie 1024 (A) or 256 (B) bytes on, eight rows 128 bytes
A_DESC, B_DESC, B_AT = 64 << 16 | 8 << 32, 16 << 16 | 8 << 32, 2048
FENCE, COMMIT, WAIT = (
    "wgmma.fence.sync.aligned;",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
)


def core_matrices(rows: Any, next_k: int) -> Any:
    """(rows, 32) bytes as no-swizzle core matrices."""
    image = np.zeros(2 * next_k, np.uint8)
    for row in range(len(rows)):
        for half in range(2):
            at = half * next_k + row // 8 * 128 + row % 8 * 16
            image[at : at + 16] = rows[row, 16 * half : 16 * half + 16]
    return image


def kernel(opcode: str, registers: int, tail: str, *, arch: str = "sm_90a", before: str = FENCE,
           after: str = f"{COMMIT} {WAIT}", guard: str = "") -> str:  # fmt: skip
    d = ", ".join(f"%d{i}" for i in range(registers))
    loads = "\n".join(f"ld.global.b32 %d{i}, [%c+{4 * i}];" for i in range(registers))
    stores = "\n".join(f"st.global.b32 [%c+{4 * i}], %d{i};" for i in range(registers))
    return f"""
.version 9.0
.target {arch}
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 c)
{{
.shared .align 1024 .b8 smem[4096];
.reg .b32 %d<{registers}>, %t, %x, %s, %w<4>;
.reg .b64 %image, %c, %at, %a, %b, %base;
.reg .pred %p, %q;
ld.param.u64 %image, [image];
ld.param.u64 %c, [c];
mov.u32 %t, %tid.x;
mov.u32 %s, smem;
shl.b32 %x, %t, 5;
cvt.u64.u32 %at, %x;
add.u64 %at, %image, %at;
add.u32 %x, %s, %x;
ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%at];
st.shared.v4.b32 [%x], {{%w0, %w1, %w2, %w3}};
ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%at+16];
st.shared.v4.b32 [%x+16], {{%w0, %w1, %w2, %w3}};
fence.proxy.async.shared::cta;
bar.sync 0;
shr.u32 %s, %s, 4;
cvt.u64.u32 %base, %s;
add.u64 %a, %base, {A_DESC};
add.u64 %b, %base, {B_DESC + B_AT // 16};
mad.lo.u32 %x, %t, {4 * registers}, 0;
cvt.u64.u32 %at, %x;
add.u64 %c, %c, %at;
{loads}
setp.eq.u32 %p, 0, 0;
setp.lt.u32 %q, %t, 96;
{before}
{guard}wgmma.mma_async.sync.aligned.{opcode} {{{d}}}, %a, %b, %p{tail};
{after}
{stores}
ret;
}}
"""


def run(text: str, a: Any, b: Any, c: Any, *, policy: str = "eager", arch: str = "sm_90a", threads: int = 128) -> Any:
    """Registers (128, R) afterwards, and the launch."""
    machine = Machine(arch)
    image = np.concatenate([core_matrices(a.view(np.uint8), 1024), core_matrices(b.view(np.uint8), 256)])
    image = np.concatenate([image, np.zeros(4096 - len(image), np.uint8)])
    places = [machine.memory.allocate(len(data)).address for data in (image, c.reshape(-1).view(np.uint8))]
    machine.memory.write(places[0], image)
    machine.memory.write(places[1], np.ascontiguousarray(c).reshape(-1).view(np.uint8))
    module = machine.load(text, "wgmma.ptx")
    config = LaunchConfig((1, 1, 1), (threads, 1, 1))
    launch = machine.launch(module, "k", config, [place.to_bytes(8, "little") for place in places], policy)
    return machine.memory.read(places[1], c.nbytes).view(np.uint32).reshape(c.shape), launch


def integers(shape: tuple[int, ...], dtype: Any) -> Any:
    return RNG.integers(-3, 4, shape).astype(dtype)


KINDS = {
    "f16": ("k16.f32.f16.f16", np.float16, np.float16, "f32", ", 1, 1, 0, 0"),
    "bf16": ("k16.f32.bf16.bf16", ml_dtypes.bfloat16, ml_dtypes.bfloat16, "f32", ", 1, 1, 0, 0"),
    "f16 D": ("k16.f16.f16.f16", np.float16, np.float16, "f16", ", 1, 1, 0, 0"),
    "tf32": ("k8.f32.tf32.tf32", np.float32, np.float32, "f32", ", 1, 1"),
    "fp8": ("k32.f32.e4m3.e5m2", ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, "f32", ", 1, 1"),
    "s8": ("k32.s32.s8.s8", np.int8, np.int8, "s32", ""),
}
D_TYPES = {"f32": np.float32, "f16": np.float16, "s32": np.int32}


@pytest.mark.parametrize("policy", ["eager", "lazy", "random:1"])
@pytest.mark.parametrize("name", KINDS)
def test_products_and_accumulator_against_numpy(name: str, policy: str) -> None:
    opcode, a_type, b_type, d_type, tail = KINDS[name]
    k = 32 // np.dtype(a_type).itemsize
    a, b = integers((64, k), a_type), integers((N, k), b_type)
    d_map = accumulator_fragment(N, d_type)
    old = integers((64, N), D_TYPES[d_type])
    words = d_map.scatter(old.view(np.uint16 if d_type == "f16" else np.uint32))
    text = kernel(f"m64n{N}{opcode}", d_map.registers, tail)
    found, launch = run(text, a, b, words, policy=policy)
    values = d_map.gather(found, 16 if d_type == "f16" else 32)
    got = values.astype(np.uint16).view(np.float16) if d_type == "f16" else values.view(D_TYPES[d_type])
    np.testing.assert_array_equal(got, a.astype(np.float64) @ b.astype(np.float64).T + old)
    assert not launch.findings
    assert not launch.reviews


def test_negated_operands_and_no_accumulator() -> None:
    a, b = integers((64, 16), np.float16), integers((N, 16), np.float16)
    text = kernel(f"m64n{N}k16.f32.f16.f16", 8, ", -1, 1, 0, 0").replace("%b, %p,", "%b, !%p,")
    found, _ = run(text, a, b, np.full((128, 8), 0x7FC00000, np.uint32))
    got = accumulator_fragment(N, "f32").gather(found, 32).view(np.float32)
    np.testing.assert_array_equal(got, -(a.astype(np.float64) @ b.astype(np.float64).T))


# ---------------------------------------------------------------------- fragments, as the figures have them
@pytest.mark.parametrize(
    ("m", "n", "thread", "register"),
    [(0, 0, 0, 0), (0, 1, 0, 1), (8, 0, 0, 2), (8, 1, 0, 3), (0, 8, 0, 4), (0, 2, 1, 0), (1, 0, 4, 0), (7, 7, 31, 1),
     (15, 15, 31, 7), (16, 0, 32, 0), (63, 63, 127, 31)],
)  # fmt: skip
def test_the_accumulator_lies_as_in_the_figure(m: int, n: int, thread: int, register: int) -> None:
    where = accumulator_fragment(64, "f32")
    assert (where.thread[m, n], where.register[m, n], where.registers) == (thread, register, 32)


@pytest.mark.parametrize(("m", "n", "thread", "register", "bit"), [(0, 1, 0, 0, 16), (8, 0, 0, 1, 0), (0, 8, 0, 2, 0)])
def test_16_bit_accumulators_share_a_register(m: int, n: int, thread: int, register: int, bit: int) -> None:
    where = accumulator_fragment(16, "f16")
    assert (where.thread[m, n], where.register[m, n], where.bit[m, n]) == (thread, register, bit)


@pytest.mark.parametrize(
    ("bits", "m", "k", "thread", "register", "bit"),
    [(16, 0, 1, 0, 0, 16), (16, 8, 0, 0, 1, 0), (16, 0, 8, 0, 2, 0), (16, 8, 9, 0, 3, 16), (8, 0, 3, 0, 0, 24),
     (8, 0, 16, 0, 2, 0), (32, 0, 4, 0, 2, 0), (32, 1, 3, 7, 0, 0), (16, 17, 2, 37, 0, 0)],
)  # fmt: skip
def test_a_in_registers_lies_as_in_the_figures(bits: int, m: int, k: int, thread: int, register: int, bit: int) -> None:
    where = operand_a_fragment(bits)
    assert (where.thread[m, k], where.register[m, k], where.bit[m, k]) == (thread, register, bit)


# ---------------------------------------------------------------------- what a kernel may not do
def _any() -> tuple[Any, Any, Any]:
    return integers((64, 16), np.float16), integers((N, 16), np.float16), np.zeros((128, 8), np.uint32)


OPCODE, TAIL = f"m64n{N}k16.f32.f16.f16", ", 1, 1, 0, 0"


def test_no_fence_is_a_finding() -> None:
    _, launch = run(kernel(OPCODE, 8, TAIL, before=""), *_any())
    assert {rule for rule, _ in launch.findings} == {"missing-wgmma-fence"}


def test_registers_before_the_wait_are_for_review_and_right() -> None:
    a, b, c = _any()
    found, launch = run(kernel(OPCODE, 8, TAIL, after=COMMIT), a, b, c, policy="lazy")
    assert "wgmma-register-dependence" in {rule for rule, _ in launch.reviews}
    got = accumulator_fragment(N, "f32").gather(found, 32).view(np.float32)
    np.testing.assert_array_equal(got, a.astype(np.float64) @ b.astype(np.float64).T)


def test_three_of_four_warps_are_no_warpgroup() -> None:
    with pytest.raises(UndefinedBehavior, match="four warps execute it 1, 1, 1, 0 times"):
        run(kernel(OPCODE, 8, TAIL, guard="@!%q bra SKIP;\n", after=f"SKIP:\n{COMMIT} {WAIT}"), *_any())


def test_two_warps_are_no_warpgroup() -> None:
    with pytest.raises(UndefinedBehavior, match="must make a warpgroup, the CTA has 64 threads"):
        run(kernel(OPCODE, 8, TAIL), *_any(), threads=64)


def test_blackwell_has_no_wgmma() -> None:
    with pytest.raises(IllegalProgram, match=r"sm_100a .* has no wgmma"):
        run(kernel(OPCODE, 8, TAIL, arch="sm_100a"), *_any(), arch="sm_100a")


@pytest.mark.parametrize(
    ("opcode", "registers", "tail", "message"),
    [
        ("m64n40k32.s32.s8.s8", 20, "", "N is 40, must be 8, 16, 24, or a multiple of 16"),
        ("m64n16k16.f16.bf16.bf16", 4, TAIL, "D is f16 with bf16 operands, must be f32"),
        ("m64n16k32.f32.f16.f16", 8, TAIL, "K is 32, must be 16 for f16"),
        ("m64n16k16.f32.f16.bf16", 8, TAIL, "must be of one kind"),
        (OPCODE, 4, TAIL, "D has 4 registers, must have 8"),
        (OPCODE, 8, ", 1, 0, 0, 0", "operand 6 is 0, must be 1 or -1"),
        ("m64n16k8.f32.tf32.tf32", 8, TAIL, "has 8 operands, must have 6"),
    ],
)
def test_what_the_assembler_would_refuse(opcode: str, registers: int, tail: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError, match=message):
        run(kernel(opcode, registers, tail), *_any())
