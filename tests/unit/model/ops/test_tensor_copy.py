"""TMA copies against NumPy slices of a padded tensor and the swizzle tables of the PTX ISA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tma_reference as reference
from tma_kernels import SENTINEL, Copy, run_on_model

from umma_probe.errors import ConfigError, DeviceError, IllegalProgram, NotModelled, UndefinedBehavior

POLICIES = ("eager", "lazy", "random:5")
SWIZZLES = tuple(reference.SPANS)
RNG = np.random.default_rng(7)


def _random(shape: tuple[int, ...], dtype: str) -> Any:
    kind = np.dtype(dtype)
    return RNG.integers(0, 256, (*shape[:-1], shape[-1] * kind.itemsize), np.uint8).view(kind)


def _map(tensor: Any, dtype: str, box: list[int], **more: Any) -> dict[str, Any]:
    """The map of a whole C-contiguous tensor."""
    return {
        "dtype": dtype,
        "global_dim": list(reversed(tensor.shape)),
        "global_strides": list(reversed(tensor.strides))[1:],
        "box_dim": box,
        **more,
    }


def _load(tensor: Any, fields: dict[str, Any], at: tuple[int, ...], fill: Any = 0, **more: Any) -> tuple[Any, Any]:
    """(expected, actual) dumps of shared memory after a load of one box."""
    box = reference.tile(tensor, at, fields["box_dim"], fields.get("element_strides"), fill)
    rows = reference.as_rows(box)
    copy = Copy(f"load_{tensor.ndim}d", tensor, fields, at, tx_bytes=rows.size, **more)
    policy = POLICIES[len(at) % 3]
    outcome = run_on_model(copy, policy)
    assert outcome.complete
    assert not outcome.launch.findings
    expected = reference.in_shared(rows, fields.get("swizzle", "none"), copy.smem_offset, copy.smem_bytes)
    return expected, outcome.shared


# ---------------------------------------------------------------------- loads
@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("offset", [0, 128, 1024 + 384])
def test_swizzle_follows_the_absolute_address(swizzle: str, offset: int) -> None:
    tensor = _random((40, 128), "u2")
    width = reference.SPANS[swizzle] // 2 or 64
    expected, actual = _load(tensor, _map(tensor, "u16", [width, 20], swizzle=swizzle), (16, 3), smem_offset=offset)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("shape", "box", "at"),
    [
        ((96,), [32], (4,)),
        ((9, 32), [32, 4], (0, 2)),
        ((5, 6, 16), [16, 3, 2], (0, 1, 2)),
        ((3, 4, 5, 8), [8, 2, 3, 2], (0, 3, 0, 1)),
        ((2, 3, 4, 5, 8), [8, 2, 2, 2, 2], (0, 1, 2, 1, 0)),
    ],
)
def test_every_rank(shape: tuple[int, ...], box: list[int], at: tuple[int, ...]) -> None:
    tensor = _random(shape, "u4")
    expected, actual = _load(tensor, _map(tensor, "u32", box), at)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("at", [(-8, -2, -1), (8, 5, 3), (-16, 0, 0), (0, 1, 1), (24, 9, 9)])
def test_outside_the_tensor_is_zero(at: tuple[int, ...]) -> None:
    tensor = _random((4, 6, 16), "u2")
    expected, actual = _load(tensor, _map(tensor, "u16", [16, 4, 3]), at)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("dtype", "kind", "width"),
    [("u8", "u1", 32), ("u16", "u2", 16), ("s32", "i4", 8), ("u64", "u8", 4), ("f16", "f2", 16), ("f32", "f4", 8),
     ("f64", "f8", 4), ("bf16", "u2", 16)],
)  # fmt: skip
def test_element_types_are_copied_bit_by_bit(dtype: str, kind: str, width: int) -> None:
    tensor = _random((8, 2 * width), kind)
    raw = tensor.view(f"u{tensor.itemsize}")
    expected, actual = _load(raw, _map(raw, dtype, [width, 5]), (16 // tensor.itemsize, 5))
    np.testing.assert_array_equal(actual, expected)


def test_a_start_inside_16_bytes_is_an_illegal_instruction() -> None:
    tensor = _random((8, 32), "u2")
    with pytest.raises(IllegalProgram, match="coordinate 0 is 4 of u16, 8 bytes, must be a multiple of 16 bytes"):
        _load(tensor, _map(tensor, "u16", [16, 4]), (4, 0))


def test_traversal_strides_skip_rows_and_round_up() -> None:
    tensor = _random((7, 9, 16), "u2")
    fields = _map(tensor, "u16", [16, 5, 4], element_strides=[1, 2, 3])
    expected, actual = _load(tensor, fields, (0, 1, 1))
    np.testing.assert_array_equal(actual, expected)
    assert np.count_nonzero(expected != SENTINEL) <= 3 * 2 * 32  # ceil(5/2) rows of ceil(4/3) planes


def test_a_row_narrower_than_the_swizzle_takes_a_whole_span() -> None:
    tensor = _random((8, 16), "u2")
    expected, actual = _load(tensor, _map(tensor, "u16", [16, 8], swizzle="128B"), (0, 0))
    np.testing.assert_array_equal(actual, expected)
    assert (actual[32:128] == SENTINEL).all()


def test_strides_need_not_follow_the_dimensions() -> None:
    storage = _random((6, 10, 16), "u2")
    view = storage.transpose(1, 0, 2)
    fields = {"dtype": "u16", "global_dim": [16, 6, 10], "global_strides": [320, 32], "box_dim": [16, 6, 4]}
    expected, actual = _load(np.ascontiguousarray(view), fields, (0, 0, 3))
    outcome = run_on_model(Copy("load_3d", storage, fields, (0, 0, 3), tx_bytes=16 * 6 * 4 * 2))
    np.testing.assert_array_equal(outcome.shared, expected)
    assert (actual != expected).any()  # the contiguous copy has other strides


def test_nan_fill_gives_nans_and_no_sentinel() -> None:
    tensor = np.ones((4, 16), np.float32)
    fields = _map(tensor, "f32", [8, 4], oob_fill="nan")
    outcome = run_on_model(Copy("load_2d", tensor, fields, (12, 2), tx_bytes=128))
    box = outcome.shared[:128].view(np.float32).reshape(4, 8)
    assert np.isnan(box[2:]).all()
    assert np.isnan(box[:2, 4:]).all()
    assert (box[:2, :4] == 1).all()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x3F80_0000, 0x3F80_0000),
        (0x3F80_0FFF, 0x3F80_0000),
        (0x3F80_1001, 0x3F80_2000),
        (0x3F80_1000, 0x3F80_0000),  # a tie goes to the even neighbour
        (0x3F80_3000, 0x3F80_4000),
        (0xBF80_3000, 0xBF80_4000),
        (0x7F7F_FFFF, 0x7F80_0000),
        (0x7F80_0000, 0x7F80_0000),
    ],
)
def test_tf32_is_rounded_on_its_way(word: int, expected: int) -> None:
    tensor = np.full((1, 8), word, np.uint32)
    outcome = run_on_model(Copy("load_2d", tensor, _map(tensor, "tf32", [8, 1]), (0, 0), tx_bytes=32))
    assert (outcome.shared[:32].view(np.uint32) == expected).all()


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("f32_ftz", [0x8000_0001, 0x007F_FFFF, 0x0080_0000, 0x0040_0000]),
        ("tf32_ftz", [0x8000_0000, 0x0080_0000, 0x0080_0000, 0x0040_0000]),
    ],
)
def test_a_load_of_an_ftz_type_keeps_subnormals(dtype: str, expected: list[int]) -> None:
    """As an H200 does; tf32 rounds them."""
    tensor = np.array([[0x8000_0001, 0x007F_FFFF, 0x0080_0000, 0x0040_0000]], np.uint32)
    outcome = run_on_model(Copy("load_2d", tensor, _map(tensor, dtype, [4, 1]), (0, 0), tx_bytes=16))
    np.testing.assert_array_equal(outcome.shared[:16].view(np.uint32), expected)


def test_a_reduction_of_an_ftz_type_flushes_operands_and_result() -> None:
    """The words that an H200 gives."""
    tensor = np.array([[0x0040_0000, 0x8040_0000, 0x0001_2000, 0x0080_0000]], np.uint32)
    addend = np.array([[0x0000_0001, 0, 0x0001_2000, 0x8040_0000]], np.uint32)
    shared = reference.in_shared(reference.as_rows(addend), "none", 0, 8192)
    copy = Copy("reduce_add", tensor, _map(tensor, "f32_ftz", [4, 1]), (0, 0), shared=shared)
    np.testing.assert_array_equal(run_on_model(copy).tensor.view(np.uint32), [0, 0, 0, 0x0080_0000])


# ---------------------------------------------------------------------- packed types
def test_packed_4_bit_elements_keep_their_bytes() -> None:
    tensor = _random((6, 64), "u1")  # 128 elements a row
    fields = {"dtype": "16u4_align8b", "global_dim": [128, 6], "global_strides": [64], "box_dim": [64, 4]}
    outcome = run_on_model(Copy("load_2d", tensor, fields, (32, 3), tx_bytes=4 * 32))
    expected = reference.tile(tensor, (16, 3), [32, 4])
    np.testing.assert_array_equal(outcome.shared[:128].reshape(4, 32), expected)


@pytest.mark.parametrize(("dtype", "data"), [("16u4_align16b", 8), ("16u6_align16b", 12)])
@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_padded_elements_leave_gaps_and_count_packed_bytes(dtype: str, data: int, swizzle: str) -> None:
    tensor = _random((5, 2 * 8 * data), "u1")  # 256 elements a row
    fields = {"dtype": dtype, "global_dim": [256, 5], "global_strides": [16 * data], "box_dim": [128, 4],
              "swizzle": swizzle}  # fmt: skip
    outcome = run_on_model(Copy("load_2d", tensor, fields, (128, 2), tx_bytes=4 * 8 * data))
    assert outcome.complete
    rows = reference.tile(tensor, (8 * data, 2), [8 * data, 4])
    gapped = np.full((4, 8, 16), SENTINEL, np.uint8)
    gapped[:, :, :data] = rows.reshape(4, 8, data)
    expected = reference.in_shared(gapped.reshape(4, 128), swizzle, 0, 8192)
    np.testing.assert_array_equal(outcome.shared, expected)


# ---------------------------------------------------------------------- gather, scatter, im2col
def test_gather4_takes_four_rows_and_fills_missing_ones() -> None:
    tensor = _random((10, 64), "u2")
    fields = _map(tensor, "u16", [32, 1], swizzle="64B")
    outcome = run_on_model(Copy("load_gather4", tensor, fields, (16, 7, 2, 12, 2), tx_bytes=4 * 64))
    rows = np.stack([tensor[7, 16:48], tensor[2, 16:48], np.zeros(32, np.uint16), tensor[2, 16:48]]).view(np.uint8)
    np.testing.assert_array_equal(outcome.shared, reference.in_shared(rows, "64B", 0, 8192))


def test_scatter4_writes_four_rows() -> None:
    tensor = _random((10, 64), "u2")
    shared = _random((8192,), "u1")
    fields = _map(tensor, "u16", [32, 1])
    outcome = run_on_model(Copy("store_scatter4", tensor, fields, (40, 7, 2, 12, 0), shared=shared))
    expected = tensor.copy()
    source = shared[:256].view(np.uint16).reshape(4, 32)
    for row, data in ((7, source[0]), (2, source[1]), (0, source[3])):
        expected[row, 40:] = data[:24]
    np.testing.assert_array_equal(outcome.tensor.view(np.uint16).reshape(10, 64), expected)


def _im2col_pixels(tensor: Any, lower: tuple[int, ...], upper: tuple[int, ...], start: tuple[int, ...],
                   offsets: tuple[int, ...], count: int, strides: tuple[int, ...]) -> list[Any]:  # fmt: skip
    """The pixels of an (N, H, W, C) tensor in the order of nested loops over N, H and W."""
    images, height, width, _ = tensor.shape
    padded = np.zeros([n + 2 * reference.PAD for n in tensor.shape[:3]] + [tensor.shape[3]], tensor.dtype)
    padded[tuple(slice(reference.PAD, reference.PAD + n) for n in tensor.shape[:3])] = tensor
    pixels: list[Any] = []
    h_range = range(lower[1], height + upper[1])
    w_range = range(lower[0], width + upper[0])
    w, h = start[0], start[1]
    for n in range(start[2], images + 20):
        while h in h_range:
            while w in w_range:
                pixels.append(padded[n + reference.PAD, h + offsets[1] + reference.PAD, w + offsets[0] + reference.PAD])
                w += strides[0]
            h, w = h + strides[1], lower[0]
        h = lower[1]
    return pixels[:count]


@pytest.mark.parametrize(
    ("lower", "upper", "start", "offsets", "strides"),
    [
        ((-1, -1), (-1, -1), (4, 7, 1), (0, 0), (1, 1)),
        ((-1, -1), (-1, -1), (-1, -1, 0), (2, 1), (1, 1)),
        ((0, 0), (-2, -2), (4, 5, 0), (2, 2), (1, 1)),
        ((-1, -1), (-1, -1), (-1, 1, 2), (1, 1), (2, 2)),
        ((0, 0), (0, 0), (3, 2, 2), (0, 0), (1, 1)),
    ],
)
def test_im2col_walks_pixels_inside_the_corners(
    lower: tuple[int, int], upper: tuple[int, int], start: tuple[int, int, int], offsets: tuple[int, int],
    strides: tuple[int, int],
) -> None:  # fmt: skip
    tensor = _random((3, 9, 14, 16), "u2")  # N, H, W, C
    fields = {
        "dtype": "u16", "global_dim": [16, 14, 9, 3], "global_strides": [32, 448, 4032],
        "pixel_box_lower_corner": lower, "pixel_box_upper_corner": upper, "channels_per_pixel": 8,
        "pixels_per_column": 64, "element_strides": [1, *strides, 1],
    }  # fmt: skip
    copy = Copy("load_im2col_4d", tensor, fields, (8, *start), offsets, tx_bytes=64 * 16)
    outcome = run_on_model(copy, "lazy")
    assert outcome.complete
    pixels = _im2col_pixels(tensor, lower, upper, start, offsets, 64, strides)
    expected = np.stack([pixel[8:16] for pixel in pixels])
    np.testing.assert_array_equal(outcome.shared[: 64 * 16].view(np.uint16).reshape(64, 8), expected)


def test_im2col_store_leaves_out_what_is_outside() -> None:
    tensor = _random((2, 3, 4, 8), "u2")
    shared = _random((8192,), "u1")
    fields = {
        "dtype": "u16", "global_dim": [8, 4, 3, 2], "global_strides": [16, 64, 192], "channels_per_pixel": 8,
        "pixel_box_lower_corner": [0, 0], "pixel_box_upper_corner": [0, 0], "pixels_per_column": 10,
    }  # fmt: skip
    outcome = run_on_model(Copy("store_im2col_4d", tensor, fields, (0, 2, 1, 1), shared=shared))
    expected = tensor.reshape(24, 8).copy()
    expected[12 + 6 :] = shared[:96].view(np.uint16).reshape(6, 8)
    np.testing.assert_array_equal(outcome.tensor.view(np.uint16).reshape(24, 8), expected)


# ---------------------------------------------------------------------- stores
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("swizzle", [s for s in SWIZZLES if "flip" not in s])
def test_store_is_clipped_and_unswizzled(swizzle: str, policy: str) -> None:
    tensor = _random((12, 80), "u2")
    width = reference.SPANS[swizzle] // 2 or 64
    box = _random((10, width), "u2")
    shared = reference.in_shared(reference.as_rows(box), swizzle, 256, 8192)
    copy = Copy("store_2d", tensor, _map(tensor, "u16", [width, 10], swizzle=swizzle), (24, 5), smem_offset=256,
                shared=shared)  # fmt: skip
    outcome = run_on_model(copy, policy)
    expected = tensor.copy()
    stop = min(24 + width, 80)
    expected[5:, 24:stop] = box[:7, : stop - 24]
    np.testing.assert_array_equal(outcome.tensor.view(np.uint16).reshape(12, 80), expected)
    assert not outcome.launch.findings


def test_store_with_negative_coordinates_is_an_illegal_instruction() -> None:
    tensor = np.zeros((8, 16), np.uint16)
    copy = Copy("store_2d", tensor, _map(tensor, "u16", [16, 4]), (0, -2), shared=np.ones(8192, np.uint8))
    with pytest.raises(IllegalProgram, match=r"coordinates are \[0, -2\], must not be negative"):
        run_on_model(copy)


@pytest.mark.parametrize(
    ("operator", "dtype", "kind", "expected"),
    [
        ("add", "u32", "u4", lambda a, b: a + b),
        ("add", "f32", "f4", lambda a, b: a + b),
        ("add", "f16", "f2", lambda a, b: a + b),
        ("min", "s32", "i4", np.minimum),
        ("max", "s64", "i8", np.maximum),
        ("max", "u64", "u8", np.maximum),
        ("min", "f16", "f2", np.minimum),
        ("inc", "u32", "u4", lambda a, b: np.where(a >= b, 0, a + 1)),
        ("dec", "u32", "u4", lambda a, b: np.where((a == 0) | (a > b), b, a - 1)),
        ("and", "u32", "u4", lambda a, b: a & b),
        ("or", "u64", "u8", lambda a, b: a | b),
        ("xor", "s32", "i4", lambda a, b: a ^ b),
    ],
)
def test_reductions(operator: str, dtype: str, kind: str, expected: Any) -> None:
    width = 64 // np.dtype(kind).itemsize
    if kind.startswith("f"):
        tensor, source = ((RNG.integers(-999, 999, (6, width)) / 8).astype(kind) for _ in range(2))
    else:
        low = -50 if kind.startswith("i") else 0
        tensor, source = (RNG.integers(low, 50, (6, width)).astype(kind) for _ in range(2))
    shared = reference.in_shared(reference.as_rows(source), "none", 0, 8192)
    copy = Copy(f"reduce_{operator}", tensor, _map(tensor, dtype, [width, 6]), (0, 2), shared=shared)
    outcome = run_on_model(copy, "lazy")
    want = tensor.copy()
    want[2:] = expected(tensor[2:], source[:4]).astype(kind)
    np.testing.assert_array_equal(outcome.tensor.view(kind).reshape(6, width), want)


def test_bf16_sums_are_rounded_once_to_even() -> None:
    tensor = np.full((1, 8), 0x3F80, np.uint16)  # 1
    addend = np.array([[0x3B80, 0x3B81, 0x3C00, 0xBF80, 0x7F80, 0x4300, 0x3C40, 0x0001]], np.uint16)
    expected = [0x3F80, 0x3F81, 0x3F81, 0x0000, 0x7F80, 0x4301, 0x3F82, 0x3F80]
    shared = reference.in_shared(reference.as_rows(addend), "none", 0, 8192)
    copy = Copy("reduce_add", tensor, _map(tensor, "bf16", [8, 1]), (0, 0), shared=shared)
    np.testing.assert_array_equal(run_on_model(copy).tensor.view(np.uint16), expected)


# ---------------------------------------------------------------------- illegal twins
def _plain(**changes: Any) -> Copy:
    tensor = np.zeros((16, 64), np.uint16)
    fields = _map(tensor, "u16", [64, 8])
    return Copy(**{"kernel": "load_2d", "tensor": tensor, "map": fields, "at": (0, 0), "tx_bytes": 1024, **changes})


def test_the_plain_copy_is_legal() -> None:
    assert run_on_model(_plain()).complete


@pytest.mark.parametrize("bytes_", [1008, 1040])
def test_a_wrong_byte_count_never_completes(bytes_: int) -> None:
    assert not run_on_model(_plain(tx_bytes=bytes_)).complete


@pytest.mark.parametrize(
    ("copy", "error", "words"),
    [
        (_plain(smem_offset=64), DeviceError, ("misaligned", "128")),
        (_plain(smem_offset=8192 + 512), DeviceError, ("ends at", "the CTA has")),
        (_plain(kernel="load_3d"), IllegalProgram, ("rank 2", "must have 3")),
        (_plain(kernel="load_im2col_3d"), IllegalProgram, ("rank 2",)),
        (_plain(kernel="load_gather4"), IllegalProgram, ("box_dim[1] is 8", "must be 1")),
        (_plain(kernel="reduce_inc", map=_map(np.zeros((16, 64), np.uint16), "f16", [64, 8]),
                shared=np.zeros(8192, np.uint8)), IllegalProgram, ("f16", "u32 for .inc")),
        (_plain(kernel="store_2d", shared=np.zeros(8192, np.uint8),
                map=_map(np.zeros((16, 64), np.uint16), "u16", [64, 8], swizzle="128B-atom-32B-flip-8B")),
         IllegalProgram, ("loads only",)),
        (_plain(map=_map(np.zeros((64, 64), np.uint16), "u16", [64, 8]), at=(0, 16)), DeviceError,
         ("lies in no allocation", "[0, 16]")),
        (_plain(map={"dtype": "16u4_align8b", "global_dim": [128, 8], "global_strides": [64], "box_dim": [64, 4]},
                at=(1, 0)), UndefinedBehavior, ("coordinate 0 is 1", "multiple of 2")),
        (_plain(kernel="load_3d", at=(0, 0, 0), tensor=np.zeros((2, 4, 8, 16), np.uint16),
                map={"dtype": "16u4_align8b", "global_dim": [32, 8, 4], "global_strides": [32, 256],
                     "box_dim": [32, 2, 2], "interleave": "16B"}), NotModelled, ("interleave 16B",)),
    ],
)  # fmt: skip
def test_illegal_copies(copy: Copy, error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as caught:
        run_on_model(copy)
    for word in words:
        assert word in str(caught.value)
    assert "tensor" in str(caught.value)


def test_a_map_that_the_driver_refuses() -> None:
    with pytest.raises(ConfigError, match="multiple of 16 bytes"):
        run_on_model(_plain(map=_map(np.zeros((16, 64), np.uint16), "u16", [63, 8])))


# ---------------------------------------------------------------------- interleaved tensors
def _slices(n: int, slices: int, h: int, w: int) -> Any:
    """(N, C/8, H, W, 8) of u16, and the map of dimensions (W, H, C/8, N)."""
    tensor = np.arange(n * slices * h * w * 8, dtype=np.uint16).reshape(n, slices, h, w, 8)
    fields = {"dtype": "u16", "global_dim": [w, h, slices, n], "interleave": "16B",
              "global_strides": list(reversed(tensor.strides[:-2]))}  # fmt: skip
    return tensor, fields


def test_a_box_of_slices() -> None:
    tensor, fields = _slices(3, 4, 5, 24)
    copy = Copy("load_4d", tensor, fields | {"box_dim": [8, 3, 4, 2]}, (20, 3, 2, 1), tx_bytes=8 * 3 * 2 * 16)
    outcome = run_on_model(copy)
    assert outcome.complete
    assert not outcome.launch.findings
    expected = np.zeros((2, 3, 8, 8), np.uint16)
    expected[:, :2, :4] = tensor[1:3, 2, 3:5, 20:24]
    np.testing.assert_array_equal(outcome.shared[: expected.nbytes].view(np.uint16), expected.ravel())


def test_a_column_of_slices() -> None:
    tensor, fields = _slices(2, 3, 4, 6)
    fields |= {"pixel_box_lower_corner": [-1, -1], "pixel_box_upper_corner": [-1, -1],
               "channels_per_pixel": 8, "pixels_per_column": 30}  # fmt: skip
    copy = Copy("load_im2col_4d", tensor, fields, (-1, -1, 2, 0), (1, 2), tx_bytes=30 * 16)
    outcome = run_on_model(copy)
    assert outcome.complete
    bases = [(n, y, x) for n in range(2) for y in range(-1, 3) for x in range(-1, 5)][:30]
    padded = np.pad(tensor[:, 2], ((0, 0), (0, 4), (0, 4), (0, 0)))
    expected = np.array([padded[n, y + 2, x + 1] for n, y, x in bases], np.uint16)
    np.testing.assert_array_equal(outcome.shared[: expected.nbytes].view(np.uint16), expected.ravel())


def test_no_gather_of_slices() -> None:
    tensor, fields = _slices(2, 3, 4, 8)
    copy = Copy("load_gather4", tensor, fields | {"box_dim": [8, 1, 1, 1]}, (0, 0, 0, 0, 0), tx_bytes=512)
    with pytest.raises(IllegalProgram, match="rank 4, must have 2"):
        run_on_model(copy)
