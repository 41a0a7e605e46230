"""A tiny kernel around a few lines of PTX: each thread loads its row of the inputs, runs the lines, stores the outputs.

    run("add.s32 %d, %a, %b;", {"a": x, "b": y}, {"d": "s32"})["d"]

Registers are named after the keys. Their width follows the array's element type (``bool`` gives a predicate, two uint64
columns a 128-bit register) or, for outputs, the PTX type. ``%row`` (64-bit) is the thread's row, ``%lane`` its lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.launch import LaunchConfig
from umma_probe.model.machine import Machine
from umma_probe.model.numbers.values import TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umma_probe.model.launch import Launch

Array = Any
_CHUNK = {8: "u8", 16: "u16", 32: "u32", 64: "u64"}


@dataclass
class Outcome:
    """The outputs by name, and the finished launch (findings, reviews, Tensor Memory snapshots)."""

    outputs: dict[str, Array]
    launch: Launch

    def __getitem__(self, name: str) -> Array:
        return self.outputs[name]


def run(
    body: str,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, str] | None = None,
    *,
    declarations: str = "",
    module: str = "",
    block: int | None = None,
    cluster: int = 1,
    dynamic_smem: int = 0,
    policy: str = "eager",
    arch: str = "sm_100a",
) -> Outcome:
    """Run ``body`` once per row of the inputs (one thread each) and return the output registers.

    :param outputs: name to PTX type; ``pred`` gives bool, ``b128`` an (n, 2) array, bf16 and packed types words.
    :param declarations: PTX lines before the body, for instance shared variables or scratch registers.
    :param module: PTX lines before the kernel, for instance module variables.
    :param block: threads a CTA; by default the smallest multiple of 32 that holds all rows, at most 256.
    """
    columns = {name: np.atleast_1d(np.asarray(value)) for name, value in (inputs or {}).items()}
    rows = max((len(column) for column in columns.values()), default=block or 32)
    columns = {name: np.repeat(c, rows, axis=0) if len(c) == 1 else c for name, c in columns.items()}
    threads = block or min(256, -(-rows // 32) * 32)
    ctas = -(-rows // (threads * cluster)) * cluster
    total = ctas * threads
    machine = Machine(arch)
    addresses: list[int] = []
    for column in columns.values():
        padded = np.concatenate([column, np.repeat(column[:1], total - rows, axis=0)])
        addresses.append(_upload(machine, padded))
    results = {}
    for name, type_name in (outputs or {}).items():
        type_ = TYPES[type_name]
        size = total * max(type_.bits // 8, 1)
        addresses.append(_upload(machine, np.zeros(size, np.uint8)))
        results[name] = (addresses[-1], size, type_)
    text = kernel_text(body, columns, outputs or {}, declarations, module)
    loaded = machine.load(text, "test.ptx")
    config = LaunchConfig((ctas, 1, 1), (threads, 1, 1), (cluster, 1, 1), dynamic_smem)
    launch = machine.launch(loaded, "k", config, [a.to_bytes(8, "little") for a in addresses], policy)
    values = {}
    for name, (address, size, type_) in results.items():
        data = machine.memory.read(address, size).view(np.uint64 if type_.bits == 128 else type_.dtype)
        values[name] = (data.reshape(-1, 2) if type_.bits == 128 else data)[:rows]
    return Outcome(values, launch)


def kernel_text(
    body: str, inputs: Mapping[str, Array], outputs: Mapping[str, str], declarations: str = "", module: str = ""
) -> str:
    """The PTX module: entry ``k``, one pointer parameter an input, then one an output."""
    widths = {name: _register_bits(column) for name, column in inputs.items()}
    widths |= {name: TYPES[type_name].bits for name, type_name in outputs.items()}
    names = [*inputs, *(name for name in outputs if name not in inputs)]
    parameters = [f".param .u64 in_{name}" for name in inputs] + [f".param .u64 out_{name}" for name in outputs]
    lines = [".version 9.0", ".target sm_100a", ".address_size 64", module]
    lines += [f".visible .entry k({', '.join(parameters)})", "{"]
    lines += [f".reg .{'pred' if widths[name] == 1 else f'b{widths[name]}'} %{name};" for name in names]
    lines += [".reg .b64 %at, %row, %part<2>;", ".reg .b32 %lane, %cta, %size;", ".reg .b16 %byte;", declarations]
    lines += ["mov.u32 %lane, %tid.x;", "mov.u32 %cta, %ctaid.x;", "mov.u32 %size, %ntid.x;"]
    lines += ["mad.lo.s32 %lane, %cta, %size, %lane;", "cvt.u64.u32 %row, %lane;", "mov.u32 %lane, %laneid;"]
    for name in inputs:
        lines += _place(f"in_{name}", widths[name]) + _load(name, widths[name])
    lines.append(body)
    for name in outputs:
        lines += _place(f"out_{name}", widths[name]) + _store(name, widths[name])
    return "\n".join([*lines, "ret;", "}"])


def _register_bits(column: Array) -> int:
    if column.dtype == np.bool_:
        return 1
    return int(column.dtype.itemsize * 8 * (column.shape[1] if column.ndim == 2 else 1))


def _place(parameter: str, bits: int) -> list[str]:
    return [f"ld.param.u64 %at, [{parameter}];", f"mad.lo.u64 %at, %row, {max(bits // 8, 1)}, %at;"]


def _load(name: str, bits: int) -> list[str]:
    if bits == 1:
        return ["ld.global.u8 %byte, [%at];", f"setp.ne.u16 %{name}, %byte, 0;"]
    if bits == 128:
        return ["ld.global.v2.u64 {%part0, %part1}, [%at];", f"mov.b128 %{name}, {{%part0, %part1}};"]
    return [f"ld.global.{_CHUNK[bits]} %{name}, [%at];"]


def _store(name: str, bits: int) -> list[str]:
    if bits == 1:
        return [f"selp.u16 %byte, 1, 0, %{name};", "st.global.u8 [%at], %byte;"]
    if bits == 128:
        return [f"mov.b128 {{%part0, %part1}}, %{name};", "st.global.v2.u64 [%at], {%part0, %part1};"]
    return [f"st.global.{_CHUNK[bits]} [%at], %{name};"]


def _upload(machine: Machine, array: Array) -> int:
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    allocation = machine.memory.allocate(len(data))
    machine.memory.write(allocation.address, data)
    return allocation.address
