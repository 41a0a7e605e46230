"""What a single command does where a GPU runs it; the GPU and the child process are replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from umma_probe.backends.target import choose_target
from umma_probe.errors import ConfigError, DeviceTimeout, DeviceUnavailable
from umma_probe.gpu.info import Absent, Driver, Environment, Gpu, Nvrtc
from umma_probe.harness import single
from umma_probe.harness.reporting import exit_code
from umma_probe.record.schema import Report, Target

GPU = Gpu(0, "NVIDIA B200", "GPU-1", (10, 0), 180 << 30, 148)
CASE = """\
name: nothing
source: k.ptx
entry: k
grid: [1]
block: [32]
"""


def machine(*gpus: Gpu) -> Environment:
    absent = None if gpus else Absent("no CUDA driver", "install it")
    return Environment(Driver((13, 0), "580.1"), gpus, absent, Nvrtc((13, 5), ()), {}, "3.12", "off")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """A machine with one B200, whose child process never answers; what it was asked."""
    asked: list[tuple[Any, ...]] = []

    def never(function: Any, *arguments: Any, **options: Any) -> None:
        asked.append((function, arguments, options))
        raise DeviceTimeout("not finished after 2 s")

    monkeypatch.setattr(single, "probe_environment", lambda: machine(GPU))
    monkeypatch.setattr(single, "call_isolated", never)
    return asked


def test_a_probe_that_never_answers_is_a_hang_with_a_report(calls: list[tuple[Any, ...]]) -> None:
    report = single.run_probe("tmem-layout", {"m": 64}, target="cuda:0", timeout=2.0, seed=7)
    assert (report.verdict, int(exit_code(report))) == ("hang", 5)
    assert (report.probe, report.params["m"], report.seed) == ("tmem-layout", 64, 7)
    assert report.target == Target("cuda", "GPU 0: NVIDIA B200", "sm_100a", "13.5", "580.1", uuid="GPU-1")
    assert "not finished after 2 s" in report.checks[-1].message
    ((_, arguments, options),) = calls
    assert arguments[0] == "tmem-layout"
    assert options == {"target": "cuda:0", "arch": "", "timeout": 2.0, "seed": 7}


def test_a_case_that_never_answers(calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text("")
    path = tmp_path / "case.yaml"
    path.write_text(CASE)
    report, result, device = single.exec_case(path, target="cuda", timeout=2.0)
    assert (report.command, report.probe, report.verdict, result, device) == ("exec", "nothing", "hang", None, None)
    with pytest.raises(ConfigError, match="--trace: GPU 0: NVIDIA B200 has no such thing, must be the model"):
        single.exec_case(path, target="cuda", model_only={"--dump-tmem": False, "--trace": True})
    assert len(calls) == 1


def test_a_gpu_that_is_not_here_costs_no_process(calls: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceUnavailable, match="GPU 3 does not exist: the driver sees 1"):
        single.run_probe("tmem-layout", target="cuda:3")
    monkeypatch.setattr(single, "probe_environment", machine)
    with pytest.raises(DeviceUnavailable, match="no CUDA driver"):
        single.run_probe("tmem-layout", target="cuda:0")
    assert not calls


def test_the_model_needs_no_process(calls: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report("run", "tmem-layout", {}, Target("model", "CPU model", "sm_100a"))
    monkeypatch.setattr(single.run, "run_probe", lambda *_, **options: (report, options)[0])
    assert single.run_probe("tmem-layout", target="model") is report
    assert not calls


def test_targets() -> None:
    assert [choose_target(name) for name in ("cuda", "cuda:3", "model")] == [0, 3, ""]
    with pytest.raises(ConfigError, match="must be auto, model, cuda or cuda:N"):
        choose_target("gpu")
    with pytest.raises(DeviceUnavailable, match="sm_90a has no Tensor Memory"):
        choose_target("cuda", arch="sm_90a", needs=("tmem",))
