"""TMA on a GPU against the model, byte for byte: boxes, swizzles, fills, conversions, reductions.

Also the questions that the documents leave open, each a case whose answer the model assumes: see ``ASSUMED``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tma_kernels import MBARRIER_BYTES, REDUCTIONS, THREADS, Copy, Outcome, run_on_model, source

from umma_probe.gpu.info import probe_environment

if TYPE_CHECKING:
    from umma_probe.gpu.device import GpuDevice

RNG = np.random.default_rng(11)


@pytest.fixture(scope="module")
def gpu() -> tuple[GpuDevice, Any]:
    environment = probe_environment()
    if environment.no_gpu is not None:
        pytest.skip(environment.no_gpu.reason)
    capability = environment.gpus[0].compute_capability
    if capability < (9, 0):
        pytest.skip(f"GPU 0 is {environment.gpus[0].arch}: TMA needs sm_90 or later")
    from umma_probe.gpu.device import GpuDevice

    device = GpuDevice(0)
    return device, device.compile(source(blackwell=capability >= (10, 0)), "tma.cu")


def run_on_gpu(gpu: tuple[GpuDevice, Any], copy: Copy) -> Outcome:
    """One copy on the GPU."""
    device, module = gpu
    tensor = device.array(np.ascontiguousarray(copy.tensor).reshape(-1).view(np.uint8))
    encoded = device.tensor_map(tensor, **copy.map)
    dynamic = copy.smem_bytes + 1024 + MBARRIER_BYTES
    tail = [copy.box(), np.uint32(copy.smem_offset)]
    kernel = module[copy.kernel]
    if copy.is_load:
        out, status = device.array(np.zeros(copy.smem_bytes, np.uint8)), device.array(np.zeros(1, np.uint32))
        args = [encoded, out, status, *tail, np.uint32(copy.tx_bytes), np.uint32(copy.smem_bytes)]
        kernel.launch(grid=1, block=THREADS, dynamic_smem=dynamic, args=args, timeout=20)
        return Outcome(out.numpy(), None, bool(status.numpy()[0]))
    shared = device.array(np.ascontiguousarray(copy.shared).view(np.uint8))
    kernel.launch(
        grid=1, block=THREADS, dynamic_smem=dynamic, args=[encoded, shared, *tail, np.uint32(copy.smem_bytes)]
    )
    return Outcome(None, tensor.numpy(), True)


def _tensor(shape: tuple[int, ...], dtype: str) -> Any:
    kind = np.dtype(dtype)
    return RNG.integers(0, 256, (*shape[:-1], shape[-1] * kind.itemsize), np.uint8).view(kind)


def _load(shape: tuple[int, ...], dtype: str, kind: str, box: list[int], at: tuple[int, ...], tensor: Any = None,
          smem_offset: int = 0, **more: Any) -> Copy:  # fmt: skip
    data = _tensor(shape, kind) if tensor is None else tensor
    steps = more.get("element_strides", [1] * len(box))
    count = int(np.prod([-(-size // step) for size, step in zip(box, steps, strict=True)]))
    fields = {"dtype": dtype, "global_dim": list(reversed(data.shape)),
              "global_strides": list(reversed(data.strides))[1:], "box_dim": box, **more}  # fmt: skip
    return Copy(f"load_{data.ndim}d", data, fields, at, smem_offset=smem_offset, tx_bytes=count * data.itemsize)


LOADS = {
    **{
        f"swizzle {swizzle} at {offset}": _load((40, 128), "u16", "u2", [width, 20], (16, 3), swizzle=swizzle,
                                                smem_offset=offset)
        for swizzle, width in (("none", 64), ("32B", 16), ("64B", 32), ("128B", 64))
        for offset in (0, 128, 640)
    },
    "1d": _load((96,), "u32", "u4", [32], (4,)),
    "3d": _load((5, 6, 16), "u32", "u4", [16, 3, 2], (0, 1, 2)),
    "4d": _load((3, 4, 5, 8), "u32", "u4", [8, 2, 3, 2], (0, 3, 0, 1)),
    "5d": _load((2, 3, 4, 5, 8), "u32", "u4", [8, 2, 2, 2, 2], (0, 1, 2, 1, 0)),
    "before the tensor": _load((4, 6, 16), "u16", "u2", [16, 4, 3], (-8, -2, -1)),
    "behind the tensor": _load((4, 6, 16), "u16", "u2", [16, 4, 3], (8, 5, 3)),
    "all outside": _load((4, 6, 16), "u16", "u2", [16, 4, 3], (24, 9, 9)),
    "box wider than the tensor": _load((10, 24), "f32", "f4", [32, 4], (0, 2), swizzle="128B"),
    "traversal strides": _load((7, 9, 16), "u16", "u2", [16, 5, 4], (0, 1, 1), element_strides=[1, 2, 3]),
    "a column inside the row": _load((8, 64), "u8", "u1", [32, 8], (16, 1)),
    "f32 bits": _load((8, 16), "f32", "f4", [8, 5], (4, 5)),
    "f16 bits": _load((8, 32), "f16", "f2", [16, 5], (8, 5)),
    "bf16 bits": _load((8, 32), "bf16", "u2", [16, 5], (8, 5)),
    "f64 bits": _load((8, 8), "f64", "f8", [4, 5], (2, 5)),
}  # fmt: skip

TIES = np.array([0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F803000, 0xBF803000, 0x7F7FFFFF, 0x7F800000, 0x7F800001,
                 0x7FC00000, 0xFFC12345, 0x00000001, 0x807FFFFF, 0x00801000, 0, 0x80000000, 0x3F802FFF],
                np.uint32)  # fmt: skip

ASSUMED = {
    "a narrow row takes a whole swizzle span": _load((8, 16), "u16", "u2", [16, 8], (0, 0), swizzle="128B"),
    "a narrow row, 64B": _load((8, 16), "u16", "u2", [16, 8], (0, 0), swizzle="64B", smem_offset=128),
    "tf32 rounding": _load((), "tf32", "u4", [16, 1], (0, 0), TIES.reshape(1, 16)),
    "tf32_ftz": _load((), "tf32_ftz", "u4", [16, 1], (0, 0), TIES.reshape(1, 16)),
    "f32_ftz": _load((), "f32_ftz", "u4", [16, 1], (0, 0), TIES.reshape(1, 16)),
    **{
        f"nan fill of {dtype}": _load((4, width), dtype, kind, [width // 2, 4], (3 * width // 4, 2), oob_fill="nan")
        for dtype, kind, width in (("f16", "f2", 32), ("bf16", "u2", 32), ("f32", "f4", 16), ("f64", "f8", 8),
                                   ("tf32", "u4", 16))
    },
}  # fmt: skip


def _im2col(
    start: tuple[int, ...], offsets: tuple[int, ...], lower: list[int], upper: list[int], steps: list[int]
) -> Copy:
    fields = {
        "dtype": "u16", "global_dim": [16, 14, 9, 3], "global_strides": [32, 448, 4032],
        "element_strides": [1, *steps, 1], "pixel_box_lower_corner": lower, "pixel_box_upper_corner": upper,
        "channels_per_pixel": 8, "pixels_per_column": 64,
    }  # fmt: skip
    return Copy("load_im2col_4d", _tensor((3, 9, 14, 16), "u2"), fields, (8, *start), offsets, tx_bytes=1024)


IM2COL = {
    "same": _im2col((4, 7, 1), (0, 0), [-1, -1], [-1, -1], [1, 1]),
    "corner": _im2col((-1, -1, 0), (2, 1), [-1, -1], [-1, -1], [1, 1]),
    "valid": _im2col((4, 5, 0), (2, 2), [0, 0], [-2, -2], [1, 1]),
    "strided": _im2col((-1, 1, 2), (1, 1), [-1, -1], [-1, -1], [2, 2]),
}


def _store(kernel: str, tensor: Any, dtype: str, box: list[int], at: tuple[int, ...], shared: Any, **more: Any) -> Copy:
    fields = {"dtype": dtype, "global_dim": list(reversed(tensor.shape)),
              "global_strides": list(reversed(tensor.strides))[1:], "box_dim": box, **more}  # fmt: skip
    return Copy(kernel, tensor, fields, at, shared=shared)


def _shared(values: Any) -> Any:
    data = np.zeros(8192, np.uint8)
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    data[: raw.size] = raw
    return data


_BYTES = RNG.integers(0, 256, 8192, np.uint8)
STORES = {
    **{
        f"store {swizzle}": _store("store_2d", _tensor((12, 80), "u2"), "u16", [width, 10], (24, 5), _BYTES,
                                   swizzle=swizzle)
        for swizzle, width in (("none", 64), ("32B", 16), ("64B", 32), ("128B", 64))
    },
    "store 3d": _store("store_3d", _tensor((4, 6, 16), "u2"), "u16", [16, 4, 3], (8, 4, 2), _BYTES),
    "store strided": _store("store_2d", _tensor((12, 16), "u2"), "u16", [16, 8], (0, 1), _BYTES,
                            element_strides=[1, 2]),
    **{
        f"reduce {operator} {dtype}": _store(
            f"reduce_{operator}", RNG.integers(0, 40, (6, 64 // np.dtype(kind).itemsize)).astype(kind), dtype,
            [64 // np.dtype(kind).itemsize, 6], (0, 2),
            _shared(RNG.integers(0, 40, (6, 64 // np.dtype(kind).itemsize)).astype(kind)))
        for operator in REDUCTIONS
        for dtype, kind in (("u32", "u4"), ("s32", "i4"), ("u64", "u8"), ("s64", "i8"), ("f16", "f2"), ("f32", "f4"))
        if operator in {"u32": REDUCTIONS, "s32": ("add", "min", "max", "and", "or", "xor"),
                        "u64": ("add", "min", "max", "and", "or", "xor"), "s64": ("min", "max"),
                        "f16": ("add", "min", "max"), "f32": ("add",)}[dtype]
    },
}  # fmt: skip


def _compare(gpu: tuple[GpuDevice, Any], copy: Copy) -> None:
    expected, actual = run_on_model(copy), run_on_gpu(gpu, copy)
    assert actual.complete == expected.complete, "the GPU counts other bytes than the model"
    model, silicon = (o.shared if copy.is_load else o.tensor for o in (expected, actual))
    wrong = np.flatnonzero(model != silicon)
    assert not wrong.size, (
        f"{wrong.size} of {model.size} bytes differ, first at {wrong[0]:#x}: "
        f"model {model[wrong[0]:][:16].tobytes().hex()}, GPU {silicon[wrong[0]:][:16].tobytes().hex()}"
    )  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("name", LOADS)
def test_loads(gpu: tuple[GpuDevice, Any], name: str) -> None:
    _compare(gpu, LOADS[name])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ASSUMED)
def test_what_the_documents_leave_open(gpu: tuple[GpuDevice, Any], name: str) -> None:
    _compare(gpu, ASSUMED[name])


@pytest.mark.gpu
@pytest.mark.parametrize("name", STORES)
def test_stores_and_reductions(gpu: tuple[GpuDevice, Any], name: str) -> None:
    _compare(gpu, STORES[name])


@pytest.mark.gpu
@pytest.mark.parametrize("name", IM2COL)
def test_im2col(gpu: tuple[GpuDevice, Any], name: str) -> None:
    _compare(gpu, IM2COL[name])


@pytest.mark.parametrize("cases", [LOADS, ASSUMED, STORES, IM2COL], ids=["loads", "assumed", "stores", "im2col"])
def test_the_model_runs_every_case(cases: dict[str, Copy]) -> None:
    for name, copy in cases.items():
        assert run_on_model(copy).complete, name
