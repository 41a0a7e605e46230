"""The driver is replaced at the boundary of the bindings; NVRTC is the real one."""

from __future__ import annotations

import json
import sys

import pytest
from fake_cuda import B200, H200, RTX, FakeDriver, MissingLibrary

from umma_probe.cli.main import run

MACHINES = {
    "no-driver": MissingLibrary(),
    "old-driver": FakeDriver(H200, cuda=11040),
    "no-gpu": FakeDriver(),
    "h200": FakeDriver(H200),
    "b200": FakeDriver(B200),
    "rtx": FakeDriver(RTX),
    "h200+b200": FakeDriver(H200, B200),
}


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def call(machine: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setitem(sys.modules, "cuda.bindings.driver", MACHINES[machine])
        with pytest.raises(SystemExit) as exit_:
            run(["doctor", *arguments])
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return call


@pytest.mark.parametrize(
    ("machine", "target", "reason"),
    [
        ("no-driver", "model", "no CUDA driver (libcuda.so.1 not found)"),
        ("old-driver", "model", "too old for CUDA 13 (it supports CUDA 11.4)"),
        ("no-gpu", "model", "no GPU is visible"),
        ("h200", "model", "GPU 0 is sm_90: no Tensor Memory"),
        ("rtx", "model", "GPU 0 is sm_120: no Tensor Memory"),
        ("b200", "cuda:0", ""),
        ("h200+b200", "cuda:1", ""),
    ],
)
def test_what_runs_and_why(doctor, machine: str, target: str, reason: str) -> None:
    code, out, err = doctor(machine, "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["target"] == target
    assert reason in document["reason"]
    assert bool(document["reason"]) == bool(reason)
    assert "sm_100a" in document["model"]["archs"]
    code, out, _ = doctor(machine)
    assert code == 0
    assert " ".join(reason.split()) in " ".join(out.split())


def test_gpus_in_the_document(doctor) -> None:
    document = json.loads(doctor("h200+b200", "--json")[1])
    facts = [(gpu["index"], gpu["arch"], gpu["tensor_memory"], gpu["sm_count"]) for gpu in document["gpus"]]
    assert facts == [(0, "sm_90a", False, 132), (1, "sm_100a", True, 148)]
    assert document["driver"] == {"available": True, "version": document["driver"]["version"], "cuda": "13.0"}
    assert document["nvrtc"]["available"] is True
    assert document["fixes"] == []


@pytest.mark.parametrize(
    ("machine", "arch", "code"),
    [
        ("b200", "sm_100a", 0),
        ("b200", "sm_100f", 0),
        ("b200", "sm_103a", 3),
        ("h200", "sm_90a", 0),
        ("h200", "sm_100a", 3),
        ("rtx", "sm_100a", 3),
        ("no-driver", "sm_100a", 3),
        ("h200", "blackwell", 2),
    ],
)
def test_require(doctor, machine: str, arch: str, code: int) -> None:
    got, out, err = doctor(machine, "--json", "--require", arch)
    assert got == code
    if code == 2:
        assert out == ""
        assert "architecture is 'blackwell'" in err
    else:
        required = json.loads(out)["require"]
        assert required["met"] is (code == 0)
        assert bool(required["reason"]) is (code == 3)


def test_what_is_missing_comes_with_its_cure(doctor) -> None:
    (fix,) = json.loads(doctor("old-driver", "--json")[1])["fixes"]
    assert "too old" in fix["problem"]
    assert "580 or later" in fix["fix"]
    assert "580 or later" in doctor("old-driver")[1]


def test_without_nvrtc_only_ptx_runs(doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    code, out, _ = doctor("b200", "--json")
    document = json.loads(out)
    assert code == 3
    assert document["target"] is None
    assert document["model"] == {"available": False, "archs": []}
    assert any("cuda-python" in fix["fix"] for fix in document["fixes"])
    assert "no probes, which NVRTC compiles; a case with a .ptx file runs" in " ".join(doctor("b200")[1].split())


def test_the_result_goes_to_a_file(doctor, tmp_path) -> None:
    code, out, _ = doctor("h200", "--json", "-o", str(tmp_path / "doctor.json"))
    assert (code, out) == (0, "")
    assert json.loads((tmp_path / "doctor.json").read_text())["command"] == "doctor"
