from __future__ import annotations

import gc
import struct

import numpy as np
import pytest
from fake_cuda import B200, H200, RTX, FakeDriver, FakeKernel, Status

from umma_probe.errors import ConfigError, DeviceError, DeviceTimeout, DeviceUnavailable, ExitCode
from umma_probe.gpu.device import GpuDevice
from umma_probe.gpu.tensor_map import TensorMap


def device_with(kernel: FakeKernel, gpu: object = B200) -> tuple[FakeDriver, GpuDevice]:
    driver = FakeDriver(gpu, kernels={"gemm": kernel})
    return driver, GpuDevice(0, driver)


def test_arrays_round_trip_and_are_freed() -> None:
    driver = FakeDriver(B200)
    device = GpuDevice(0, driver)
    values = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    buffer = device.array(values.transpose(2, 0, 1))
    np.testing.assert_array_equal(buffer.numpy(), values.transpose(2, 0, 1))
    assert driver.memory[buffer.address] == values.transpose(2, 0, 1).tobytes()
    with pytest.raises(ConfigError, match="has 2 bytes, must have 48"):
        buffer.copy_from(np.zeros(1, np.int16))
    address = buffer.address
    del buffer
    gc.collect()
    assert driver.freed == [address]


def test_an_empty_array() -> None:
    buffer = GpuDevice(0, FakeDriver(B200)).array(np.zeros((0, 3), np.float32))
    assert buffer.numpy().shape == (0, 3)


def test_a_launch_reaches_the_driver_as_asked() -> None:
    driver, device = device_with(FakeKernel(parameters=[(0, 8), (8, 4), (16, 24), (64, 128)]))
    out = device.array(np.zeros(4, np.float32))
    params = struct.pack("<QiIQ", out.address, -1, 7, out.address + 8)
    tensor_map = TensorMap(bytes(range(128)))
    result = device.load_cubin(b"cubin")["gemm"].launch(
        grid=(4, 6), block=128, cluster=(2, 1, 1), dynamic_smem=200_000, args=[out, np.int32(256), params, tensor_map]
    )
    (launch,) = driver.launches
    assert (launch.grid, launch.block, launch.cluster) == ((4, 6, 1), (128, 1, 1), (2, 1, 1))
    assert launch.smem == 200_000
    expected = [out.address.to_bytes(8, "little"), b"\x00\x01\x00\x00", params, bytes(range(128))]
    assert launch.arguments == expected
    assert driver.function_attributes == {"MAX_DYNAMIC_SHARED_SIZE_BYTES": 200_000}
    assert result.gpu_seconds == pytest.approx(0.25e-3)
    assert str(result.shape) == "grid 4x6x1, block 128x1x1, cluster 2x1x1, 200000 bytes of dynamic shared memory"


def test_a_buffer_of_another_gpu_is_refused() -> None:
    driver, device = device_with(FakeKernel(parameters=[(0, 8)]))
    elsewhere = GpuDevice(0, FakeDriver(B200)).array(np.zeros(4, np.float32))
    with pytest.raises(ConfigError, match="argument 0 of kernel 'gemm' is of type buffer of another device"):
        device.load_cubin(b"")["gemm"].launch(grid=1, block=32, args=[elsewhere])
    assert not driver.launches


def test_big_clusters_are_asked_for() -> None:
    driver, device = device_with(FakeKernel())
    device.load_cubin(b"")["gemm"].launch(grid=16, block=32, cluster=16)
    assert driver.function_attributes["NON_PORTABLE_CLUSTER_SIZE_ALLOWED"] == 1


def test_a_cooperative_launch_asks_for_all_ctas_at_once() -> None:
    driver, device = device_with(FakeKernel())
    kernel = device.load_cubin(b"")["gemm"]
    kernel.launch(grid=4, block=32, cluster=2, cooperative=True)
    kernel.launch(grid=4, block=32, cluster=2)
    assert [launch.cooperative for launch in driver.launches] == [True, False]
    assert [launch.cluster for launch in driver.launches] == [(2, 1, 1)] * 2


def test_the_kernels_own_cluster_is_not_set_twice() -> None:
    driver, device = device_with(FakeKernel(cluster=(2, 1, 1)))
    result = device.load_cubin(b"")["gemm"].launch(grid=4, block=32)
    assert result.shape.cluster == (2, 1, 1)
    assert driver.launches[0].cluster is None


def test_a_fault_is_explained_and_the_context_is_known_as_lost() -> None:
    driver, device = device_with(FakeKernel())
    buffer = device.array(np.zeros(4))
    kernel = device.load_cubin(b"")["gemm"]
    driver.event_statuses = [Status.CUDA_ERROR_NOT_READY, Status.CUDA_ERROR_TENSOR_MEMORY_LEAK]
    with pytest.raises(DeviceError, match="'gemm' \\(grid 2x1x1, block 64x1x1\\) on GPU 0, NVIDIA B200") as caught:
        kernel.launch(grid=2, block=64)
    assert "CUDA_ERROR_TENSOR_MEMORY_LEAK" in caught.value.message
    assert "tcgen05.dealloc" in caught.value.hint
    assert caught.value.exit_code == ExitCode.FAULT
    with pytest.raises(DeviceError, match=r"context was lost .*TENSOR_MEMORY_LEAK"):
        buffer.numpy()
    with pytest.raises(DeviceError, match="context was lost"):
        kernel.launch(grid=1, block=32)
    del buffer
    gc.collect()
    assert driver.freed == []


