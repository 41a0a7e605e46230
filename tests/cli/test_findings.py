"""``umma-probe findings``: list, show, verify; exit codes, and that nothing is written unless asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from umma_probe.assets import asset_dir
from umma_probe.cli.main import run
from umma_probe.errors import DeviceUnavailable
from umma_probe.findings import loader
from umma_probe.record.schema import Occupancy, Report, Target

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Copies of two findings in the place of all: one with a single run, one with none."""
    for name in ("four-warps", "conflict-k96-one-cta"):
        text = (asset_dir(loader.FOLDER) / f"{name}.yaml").read_text()
        if name == "four-warps":
            (tmp_path / f"{name}.yaml").write_text(text[: text.index("  - probe: alloc")])
        else:
            (tmp_path / f"{name}.yaml").write_text(text[: text.index("bears_on:")])
    monkeypatch.setattr(loader, "asset_dir", lambda kind: tmp_path)
    loader.findings.cache_clear()
    yield tmp_path
    loader.findings.cache_clear()


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run the verb; every probe of it writes the lanes that are given, on the model."""

    def call(*args: str, lanes: str = "0-127") -> tuple[int, str, str]:
        def run_probe(name: str, params: dict[str, object], *, target: str, **_: object) -> Report:
            if target == "cuda:0":
                raise DeviceUnavailable("no CUDA driver")
            return Report("run", name, params, Target("model", "CPU model", "sm_100a"), verdict="pass",
                          occupancy=Occupancy(expected_lanes="0-127", written_lanes=lanes))  # fmt: skip

        monkeypatch.setattr("umma_probe.harness.run.run_probe", run_probe)
        with pytest.raises(SystemExit) as left:
            run(["findings", *args])
        out, err = capsys.readouterr()
        return int(str(left.value.code)), out, err

    return call


def test_list_and_show(cli: Cli) -> None:
    code, out, _ = cli("list")
    assert code == 0
    assert "skipped-columns" in out
    code, out, _ = cli("show", "skipped-columns")
    assert code == 0
    for title in ("Observed", "Concluded", "What this cannot show", "Assessment", "What would settle it", "Evidence"):
        assert title in out
    assert "date of the observation: unknown" in out
    assert "umma-probe run tmem-zero-pv --hd 64 --fill zero --inject operand-hole:512-575,768-831" in out


def test_show_questions_and_answers(cli: Cli) -> None:
    code, out, _ = cli("show", "conflict-scale-input-d-i8")
    assert code == 0
    words = " ".join(out.split())
    assert "umma-probe run numerics --kind i8 --scale-input-d 1 --n 8 --force" in words
    assert "checks.scaled-c.actual unchanged: The operand is ignored." in words
    assert "refused, 'out of range'" in words
    code, out, _ = cli("show", "conflict-k96-one-cta")
    assert "umma-probe run sf-map --kind mxf4 --k 96 --n 16 --arch sm_103a" in " ".join(out.split())


def test_verify_asks_the_assembler(cli: Cli) -> None:
    code, out, _ = cli("verify", "conflict-shift-spelling")
    assert code == 0
    assert "assembler asked 3x" in out
    assert "NVRTC" in out.splitlines()[0]


def test_unknown_id(cli: Cli) -> None:
    code, out, err = cli("show", "skiped-columns")
    assert (code, out) == (2, "")
    assert "did you mean skipped-columns" in err


def test_verify_writes_nothing_unless_asked(cli: Cli, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    code, out, _ = cli("verify")
    assert code == 0
    assert out.splitlines()[-1] == "everything still holds"
    code, out, _ = cli("verify", lanes="0-31")
    assert code == 1
    assert out.splitlines()[-1] == "changed: four-warps"
    assert "expected occupancy.written_lanes 0-127, found 0-31" in " ".join(out.split())
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert cli("verify", "--write", lanes="0-31")[0] == 1
    changed = {path.name for path, data in before.items() if path.read_bytes() != data}
    assert changed == {"four-warps.yaml"}
    assert "holds: false" in (folder / "four-warps.yaml").read_text()


def test_verify_json_of_one(cli: Cli, folder: Path) -> None:
    code, out, _ = cli("verify", "four-warps", "--json")
    data = json.loads(out)
    assert (code, data["holds"], [entry["id"] for entry in data["findings"]]) == (0, True, ["four-warps"])


def test_no_such_target(cli: Cli, folder: Path) -> None:
    code, out, err = cli("verify", "--target", "cuda:0")
    assert (code, out) == (3, "")
    assert "no CUDA driver" in err
