"""The launch-case file: read, check, and turn into plain data. All mistakes of a file are reported at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError, Where
from umma_probe.harness.launch_case.dtypes import CASE_TYPES, CaseType, from_values
from umma_probe.harness.launch_case.expression import check
from umma_probe.harness.located import Section, load_located

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.harness.located import Faults

INITS = ("zero", "ones", "sentinel", "arange", "random_normal", "random_int", "file")
MAP_DTYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32", "tf32_ftz",
    "16u4_align8b", "16u4_align16b", "16u6_align16b",
)  # fmt: skip
SWIZZLES = ("none", "32B", "64B", "128B", "128B-atom-32B", "128B-atom-32B-flip-8B", "128B-atom-64B")
INTERLEAVES = ("none", "16B", "32B")
PROMOTIONS = ("none", "64B", "128B", "256B")
FILLS = ("zero", "nan")
Pointers = tuple[tuple[int, str, int], ...]
"""Addresses inside other bytes: (byte offset there, buffer, offset in that buffer)."""
_MAX_ELEMENTS = 1 << 40
"""More than any GPU holds; also keeps sizes within 64 bits."""


@dataclass(frozen=True)
class Init:
    """How a buffer starts."""

    kind: str
    argument: Any = None
    seed: int = 0


@dataclass(frozen=True)
class BufferSpec:
    """A buffer of global memory."""

    name: str
    type: CaseType
    shape: tuple[int, ...]
    packed: bool
    init: Init
    pointers: Pointers = ()

    @property
    def size_bytes(self) -> int:
        """Its size; ``packed`` shapes count bytes."""
        count = prod(self.shape)
        return count if self.packed else self.type.byte_count(count)

    @property
    def elements(self) -> int:
        """How many elements it holds."""
        count = prod(self.shape)
        return count * 2 if self.packed and self.type.nibbles else count

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The shape in elements: a packed last dimension holds two 4-bit elements a byte."""
        if self.packed and self.type.nibbles and self.shape:
            return (*self.shape[:-1], self.shape[-1] * 2)
        return self.shape


@dataclass(frozen=True)
class TensorMapSpec:
    """The arguments of cuTensorMapEncodeTiled or Im2col."""

    name: str
    buffer: str
    offset: int
    fields: dict[str, Any]
    where: Where = field(default_factory=Where)


@dataclass(frozen=True)
class Argument:
    """One kernel argument: exactly one of the forms."""

    tensor_map: str = ""
    buffer: str = ""
    offset: int = 0
    data: bytes = b""
    pointers: Pointers = ()
    maps: tuple[tuple[int, str], ...] = ()
    dtype: str = ""
    """Of a value."""
    where: Where = field(default_factory=Where)


@dataclass(frozen=True)
class Expectation:
    """What must be in a buffer afterwards: a file, or an expression over the input buffers."""

    buffer: str
    file: Path | None
    expression: str
    rtol: float
    atol: float
    about: str = ""
    where: Where = field(default_factory=Where)


@dataclass
class LaunchCase:
    """A checked case."""

    name: str
    path: Path
    source: Path
    entry: str
    arch: str
    nvrtc_options: list[str]
    include_dirs: list[Path]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] | None
    dynamic_smem: int
    cooperative: bool = False
    """All CTAs at once, for ``cg::this_grid().sync()``."""
    buffers: list[BufferSpec] = field(default_factory=list)
    tensor_maps: list[TensorMapSpec] = field(default_factory=list)
    args: list[Argument] = field(default_factory=list)
    expect: list[Expectation] = field(default_factory=list)
    entry_where: Where = field(default_factory=Where)
    args_where: Where = field(default_factory=Where)
    shape_where: dict[str, Where] = field(default_factory=dict)
    """Of grid, block, cluster and dynamic_smem."""


def load_case(path: Path) -> LaunchCase:
    """Read a case.

    :raises ConfigError: everything that is wrong with it, with file, line and key.
    """
    node, faults = load_located(path)
    reader = _Reader(path, faults)
    case = reader.read(Section(node, faults, "case"))
    faults.raise_all()
    return case