def test_a_kernel_that_hangs_is_given_up() -> None:
    driver, device = device_with(FakeKernel())
    driver.event_statuses = [Status.CUDA_ERROR_NOT_READY] * 10_000
    kernel = device.load_cubin(b"")["gemm"]
    with pytest.raises(DeviceTimeout, match=r"not finished after 0\.02 s") as caught:
        kernel.launch(grid=1, block=32, timeout=0.02)
    assert caught.value.exit_code == ExitCode.HANG
    with pytest.raises(DeviceTimeout, match="context was lost"):
        device.synchronize()


def test_a_cubin_for_another_gpu() -> None:
    driver, device = device_with(FakeKernel(), H200)
    driver.load_status = Status.CUDA_ERROR_NO_BINARY_FOR_GPU
    with pytest.raises(DeviceUnavailable, match=r"NVIDIA H200 \(sm_90\).*another architecture"):
        device.load_cubin(b"")


def test_an_unknown_kernel_names_the_near_ones() -> None:
    _, device = device_with(FakeKernel())
    with pytest.raises(ConfigError, match="did you mean gemm"):
        device.load_cubin(b"")["gem"]


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(DeviceUnavailable, match="GPU 3 does not exist: the driver sees 1"):
        GpuDevice(3, FakeDriver(B200))
    with pytest.raises(DeviceUnavailable, match="no GPU is visible"):
        GpuDevice(0, FakeDriver())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "takes 2 arguments, 0 given"),
        ([np.uint64(1), np.int64(1)], "argument 1 of kernel 'gemm' is 8 bytes \\(int64\\), must be 4"),
        ([np.uint64(1), 1], "argument 1 of kernel 'gemm' is of type int, must be"),
        ([np.zeros(4), np.int32(1)], "argument 0 of kernel 'gemm' is of type ndarray, must be"),
    ],
)
def test_wrong_arguments(arguments: list[object], message: str) -> None:
    driver, device = device_with(FakeKernel(parameters=[(0, 8), (8, 4)]))
    with pytest.raises(ConfigError, match=message):
        device.load_cubin(b"")["gemm"].launch(grid=1, block=32, args=arguments)
    assert driver.launches == []


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"grid": 1, "block": (1024, 2)}, "block has 2048 threads, must be at most 1024"),
        ({"grid": 1, "block": 513}, "64 registers .* allow 512"),
        ({"grid": 1, "block": (1, 1, 65)}, "block.z is 65, must be at most 64"),
        ({"grid": (1, 65536), "block": 1}, "grid.y is 65536, must be at most 65535"),
        ({"grid": 3, "block": 1, "cluster": 2}, "grid.x is 3, must be a multiple of cluster.x = 2"),
        ({"grid": 32, "block": 1, "cluster": 32}, "cluster has 32 CTAs, must be at most 16"),
        (
            {"grid": 1, "block": 1, "dynamic_smem": 232_448 - 1023},
            "1024 static .* 231425 dynamic bytes, must be at most 232448",
        ),
        ({"grid": 1, "block": 1, "dynamic_smem": -1}, "dynamic_smem is -1 bytes, must be at least 0"),
        ({"grid": 0, "block": 1}, "grid is 0"),
        ({"grid": (1, 1, 1, 1), "block": 1}, "grid is"),
    ],
)
def test_launches_over_the_limits(shape: dict[str, object], message: str) -> None:
    driver, device = device_with(FakeKernel(max_threads=512, static_smem=1024))
    with pytest.raises(ConfigError, match=message) as caught:
        device.load_cubin(b"")["gemm"].launch(**shape)
    assert caught.value.exit_code == ExitCode.USAGE
    assert driver.launches == []


def test_every_wrong_number_is_named() -> None:
    _, device = device_with(FakeKernel(), RTX)
    with pytest.raises(ConfigError, match=r"block has 2048.*cluster has 16 CTAs, must be at most 8.*at most 101376"):
        device.load_cubin(b"")["gemm"].launch(grid=16, block=2048, cluster=16, dynamic_smem=200_000)


def test_what_a_kernel_prints_goes_to_stderr_and_into_the_result(capfd: pytest.CaptureFixture[str]) -> None:
    driver, device = device_with(FakeKernel())
    driver.says = "lane 3: \u00b5 = 2\n"
    result = device.load_cubin(b"")["gemm"].launch(grid=1, block=32)
    captured = capfd.readouterr()
    assert (captured.out, captured.err, result.printed) == ("", "lane 3: \u00b5 = 2\n", "lane 3: \u00b5 = 2\n")


def test_what_a_kernel_printed_before_a_fault_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    driver, device = device_with(FakeKernel())
    driver.says, driver.event_statuses = "before\n", [Status.CUDA_ERROR_ILLEGAL_ADDRESS]
    with pytest.raises(DeviceError, match="ILLEGAL_ADDRESS"):
        device.load_cubin(b"")["gemm"].launch(grid=1, block=32)
    assert capfd.readouterr() == ("", "before\n")
