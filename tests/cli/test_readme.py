"""Every example in the README runs, and shows what it shows there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from umma_probe.cli.main import main

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line.split(" #")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", README, re.S)
    for line in block.splitlines()
    if line.startswith("umma-probe ")
]
# what differs from machine to machine
VOLATILE = re.compile(r"NVRTC \d+\.\d+|compiled in .*")


def _umma_probe(arguments: list[str]) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value or 0, result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = shlex.split(command)[1:]
    monkeypatch.chdir(tmp_path)
    _write_the_kernel()
    if arguments[0] in ("run", "fmha", "exec"):
        arguments += ["--target", "model"]
    code, out = _umma_probe(arguments)
    assert code == (1 if arguments[0] == "exec" else 0)  # the shown kernel has a mistake
    assert out.strip()


def _write_the_kernel() -> None:
    (kernel,) = re.findall(r"```cuda\n(.*?)```", README, re.S)
    (case,) = re.findall(r"```yaml\n# case.yaml\n(.*?)```", README, re.S)
    Path("columns.cu").write_text(kernel)
    Path("case.yaml").write_text(case)


def _shown() -> list[tuple[str, list[str]]]:
    blocks = re.findall(r"```console\n\$ umma-probe (.*?)\n(.*?)```", README, re.S)
    return [(command, expected.splitlines()) for command, expected in blocks]


@pytest.mark.parametrize(
    ("command", "expected"), _shown(), ids=lambda value: value[:20] if isinstance(value, str) else ""
)
def test_the_shown_output_is_the_real_one(
    command: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``...`` stands for lines that are left out."""
    monkeypatch.chdir(tmp_path)
    _write_the_kernel()
    code, out = _umma_probe(shlex.split(command))
    assert code == (0 if expected[-1] == "verdict: pass" else 1)
    lines = [VOLATILE.sub("", line) for line in out.splitlines()]
    position = 0
    skipped = False
    for wanted in (VOLATILE.sub("", line) for line in expected):
        if wanted == "...":
            skipped = True
            continue
        position = lines.index(wanted, position) if skipped else position
        assert lines[position] == wanted
        position, skipped = position + 1, False
    assert position == len(lines)


def test_the_python_example() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.S)
    exec(compile(example, "README.md", "exec"), {})


def test_the_two_commands_are_those_that_are_promised() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", README, re.S)
    assert [block.count("\n") for block in blocks[:2]] == [1, 1]
    assert "pip install . && umma-probe run tmem-layout --m 128 --n 64" in blocks[0]
    assert blocks[1].rstrip().endswith("python -m pytest -q")
