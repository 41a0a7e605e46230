from __future__ import annotations

import pytest
from cuda.bindings import driver

from umma_probe.errors import ConfigError, DeviceError, DeviceTimeout, DeviceUnavailable
from umma_probe.gpu.explain import MEANINGS, explained


@pytest.mark.parametrize("name", sorted(MEANINGS))
def test_each_explained_status_exists(name: str) -> None:
    assert hasattr(driver.CUresult, name)


@pytest.mark.parametrize(
    ("status", "kind", "word"),
    [
        ("CUDA_ERROR_ILLEGAL_INSTRUCTION", DeviceError, "idesc"),
        ("CUDA_ERROR_MISALIGNED_ADDRESS", DeviceError, "128 bytes"),
        ("CUDA_ERROR_TENSOR_MEMORY_LEAK", DeviceError, "dealloc"),
        ("CUDA_ERROR_LAUNCH_TIMEOUT", DeviceTimeout, "display"),
        ("CUDA_ERROR_INVALID_CLUSTER_SIZE", ConfigError, "smaller cluster"),
        ("CUDA_ERROR_NO_BINARY_FOR_GPU", DeviceUnavailable, "sm_100a"),
    ],
)
def test_the_class_and_the_hint(status: str, kind: type, word: str) -> None:
    error = explained(status, "cuEventQuery", "kernel 'k'")
    assert type(error) is kind
    assert error.message.startswith(f"kernel 'k': {status} from cuEventQuery: ")
    assert word in error.hint


def test_an_unknown_status_is_still_an_error() -> None:
    error = explained("CUresult 9999", "cuInit")
    assert type(error) is DeviceError
    assert "CUresult 9999 from cuInit" in error.message
