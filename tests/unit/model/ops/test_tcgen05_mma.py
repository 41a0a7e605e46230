"""tcgen05.mma through kernels: every spelling reaches the tensor core with the right operands, or is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_kernels import COMMIT, FENCE, INIT, ONES, WAIT, mma, run, smem_desc

from umma_probe.errors import IllegalProgram, NotModelled, PtxSyntaxError, UmmaProbeError, UndefinedBehavior
from umma_probe.spec.idesc import encode_idesc

DESCRIPTORS = smem_desc(0, 128) + "mov.b64 %da, %d;\n" + smem_desc(8192, 64) + "mov.b64 %db, %d;\n"
END = COMMIT + WAIT.format(parity=0)
BF16 = {"a_type": "bf16", "b_type": "bf16"}
PLAIN = encode_idesc("f16", m=128, n=64, **BF16)
SPARSE = encode_idesc("f16", m=128, n=64, sparse=True, **BF16)
# bf16 1.0 is 0x3F80; as e4m3 bytes that is 1.875 (0x3F) and -0 (0x80)
MXF8 = encode_idesc("mxf8f6f4", a_type="e4m3", b_type="e4m3", m=128, n=64)
MXF8_SPARSE = encode_idesc("mxf8f6f4", a_type="e4m3", b_type="e4m3", m=128, n=64, sparse=True)


def fill(column: int, count: int, value: int) -> str:
    """Columns of every lane with one word."""
    registers = ", ".join(["%x"] * count)
    store = f"tcgen05.st.sync.aligned.32x32b.x{count}.b32 [%y], {{{registers}}};\ntcgen05.wait::st.sync.aligned;\n"
    return f"mov.u32 %x, {value:#x}; add.u32 %y, %base, {column};\n" + store


def kernel(lines: str, before: str = "") -> str:
    return INIT + before + ONES + FENCE + DESCRIPTORS + "setp.ne.u32 %pe, 0, 0; setp.eq.u32 %q0, 0, 0;\n" + lines + END


def result(lines: str, before: str = "", **options: object) -> np.ndarray:
    """D (128, 64) at column 0, as float32."""
    ran = run(kernel(lines, before), columns=256, **options)  # type: ignore[arg-type]
    assert not ran.rules
    image = ran.launch.tmem_snapshots[0]
    cells, written = image.words, image.written
    assert written[:, :64].all()
    return cells[:, :64].view(np.float32)


@pytest.mark.parametrize("words", ["", ".collector::a::fill", ".collector::a::use", ".collector::a::lastuse",
                                   ".collector::a::discard"])  # fmt: skip
def test_collector_words_change_nothing(words: str):
    assert (result(f"@%p0 tcgen05.mma.cta_group::1.kind::f16{words} [%base], %da, %db, {PLAIN}, %pe;\n") == 16).all()


def test_enable_input_d():
    first = f"@%p0 tcgen05.mma.cta_group::1.kind::f16 [%base], %da, %db, {PLAIN}, %pe;\n"
    again = f"@%p0 tcgen05.mma.cta_group::1.kind::f16 [ %base + 0 ], %da, %db, {PLAIN}, %q0;\n"
    assert (result(first + again) == 32).all()
    assert (result(first + again.replace("%q0", "!%q0")) == 16).all()
    assert (result(first + again.replace("%q0", "%q0, 2")) == 16 / 4 + 16).all()


def test_qualifiers_in_another_order():
    assert (result(f"@%p0 tcgen05.mma.kind::f16.cta_group::1 [%base], %da, %db, {PLAIN}, %pe;\n") == 16).all()


def test_disable_output_lane():
    before = fill(0, 64, 0x41200000)
    mask = "mov.u32 %r0, 0; mov.u32 %r1, 0x80000001;\n"
    line = f"@%p0 tcgen05.mma.cta_group::1.kind::f16 [%base], %da, %db, {PLAIN}, {{%r0, %r1, %r0, %r0}}, %pe;\n"
    expected = np.full(128, 16.0)
    expected[[32, 63]] = 10
    assert (result(mask + line, before) == expected[:, None]).all()


def test_operand_a_in_tensor_memory():
    before = fill(100, 8, 0x40004000)
    line = f"add.u32 %z, %base, 100;\n@%p0 tcgen05.mma.cta_group::1.kind::f16 [%base], [%z], %db, {PLAIN}, %pe;\n"
    assert (result(line, before) == 32).all()
    shifted = line.replace("kind::f16", "kind::f16.ashift")
    assert (result(shifted, before) == 32).all()


@pytest.mark.parametrize("words", ["", ".collector::b0::fill", ".collector::b3::lastuse"])
def test_weight_stationary(words: str):
    line = f"@%p0 tcgen05.mma.ws.cta_group::1.kind::f16{words} [%base], %da, %db, {PLAIN}, %pe"
    assert (result(line + ";\n") == 16).all()
    mask = 1 << 39 | 3 << 40 | 11 << 48  # 12 used, 4 zero
    masked = result(f"mov.u64 %w, {mask};\n{line}, %w;\n")
    assert (masked == np.where(np.arange(64) % 16 < 12, 16, 0)).all()


@pytest.mark.parametrize("code", [0x76543210, 0x89ABCDEF])
def test_narrow_mn_major_operands(code: int):
    """Each 16-byte chunk has 16 rows of e2m1 for one k, then 8 bytes that are no operand's."""
    value = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    column = value[[code >> 4 * i & 0xF for i in range(8)]]
    chunks = "".join(f"st.shared.v4.b32 [%y+{2048 * i}], {{%x, %x, %z, %z}};\n" for i in range(8))
    data = f"mov.u32 %x, {code:#x}; mov.u32 %z, -1; mov.u32 %y, smem; mad.lo.u32 %y, %tid, 16, %y;\n" + chunks
    idesc = encode_idesc("f8f6f4", a_type="e2m1", b_type="e2m1", m=128, n=64, a_major="mn", b_major="mn")
    descriptors = smem_desc(0, 8) + "mov.b64 %da, %d;\n" + smem_desc(8192, 8) + "mov.b64 %db, %d;\n"
    line = f"setp.ne.u32 %pe, 0, 0;\n@%p0 tcgen05.mma.cta_group::1.kind::f8f6f4 [%base], %da, %db, {idesc}, %pe;\n"
    ran = run(INIT + data + FENCE + descriptors + line + END, columns=256)
    d = ran.launch.tmem_snapshots[0].words[:, :64].view(np.float32)
    assert (d == 32 * np.outer(np.tile(column, 16), np.tile(column, 8))).all()
    assert not ran.rules
    assert "narrow-mn-major" in ran.reviews


