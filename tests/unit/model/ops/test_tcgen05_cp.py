"""tcgen05.cp and shift through kernels: rows to lanes, decompression, pairs, address rules."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_kernels import COMMIT, FENCE, INIT, WAIT, run, smem_desc

from umma_probe.errors import DeviceError, IllegalProgram, PtxSyntaxError, UmmaProbeError

# every word of the first 16 KiB holds its own index (in the odd CTA of a pair: index + 2^16)
INDEX = (
    "mov.u32 %y, smem; shl.b32 %z, %tid, 2; add.u32 %y, %y, %z; shl.b32 %x, %cta, 16; add.u32 %x, %x, %tid;\n"
    + "".join(f"st.shared.b32 [%y+{512 * i}], %x; add.u32 %x, %x, 128;\n" for i in range(32))
)
ROWS = {"128x256b": 128, "4x256b": 4, "128x128b": 128, "64x128b": 64, "32x128b": 32}
WORDS = {"128x256b": 8, "4x256b": 8, "128x128b": 4, "64x128b": 4, "32x128b": 4}
SHAPES = ["128x256b", "4x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4"]


def copy(form: str, *, address: str = "%base", group: int = 1, guard: str = "@%p0 ", start: int = 0) -> str:
    shape = form.split(".")[0]
    rows = max(ROWS[shape], 8)
    desc = smem_desc(start, rows) + "mov.b64 %da, %d;\n"
    return desc + f"{guard}tcgen05.cp.cta_group::{group}.{form} [{address}], %da;\n"


def source_word(row: int, word: int, rows: int) -> int:
    """Index of a 32-bit word of the source: core matrices of 8 rows x 16 bytes, those of one K column together."""
    return (word // 4 * 16 * max(rows, 8) + row // 8 * 128 + row % 8 * 16) // 4 + word % 4


def expected_rows(form: str) -> dict[int, int]:
    """Lane to source row, in the words of the PTX ISA: warp pairs, or all four warps, get the same rows."""
    shape, *multicast = form.split(".")
    if shape == "4x256b":
        return {32 * i: i for i in range(4)}
    if shape == "32x128b":
        return {lane: lane % 32 for lane in range(128)}
    if multicast == ["warpx2::02_13"]:
        return {lane: lane % 64 for lane in range(128)}
    if multicast == ["warpx2::01_23"]:
        return {lane: lane % 32 + (32 if lane >= 64 else 0) for lane in range(128)}
    return {lane: lane for lane in range(128)}


@pytest.mark.parametrize("form", SHAPES)
@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_rows_to_lanes(form: str, policy: str):
    shape = form.split(".")[0]
    ran = run(INIT + INDEX + FENCE + copy(form) + COMMIT + WAIT.format(parity=0), policy=policy)
    image = ran.launch.tmem_snapshots[0]
    cells, written = image.words, image.written
    expected = np.full((128, 512), -1, np.int64)
    for lane, row in expected_rows(form).items():
        for word in range(WORDS[shape]):
            expected[lane, word] = source_word(row, word, ROWS[shape])
    assert (written == (expected >= 0)).all()
    assert (cells[written] == expected[written]).all()
    assert not ran.rules


def test_a_base_offset_without_swizzle_says_nothing():
    """Triton's copies of scales have one."""
    line = copy("32x128b.warpx4").replace("@%p0", f"or.b64 %da, %da, {4 << 49};\n@%p0")
    ran = run(INIT + INDEX + FENCE + line + COMMIT + WAIT.format(parity=0))
    words = [[source_word(lane % 32, word, 32) for word in range(4)] for lane in range(128)]
    assert (ran.launch.tmem_snapshots[0].words[:, :4] == np.array(words)).all()
    assert not ran.rules
    assert ran.reviews == {"unswizzled-base-offset"}


def test_4x256b_into_the_last_lane_of_each_partition():
    body = "add.u32 %z, %base, 0x1F0002;\n" + copy("4x256b", address="%z") + COMMIT + WAIT.format(parity=0)
    written = run(INIT + INDEX + FENCE + body).launch.tmem_snapshots[0].written
    lanes, columns = np.nonzero(written)
    assert set(lanes) == {31, 63, 95, 127}
    assert set(columns) == set(range(2, 10))