class _Reader:
    def __init__(self, path: Path, faults: Faults) -> None:
        self.path = path
        self.folder = path.parent
        self.faults = faults
        self.buffers: dict[str, BufferSpec] = {}
        self.maps: dict[str, TensorMapSpec] = {}

    def read(self, top: Section) -> LaunchCase:
        case = LaunchCase(
            name=top.text("name"),
            path=self.path,
            source=self._file(top, "source"),
            entry=top.text("entry"),
            arch=top.text("arch", ""),
            nvrtc_options=top.texts("nvrtc_options", []),
            include_dirs=self._folders(top, "include_dirs"),
            grid=_dims(top, "grid"),
            block=_dims(top, "block"),
            cluster=_dims(top, "cluster") if "cluster" in top else None,
            dynamic_smem=top.integer("dynamic_smem", 0),
            cooperative=top.flag("cooperative"),
        )
        case.buffers = self._buffers(top)
        case.tensor_maps = [self._map(section) for section in top.sections("tensor_maps")]
        case.args = [self._argument(section) for section in top.sections("args")]
        case.expect = [self._expectation(section) for section in top.sections("expect")]
        case.entry_where = self.faults.where(top.node_of("entry"))
        case.shape_where = {key: self.faults.where(top.node_of(key) if key in top else top.node_of("grid"))
                            for key in ("grid", "block", "cluster", "dynamic_smem")}  # fmt: skip
        case.args_where = self.faults.where(top.node_of("args"))
        top.finish()
        return case

    def _folders(self, section: Section, key: str) -> list[Path]:
        folders = [self.folder / entry for entry in section.texts(key, [])]
        for folder in folders:
            if not folder.is_dir():
                section.fault(key, f"no such folder: {folder}")
        return folders

    def _file(self, section: Section, key: str) -> Path:
        path = self.folder / section.text(key)
        if key in section and not path.is_file():
            section.fault(key, f"no such file: {path}")
        return path

    # ------------------------------------------------------------------ buffers
    def _buffers(self, top: Section) -> list[BufferSpec]:
        sections = top.sections("buffers")
        buffers = [self._buffer(section) for section in sections]
        # only now, since a buffer may point to any other
        buffers = [replace(buffer, pointers=self._pointers(section, buffer.size_bytes, "buffer"))
                   for section, buffer in zip(sections, buffers, strict=True)]  # fmt: skip
        for section in sections:
            section.finish()
        try:
            placement_order(buffers)
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            self.faults.add(top.node_of("buffers"), f"buffers hold each other's addresses in a circle: {circle}")
        return buffers

    def _buffer(self, section: Section) -> BufferSpec:
        name = section.text("name")
        type_ = CASE_TYPES.get(section.choice("dtype", CASE_TYPES), CASE_TYPES["u8"])
        shape = tuple(section.integers("shape", low=1))
        if prod(shape) > _MAX_ELEMENTS:
            section.fault("shape", f"is {list(shape)}, must have at most 2**40 elements")
            shape = (1,)
        packed = section.flag("packed")
        buffer = BufferSpec(name, type_, shape, packed, self._init(section))
        if buffer.init.kind == "file":
            self._check_file_size(section, buffer)
        if name in self.buffers:
            section.fault("name", f"'{name}' is used twice")
        self.buffers[name] = buffer
        return buffer

    def _init(self, section: Section) -> Init:
        value = section.raw("init", "zero")
        if isinstance(value, str):
            value = {value: None}
        if not isinstance(value, dict):
            section.fault("init", f"is {value!r}, must be one of {', '.join(INITS)}")
            return Init("zero")
        seed = value.pop("seed", 0)
        kinds = [key for key in value if key in INITS]
        if len(kinds) != 1 or len(value) != 1 or not _is_integer(seed, 0):
            section.fault(
                "init",
                f"has keys {sorted(map(str, value))}, must be one of {', '.join(INITS)} (and a seed of at least 0)",
            )
            return Init("zero")
        kind, argument = kinds[0], value[kinds[0]]
        if kind == "random_int" and not _is_range(argument):
            section.fault("init", f"random_int is {argument!r}, must be [lowest, highest] within 64 bits")
            argument = [0, 0]
        if kind == "file":
            if not isinstance(argument, str) or not (self.folder / argument).is_file():
                section.fault("init", f"no such file: {self.folder / str(argument)}")
                return Init("zero")
            argument = self.folder / argument
        return Init(kind, argument, seed)

    def _check_file_size(self, section: Section, buffer: BufferSpec) -> None:
        path: Path = buffer.init.argument
        actual = _data_bytes(section, "init", path)
        if actual is not None and actual != buffer.size_bytes:
            section.fault("init", f"{path.name} has {actual} bytes, must have {buffer.size_bytes} "
                          f"({buffer.type.name} {list(buffer.shape)})")  # fmt: skip

    # ------------------------------------------------------------------ tensor maps
    def _map(self, section: Section) -> TensorMapSpec:
        name, buffer = section.text("name"), self._known_buffer(section, "buffer")
        rank = section.integer("rank", low=1)
        fields: dict[str, Any] = {
            "dtype": section.choice("dtype", MAP_DTYPES),
            "global_dim": section.integers("global_dim", length=(rank, rank), low=1),
            "global_strides": section.integers("global_strides", [], length=(rank - 1, rank - 1)),
            "element_strides": section.integers("element_strides", [1] * rank, length=(rank, rank), low=1),
            "interleave": section.choice("interleave", INTERLEAVES, "none"),
            "swizzle": section.choice("swizzle", SWIZZLES, "none"),
            "l2_promotion": section.choice("l2_promotion", PROMOTIONS, "none"),
            "oob_fill": section.choice("oob_fill", FILLS, "zero"),
        }
        if "pixel_box_lower_corner" in section:
            fields |= {
                "pixel_box_lower_corner": section.integers("pixel_box_lower_corner", low=-(1 << 16)),
                "pixel_box_upper_corner": section.integers("pixel_box_upper_corner", low=-(1 << 16)),
                "channels_per_pixel": section.integer("channels_per_pixel", low=1),
                "pixels_per_column": section.integer("pixels_per_column", low=1),
            }
        else:
            fields["box_dim"] = section.integers("box_dim", length=(rank, rank), low=1)
        spec = TensorMapSpec(name, buffer, self._offset(section, buffer), fields, self.faults.where(section.node))
        if name in self.maps:
            section.fault("name", f"'{name}' is used twice")
        self.maps[name] = spec
        section.finish()
        return spec

    def _known_buffer(self, section: Section, key: str) -> str:
        return section.choice(key, self.buffers)

    def _offset(self, section: Section, buffer: str) -> int:
        """Bytes into a buffer; its end is the furthest."""
        offset, spec = section.integer("offset", 0), self.buffers.get(buffer)
        if spec is not None and offset > spec.size_bytes:
            section.fault("offset", f"is {offset}, must be at most {spec.size_bytes}, the size of buffer {buffer}")
        return offset

    # ------------------------------------------------------------------ arguments and expectations
    def _argument(self, section: Section) -> Argument:
        forms = [key for key in ("tensor_map", "buffer", "value", "bytes") if key in section]
        if len(forms) != 1:
            self.faults.add(section.node, f"{section.name}: must have exactly one of tensor_map, buffer, value, bytes")
            return Argument()
        argument = getattr(self, f"_argument_{forms[0]}")(section)
        section.finish()
        assert isinstance(argument, Argument)
        return replace(argument, where=self.faults.where(section.node))

    def _argument_tensor_map(self, section: Section) -> Argument:
        return Argument(tensor_map=section.choice("tensor_map", self.maps))

    def _argument_buffer(self, section: Section) -> Argument:
        buffer = self._known_buffer(section, "buffer")
        return Argument(buffer=buffer, offset=self._offset(section, buffer))

    def _argument_value(self, section: Section) -> Argument:
        value = section.raw("value")
        type_ = CASE_TYPES.get(section.choice("dtype", CASE_TYPES))
        if type_ is None:
            return Argument()
        if isinstance(value, bool) or not isinstance(value, int | float):
            section.fault("value", f"is {value!r}, must be a number")
            return Argument()
        if type_.format is None and value != value // 1:  # also NaN and the infinities
            section.fault("value", f"is {value!r}, must be a whole number for {type_.name}")
            return Argument()
        try:
            if type_.format is None:
                signed = type_.word.kind == "i"
                data = int(value).to_bytes(type_.word.itemsize, "little", signed=signed)
            else:
                data = bytes(from_values(np.array([value]), type_))
            return Argument(data=data, dtype=type_.name)
        except (ConfigError, OverflowError) as error:
            section.fault("value", f"is {value!r}, must fit {type_.name}: {error}")
            return Argument()

    def _argument_bytes(self, section: Section) -> Argument:
        text = section.text("bytes").replace(" ", "").replace("_", "")
        try:
            data = bytes.fromhex(text)
        except ValueError:
            section.fault("bytes", "must be pairs of hex digits")
            data = b""
        maps = []
        for entry in section.sections("tensor_maps"):
            at = self._at(entry, 128, len(data), "struct")
            maps.append((at, entry.choice("tensor_map", self.maps)))
            entry.finish()
        return Argument(data=data, pointers=self._pointers(section, len(data), "struct"), maps=tuple(maps))

    def _pointers(self, section: Section, room: int, what: str) -> Pointers:
        pointers = []
        for entry in section.sections("pointers"):
            at = self._at(entry, 8, room, what)
            buffer = self._known_buffer(entry, "buffer")
            pointers.append((at, buffer, self._offset(entry, buffer)))
            entry.finish()
        return tuple(pointers)

    def _at(self, entry: Section, size: int, room: int, what: str) -> int:
        at = entry.integer("at")
        if at + size > room:
            entry.fault("at", f"is {at}: {size} bytes from there do not fit the {what} of {room} bytes")
        return at

    def _expectation(self, section: Section) -> Expectation:
        buffer = self._known_buffer(section, "buffer")
        if ("file" in section) == ("value" in section):
            self.faults.add(section.node, f"{section.name}: must have exactly one of file, value")
        file = self._file(section, "file") if "file" in section else None
        expression = section.text("value", "")
        spec = self.buffers.get(buffer)
        if file is not None and file.is_file() and spec is not None:
            actual = _data_bytes(section, "file", file)
            if actual is not None and actual != spec.size_bytes:
                section.fault("file", f"{file.name} has {actual} bytes, must have {spec.size_bytes}")
        if expression:
            try:
                check(expression, self.buffers)
            except ConfigError as error:
                section.fault("value", error.message)
        expectation = Expectation(buffer, file, expression, _tolerance(section, "rtol"), _tolerance(section, "atol"),
                                  str(section.raw("about", "") or ""), self.faults.where(section.node))  # fmt: skip
        section.finish()
        return expectation


