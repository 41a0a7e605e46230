"""Contracts: every shipped one is sound; faults are told with their lines, all at once."""

from pathlib import Path

import pytest

from umma_probe.errors import ConfigError
from umma_probe.harness.manifest import ProbeContract, load_contract, load_probe, probe_names
from umma_probe.harness.suite import load_suite

GOOD = """\
name: my-probe
title: A title
shows: What it shows.
source: my_probe.cu
needs: [tmem]
options:
  - {name: m, type: int, default: 128, min: 1, max: 256, help: M.}
  - {name: a-type, type: choice, choices: [f16, bf16], help: Type of A.}
  - {name: ws, type: flag, help: Weight stationary.}
outcomes:
  - {when: it works, means: Fine.}
refs:
  - {source: ptx, anchor: Tensor Memory}
"""


def write(tmp_path: Path, text: str) -> Path:
    (tmp_path / "my_probe.cu").write_text("")
    path = tmp_path / "my_probe.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def contract(tmp_path: Path) -> ProbeContract:
    return load_contract(write(tmp_path, GOOD))


@pytest.mark.parametrize("name", probe_names())
def test_shipped_contracts_are_sound(name: str) -> None:
    contract = load_probe(name)
    assert contract.name == name
    assert contract.outcomes
    assert all(option.help for option in contract.options)
    assert callable(load_suite(name).prepare)


def test_parameters_take_defaults_and_types(contract: ProbeContract) -> None:
    assert contract.resolve({}) == {"m": 128, "a_type": None, "ws": False}
    assert contract.resolve({"a-type": "bf16", "m": "0x40", "ws": True}) == {"m": 64, "a_type": "bf16", "ws": True}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mm": 3}, "unknown option of my-probe 'mm'; did you mean m?"),
        ({"m": 257}, "m is 257, must be 1 to 256"),
        ({"m": "many"}, "must be an integer"),
        ({"m": True}, "must be an integer"),
        ({"a_type": "f61"}, "did you mean"),
        ({"ws": 1}, "must be true or false"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(
    contract: ProbeContract, given: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        contract.resolve(given)


def test_unknown_probe_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean tmem-layout"):
        load_probe("tmem-layuot")


@pytest.mark.parametrize(
    ("old", "new", "faults"),
    [
        ("title: A title", "titel: A title", ["1: contract: key 'title' is missing", "yaml:2: contract: unknown key"]),
        ("type: int, default: 128", "type: int, default: 300", ["7: options[0].default: m is 300"]),
        ("default: 128", "default: [1]", ["7: options[0].default: is [1], must be a number"]),
        ("type: flag", "type: flga", ["9: options[2].type: unknown type 'flga'; did you mean flag"]),
        ("choices: [f16, bf16], ", "", ["8: options[1].choices: option of type choice lacks choices"]),
        ("needs: [tmem]", "needs: [tmen]", ["5: contract.needs: unknown need 'tmen'; did you mean tmem"]),
        ("name: my-probe", "name: other", ["1: contract.name: is 'other', must be 'my-probe'"]),
        ("source: my_probe.cu", "source: no.cu", ["4: contract.source: is 'no.cu'"]),
        ("{source: ptx,", "{source: ptz,", ["13: refs[0].source: unknown source 'ptz'"]),
        ("{when: it works, means: Fine.}", "{when: it works}", ["11: outcomes[0]: key 'means' is missing"]),
        ("name: ws", "name: m", ["7: contract.options: 'm' is given twice"]),
    ],
)  # fmt: skip
def test_faults_have_lines(tmp_path: Path, old: str, new: str, faults: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        load_contract(write(tmp_path, GOOD.replace(old, new)))
    for fault in faults:
        line, message = fault.removeprefix("yaml:").split(": ", 1)
        assert message in error.value.message
        assert f"my_probe.yaml:{line}:" in error.value.render().replace("\n", ":\n")


def test_all_faults_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("title: A title", "").replace("type: flag", "type: flga")
    with pytest.raises(ConfigError) as error:
        load_contract(write(tmp_path, text))
    assert "key 'title' is missing" in error.value.message
    assert "unknown type 'flga'" in error.value.message


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "name: [1]"])
def test_no_contract_at_all(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        load_contract(write(tmp_path, text))
