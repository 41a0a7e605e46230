"""Tensor maps as facts: element types, swizzle modes, and every rule that the driver holds for their fields.

The names are those of the driver's enums in short (``cuTensorMapEncodeTiled``, ``cuTensorMapEncodeIm2col``). Dimensions
go fastest first. The rules are those of the driver API's "Tensor Map Object Management" and of the PTX ISA,
"Restriction on Tensor Copy instructions". One rule of the former is left out: that each stride includes the one before
it. Kernels known to work break it (CUTLASS gives stride 0 to dimensions of extent 1, permuted tensors are common).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError, unknown_name
from umma_probe.registry import Registry
from umma_probe.spec.problems import Problem
from umma_probe.spec.sources import Evidence, Ref, documented

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

TENSOR_MAP_BYTES = 128
TENSOR_MAP_ALIGNMENT = 64
MAX_RANK = 5

TENSOR_MAP = documented("Tensor-map")
DRIVER = Ref("cuda-driver", "Tensor Map Object Management")
RESTRICTIONS = documented("Restriction on Tensor Copy instructions")
SWIZZLE_REF = documented("Swizzling Modes")
INNER_START = Ref(
    "silicon-h200",
    "tma.json",
    Evidence.MEASURED,
    "CUDA_ERROR_ILLEGAL_INSTRUCTION unless the innermost coordinate is a multiple of 16 bytes; Triton's issue 7385 "
    "found the same",
)
GATHER = documented("Tensors: .tile::scatter4 and .tile::gather4 modes", "the interleave layout is not supported")
NEGATIVE_STORE = Ref(
    "silicon-h200",
    "tma.json",
    Evidence.MEASURED,
    "CUDA_ERROR_ILLEGAL_INSTRUCTION for a store or reduction with a negative coordinate; loads take them",
)
REPLACE = documented("Data Movement and Conversion Instructions: tensormap.replace", "Table: encoding of new_val")
INTERLEAVED = Ref(
    "silicon-h200",
    "tma_interleave.json",
    Evidence.MEASURED,
    "dimension 0 counts slices of 16 or 32 bytes, the last but one is the number of the slice and gives one position",
)
GUIDE = Ref("cuda-guide", "Tensor Memory Access: swizzle patterns")


# ---------------------------------------------------------------------- element types
@dataclass(frozen=True)
class TensorElement:
    """An element type of a tensor map."""

    name: str
    bits: int
    """In global memory, without gaps."""
    shared_bits: int
    """In shared memory, where the padded types leave gaps between groups of 16 elements."""
    driver_code: int
    """``CUtensorMapDataType``."""
    ptx_code: int
    """``tensormap.replace.tile.elemtype``; the two orders differ."""
    floating: bool = False

    @property
    def packed(self) -> bool:
        """Smaller than a byte."""
        return self.bits < 8

    @property
    def padded(self) -> bool:
        """16 elements take 16 bytes of shared memory, the packed ones first."""
        return self.bits != self.shared_bits


ELEMENTS: Registry[TensorElement] = Registry("tensor map dtype")


def _element(name: str, bits: int, shared: int, driver: int, ptx: int, *, floating: bool = False) -> None:
    ELEMENTS.add(name, TensorElement(name, bits, shared, driver, ptx, floating))


#         name            bits  in shared  driver  PTX
_element("u8",              8,  8,          0,  0)  # fmt: skip
_element("u16",            16, 16,          1,  1)  # fmt: skip
_element("u32",            32, 32,          2,  2)  # fmt: skip
_element("s32",            32, 32,          3,  3)  # fmt: skip
_element("u64",            64, 64,          4,  4)  # fmt: skip
_element("s64",            64, 64,          5,  5)  # fmt: skip
_element("f16",            16, 16,          6,  6, floating=True)  # fmt: skip
_element("f32",            32, 32,          7,  7, floating=True)  # fmt: skip
_element("f64",            64, 64,          8,  9, floating=True)  # fmt: skip
_element("bf16",           16, 16,          9, 10, floating=True)  # fmt: skip
_element("f32_ftz",        32, 32,         10,  8, floating=True)  # fmt: skip
_element("tf32",           32, 32,         11, 11, floating=True)  # fmt: skip
_element("tf32_ftz",       32, 32,         12, 12, floating=True)  # fmt: skip
_element("16u4_align8b",    4,  4,         13, 13)  # fmt: skip
_element("16u4_align16b",   4,  8,         14, 14)  # fmt: skip
_element("16u6_align16b",   6,  8,         15, 15)  # fmt: skip


# ---------------------------------------------------------------------- swizzle, interleave, hints
@dataclass(frozen=True)
class TensorSwizzle:
    """A swizzle mode: address bits 7 and up are added without carry to the bits that pick a chunk of the line."""

    name: str
    driver_code: int
    mode_code: int
    """``tensormap.replace.tile.swizzle_mode``."""
    atomicity_code: int
    """``tensormap.replace.tile.swizzle_atomicity``."""
    span_bytes: int
    """What one row of the box may fill at most; 0 without swizzle."""
    row_mask: int
    """How many of the address bits from 7 up take part."""
    chunk_shift: int
    """The lowest address bit that changes."""
    flip_8b: bool = False
    """The two halves of each 16 bytes change places in every other line of 128 bytes."""

    @property
    def period_bytes(self) -> int:
        """The boundary on which the pattern starts."""
        return 128 * (self.row_mask + 1)


SWIZZLES: Registry[TensorSwizzle] = Registry("tensor map swizzle")


def _swizzle(name: str, codes: tuple[int, int, int], span: int, mask: int, shift: int, *, flip: bool = False) -> None:
    SWIZZLES.add(name, TensorSwizzle(name, *codes, span, mask, shift, flip))


#         name                     driver, mode, atomicity   span  rows  chunk
_swizzle("none",                   (0, 0, 0),                  0,  0,  4)  # fmt: skip
_swizzle("32B",                    (1, 1, 0),                 32,  1,  4)  # fmt: skip
_swizzle("64B",                    (2, 2, 0),                 64,  3,  4)  # fmt: skip
_swizzle("128B",                   (3, 3, 0),                128,  7,  4)  # fmt: skip
_swizzle("128B-atom-32B",          (4, 3, 1),                128,  3,  5)  # fmt: skip
_swizzle("128B-atom-32B-flip-8B",  (5, 3, 2),                128,  3,  5, flip=True)  # fmt: skip
_swizzle("128B-atom-64B",          (6, 3, 3),                128,  1,  6)  # fmt: skip

# by the driver's codes, which are PTX's too
INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
SLICE_BYTES = {"none": 0, "16B": 16, "32B": 32}
"""Of the interleaved layouts: what stands at one place of dimension 0."""
PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
FILLS = {"zero": 0, "nan": 1}


# ---------------------------------------------------------------------- fields
@dataclass(frozen=True)
class Im2col:
    """What an im2col map has in place of a box. Corners are (W, H, D), as many as the rank less two."""

    lower_corner: tuple[int, ...]
    """From the first pixel of each side."""
    upper_corner: tuple[int, ...]
    """From the last pixel of each side."""
    channels_per_pixel: int
    pixels_per_column: int


@dataclass(frozen=True)
class TensorMapFields:
    """Everything that a tensor map says. Dimensions fastest first; strides in bytes, none for the fastest."""

    dtype: str
    address: int
    global_dim: tuple[int, ...]
    global_strides: tuple[int, ...]
    box_dim: tuple[int, ...]
    """Empty for im2col."""
    element_strides: tuple[int, ...]
    interleave: str = "none"
    swizzle: str = "none"
    l2_promotion: str = "none"
    oob_fill: str = "zero"
    im2col: Im2col | None = None

    @property
    def rank(self) -> int:
        """Dimensions."""
        return len(self.global_dim)

    @property
    def element(self) -> TensorElement:
        """The row of the element type."""
        return ELEMENTS[self.dtype]

    @property
    def inner_elements(self) -> int:
        """Elements of one row of a copy."""
        return self.im2col.channels_per_pixel if self.im2col else self.box_dim[0]

    @property
    def slice_bytes(self) -> int:
        """Bytes at one place of dimension 0 of an interleaved tensor; 0 for the others."""
        return SLICE_BYTES[self.interleave]

    @property
    def inner_bytes(self) -> int:
        """Bytes of one row in global memory."""
        return self.inner_elements * self.element.bits // 8


# ---------------------------------------------------------------------- from the words of a launch case
def tiled_fields(
    address: int,
    *,
    dtype: str,
    global_dim: Sequence[int],
    global_strides: Sequence[int],
    box_dim: Sequence[int],
    element_strides: Sequence[int] | None = None,
    offset: int = 0,
    interleave: str = "none",
    swizzle: str = "none",
    l2_promotion: str = "none",
    oob_fill: str = "zero",
) -> TensorMapFields:
    """The fields of a tiled map, which ``cuTensorMapEncodeTiled`` takes.

    :param address: of the buffer; ``offset`` bytes are added.
    :param global_dim: elements in each dimension, fastest first; their number is the rank, 1 to 5.
    :param global_strides: bytes between neighbours in each dimension but the fastest.
    :param box_dim: elements of one copy.
    :param element_strides: 1 in each dimension by default.
    :raises ConfigError: an unknown word.
    """
    steps = [1] * len(global_dim) if element_strides is None else element_strides
    return TensorMapFields(
        _word("dtype", dtype, ELEMENTS), address + offset, tuple(global_dim), tuple(global_strides), tuple(box_dim),
        tuple(steps), _word("interleave", interleave, INTERLEAVES), _word("swizzle", swizzle, SWIZZLES),
        _word("l2_promotion", l2_promotion, PROMOTIONS), _word("oob_fill", oob_fill, FILLS),
    )  # fmt: skip


def im2col_fields(
    address: int,
    *,
    dtype: str,
    global_dim: Sequence[int],
    global_strides: Sequence[int],
    pixel_box_lower_corner: Sequence[int],
    pixel_box_upper_corner: Sequence[int],
    channels_per_pixel: int,
    pixels_per_column: int,
    element_strides: Sequence[int] | None = None,
    offset: int = 0,
    interleave: str = "none",
    swizzle: str = "none",
    l2_promotion: str = "none",
    oob_fill: str = "zero",
) -> TensorMapFields:
    """The fields of an im2col map, which ``cuTensorMapEncodeIm2col`` takes; dimensions are (C, W[, H[, D]], N).

    :param pixel_box_lower_corner: (W[, H[, D]]) from the first pixel.
    :param pixel_box_upper_corner: (W[, H[, D]]) from the last pixel.
    :raises ConfigError: an unknown word.
    """
    plain = tiled_fields(
        address, dtype=dtype, global_dim=global_dim, global_strides=global_strides, box_dim=(),
        element_strides=element_strides, offset=offset, interleave=interleave, swizzle=swizzle,
        l2_promotion=l2_promotion, oob_fill=oob_fill,
    )  # fmt: skip
    corners = tuple(pixel_box_lower_corner), tuple(pixel_box_upper_corner)
    return replace(plain, im2col=Im2col(*corners, channels_per_pixel, pixels_per_column))


def fields_from_words(address: int, words: Mapping[str, Any]) -> TensorMapFields:
    """The fields of a map from the words of a launch case: an im2col map if ``pixels_per_column`` is among them.

    :param words: those of ``tiled_fields`` or of ``im2col_fields``, and ``rank``, which they imply.
    :raises ConfigError: an unknown or a missing word, or a rank that is not that of ``global_dim``.
    """
    make: Callable[..., TensorMapFields] = im2col_fields if "pixels_per_column" in words else tiled_fields
    given = dict(words)
    known = {name: word for name, word in signature(make).parameters.items() if word.kind is Parameter.KEYWORD_ONLY}
    rank = given.pop("rank", None)
    for name in given:
        if name not in known:
            raise ConfigError(f"tensor map: {unknown_name('word', name, [*known, 'rank'])}")
    missing = [name for name, word in known.items() if word.default is Parameter.empty and name not in given]
    if missing:
        raise ConfigError(f"tensor map: {', '.join(missing)} missing, must be given")
    if rank is not None and rank != len(given["global_dim"]):
        raise ConfigError(f"tensor map: rank is {rank}, must be {len(given['global_dim'])}, as global_dim has entries")
    return make(address, **given)


def _word(what: str, word: str, known: Iterable[str]) -> str:
    names = list(known)
    if word not in names:
        raise ConfigError(unknown_name(f"tensor map {what}", word, names))
    return word


# ---------------------------------------------------------------------- rules
def tensor_map_problems(fields: TensorMapFields) -> list[Problem]:
    """Every rule that the fields break.

    :raises ConfigError: an unknown dtype or swizzle.
    """
    return [*_shape_problems(fields), *_address_problems(fields), *_row_problems(fields), *_mode_problems(fields)]


def _problem(field: str, actual: object, rule: str, ref: Ref = DRIVER) -> Problem:
    return Problem(field, f"{field} is {actual}, must be {rule}", ref)


def _shape_problems(fields: TensorMapFields) -> Iterator[Problem]:
    rank = fields.rank
    low = 3 if fields.im2col or fields.interleave != "none" else 1
    if not low <= rank <= MAX_RANK:
        yield _problem("rank", rank, f"{low} to {MAX_RANK}" + (" for interleave or im2col" if low == 3 else ""))
    for name, values, count, high in (
        ("global_dim", fields.global_dim, rank, 1 << 32),
        ("box_dim", fields.box_dim, 0 if fields.im2col else rank, 256),
        ("element_strides", fields.element_strides, rank, 8),
    ):
        if len(values) != count:
            yield _problem(name, list(values), f"{count} values")
        for axis, value in enumerate(values):
            if not 1 <= value <= high:
                yield _problem(f"{name}[{axis}]", value, f"1 to {high}")
    if len(fields.global_strides) != max(rank - 1, 0):
        yield _problem("global_strides", list(fields.global_strides), f"{rank - 1} values, one fewer than the rank")
    if fields.im2col:
        yield from _im2col_problems(fields, fields.im2col)


_CORNER_LIMITS = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}


def _im2col_problems(fields: TensorMapFields, im2col: Im2col) -> Iterator[Problem]:
    limit = _CORNER_LIMITS.get(fields.rank, 1 << 15)
    for name, corner in (("lower_corner", im2col.lower_corner), ("upper_corner", im2col.upper_corner)):
        if len(corner) != fields.rank - 2:
            yield _problem(name, list(corner), f"{fields.rank - 2} values, two fewer than the rank")
        for axis, value in enumerate(corner):
            if not -limit <= value < limit:
                yield _problem(f"{name}[{axis}]", value, f"{-limit} to {limit - 1} for rank {fields.rank}")
    for axis, (low, high) in enumerate(zip(im2col.lower_corner, im2col.upper_corner, strict=False)):
        if axis + 1 < fields.rank and low >= fields.global_dim[axis + 1] + high:
            text = f"{low} and upper_corner[{axis}] {high}"
            yield _problem(f"lower_corner[{axis}]", text, "corners of a box that is not empty")
    if not 1 <= im2col.channels_per_pixel <= 256:
        yield _problem("channels_per_pixel", im2col.channels_per_pixel, "1 to 256")
    if not 1 <= im2col.pixels_per_column <= 1024:
        yield _problem("pixels_per_column", im2col.pixels_per_column, "1 to 1024")


def _address_problems(fields: TensorMapFields) -> Iterator[Problem]:
    strict = fields.interleave == "32B" or fields.element.padded
    align = 32 if strict else 16
    why = " for interleave 32B and the types with gaps" if strict else ""
    if fields.address % align:
        yield _problem("address", f"{fields.address:#x}", f"a multiple of {align} bytes{why}")
    for axis, stride in enumerate(fields.global_strides):
        if stride % align or not 0 <= stride < 1 << 40:
            yield _problem(f"global_strides[{axis}]", stride, f"a multiple of {align} bytes below 2^40{why}")


def _row_problems(fields: TensorMapFields) -> Iterator[Problem]:
    """The innermost dimension: whole 16 bytes, whole groups of the packed types, one row of the swizzle."""
    element, swizzle = fields.element, SWIZZLES[fields.swizzle]
    name = "channels_per_pixel" if fields.im2col else "box_dim[0]"
    if not fields.global_dim or not (fields.im2col or fields.box_dim):
        return
    if element.padded:
        if fields.inner_elements != 128:
            yield _problem(name, fields.inner_elements, f"128 for {element.name}")
        if fields.global_dim[0] % 128:
            yield _problem("global_dim[0]", fields.global_dim[0], f"a multiple of 128 for {element.name}")
        return
    if element.packed and fields.global_dim[0] % 2:
        yield _problem("global_dim[0]", fields.global_dim[0], f"even for {element.name}")
    bits = fields.inner_elements * element.bits
    if bits % 128:
        yield _problem(name, f"{fields.inner_elements} ({bits / 8:g} bytes)", "a multiple of 16 bytes")
    if fields.interleave == "none" and swizzle.span_bytes and bits > 8 * swizzle.span_bytes:
        rule = f"at most {swizzle.span_bytes} bytes for swizzle {swizzle.name}"
        yield _problem(name, f"{fields.inner_elements} ({bits / 8:g} bytes)", rule)


def _mode_problems(fields: TensorMapFields) -> Iterator[Problem]:
    element = fields.element
    for name, word, known in (
        ("interleave", fields.interleave, INTERLEAVES),
        ("l2_promotion", fields.l2_promotion, PROMOTIONS),
        ("oob_fill", fields.oob_fill, FILLS),
    ):
        if word not in known:
            yield _problem(name, word, ", ".join(known))
    if fields.interleave == "32B" and fields.swizzle not in ("none", "32B"):
        # the documents say 32B alone; a driver took none, and the copy went as expected: see INTERLEAVED
        yield _problem("swizzle", fields.swizzle, "32B (or none) for interleave 32B")
    if fields.oob_fill == "nan" and not element.floating:
        yield _problem("oob_fill", "nan", f"zero for {element.name}, which is not a floating-point type")
    if element.padded:
        if fields.interleave != "none":
            yield _problem("interleave", fields.interleave, f"none for {element.name}")
        if fields.swizzle not in _PADDED_SWIZZLES[element.name]:
            yield _problem("swizzle", fields.swizzle, " or ".join(_PADDED_SWIZZLES[element.name]), RESTRICTIONS)


_PADDED_SWIZZLES = {
    "16u4_align16b": ("none", "128B", "128B-atom-32B"),
    "16u6_align16b": ("none", "128B", "128B-atom-32B", "128B-atom-64B"),
}
