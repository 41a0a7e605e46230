"""Which devices a sweep takes, on machines that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from umma_probe.errors import ConfigError, DeviceUnavailable
from umma_probe.gpu.info import Absent, Driver, Environment, Gpu, Nvrtc
from umma_probe.harness.sweep.targets import plan_targets

B200 = Gpu(index=0, name="NVIDIA B200", uuid="u", compute_capability=(10, 0), memory_bytes=1, sm_count=148)
B300 = replace(B200, name="NVIDIA B300", compute_capability=(10, 3))
H200 = replace(B200, name="NVIDIA H200", compute_capability=(9, 0))


def _machine(*gpus: Gpu, nvrtc: bool = True) -> Environment:
    absent = Absent("the CUDA driver sees no GPU", "look")
    return Environment(
        driver=Driver((13, 0), "580.65"),
        gpus=tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus)),
        no_gpu=None if gpus else absent,
        nvrtc=Nvrtc((13, 5), ("sm_100",)) if nvrtc else Absent("no NVRTC", "pip install nvidia-cuda-nvrtc"),
        libraries={},
        python="3.11",
        cache="off",
    )


def test_auto_takes_the_first_gpu_that_can() -> None:
    plan = plan_targets("auto", environment=_machine(H200, B200))
    assert (plan.workers, plan.name, plan.arch, plan.driver) == (("cuda:1",), "NVIDIA B200", "sm_100a", "580.65")


@pytest.mark.parametrize(("machine", "reason"), [(_machine(), "sees no GPU"), (_machine(H200), "sm_90: no Tensor")])
def test_auto_takes_the_model_and_says_why(machine: Environment, reason: str) -> None:
    plan = plan_targets("auto", environment=machine)
    assert (plan.workers, plan.on_model, plan.arch) == (("model",), True, "sm_100a")
    assert reason in plan.reason


def test_several_gpus_are_one_target() -> None:
    machine = _machine(B200, B200, B200)
    every = plan_targets("cuda:all", environment=machine)
    two = plan_targets("cuda:0,cuda:2", environment=machine)
    assert (every.workers, every.jobs) == (("cuda:0", "cuda:1", "cuda:2"), 3)
    assert two.workers == ("cuda:0", "cuda:2")
    assert every.key() == two.key()


def test_the_key_tells_targets_apart() -> None:
    keys = [
        plan_targets("model", environment=_machine()).key(),
        plan_targets("model", "sm_103a", environment=_machine()).key(),
        plan_targets("cuda", environment=_machine(B200)).key(),
        plan_targets("cuda", environment=_machine(B300)).key(),
        plan_targets("cuda", environment=replace(_machine(B200), driver=Driver((13, 0), "590.1"))).key(),
    ]
    assert all(keys.count(key) == 1 for key in keys)


@pytest.mark.parametrize(
    ("target", "arch", "machine", "error", "message"),
    [
        ("cuda:all", "", _machine(B200, B300), ConfigError, "0 is a NVIDIA B200, 1 is a NVIDIA B300"),
        ("cuda:0,cuda:0", "", _machine(B200), ConfigError, "GPU 0 stands twice"),
        ("cuda:1", "", _machine(B200), DeviceUnavailable, "there is no GPU 1"),
        ("cuda:0", "", _machine(H200), DeviceUnavailable, "no Tensor Memory"),
        ("cuda:0", "sm_103a", _machine(B200), DeviceUnavailable, "sm_100, not sm_103a"),
        ("cuda:0", "", _machine(), DeviceUnavailable, "sees no GPU"),
        ("model", "sm_90a", _machine(), DeviceUnavailable, "no Tensor Memory"),
        ("model", "sm_100z", _machine(), ConfigError, "did you mean sm_100"),
        ("model", "", _machine(nvrtc=False), DeviceUnavailable, "no NVRTC"),
        ("gpu", "", _machine(), ConfigError, "must be auto, model"),
    ],
)
def test_refusals(target: str, arch: str, machine: Environment, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plan_targets(target, arch, machine)


def test_probes_of_wgmma_take_sm_90_and_others_any_gpu() -> None:
    two = _machine(H200, replace(H200, uuid="v"))
    plan = plan_targets("cuda:all", environment=two, needs=["wgmma"])
    assert (plan.workers, plan.arch, plan.uuids) == (("cuda:0", "cuda:1"), "sm_90a", ("u", "v"))
    on_model = plan_targets("auto", environment=_machine(B200), needs=["wgmma"])
    assert (on_model.on_model, on_model.arch, on_model.reason) == (True, "sm_90a", "GPU 0 is sm_100, not sm_90a")
    assert plan_targets("cuda", environment=_machine(H200), needs=[]).arch == "sm_90a"
    with pytest.raises(ConfigError, match="no GPU has both"):
        plan_targets("cuda", environment=two, needs=["wgmma", "tmem"])