def test_sparse():
    before = fill(200, 1, 0x44444444)
    line = f"@%p0 tcgen05.mma.sp.cta_group::1.kind::f16 [%base], %da, %db, [%z], {SPARSE}, %pe;\n"
    line = "add.u32 %z, %base, 200;\n" + line
    assert (result(line, before) == 16).all()
    assert (result(line.replace("tcgen05.mma.sp", "tcgen05.mma.ws.sp"), before) == 16).all()
    with_lanes = line.replace("%pe", "{0, 0, 0, 0}, %pe")
    assert (result(with_lanes, before) == 16).all()


@pytest.mark.parametrize("words", ["", ".block32", ".scale_vec::1X", ".scale_vec::1X.collector::a::fill"])
def test_block_scaled(words: str):
    before = fill(128, 8, 0x80808080)
    opcode = f"tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale{words}"
    line = f"@%p0 {opcode} [%base], %da, %db, {MXF8}, [%y], [%z], %pe;\n"
    addresses = "add.u32 %y, %base, 128; add.u32 %z, %base, 132;\n"
    assert (result(addresses + line, before) == 4 * 16 * 1.875**2).all()


def test_block_scaled_and_sparse():
    before = fill(128, 8, 0x80808080) + fill(136, 2, 0xEEEEEEEE)  # keeps values 2 and 3 of each four
    opcode = "tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale"
    line = f"@%p0 {opcode} [%base], %da, %db, [%z], {MXF8_SPARSE}, [%y], [%y], %pe;\n"
    addresses = "add.u32 %y, %base, 128; add.u32 %z, %base, 136;\n"
    assert (result(addresses + line, before) == 4 * 16 * 1.875**2).all()


