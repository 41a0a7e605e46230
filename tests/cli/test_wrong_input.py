"""Wrong input of every kind to every verb: exit code 2, one error in the common form, an empty stdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from umma_probe.cli.main import VERBS, _exit_code

FILES = {
    "empty.yaml": "",
    "list.yaml": "- 1\n",
    "open.yaml": "a: [1, 2\n",
    "binary.yaml": b"\x00\xff\xfe",
    "deep.json": "[" * 100_000,
    "number.json": "3",
    "object.json": "{}",
    "options.yaml": "title: x\ncases: [{probe: tmem-layout, options: 5}]\n",
    "nothing.yaml": "title: x\ncases: [null]\n",
    "k.ptx": ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n",
}
CASE = {"name": "x", "source": "k.ptx", "entry": "k", "grid": [1], "block": [32], "args": []}
LINES = [
    # (arguments, part of the message)
    ("exec empty.yaml", "the file is empty"),
    ("exec list.yaml", "must be a mapping"),
    ("exec open.yaml", "no valid YAML"),
    ("exec binary.yaml", "cannot read"),
    ("exec deep.json", "depth"),
    ("exec none.yaml", "No such file"),
    ("exec .", "directory"),
    ("exec power.json --target model", "exponent of a power of numbers must be a number up to 1024"),
    ("exec nobody.json --target model", "unknown buffer 'b'; there is none"),
    ("sweep options.yaml --dry-run", "must be a mapping"),
    ("sweep nothing.yaml --dry-run", "must be a mapping"),
    ("sweep smoke --jobs x", "invalid value for '--jobs' / '-j': 'x' is not an integer"),
    ("sweep smoke --state empty.yaml", "is a file"),
    ("diff deep.json deep.json", "nested too deeply"),
    ("diff number.json number.json", "is of type int, must be an object"),
    ("diff object.json object.json", "schema_version"),
    ("diff empty.yaml empty.yaml", "no JSON"),
    ("diff k.ptx", "missing argument 'B'"),
    ("dot --batch deep.json", "nested too deeply"),
    ("dot --batch number.json", "must be a list"),
    ("dot --batch .", "cannot read"),
    ("run tmem-layout --timeout nan", "'nan' must be more than 0 and at most 1000000 seconds"),
    ("run tmem-layout --timeout inf", "'inf' must be more than 0"),
    ("run tmem-layout --timeout x", "'x' must be more than 0"),
    ("run TMEM-LAYUOT", "did you mean tmem-layout"),
    ("run tmem-layout --format zz", "is not one of"),
    ("run tmem-layout extra", "got unexpected extra argument"),
    ("layout acc --m", "option '--m' requires an argument"),
    ("layout zz", "no such command 'zz'"),
    ("zz", "unknown command 'zz'"),
    ("", "no such command ''"),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    buffer = {"name": "b", "dtype": "f32", "shape": [4]}
    power = {**CASE, "buffers": [buffer], "expect": [{"buffer": "b", "value": "9 ** 9 ** 9"}]}
    (tmp_path / "power.json").write_text(json.dumps(power))
    (tmp_path / "nobody.json").write_text(json.dumps({**CASE, "args": [{"buffer": "b"}]}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("line", "says"), LINES, ids=[line or "nothing" for line, _ in LINES])
def test_wrong_input(here: Path, capsys: pytest.CaptureFixture[str], line: str, says: str) -> None:
    code = _exit_code(line.split() or [""], debug=False)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert says in err
    assert err.split(":")[0] in ("usage error", "report error")
    assert "Traceback" not in err


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_names_the_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code([verb, "--no-such-thing"], debug=False) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage error: ")
    assert "--no-such-thing" in err
    assert f"hint: umma-probe{'' if verb == 'run' else f' {verb}'}" in err
