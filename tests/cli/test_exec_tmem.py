"""umma-probe exec shows which instruction wrote which cell of Tensor Memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from umma_probe.cli.main import main

# Two blocks; the first warp stores to lanes 0-31, columns 4-7 (A) and 6-7 (B, over A); CTA 1 does the first store only.
KERNEL = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k()
{
    .reg .b32 %r<9>;
    .reg .pred %p<2>;
    .shared .align 16 .b32 base;
    mov.u32 %r1, base;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    ld.shared.b32 %r2, [base];
    add.u32 %r3, %r2, 4;
    add.u32 %r4, %r2, 6;
    mov.u32 %r5, 7;
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r3], {%r5, %r5, %r5, %r5};
    tcgen05.wait::st.sync.aligned;
    mov.u32 %r6, %ctaid.x;
    setp.ne.u32 %p1, %r6, 0;
    @%p1 bra DONE;
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r4], {%r5, %r5};
    tcgen05.wait::st.sync.aligned;
    // MORE
DONE:
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;
    ret;
}
"""
FIRST = KERNEL.splitlines().index("    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r3], {%r5, %r5, %r5, %r5};") + 1
SECOND = FIRST + 5


@pytest.fixture
def case(tmp_path: Path) -> Path:
    return write(tmp_path, KERNEL)


def write(folder: Path, kernel: str) -> Path:
    (folder / "k.ptx").write_text(kernel)
    (folder / "case.yaml").write_text("name: stores\nsource: k.ptx\nentry: k\ngrid: [2]\nblock: [32]\n")
    return folder / "case.yaml"


def run(*arguments: str | Path) -> Result:
    words = ["exec", *map(str, arguments), "--target", "model"]
    return CliRunner().invoke(main, words, standalone_mode=False)


def test_the_record_names_every_writer_and_its_cells(case: Path) -> None:
    first, second = json.loads(run(case, "--json").stdout)["tmem_use"]
    assert first["ctas"] == "0"
    assert second["ctas"] == "1"
    assert first["blocks"] == ["0-31"]
    assert first["rows"] == [{"lanes": "0-31", "runs": ".4 A2 B2 .504"}, {"lanes": "32-127", "runs": ".512"}]
    assert second["rows"] == [{"lanes": "0-31", "runs": ".4 A4 .504"}, {"lanes": "32-127", "runs": ".512"}]
    a, b = first["writers"]
    assert (a["letter"], a["line"], a["cells"], a["lanes"], a["columns"]) == ("A", FIRST, 64, "0-31", "4-5")
    assert (b["letter"], b["line"], b["cells"], b["lanes"], b["columns"]) == ("B", SECOND, 64, "0-31", "6-7")
    assert a["instruction"] == "tcgen05.st.sync.aligned.32x32b.x4.b32"


def test_the_terminal_draws_it(case: Path) -> None:
    lines = run(case).stdout.splitlines()
    assert "Tensor Memory of CTA 0  allocated: columns 0-31" in lines
    picture = lines.index("Tensor Memory of CTA 0  allocated: columns 0-31") + 3
    assert lines[picture] == "lane 0-7 ····AABB········"
    assert lines[picture + 4] == "   32-39 ················"
    assert any(line.split() == ["B", "tcgen05.st.sync.aligned.32x32b.x2.b32", "PTX", str(SECOND), "0-31", "6-7"]
               for line in lines)  # fmt: skip


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_pages_show_it_too(case: Path, form: str) -> None:
    page = run(case, "--format", form).stdout
    assert "Tensor Memory of CTA 0" in page
    assert "Tensor Memory of CTA 1" in page
    assert page.count("tcgen05.st.sync.aligned.32x32b.x4.b32") >= 2


def test_a_kernel_that_fails_shows_what_it_had_written(tmp_path: Path) -> None:
    case = write(tmp_path, KERNEL.replace("// MORE", "trap;"))
    result = run(case, "--json")
    assert result.return_value == 6
    (use, _) = json.loads(result.stdout)["tmem_use"]
    assert use["rows"][0] == {"lanes": "0-31", "runs": ".4 A2 B2 .504"}


def test_a_kernel_without_tensor_memory_shows_none(tmp_path: Path) -> None:
    plain = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n"
    result = run(write(tmp_path, plain), "--json")
    assert json.loads(result.stdout)["tmem_use"] == []


def test_the_dump_names_the_line_of_every_cell(case: Path, tmp_path: Path) -> None:
    assert run(case, "--dump-tmem", tmp_path / "t.npz").return_value == 0
    lines = np.load(tmp_path / "t.npz")["writer_line"]
    assert lines.shape == (2, 128, 512)
    assert lines[0, 31, 3:9].tolist() == [0, FIRST, FIRST, SECOND, SECOND, 0]
    assert lines[1, 31, 3:9].tolist() == [0, FIRST, FIRST, FIRST, FIRST, 0]
    assert not lines[:, 32:].any()


def test_a_kernel_that_fails_is_dumped_too(tmp_path: Path) -> None:
    case = write(tmp_path, KERNEL.replace("// MORE", "trap;"))
    assert run(case, "--dump-tmem", tmp_path / "t.npz").return_value == 6
    assert np.load(tmp_path / "t.npz")["writer_line"][0, 0, 3:9].tolist() == [0, FIRST, FIRST, SECOND, SECOND, 0]


def test_a_block_that_is_allocated_again_is_named_once(tmp_path: Path) -> None:
    again = """tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;"""
    kernel = KERNEL.replace("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", "").replace("// MORE", again)
    lines = run(write(tmp_path, kernel)).stdout.splitlines()
    assert "Tensor Memory of CTA 0  allocated: columns 0-31 (2 times); nothing was written" in lines
    assert not any(line.endswith("CTA 1  allocated: columns 0-31 (2 times)") for line in lines)


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
def test_where_nothing_was_written_there_is_no_picture(tmp_path: Path, form: str) -> None:
    start = KERNEL.index("    tcgen05.st")
    bare = KERNEL[:start] + "DONE:\n" + KERNEL[KERNEL.index("    tcgen05.dealloc") :]
    page = run(write(tmp_path, bare), "--format", form).stdout
    assert "allocated: columns 0-31; nothing was written" in page
    assert "120-127" not in page
    assert "instruction</th>" not in page


def test_of_many_ctas_some_are_named_and_some_are_not_kept(tmp_path: Path) -> None:
    """Odd CTAs store once more than even ones; of 70, the first 64 are kept."""
    parity = "and.b32 %r6, %r6, 1;\n    setp.ne.u32"
    case = write(tmp_path, KERNEL.replace("setp.ne.u32", parity))
    case.write_text(case.read_text().replace("[2]", "[70]"))
    out = run(case).stdout
    assert "Tensor Memory of CTAs 0,2,4,6,8,10,12,14 and 24 more, which look the same" in out
    assert "note: Tensor Memory is kept of CTAs 0-63 alone, of 70." in out