@pytest.mark.parametrize("bits", [4, 6])
def test_decompression(bits: int):
    form = "128x128b.b8x16." + ("b4x16_p64" if bits == 4 else "b6x16_p32")
    ran = run(INIT + INDEX + FENCE + copy(form) + COMMIT + WAIT.format(parity=0))
    image = ran.launch.tmem_snapshots[0]
    cells, written = image.words, image.written
    assert written[:, :4].all()
    data = np.ascontiguousarray(cells[:, :4]).view(np.uint8)
    for lane in (0, 1, 77, 127):
        index = source_word(lane, 0, 128)
        packed = int.from_bytes(np.arange(index, index + 4, dtype="<u4").tobytes(), "little")
        elements = [packed >> bits * i & (1 << bits) - 1 for i in range(16)]
        assert data[lane].tolist() == [e << 2 if bits == 4 else e for e in elements]


def test_both_ctas_of_a_pair_copy_their_own_shared_memory():
    commit = COMMIT.replace("cta_group::1", "cta_group::2").replace("shared::cluster.b64 [bar]",
             "shared::cluster.multicast::cluster.b64 [bar], %h0").replace("@%p0", "@%q2")  # fmt: skip
    body = INIT + INDEX + FENCE + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nmov.u16 %h0, 3;\n"
    body += "setp.eq.and.u32 %q2, %cta, 0, %p0;\n" + copy("32x128b.warpx4", group=2, guard="@%q2 ") + commit
    ran = run(body + WAIT.format(parity=0), pair=True, cluster=2)
    for cta in range(2):
        image = ran.launch.tmem_snapshots[cta]
        cells, written = image.words, image.written
        assert written[:, :4].all()
        assert cells[33, 1] == source_word(1, 1, 32) + (cta << 16)


@pytest.mark.parametrize("first", [0, 64, 96])
def test_shift_takes_the_next_lane_in_the_32_lanes_of_its_address_and_keeps_the_last(first: int):
    fill = "shl.b32 %x, %warp, 21; add.u32 %z, %base, %x;\n"
    registers = ", ".join(["%tid"] * 16)
    fill += (
        f"tcgen05.st.sync.aligned.32x32b.x16.b32 [%z], {{{registers}}};\ntcgen05.wait::st.sync.aligned;\nbar.sync 0;\n"
    )
    body = (
        INIT + fill + f"add.u32 %z, %base, {(first << 16) + 4};\n@%p0 tcgen05.shift.cta_group::1.down [%z];\n" + COMMIT
    )
    ran = run(body + WAIT.format(parity=0))
    cells = ran.launch.tmem_snapshots[0].words
    lanes = np.arange(128)
    assert (cells[:, [0, 3, 12, 15]] == lanes[:, None]).all()
    assert (cells[:, 4:12] == np.where((lanes >= first) & (lanes < first + 31), lanes + 1, lanes)[:, None]).all()
    assert "assumed-shift" in ran.reviews
    with pytest.raises(IllegalProgram, match="shift on sm_100f"):
        run(body, arch="sm_100f")


def test_findings_of_a_copy():
    body = INIT + copy("32x128b.warpx4") + COMMIT + WAIT.format(parity=0)
    assert run(body).rules == {"uninitialised-read"}
    assert run(INIT + INDEX + "bar.sync 0;\n" + body.removeprefix(INIT)).rules == {"missing-proxy-fence"}


@pytest.mark.parametrize(("body", "error", "text"), [
    (copy("128x256b", address="%z"), DeviceError, "cp touches columns 60-67; column 64 is not allocated"),
    ("add.u32 %z, %base, 0x200000;\n" + copy("128x128b", address="%z"), IllegalProgram, "lane 32, must be 0"),
    (copy("128x256b", start=32 * 1024 - 1024), DeviceError, "reads shared address"),
    ("add.u32 %z, %base, 0x10000;\n@%p0 tcgen05.shift.cta_group::1.down [%z];", IllegalProgram, "a multiple of 32"),
])  # fmt: skip
def test_faults(body: str, error: type[UmmaProbeError], text: str):
    with pytest.raises(error, match=text) as caught:
        run(INIT + INDEX + FENCE + "add.u32 %z, %base, 60;\n" + body)
    assert caught.value.where is not None
    assert "tcgen05." in caught.value.where.source_line
    assert "CTA 0, warp 0, lane 0" in caught.value.where.actor


@pytest.mark.parametrize("form", ["64x128b", "32x128b", "128x128b.warpx4", "64x128b.warpx4", "4x256b.warpx2::02_13",
                                  "128x256b.b8x16", "128x256b.b4x16_p64"])  # fmt: skip
def test_forms_that_do_not_exist(form: str):
    with pytest.raises(PtxSyntaxError, match=r"does not exist|come together") as caught:
        run(f"tcgen05.cp.cta_group::1.{form} [%base], %d;")
    assert caught.value.where is not None
    assert "tcgen05.cp" in caught.value.where.source_line
