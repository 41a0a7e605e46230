"""``ci`` and ``model ops``: exit codes, the folder of results, what a person reads."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

KERNEL = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k() { .reg .f32 %f<3>; add.f32 %f0, %f1, %f2; BODY ret; }
"""


def config(folder: Path, expect: str) -> str:
    path = folder / "tiny.yaml"
    path.write_text(
        "title: Tiny\ncases:\n"
        "  - {probe: tmem-layout, options: {m: 64, n: 16}}\n"
        f"  - {{name: second, probe: tmem-layout, options: {{m: 128, n: 8}}, expect: {expect}}}\n"
    )
    return str(path)


def test_a_green_job(cli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, text, _ = cli("ci", "--target", "model", "--config", config(tmp_path, "pass"), "--out", str(out), "-j", "1")
    assert code == 0
    assert text == f"verdict: pass ({out / 'summary.md'})\n"
    assert {path.name for path in out.iterdir() if path.is_file()} == {
        "summary.md", "job.json", "tiny.json", "tiny.html", "tiny.md", "tiny.xml",
    }  # fmt: skip
    summary = (out / "summary.md").read_text()
    assert summary.startswith("# umma-probe: pass\n\n- **tiny** on CPU model, sm_100a")
    assert "2 cases, 2 pass" in summary
    assert "######" in summary  # a map of Tensor Memory
    assert json.loads((out / "job.json").read_text())["exit_code"] == 0
    assert ElementTree.parse(out / "tiny.xml").getroot().tag.startswith("testsuite")


def test_a_red_job_says_which_case(cli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, text, _ = cli("ci", "--target", "model", "--config", config(tmp_path, "fail"), "--out", str(out), "-j", "1")
    assert code == 1
    assert text.startswith("tiny: second: m=128 n=8: fail: verdict is pass, must be fail\n")
    assert "## tiny: Tiny\n" in (out / "summary.md").read_text()


def test_a_required_gpu_that_is_not_here_is_the_environments_fault(cli, tmp_path: Path) -> None:
    code, out, err = cli("ci", "--target", "model", "--require", "sm_100a", "--config", config(tmp_path, "pass"),
                         "--out", str(tmp_path / "out"))  # fmt: skip
    assert (code, out) == (3, "")
    assert err.startswith("not available: sm_100a is required: ")
    assert not (tmp_path / "out").exists()


def test_an_unknown_config_is_a_usage_error(cli, tmp_path: Path) -> None:
    code, _, err = cli("ci", "--config", "bring-up", "--out", str(tmp_path))
    assert code == 2
    assert "did you mean bringup.yaml" in err


# ---------------------------------------------------------------------- model ops
def test_every_pattern_has_its_evidence(cli) -> None:
    code, out, _ = cli("model", "ops", "--json")
    rows = {row["pattern"]: row for row in json.loads(out)["instructions"]}
    assert code == 0
    assert {row["evidence"] for row in rows.values()} == {"measured", "documented", "approximate", "assumed"}
    assert rows["prmt.b32.{mode}"]["evidence"] == "measured"
    assert "bit for bit" in rows["prmt.b32.{mode}"]["detail"]
    assert rows["tanh.approx.f32"]["evidence"] == "approximate"
    assert rows["wgmma.fence.sync.aligned"]["evidence"] == "measured"
    assert any(pattern.startswith("tcgen05.mma") for pattern in rows)


def test_one_level_alone(cli) -> None:
    _, out, _ = cli("model", "ops", "--json", "--evidence", "approximate")
    assert {row["evidence"] for row in json.loads(out)["instructions"]} == {"approximate"}


REFUSED_LATER = """.reg .b64 %t; .reg .b32 %s; .reg .b16 %w;
cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [%s],
 [%t, {%s, %s, %s}], [%s], {%w, %w};
mov.u32 %s, %pm0;
call cudaThing, ();
shl.b32 %s, %w, 1;
"""
"""Each has a pattern; what is wrong shows when the operands are bound."""


def test_what_a_file_has_and_the_model_lacks(cli, tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(KERNEL.replace("BODY", "{ vmad3.s32 %f0, %f1, %f2; } vmad3.s32 %f0, %f1, %f2;"))
    code, out, _ = cli("model", "ops", "--missing", str(path))
    assert code == 4
    assert out.startswith("vmad3.s32  (2 times, first in line 5): the model has no instruction 'vmad3'")
    path.write_text(KERNEL.replace("BODY", REFUSED_LATER).replace(".visible", ".extern .func cudaThing (); .visible"))
    code, out, _ = cli("model", "ops", "--missing", str(path), "--json")
    rows = {row["text"]: row for row in json.loads(out)["missing"]}
    assert code == 4
    assert {text: (row["line"], row["reason"]) for text, row in rows.items()} == {
        "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes": (6, "not modelled"),
        "mov.u32": (8, "not modelled"),
        "call": (9, "not modelled"),
        "shl.b32": (10, "illegal"),
    }
    assert "%pm0" in rows["mov.u32"]["message"]
    assert "cudaThing" in rows["call"]["message"]
    path.write_text(KERNEL.replace("BODY", ".reg .b16 %w; shl.b32 %f0, %w, 1;"))
    code, out, _ = cli("model", "ops", "--missing", str(path))
    assert code == 2
    assert out.startswith("shl.b32  (line 5): illegal: ")
    path.write_text(KERNEL.replace("BODY", ""))
    assert cli("model", "ops", "--missing", str(path))[:2] == (0, "the model has every instruction of this file\n")
