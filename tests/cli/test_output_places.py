"""Where results go: places that cannot be written are refused before the run; full disks, closed pipes, colour."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from umma_probe.cli import main as cli
from umma_probe.harness import run as runner

KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k()
{
ret;
}
"""
CASE = """name: nothing
source: k.ptx
entry: k
grid: [1]
block: [32]
buffers: [{name: x, dtype: u8, shape: [64]}]
args: []
"""
COMMAND = [sys.executable, "-m", "umma_probe"]


@pytest.fixture
def case(tmp_path: Path) -> Path:
    (tmp_path / "k.ptx").write_text(KERNEL)
    (tmp_path / "case.yaml").write_text(CASE)
    return tmp_path / "case.yaml"


def call(*args: object) -> int:
    return cli._exit_code([*map(str, args)], debug=False)


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = f"set -o pipefail; {sys.executable} -m umma_probe {line}"
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


# ---------------------------------------------------------------------- before the run
@pytest.mark.parametrize("option", ["-o", "--dump-tmem", "--trace"])
@pytest.mark.parametrize(
    ("place", "says"),
    [
        (".", "it is a directory, must be a file"),
        ("none/such/file", "there is no directory"),
        ("case.yaml/file", "there is no directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_file_that_cannot_be_written_stops_exec_before_it_runs(case, capsys, monkeypatch, option, place, says):
    monkeypatch.setattr("umma_probe.harness.launch_case.report.run_case", lambda *_, **__: pytest.fail("it ran"))
    assert call("exec", case, "--target", "model", option, case.parent / place) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"usage error: {'--output' if option == '-o' else option}: cannot write ")
    assert says in err
    assert "nothing has run" in err


def test_a_folder_that_cannot_be_made(case, capsys, monkeypatch):
    monkeypatch.setattr("umma_probe.harness.launch_case.report.run_case", lambda *_, **__: pytest.fail("it ran"))
    assert call("exec", case, "--target", "model", "--save-outputs", case / "deeper") == 2
    assert "case.yaml is a file, must be a directory" in capsys.readouterr().err


def test_a_probe_looks_at_the_place_first(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "_execute", lambda *_: pytest.fail("something ran"))
    assert call("run", "tmem-layout", "--target", "model", "-o", tmp_path) == 2
    assert "it is a directory" in capsys.readouterr().err


def test_places_that_can_be_written_are(case, tmp_path, capsys):
    made = tmp_path / "a" / "b"
    files = ["--dump-tmem", tmp_path / "t.npz", "--trace", tmp_path / "t.txt", "-o", tmp_path / "r.json"]
    assert call("exec", case, "--target", "model", "--json", "--save-outputs", made, *files) == 0
    assert capsys.readouterr().out == ""
    assert [path.name for path in made.iterdir()] == ["x.bin"]
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "pass"
    assert (tmp_path / "t.npz").exists()


def test_a_dash_is_stdout(case, capsys):
    assert call("exec", case, "--target", "model", "--json", "-o", "-") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "pass"


# ---------------------------------------------------------------------- a full disk, and a reader that leaves
@pytest.mark.parametrize("option", ["-o", "--dump-tmem", "--trace"])
def test_a_disk_that_is_full_at_the_end(case, option):
    ran = shell(f"exec {case} --target model {option} /dev/full")
    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    assert "cannot write /dev/full: " in line
    assert "None" not in line


@pytest.mark.parametrize("arguments", ["--help", "--version", "run --help", "run tmem-layout --help", "list"])
def test_help_to_a_full_place(arguments):
    ran = shell(f"{arguments} > /dev/full")
    assert ran.returncode == 2
    assert ran.stderr == "usage error: cannot write to stdout: No space left on device\n"


@pytest.mark.parametrize(("arguments", "code"), [("list", 0), ("--help", 0), ("idesc 0x1 --kind f16", 1)])
def test_a_reader_that_leaves_is_no_error_and_hides_none(arguments, code):
    ran = shell(f"{arguments} | true")
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", "")


# ---------------------------------------------------------------------- colour
def on_a_terminal(arguments: list[str], environment: dict[str, str]) -> str:
    """What a command writes where stdout is a terminal."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM", "COLORTERM")}
    master, slave = pty.openpty()
    running = subprocess.Popen([*COMMAND, *arguments], stdout=slave, env={**kept, **environment})
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        text += part
    os.close(master)
    assert running.wait(timeout=60) == 0
    return text.decode().replace("\r", "")


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({"TERM": "xterm-256color"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)],
)
@pytest.mark.parametrize("arguments", [["idesc", "0x08100490", "--kind", "f16"], ["list"]])
def test_colour_on_a_terminal_that_takes_it(arguments, environment, coloured):
    assert ("\x1b[" in on_a_terminal(arguments, environment)) == coloured


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ("ldst 16x256b.x2", ["T31"]),
        ("layout acc --m 64 --n 64", ["D[63,", "0x006f003f"]),
        ("smem-desc --start 0 --sbo 1024 --swizzle 128B --map --elem bf16 --rows 16", ["0x7f0"]),
        ("findings list", ["conflict-i8-n24"]),
    ],
    ids=["ldst", "layout", "smem-desc", "findings"],
)
def test_tables_fit_the_window_and_nothing_is_cut_off(columns, line, holds):
    text = on_a_terminal(line.split(), {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"})
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    for part in holds:
        assert part in text


# ---------------------------------------------------------------------- Ctrl-C
@pytest.mark.parametrize("arguments", [["run", "tmem-layout", "--target", "model"], ["list"]])
def test_an_interruption_is_one_line_and_130(capsys, monkeypatch, arguments):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_probe", interrupt)
    monkeypatch.setattr("umma_probe.cli.commands.list.probe_names", interrupt)
    assert call(*arguments) == 130
    assert capsys.readouterr() == ("", "interrupted\n")
