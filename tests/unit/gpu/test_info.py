from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fake_cuda import B200, H200, RTX, FakeDriver, FakeGpu, MissingLibrary

from umma_probe.errors import ConfigError, DeviceUnavailable
from umma_probe.gpu import info
from umma_probe.gpu.info import Absent, Driver, Gpu, cubin_runs_on, probe_environment


def look(driver: object, tmp_path: Path, module_text: str = "") -> info.Environment:
    file = tmp_path / "version"
    if module_text:
        file.write_text(module_text)
    return probe_environment(lambda: driver, file)


def test_no_driver(tmp_path: Path) -> None:
    environment = look(MissingLibrary(), tmp_path)
    assert environment.no_gpu is not None
    assert environment.no_gpu.reason == "no CUDA driver (libcuda.so.1 not found)"
    assert isinstance(environment.driver, Absent)
    assert environment.model_ready
    assert environment.first_gpu() is environment.no_gpu


def test_bindings_missing(tmp_path: Path) -> None:
    def load() -> FakeDriver:
        raise DeviceUnavailable("no bindings", hint="install them")

    environment = probe_environment(load, tmp_path / "none")
    assert environment.driver == Absent("no bindings", "install them")


def test_old_driver_is_named_by_its_version(tmp_path: Path) -> None:
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024\nGCC version: 9\n"
    environment = look(FakeDriver(H200, cuda=11040), tmp_path, text)
    assert environment.no_gpu is not None
    assert environment.no_gpu.reason == "driver 470 is too old for CUDA 13 (it supports CUDA 11.4)"
    assert environment.gpus == ()


def test_old_driver_without_a_readable_version(tmp_path: Path) -> None:
    environment = look(FakeDriver(H200, cuda=12090), tmp_path)
    assert environment.no_gpu is not None
    assert environment.no_gpu.reason == "the driver is too old for CUDA 13 (it supports CUDA 12.9)"


def test_driver_without_a_gpu(tmp_path: Path) -> None:
    environment = look(FakeDriver(), tmp_path)
    assert environment.driver == Driver((13, 0), "")
    assert environment.no_gpu is not None
    assert "no GPU is visible" in environment.no_gpu.reason


def test_h200(tmp_path: Path) -> None:
    text = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder)\n"
        "GCC version:  gcc version 15.3.0 (GCC)\n"
    )
    environment = look(FakeDriver(H200), tmp_path, text)
    assert environment.driver == Driver((13, 0), "580.159.04")
    (gpu,) = environment.gpus
    assert gpu == Gpu(0, "NVIDIA H200", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", (9, 0), 150109880320, 132)
    assert (gpu.arch, gpu.native_arch) == ("sm_90", "sm_90a")
    assert environment.no_gpu is None
    assert environment.first_gpu() == Absent("GPU 0 is sm_90: no Tensor Memory", "the model runs it: --target model")
    assert environment.first_gpu("sm_90a") is gpu


@pytest.mark.parametrize(
    ("compute_capability", "has"),
    [((8, 0), False), ((9, 0), False), ((10, 0), True), ((10, 3), True), ((11, 0), True), ((12, 0), False),
     ((12, 1), False)],
)  # fmt: skip
def test_tensor_memory_by_capability(compute_capability: tuple[int, int], has: bool, tmp_path: Path) -> None:
    environment = look(FakeDriver(FakeGpu("GPU", compute_capability)), tmp_path)
    assert environment.gpus[0].has_tensor_memory is has


def test_the_first_capable_gpu_is_taken_and_others_are_explained(tmp_path: Path) -> None:
    environment = look(FakeDriver(RTX, H200, B200), tmp_path)
    found = environment.first_gpu()
    assert isinstance(found, Gpu)
    assert found.index == 2
    missing = environment.first_gpu("sm_103a")
    assert isinstance(missing, Absent)
    assert missing.reason == "GPU 0 is sm_120, not sm_103a; GPU 1 is sm_90, not sm_103a; GPU 2 is sm_100, not sm_103a"


@pytest.mark.parametrize(
    ("arch", "device", "runs"),
    [
        ("sm_100a", (10, 0), True),
        ("sm_100a", (10, 3), False),
        ("sm_100f", (10, 0), True),
        ("sm_100f", (10, 3), True),
        ("sm_103f", (10, 0), False),
        ("sm_100f", (11, 0), False),
        ("sm_90", (9, 0), True),
        ("sm_90", (10, 0), False),
        ("sm_80", (8, 6), True),
        ("sm_86", (8, 0), False),
        ("sm_120a", (12, 0), True),
    ],
)
def test_where_a_cubin_runs(arch: str, device: tuple[int, int], runs: bool) -> None:
    assert cubin_runs_on(arch, device) is runs


def test_an_architecture_that_is_none() -> None:
    with pytest.raises(ConfigError, match="sm_100a"):
        cubin_runs_on("blackwell", (10, 0))


def test_missing_nvrtc_is_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> tuple[int, int]:
        raise DeviceUnavailable("no NVRTC", hint="pip install it")

    monkeypatch.setattr(info.nvrtc, "nvrtc_version", gone)
    environment = look(FakeDriver(B200), tmp_path)
    assert environment.nvrtc == Absent("no NVRTC", "pip install it")
    assert not environment.model_ready
    assert replace(environment, nvrtc=info.Nvrtc((13, 5), ())).model_ready
