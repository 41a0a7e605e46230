"""``run`` and ``list``: exit codes, what goes to stdout, files, help; in process, on the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from umma_probe.backends.base import LaunchOutcome, Note
from umma_probe.errors import CompileError, Deadlock, DeviceError, DeviceUnavailable, NotModelled
from umma_probe.gpu import nvrtc
from umma_probe.harness import run as runner


def test_a_probe_that_passes(cli) -> None:
    code, out, err = cli("run", "tmem-layout", "--m", "128", "--n", "64", "--target", "model")
    assert (code, err) == (0, "")
    assert out.splitlines()[-3:] == ["written 0-63", "missing -", "verdict: pass"]
    assert "\x1b" not in out


def test_json_alone_on_stdout(cli) -> None:
    code, out, _ = cli(
        "run", "tmem-layout", "--n", "16", "--target", "model", "--json", "--policy", "lazy", "--seed", "3"
    )
    report = json.loads(out)
    assert code == 0
    assert (report["verdict"], report["seed"], report["target"]["policy"]) == ("pass", 3, "lazy")
    assert report["occupancy"]["written_columns"] == "0-15"
    assert report["params"]["n"] == 16


def test_into_a_file(cli, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    code, out, _ = cli("run", "tmem-layout", "--n", "8", "--target", "model", "--format", "html", "-o", str(file))
    assert (code, out) == (0, "")
    assert file.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["tmem-layuot"], ["unknown probe 'tmem-layuot'; did you mean tmem-layout"]),
        (["tmem-layout", "--m", "96"], ["M is 96, must be 64 or 128", "source: PTX ISA", "--force"]),
        (["tmem-layout", "--n", "12"], ["N is 12, must be 8 to 256 in steps of 8", "source: PTX ISA"]),
        (["tmem-layout", "--n", "12", "--m", "96"], ["M is 96", "also: N is 12"]),
        (["tmem-layout", "--m", "-128", "--force"], ["m is -128, must be 0 to 496"]),
        (["qk-gemm", "--keys", str(10**30)], [f"keys is {10**30}, must be 0 to 504"]),
        (["tmem-layout", "--a-type", "e4m3"], ["a_type is e4m3, must be f16 or bf16"]),
        (["tmem-layout", "--k-tiles", "99"], ["k-tiles is 99, must be 1 to 8"]),
        (["tmem-layout", "--readback", "16x256b.x64"], ["at most 128"]),
        (["tmem-layout", "--target", "gpu"], ["target is 'gpu'"]),
        (["tmem-layout", "--target", "model", "--policy", "hasty"], ["policy is 'hasty'"]),
        (["tmem-layout", "--mm", "3"], ["no such option '--mm'", "hint: umma-probe run tmem-layout --help"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_are_exit_2_and_run_nothing(cli, monkeypatch, arguments: list[str], parts: list[str]) -> None:
    monkeypatch.setattr(runner, "_execute", lambda *_: pytest.fail("something ran"))
    code, out, err = cli("run", *arguments)
    assert (code, out) == (2, "")
    for part in parts:
        assert part in err


def test_no_nvrtc_is_exit_3(cli, monkeypatch) -> None:
    def absent() -> None:
        raise DeviceUnavailable("NVRTC: libnvrtc cannot be loaded", hint="pip install it")

    monkeypatch.setattr(nvrtc, "load_nvrtc", absent)
    code, out, err = cli("run", "tmem-layout", "--target", "model")
    assert (code, out) == (3, "")
    assert "libnvrtc" in err


def test_no_gpu_and_no_tensor_memory_are_exit_3(cli) -> None:
    code, _, err = cli("run", "tmem-layout", "--target", "model", "--arch", "sm_90a")
    assert code == 3
    assert "no Tensor Memory" in err


@pytest.mark.parametrize(
    ("error", "code", "verdict"),
    [
        (NotModelled("no such instruction"), 4, "undecided"),
        (Deadlock("nobody can go on"), 5, "hang"),
        (DeviceError("misaligned address"), 6, "fault"),
    ],
)
def test_what_a_kernel_runs_into_is_the_verdict(cli, monkeypatch, error: Exception, code: int, verdict: str) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(runner, "_launch", fail)
    got, out, err = cli("run", "tmem-layout", "--target", "model", "--json")
    report = json.loads(out)
    assert (got, report["verdict"], err) == (code, verdict, "")
    (check,) = report["checks"]
    assert (check["name"], check["verdict"]) == ("execution", verdict)
    assert error.args[0] in check["message"]


def test_a_kernel_that_does_not_compile_is_exit_2(cli, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CompileError("k.cu: error: identifier is undefined")

    monkeypatch.setattr("umma_probe.backends.model.ModelDevice.compile", refuse)
    code, out, err = cli("run", "tmem-layout", "--target", "model")
    assert (code, out) == (2, "")
    assert "identifier is undefined" in err


def test_a_finding_of_the_sanitizer_fails(cli, monkeypatch) -> None:
    original = runner._launch

    def with_finding(*arguments: object) -> object:
        outcome, output = original(*arguments)
        return LaunchOutcome(outcome.seconds, (Note("race", "a race", "k.cu:3", "CTA 0, warp 1"),)), output

    monkeypatch.setattr(runner, "_launch", with_finding)
    code, out, _ = cli("run", "tmem-layout", "--target", "model", "--json")
    report = json.loads(out)
    assert code == 1
    assert report["sanitizer"] == [
        {"rule": "race", "message": "a race", "where": "k.cu:3", "actor": "CTA 0, warp 1", "count": 1}
    ]
    assert [check["name"] for check in report["checks"] if check["verdict"] == "fail"] == ["sanitizer"]


def test_help_comes_from_the_contract(cli) -> None:
    code, out, _ = cli("run", "tmem-layout", "--help")
    assert code == 0
    for part in ("--a-source", "--policy", "--json", "What each outcome means", "32x32b.x32,16x256b.x4"):
        assert part in out


def test_list(cli) -> None:
    code, out, _ = cli("list", "--json")
    document = json.loads(out)
    assert code == 0
    probe = next(probe for probe in document["probes"] if probe["name"] == "tmem-layout")
    assert probe["needs"] == ["tmem"]
    assert {option["name"] for option in probe["options"]} >= {"m", "n", "kind", "readback"}
    code, out, _ = cli("list", "tmem-layout")
    assert code == 0
    assert "What each outcome means" in out


def test_list_faults_shows_how_each_is_written(cli) -> None:
    code, out, _ = cli("list", "--faults")
    assert code == 0
    assert "operand-hole:[a,]RANGES\n    Leaves elements out" in out
    code, out, _ = cli("list", "--faults", "--json")
    swizzle = next(fault for fault in json.loads(out)["faults"] if fault["name"] == "wrong-swizzle")
    assert swizzle["args"] == "[a|b,]MODE"


def test_an_unknown_fault_says_who_shows_the_others(cli) -> None:
    code, _, err = cli("run", "tmem-layout", "--target", "model", "--inject", "list")
    assert code == 2
    assert "umma-probe list --faults" in err


@pytest.mark.parametrize(
    ("fault", "notes"),
    [
        ("lane-mask:32-63", ["values expected at d=0-63 (rows 32-63) found nowhere"]),
        (
            "d-column:4",
            [f"value expected at d={d} (row 0 of rows 0-127) found at lane 0, column {d + 4}" for d in range(16)]
            + ["... and 48 more of these"],
        ),
    ],
)
def test_where_lost_values_were_found(cli, fault: str, notes: list[str]) -> None:
    code, out, _ = cli("run", "tmem-all-lanes", "--target", "model", "--inject", fault, "--json")
    assert code == 1
    assert json.loads(out)["notes"] == notes