def _tolerance(section: Section, key: str) -> float:
    value = section.number(key, 0)
    if not 0 <= value < inf:
        section.fault(key, f"is {value:g}, must be a finite number of at least 0")
    return value


def placement_order(buffers: Sequence[BufferSpec]) -> list[str]:
    """The names of the buffers, each after those that it holds addresses of.

    :raises CycleError: buffers that point to each other.
    """
    return list(TopologicalSorter({spec.name: [to for _, to, _ in spec.pointers] for spec in buffers}).static_order())


def _is_integer(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def _is_range(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(_is_integer(part, -(1 << 63)) for part in value)
        and value[0] <= value[1] < 1 << 63
    )


def _data_bytes(section: Section, key: str, path: Path) -> int | None:
    """How many bytes of data a file has; a fault, and None, if it is no array file although it says so."""
    if path.suffix != ".npy":
        return path.stat().st_size
    try:
        return int(np.load(path, allow_pickle=False).nbytes)
    except (ValueError, OSError, EOFError) as error:
        section.fault(key, f"{path.name} is no .npy array: {error}")
        return None


def _dims(section: Section, key: str) -> tuple[int, int, int]:
    sizes = section.integers(key, length=(1, 3), low=1)
    x, y, z = [*sizes, 1, 1, 1][:3]
    return x, y, z
