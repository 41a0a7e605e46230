"""Run a launch case: buffers, tensor maps and arguments to the device, launch, compare what came out."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError, LaunchShapeError
from umma_probe.harness import milestones
from umma_probe.harness.launch_case.arguments import argument, check_arguments, write_pointers
from umma_probe.harness.launch_case.dtypes import from_values, to_values
from umma_probe.harness.launch_case.expression import evaluate
from umma_probe.harness.launch_case.schema import placement_order
from umma_probe.record.schema import Check, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from umma_probe.backends.base import Buffer, Device, Kernel, LaunchOutcome, Module, TensorMap
    from umma_probe.errors import Where
    from umma_probe.harness.launch_case.schema import BufferSpec, Expectation, LaunchCase, TensorMapSpec

SENTINEL_BYTE = 0xA5
Bytes = "NDArray[np.uint8]"


@dataclass
class CaseResult:
    """What a case left behind."""

    checks: list[Check]
    outputs: dict[str, NDArray[np.uint8]]
    outcome: LaunchOutcome
    compile_s: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)


def initial_bytes(spec: BufferSpec) -> NDArray[np.uint8]:
    """The bytes that a buffer starts with. The same seed gives the same bytes everywhere (NumPy's PCG64).

    :raises ConfigError: a file has the wrong size, or memory does not suffice.
    """
    try:
        return _initial_bytes(spec)
    except MemoryError as error:
        raise ConfigError(f"buffer {spec.name}: {spec.size_bytes} bytes are more than memory has") from error


def _initial_bytes(spec: BufferSpec) -> NDArray[np.uint8]:
    init = spec.init
    match init.kind:
        case "zero":
            return np.zeros(spec.size_bytes, np.uint8)
        case "sentinel":
            return np.full(spec.size_bytes, SENTINEL_BYTE, np.uint8)
        case "file":
            return _file_bytes(init.argument, spec)
    random = np.random.default_rng(init.seed)
    values: NDArray[Any]
    match init.kind:
        case "ones":
            values = np.ones(spec.elements)
        case "arange":
            values = np.arange(spec.elements)
        case "random_normal":
            values = random.standard_normal(spec.elements)
        case _:
            low, high = init.argument
            values = random.integers(low, high, spec.elements, endpoint=True)
    return from_values(values, spec.type)


def _file_bytes(path: Path, spec: BufferSpec) -> NDArray[np.uint8]:
    if path.suffix == ".npy":
        data = np.ascontiguousarray(np.load(path, allow_pickle=False)).reshape(-1).view(np.uint8)
    else:
        data = np.fromfile(path, np.uint8)
    if data.nbytes != spec.size_bytes:
        raise ConfigError(f"{path}: {data.nbytes} bytes, must have {spec.size_bytes} for buffer {spec.name}")
    return data


def run_case(device: Device, case: LaunchCase, *, timeout: float | None = None) -> CaseResult:
    """Compile or load, launch, read back, compare.

    :raises UmmaProbeError: whatever the kernel ran into; ``ConfigError`` if nothing ran.
    """
    import time

    start = time.perf_counter()
    text = _source_text(case.source)
    if case.source.suffix == ".ptx":
        module = device.load_ptx(text, str(case.source))
    else:
        module = device.compile(text, str(case.source), options=case.nvrtc_options, include_dirs=case.include_dirs)
    kernel = _kernel(module, case)
    check_arguments(case, kernel)
    compile_s = time.perf_counter() - start
    inputs = {spec.name: initial_bytes(spec) for spec in case.buffers}
    buffers = _place(device, case.buffers, inputs)
    maps = {spec.name: _tensor_map(device, buffers[spec.buffer], spec) for spec in case.tensor_maps}
    arguments = [argument(given, buffers, maps) for given in case.args]
    specs = {spec.name: spec for spec in case.buffers}
    # before the launch: a mistake in an expectation must not cost a run
    expected = [_expected(entry, specs[entry.buffer], specs, inputs) for entry in case.expect]
    milestones.launch_begins()
    outcome = _launch(kernel, case, arguments, timeout)
    outputs = {name: buffers[name].numpy().reshape(-1).view(np.uint8) for name in specs}
    checks = [
        compare(entry, specs[entry.buffer], wanted, outputs[entry.buffer], inputs[entry.buffer])
        for entry, wanted in zip(case.expect, expected, strict=True)
    ]
    return CaseResult(checks, outputs, outcome, compile_s)


@contextmanager
def _wrong_at(where: Where) -> Iterator[None]:
    """The place in the case file of what is wrong inside."""
    try:
        yield
    except ConfigError as error:
        error.where = error.where or where
        raise


def _source_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"case.source: {file.name} is no text, must be CUDA C++ or PTX",
            hint="cuobjdump -ptx shows the PTX of a cubin that carries it, nvcc -ptx makes it",
        ) from error
    except OSError as error:
        raise ConfigError(f"case.source: cannot read {file}: {error.strerror or error}") from error


def _kernel(module: Module, case: LaunchCase) -> Kernel:
    with _wrong_at(case.entry_where):
        return module[case.entry]


def _tensor_map(device: Device, buffer: Buffer, spec: TensorMapSpec) -> TensorMap:
    with _wrong_at(spec.where):
        return device.tensor_map(buffer, offset=spec.offset, **spec.fields)


def _launch(kernel: Kernel, case: LaunchCase, arguments: Sequence[Any], timeout: float | None) -> LaunchOutcome:
    try:
        return kernel.launch(
            grid=case.grid, block=case.block, cluster=case.cluster, dynamic_smem=case.dynamic_smem,
            cooperative=case.cooperative, args=arguments, timeout=timeout,
        )  # fmt: skip
    except LaunchShapeError as error:
        error.where = error.where or case.shape_where.get(error.parameter)
        raise


def _place(device: Device, specs: Sequence[BufferSpec], inputs: dict[str, NDArray[np.uint8]]) -> dict[str, Buffer]:
    by_name = {spec.name: spec for spec in specs}
    buffers: dict[str, Buffer] = {}
    for name in placement_order(specs):
        data = bytearray(inputs[name])
        write_pointers(data, by_name[name].pointers, buffers)
        buffers[name] = device.array(np.frombuffer(data, np.uint8), f"buffer '{name}'")
    return buffers


# ---------------------------------------------------------------------- comparison
def compare(
    expectation: Expectation, spec: BufferSpec, expected_bytes: NDArray[np.uint8], actual_bytes: NDArray[np.uint8],
    bytes_before: NDArray[np.uint8],
) -> Check:  # fmt: skip
    """One check: bit for bit where both tolerances are zero, else ``|a - e| <= atol + rtol * |e|``; NaN equals NaN.

    :param bytes_before: what the buffer held before the launch; wrong elements that still hold it are counted.
    """
    name = f"{spec.name} = {expectation.file.name if expectation.file else expectation.expression}"
    expected = to_values(expected_bytes, spec.type, spec.elements)
    actual = to_values(actual_bytes, spec.type, spec.elements)
    if expectation.rtol == 0 and expectation.atol == 0:
        wrong = _bits(expected_bytes, spec) != _bits(actual_bytes, spec)
    else:
        e, a = expected.astype(np.float64), actual.astype(np.float64)
        with np.errstate(all="ignore"):
            close = np.abs(a - e) <= expectation.atol + expectation.rtol * np.abs(e)
        wrong = ~(close | (a == e) | (np.isnan(a) & np.isnan(e)))
    untouched = int((wrong & (_bits(bytes_before, spec) == _bits(actual_bytes, spec))).sum())
    return _check(name, spec, expected, actual, wrong, untouched, expectation)


def _bits(data: NDArray[np.uint8], spec: BufferSpec) -> NDArray[Any]:
    if spec.type.nibbles:
        return np.stack((data & 0xF, data >> 4), axis=-1).reshape(-1)[: spec.elements]
    return data.view(spec.type.word)[: spec.elements]


def _expected(expectation: Expectation, spec: BufferSpec, specs: dict[str, BufferSpec],
              inputs: dict[str, NDArray[np.uint8]]) -> NDArray[np.uint8]:  # fmt: skip
    if expectation.file is not None:
        return _file_bytes(expectation.file, spec)
    values = {
        name: to_values(data, specs[name].type, specs[name].elements).reshape(specs[name].element_shape)
        for name, data in inputs.items()
    }
    with _wrong_at(expectation.where):
        result = evaluate(expectation.expression, values)
    if result.size != spec.elements:
        raise ConfigError(f"expect.value '{expectation.expression}' gives shape {list(result.shape)}, "
                          f"buffer {spec.name} has shape {list(spec.shape)}", where=expectation.where)  # fmt: skip
    with _wrong_at(expectation.where):
        return from_values(result.reshape(-1), spec.type)


def _check(name: str, spec: BufferSpec, expected: NDArray[Any], actual: NDArray[Any], wrong: NDArray[np.bool_],
           untouched: int, expectation: Expectation) -> Check:  # fmt: skip
    limit = "bit for bit" if expectation.rtol == 0 == expectation.atol else (
        f"within rtol {expectation.rtol:g}, atol {expectation.atol:g}")  # fmt: skip
    if not wrong.any():
        return Check(name, Verdict.PASS.value, limit, f"{spec.elements} elements agree")
    first = int(np.flatnonzero(wrong)[0])
    index = tuple(int(i) for i in np.unravel_index(first, spec.element_shape))
    with np.errstate(all="ignore"):
        worst = np.nanmax(np.abs(actual[wrong].astype(np.float64) - expected[wrong].astype(np.float64)))
    still = f"; {untouched} of them hold what they held before the launch" if untouched else ""
    return Check(
        name,
        Verdict.FAIL.value,
        f"{spec.name}{list(index)} = {expected[first]}",
        f"{actual[first]}",
        f"{int(wrong.sum())} of {spec.elements} elements differ ({limit}); largest difference {worst:g}{still}",
    )
