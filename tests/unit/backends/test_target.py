"""``--target auto``: which device it takes and which reason it gives; the driver is a stand-in."""

import sys

import cuda.bindings.nvrtc  # noqa: F401 - the real one, before its sibling is replaced
import pytest
from fake_cuda import B200, H200, FakeDriver, MissingLibrary

from umma_probe.backends.target import open_target
from umma_probe.errors import DeviceUnavailable


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (MissingLibrary(), "no CUDA driver (libcuda.so.1 not found)"),
        (FakeDriver(), "no GPU is visible"),
        (FakeDriver(H200), "GPU 0 is sm_90: no Tensor Memory"),
        (FakeDriver(B200, cuda=12080), "too old for CUDA 13"),
    ],
    ids=["no-driver", "no-gpu", "h200", "old-driver"],
)
def test_auto_falls_back_to_the_model_and_says_why(
    monkeypatch: pytest.MonkeyPatch, driver: object, reason: str
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    identity = open_target("auto", needs=("tmem",)).identity
    assert identity.kind == "model"
    assert reason in identity.reason


def test_a_gpu_that_is_asked_for_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", MissingLibrary())
    with pytest.raises(DeviceUnavailable, match="no CUDA driver"):
        open_target("cuda:0", needs=("tmem",))


def test_the_model_gives_no_reason_when_it_was_asked_for() -> None:
    assert open_target("model").identity.reason == ""
