"""The one face of a device: compile, allocate, launch, read back. The model and a GPU both have it.

Arguments of a launch are, in order: buffers of this device (a pointer), NumPy scalars (by their own width), bytes (a
struct by value), and objects that give their bytes with ``tobytes()`` (a tensor map). A plain Python number has
no width and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from umma_probe.errors import ConfigError
from umma_probe.launch_values import DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from umma_probe.launch_values import Dims


@dataclass(frozen=True)
class Note:
    """A sanitizer's word: a finding, or something legal that is worth a second look."""

    rule: str
    message: str
    where: str
    actor: str
    count: int = 1


@dataclass(frozen=True)
class LaunchOutcome:
    """A launch that finished."""

    seconds: float
    """On the model wall time, on a GPU time between two events around the kernel."""
    findings: tuple[Note, ...] = ()
    reviews: tuple[Note, ...] = ()
    printed: str = ""
    """What the kernel said by printf; it went to stderr too."""


@dataclass(frozen=True)
class TmemWriter:
    """An instruction that wrote to Tensor Memory."""

    instruction: str
    """With its modifiers: ``tcgen05.mma.cta_group::1.kind::f16``."""
    line: int
    """Of the PTX."""
    source: str = ""
    """``kernel.cu:12`` where the PTX tells it (compiled with ``-lineinfo``)."""


@dataclass(frozen=True)
class TmemSnapshot:
    """Tensor Memory of one CTA when it exited (or when the kernel stopped); arrays have the shape (lane, column)."""

    words: npt.NDArray[np.uint32]
    written: npt.NDArray[np.bool_]
    """Since the columns were last allocated."""
    writer: npt.NDArray[np.int32]
    """Index in ``writers`` of who wrote the cell last; -1 for nobody."""
    writers: tuple[TmemWriter, ...]
    """Of all CTAs of the launch, in the order of the program."""
    blocks: tuple[tuple[int, int], ...] = ()
    """Every allocation that there was: (first column, columns)."""

    @property
    def lanes(self) -> int:
        """128."""
        return int(self.words.shape[0])

    @property
    def columns(self) -> int:
        """512."""
        return int(self.words.shape[1])


@dataclass(frozen=True)
class DeviceIdentity:
    """What a report says about the device."""

    kind: str
    """``model`` or ``cuda``."""
    name: str
    arch: str
    driver: str | None = None
    reason: str = ""
    """Why it was chosen, where that needs a word."""
    versions: dict[str, str] = field(default_factory=dict)


class Buffer(Protocol):
    """Device memory."""

    @property
    def address(self) -> int:
        """The device address."""
        ...

    def numpy(self) -> npt.NDArray[Any]:
        """A copy on the host."""
        ...


class TensorMap(Protocol):
    """An encoded tensor map: a kernel argument of 128 bytes."""

    def tobytes(self) -> bytes:
        """The 128 bytes, of the device's own format."""
        ...


@dataclass(frozen=True)
class Parameter:
    """A formal parameter of a kernel."""

    type: str
    """PTX type of one element: ``u64``, ``f32``, ``b8`` ..."""
    size_bytes: int

    def __str__(self) -> str:
        return self.type if self.type != "b8" else f"{self.size_bytes} bytes"


class Kernel(Protocol):
    """One entry point."""

    def parameters(self) -> tuple[Parameter, ...] | None:
        """What it takes, in order; None where the device does not tell."""
        ...

    def launch(
        self,
        *,
        grid: Dims,
        block: Dims,
        cluster: Dims | None = None,
        dynamic_smem: int = 0,
        cooperative: bool = False,
        args: Sequence[Any] = (),
        timeout: float | None = DEFAULT_TIMEOUT_S,
    ) -> LaunchOutcome:
        """Run it to its end.

        :param cooperative: all CTAs are there at once, and ``cg::this_grid().sync()`` works.
        :raises UmmaProbeError: what it ran into; ``ConfigError`` if nothing ran.
        """
        ...


class Module(Protocol):
    """Loaded code: ``module["entry"]``."""

    def __getitem__(self, entry: str) -> Kernel: ...


class Device(Protocol):
    """What a probe runs on."""

    @property
    def identity(self) -> DeviceIdentity:
        """What it is."""
        ...

    def compile(
        self, source: str, name: str = "kernel.cu", *, options: Sequence[str] = (), include_dirs: Sequence[Path] = ()
    ) -> Module:
        """Compile CUDA C++ and load it.

        :raises CompileError: NVRTC refused the source.
        """
        ...

    def load_ptx(self, text: str, name: str = "<ptx>") -> Module:
        """Load PTX."""
        ...

    def array(self, values: npt.NDArray[Any], name: str = "") -> Buffer:
        """Device memory with a copy of ``values``; ``name`` is what the model's messages call it."""
        ...

    def tensor_map(self, buffer: Any, **fields: Any) -> TensorMap:
        """A tensor map over a buffer; ``fields`` are the words of a launch case (``dtype``, ``global_dim`` ...).

        :raises ConfigError: an unknown word, or what the driver would refuse.
        """
        ...

    def tmem_all(self) -> dict[int, TmemSnapshot]:
        """Tensor Memory that the last launch left, of every recorded CTA; the model's alone.

        :raises ConfigError: there is none.
        """
        ...

    def tmem(self, cta: int = 0) -> TmemSnapshot:
        """Tensor Memory that the last launch left; the model's alone.

        :raises ConfigError: there is none.
        """
        ...


def source_text(what: str, value: Any) -> str:
    """What ``compile`` and ``load_ptx`` take.

    :raises ConfigError: it is no text.
    """
    if not isinstance(value, str):
        raise ConfigError(f"{what}: the source is of type {type(value).__name__}, must be text",
                          hint=f"{what}(Path(file).read_text())")  # fmt: skip
    return value


def array_of_numbers(values: Any) -> npt.NDArray[Any]:
    """What ``array`` copies to the device.

    :raises ConfigError: it is no array of numbers: None, text, a ragged list.
    """
    import numpy as np  # not with the module: the command line reads its time limit, and starts fast

    hint = "dev.array(np.zeros(128, np.float32))"
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"array: values are no array of numbers: {error}", hint=hint) from error
    if array.dtype.hasobject or array.dtype.kind in "USMm":
        kind = "None" if values is None else f"a {type(values).__name__} of {array.dtype}"
        raise ConfigError(f"array: values are {kind}, must be an array of numbers", hint=hint)
    return array