def test_families_and_architectures():
    before = fill(128, 8, 0x80808080)
    line = ("add.u32 %y, %base, 128;\n@%p0 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.{} [%base], %da, %db, "
            f"{MXF8}, [%y], [%y], %pe;\n").replace("{}", "VECTOR")  # fmt: skip
    for arch in ("sm_100f", "sm_103a", "sm_110a"):
        assert (result(line.replace("VECTOR", "block32"), before, arch=arch) == 4 * 16 * 1.875**2).all()
    with pytest.raises(IllegalProgram, match=r"scale_vec::1X on sm_100f, must be an 'a' target"):
        result(line.replace("VECTOR", "scale_vec::1X"), before, arch="sm_100f")
    scaled = f"@%p0 tcgen05.mma.cta_group::1.kind::f16 [%base], %da, %db, {PLAIN}, %pe, 1;\n"
    with pytest.raises(IllegalProgram, match="scale-input-d on sm_110a"):
        result(scaled, arch="sm_110a")
    assert (result(scaled, arch="sm_103f") == 16).all()


PREFIX = "tcgen05.mma.cta_group::1"
NVF4 = f"{PREFIX}.kind::mxf4nvf4.block_scale"


@pytest.mark.parametrize(("line", "error"), [
    (f"{PREFIX}.kind::f16 [%base], %da, %db, %x;", PtxSyntaxError),
    (f"{PREFIX}.kind::f16 [%base], %da, %db, %x, %pe, 16;", PtxSyntaxError),
    (f"{PREFIX}.kind::f8f6f4 [%base], %da, %db, %x, %pe, 1;", PtxSyntaxError),
    (f"{PREFIX}.kind::i8 [%base], %da, %db, %x, %pe, 1;", NotModelled),
    (f"{PREFIX}.kind::f16 [%base], %da, %db, %x, {{%x, %x}}, %pe;", PtxSyntaxError),
    ("tcgen05.mma.cta_group::2.kind::f16 [%base], %da, %db, %x, {%x, %x, %x, %x}, %pe;", PtxSyntaxError),
    (f"{PREFIX}.kind::f16.ashift [%base], %da, %db, %x, %pe;", PtxSyntaxError),
    (f"{PREFIX}.kind::f16.ashift.collector::a::use [%base], [%x], %db, %x, %pe;", PtxSyntaxError),
    (f"{PREFIX}.kind::mxf4 [%base], %da, %db, %x, [%x], [%x], %pe;", NotModelled),
    (f"{NVF4} [%base], %da, %db, %x, [%x], [%x], %pe;", PtxSyntaxError),
    (f"{NVF4}.scale_vec::1X [%base], %da, %db, %x, [%x], [%x], %pe;", PtxSyntaxError),
    (f"{PREFIX}.kind::mxf4.block_scale.block16 [%base], %da, %db, %x, [%x], [%x], %pe;", PtxSyntaxError),
    (f"{PREFIX}.kind::mxf4.block_scale.ashift [%base], [%x], %db, %x, [%x], [%x], %pe;", NotModelled),
    ("tcgen05.mma.ws.cta_group::2.kind::f16 [%base], %da, %db, %x, %pe;", NotModelled),
    ("tcgen05.mma.ws.cta_group::1.kind::mxf4.block_scale [%base], %da, %db, %x, [%x], [%x], %pe;", NotModelled),
    ("tcgen05.mma.ws.cta_group::1.kind::f16.collector::a::fill [%base], %da, %db, %x, %pe;", NotModelled),
    (f"{PREFIX}.kind::f64 [%base], %da, %db, %x, %pe;", NotModelled),
])  # fmt: skip
def test_refused_before_the_first_thread_runs(line: str, error: type[UmmaProbeError]):
    with pytest.raises(error) as caught:
        run(line, alloc=False)
    assert caught.value.where is not None
    assert line in caught.value.where.source_line


@pytest.mark.parametrize(("line", "error", "text"), [
    (mma().replace(f"{PLAIN:#x}", "0x12"), UndefinedBehavior, "instruction descriptor 0x00000012 is illegal"),
    (mma(m=256).replace("group::2", "group::1"), UndefinedBehavior, "M is 256"),
    (mma(d="%z"), IllegalProgram, "accumulator address has lane 16, must be 0 for 128 rows"),
    (mma().replace("mov.b64 %da, %d", "mov.b64 %da, 0"), UndefinedBehavior, "descriptor 0x0000000000000000"),
])  # fmt: skip
def test_faults_at_run_time(line: str, error: type[UmmaProbeError], text: str):
    with pytest.raises(error, match=text) as caught:
        run(INIT + ONES + FENCE + "add.u32 %z, %base, 0x100000;\n" + line)
    assert caught.value.where is not None
    assert "tcgen05.mma" in caught.value.where.source_line
    assert "CTA 0, warp 0, lane 0" in caught.value.where.actor
