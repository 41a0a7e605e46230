"""The model as a device: NVRTC makes PTX from the same source, the CPU machine executes it."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.backends.base import (
    DeviceIdentity,
    LaunchOutcome,
    Note,
    Parameter,
    TmemSnapshot,
    TmemWriter,
    array_of_numbers,
    source_text,
)
from umma_probe.errors import ConfigError, DeviceTimeout
from umma_probe.launch_values import DEFAULT_TIMEOUT_S, argument_bytes, dims
from umma_probe.model.asynchrony.async_engine import Policy
from umma_probe.model.launch import LaunchConfig
from umma_probe.model.machine import LoadedModule, Machine
from umma_probe.model.threads.spin_watch import CHECK_EVERY
from umma_probe.model.tma.tensor_map import TensorMap, encode_tensor_map
from umma_probe.spec.tensor_map import fields_from_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from umma_probe.launch_values import Dims
    from umma_probe.model.launch import Finding, Launch
    from umma_probe.model.state.global_memory import Allocation
    from umma_probe.model.trace import Trace


class ModelBuffer:
    """Global memory of the model; freed with the object."""

    def __init__(self, machine: Machine, values: npt.NDArray[Any], label: str) -> None:
        self._machine = machine
        self.shape = values.shape
        self.dtype = values.dtype
        self._allocation: Allocation = machine.memory.allocate(max(values.nbytes, 1), label)
        self.copy_from(values)

    @property
    def address(self) -> int:
        """Of the first byte."""
        return self._allocation.address

    def lies_in(self, machine: Machine) -> bool:
        """Whether it is that machine's memory."""
        return self._machine is machine

    @property
    def nbytes(self) -> int:
        """Size."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def numpy(self) -> npt.NDArray[Any]:
        """A copy, also of bytes that were never written."""
        data = self._machine.memory.read(self.address, self.nbytes)
        return np.frombuffer(bytes(data), self.dtype).reshape(self.shape).copy()

    def copy_from(self, values: npt.NDArray[Any]) -> None:
        """Overwrite with ``values``, of the same size in bytes."""
        data = np.ascontiguousarray(values)
        if data.nbytes != self.nbytes:
            raise ConfigError(f"copy_from: the array has {data.nbytes} bytes, must have {self.nbytes}")
        if data.nbytes:
            self._machine.memory.write(self.address, data.reshape(-1).view(np.uint8))

    def __del__(self) -> None:
        allocation = getattr(self, "_allocation", None)
        if allocation is not None:
            self._machine.memory.free(allocation)


class ModelDevice:
    """A machine of the model.

    :param arch: ``sm_100a`` and the like.
    :param policy: ``eager``, ``lazy`` or ``random:SEED``: when operations in flight take effect. May be set between
        launches.
    :param reason: why the model was chosen, for reports.
    :raises ConfigError: unknown architecture or policy.
    """

    def __init__(self, arch: str = "sm_100a", policy: str = "eager", reason: str = "") -> None:
        self._machine = Machine(arch)
        self.policy = policy
        self.jobs = 1
        self._reason = reason
        self.trace: Trace | None = None
        """Collects what the operations of each launch do, if set."""
        self._buffers = 0

    @property
    def policy(self) -> str:
        """When operations in flight take effect."""
        return self._policy

    @policy.setter
    def policy(self, text: str) -> None:
        Policy.parse(text)
        self._policy = text

    @property
    def jobs(self) -> int:
        """Up to so many processes run a launch, where that cannot change what it does. May be set between launches."""
        return self._jobs

    @jobs.setter
    def jobs(self, count: int) -> None:
        if count < 1:
            raise ConfigError(f"jobs is {count}, must be at least 1")
        self._jobs = count

    @property
    def alone(self) -> str:
        """Why the last launch ran in one process although ``jobs`` allows more; else empty."""
        return self._machine.latest.alone if self._machine.latest is not None else ""

    @property
    def identity(self) -> DeviceIdentity:
        """What it is."""
        return DeviceIdentity("model", "CPU model", self._machine.arch.name, reason=self._reason)

    def compile(
        self, source: str, name: str = "kernel.cu", *, options: Sequence[str] = (), include_dirs: Sequence[Path] = ()
    ) -> ModelModule:
        """Compile CUDA C++ to PTX and load that.

        :raises CompileError: NVRTC refused the source.
        :raises DeviceUnavailable: there is no NVRTC.
        """
        from umma_probe.gpu.nvrtc import compile_source

        text, arch = source_text("compile", source), self._machine.arch.name
        made = compile_source(text, name, arch=arch, kind="ptx", options=options, include_dirs=include_dirs)
        return self.load_ptx(made.ptx, f"{name} (PTX)")

    def load_ptx(self, text: str, name: str = "<ptx>") -> ModelModule:
        """Parse PTX and place its variables.

        :raises PtxSyntaxError: the text is not PTX.
        """
        return ModelModule(self, self._machine.load(source_text("load_ptx", text), name))

    def array(self, values: npt.NDArray[Any], name: str = "") -> ModelBuffer:
        """Device memory with a copy of ``values``; ``name`` is what messages call it.

        :raises ConfigError: it is no array of numbers.
        """
        self._buffers += 1
        return ModelBuffer(self._machine, array_of_numbers(values), name or f"array {self._buffers}")

    def tensor_map(self, buffer: ModelBuffer, **fields: Any) -> TensorMap:
        """A tiled map, or an im2col one where ``pixels_per_column`` is among the fields; words as in a launch case.

        :raises ConfigError: an unknown word, or what the driver would refuse.
        """
        return encode_tensor_map(fields_from_words(buffer.address, fields))

    def tmem(self, cta: int = 0) -> TmemSnapshot:
        """Tensor Memory of one CTA when it exited in the last launch.

        :raises ConfigError: no launch yet, or no such CTA.
        """
        snapshots = self.tmem_all()
        if cta not in snapshots:
            raise ConfigError(f"tmem: cta is {cta}, must be one of {len(snapshots)} recorded, from 0")
        return snapshots[cta]

    @property
    def launched(self) -> bool:
        """A kernel has started; what it left, or left behind where it failed, can be seen."""
        return self._machine.latest is not None

    def tmem_all(self) -> dict[int, TmemSnapshot]:
        """Tensor Memory of the CTAs of the last launch (the first 64), each when it exited or when the kernel failed.

        :raises ConfigError: no launch yet.
        """
        launch = self._machine.latest
        if launch is None:
            raise ConfigError("tmem: nothing was launched on this device yet")
        return _snapshots(launch)

    def address_of(self, argument: Any) -> int | None:
        """The address of a buffer of this device."""
        return argument.address if isinstance(argument, ModelBuffer) and argument.lies_in(self._machine) else None

    def run(
        self, module: LoadedModule, entry: str, config: LaunchConfig, arguments: list[bytes], timeout: float | None
    ) -> LaunchOutcome:
        """Execute one launch; Tensor Memory snapshots stay until the next."""
        start = time.perf_counter()
        with _watchdog(timeout, lambda: self._unfinished(entry, timeout)):
            launch = self._machine.launch(module, entry, config, arguments, self._policy, self.trace, self._jobs)
        seconds = time.perf_counter() - start
        findings, reviews = _notes(launch.findings.values()), _notes(launch.reviews.values())
        return LaunchOutcome(seconds, findings, reviews, "".join(launch.printed))

    def _unfinished(self, entry: str, timeout: float | None) -> DeviceTimeout:
        """Whether a kernel whose time is over was slow or gets nowhere."""
        message, launch = f"kernel '{entry}' on the model: not finished after {timeout:g} s", self._machine.latest
        more = "--timeout (timeout= in Python) gives it more"
        if launch is None or self._jobs != 1:
            return DeviceTimeout(message, hint=f"{more}; a kernel that spins without end looks the same")
        idle = launch.scheduler.idle_turns
        if idle <= CHECK_EVERY:
            return DeviceTimeout(f"{message}, but still progressing: it is slow, it does not hang", hint=more)
        return DeviceTimeout(
            f"{message}; nothing was stored, signalled or completed in the last {idle} turns of its warps",
            hint=f"it computes for long, or polls in a loop whose registers change (a counter, a clock); {more}",
        )


class ModelModule:
    """Loaded PTX; ``module["entry"]`` is a kernel."""

    def __init__(self, device: ModelDevice, module: LoadedModule) -> None:
        self._device = device
        self.module = module

    def entries(self) -> list[str]:
        """Names of the kernels."""
        return self.module.entries

    def __getitem__(self, entry: str) -> ModelKernel:
        self.module.program(entry)  # an unknown name, or what the model lacks, shows here
        return ModelKernel(self._device, self.module, entry)


class ModelKernel:
    """One entry point."""

    def __init__(self, device: ModelDevice, module: LoadedModule, entry: str) -> None:
        self._device = device
        self._module = module
        self._entry = entry

    def parameters(self) -> tuple[Parameter, ...]:
        """What it takes, in order."""
        program = self._module.program(self._entry)
        sizes = [program.variables.variables[formal.name].size_bytes for formal in program.params]
        return tuple(Parameter(formal.type, size) for formal, size in zip(program.params, sizes, strict=True))

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
        """Run it to its end; see ``Kernel.launch``."""
        required = self._module.program(self._entry).required_cluster
        shape = dims("cluster", cluster) if cluster is not None else required or (1, 1, 1)
        config = LaunchConfig(
            dims("grid", grid), dims("block", block), shape, int(dynamic_smem), cluster is not None, cooperative
        )
        data = [argument_bytes(argument, f"argument {index} of kernel '{self._entry}'", self._device.address_of)
                for index, argument in enumerate(args)]  # fmt: skip
        return self._device.run(self._module, self._entry, config, data, timeout)


def _snapshots(launch: Launch) -> dict[int, TmemSnapshot]:
    images = launch.tmem_snapshots
    steps = np.unique(np.concatenate([np.zeros(0, np.int32), *(i.writer[i.written] for i in images.values())]))
    writers = tuple(_writer(launch, int(step)) for step in steps)
    return {
        cta: TmemSnapshot(
            image.words, image.written,
            np.where(image.written, np.searchsorted(steps, image.writer), -1).astype(np.int32), writers, image.blocks,
        )
        for cta, image in sorted(images.items())
    }  # fmt: skip


def _writer(launch: Launch, step: int) -> TmemWriter:
    instruction = launch.program.steps[step].instruction
    return TmemWriter(instruction.text, instruction.pos.line, launch.program.source_place(step))


def _notes(findings: Iterable[Finding]) -> tuple[Note, ...]:
    return tuple(Note(note.rule, note.message, note.where, note.actor, note.count) for note in findings)


@contextmanager
def _watchdog(timeout: float | None, error: Callable[[], DeviceTimeout]) -> Iterator[None]:
    """Raise the error inside the block after that many seconds; only where the process can have an alarm."""
    alarm = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if timeout is not None and timeout <= 0:
        raise ConfigError(f"timeout is {timeout:g} s, must be above 0, or None")
    if timeout is None or not alarm:
        yield
        return

    def expire(*_: object) -> None:
        raise error()

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
