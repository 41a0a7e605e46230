"""The machine: load a module, keep its memory, launch its kernels."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import ConfigError, NotModelled, Where, unknown_name
from umma_probe.model import ops
from umma_probe.model.asynchrony.async_engine import Policy
from umma_probe.model.code.calls import function_variables
from umma_probe.model.code.program_builder import ProgramBuilder
from umma_probe.model.code.variables import Variable, size_and_alignment
from umma_probe.model.launch import Launch, LaunchConfig
from umma_probe.model.numbers.values import ptx_type
from umma_probe.model.parallel import run_launch
from umma_probe.model.state.global_memory import GlobalMemory
from umma_probe.ptx import nodes
from umma_probe.ptx.parser import parse
from umma_probe.spec.machine import arch as arch_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.model.code.program import Program
    from umma_probe.model.code.program_builder import Refusal
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.state.global_memory import Allocation
    from umma_probe.model.trace import Trace

ops.load_all()

GRID_WORKSPACE = np.array([8, 0], np.uint32).view(np.uint8)
"""What ``%envreg1`` (high) and ``%envreg2`` (low) point to in a cooperative launch: its size in bytes, and the word in
which ``grid.sync()`` counts arrivals (``grid_workspace`` in cooperative_groups/details/driver_abi.h of CUDA)."""


@dataclass
class LoadedModule:
    """A parsed module whose variables are in device memory. Kernels are decoded on first use."""

    machine: Machine
    tree: nodes.Module
    file: str
    text: str
    variables: dict[str, Variable]

    def __post_init__(self) -> None:
        self._programs: dict[str, Program] = {}

    @property
    def entries(self) -> list[str]:
        """Names of the kernels."""
        return [function.name for function in self.tree.entries]

    def program(self, entry: str) -> Program:
        """The decoded kernel.

        :raises ConfigError: no such kernel.
        """
        if entry not in self._programs:
            if entry not in self.entries:
                raise ConfigError(unknown_name("kernel", entry, self.entries))
            self._programs[entry] = self._builder().build(entry)
        return self._programs[entry]

    def refusals(self) -> list[Refusal]:
        """Everything for which a kernel of the module would be refused, kernel by kernel."""
        return [refusal for entry in self.entries for refusal in self._builder().refusals(entry)]

    def _builder(self) -> ProgramBuilder:
        return ProgramBuilder(self.tree, self.file, self.text, self.variables)


@lru_cache(maxsize=32)
def _parsed(text: str, file: str) -> nodes.Module:
    """The tree of a text; probes that loop over parameters load the same text again and again."""
    return parse(text, file)


class Machine:
    """A device of the model: an architecture and its global memory."""

    def __init__(self, arch: str = "sm_100a") -> None:
        self.arch = arch_row(arch)
        self.memory = GlobalMemory()
        self.latest: Launch | None = None
        """The last launch that started, whatever became of it."""

    def load(self, text: str, file: str = "<ptx>") -> LoadedModule:
        """Parse a module and place its global and constant variables.

        :raises PtxSyntaxError: the text is not PTX.
        """
        tree = _parsed(text, file)
        declarations = [v for v in tree.items if isinstance(v, nodes.VarDecl) and v.space in ("global", "const")]
        variables = function_variables(tree)
        for declaration in declarations:
            size, align = size_and_alignment(declaration)
            allocation = self.memory.allocate(size, declaration.name, max(align, 16))
            variables[declaration.name] = Variable(declaration.space, allocation.address, size)
        for declaration in declarations:
            data = _initial_bytes(declaration, variables)
            if len(data):
                self.memory.write(variables[declaration.name].address, data)
        return LoadedModule(self, tree, file, text, variables)

    def launch(
        self, module: LoadedModule, entry: str, config: LaunchConfig, arguments: Sequence[bytes],
        policy: str = "eager", trace: Trace | None = None, jobs: int = 1,
    ) -> Launch:  # fmt: skip
        """Run a kernel to its end. ``arguments`` are the raw bytes of each parameter, in order.

        :param trace: collects what each asynchronous operation did when.
        :param jobs: up to so many processes, where that cannot change the result.
        :return: the finished launch, with its findings and Tensor Memory snapshots.
        """
        self.latest = None
        program = module.program(entry)
        block = self._parameter_block(program, arguments)
        parameters = self._place(block, f"parameters of {entry}", 4096)
        workspace = self._place(GRID_WORKSPACE, f"grid workspace of {entry}", 8) if config.cooperative else None
        try:
            launch = Launch(
                program, config, self.arch, Policy.parse(policy), self.memory, parameters.address,
                workspace.address if workspace else 0,
            )  # fmt: skip
            if trace is not None:
                trace.attach(launch)
            self.latest = launch
            if jobs == 1:
                launch.run()
            else:
                run_launch(launch, jobs)
            return launch
        finally:
            self.memory.free(parameters)
            if workspace:
                self.memory.free(workspace)

    def _place(self, data: Array, label: str, align: int) -> Allocation:
        allocation = self.memory.allocate(max(len(data), 1), label, align)
        self.memory.write(allocation.address, data)
        return allocation

    def _parameter_block(self, program: Program, arguments: Sequence[bytes]) -> Array:
        if len(arguments) != len(program.params):
            raise ConfigError(f"{program.name}: {len(arguments)} arguments, must be {len(program.params)}")
        block = np.zeros(program.variables.param_bytes, np.uint8)
        for parameter, data in zip(program.params, arguments, strict=True):
            place = program.variables.variables[parameter.name]
            if len(data) != place.size_bytes:
                raise ConfigError(
                    f"{program.name}: argument {parameter.name} has {len(data)} bytes, must be {place.size_bytes}"
                )
            block[place.address : place.address + place.size_bytes] = np.frombuffer(data, np.uint8)
        return block


def _initial_bytes(declaration: nodes.VarDecl, variables: dict[str, Variable]) -> Array:
    """The initial contents; PTX sets variables without an initialiser to zero."""
    size, _ = size_and_alignment(declaration)
    data = bytearray(size)
    type_ = ptx_type(declaration.type)
    step = type_.bytes
    for index, value in enumerate(declaration.init):
        match value:
            case int():
                word = value
            case nodes.FloatImm(bits, width):
                word = bits if width == type_.bits else struct.unpack("<I", struct.pack("<f", _double(bits)))[0]
            case nodes.SymbolInit(symbol, _, offset):
                if symbol not in variables:
                    raise NotModelled(
                        f"initialiser of {declaration.name} names {symbol}, no global variable and no function",
                        where=Where(line=declaration.pos.line, column=declaration.pos.column),
                    )
                word = variables[symbol].address + offset
        data[index * step : (index + 1) * step] = (word & ((1 << type_.bits) - 1)).to_bytes(step, "little")
    return np.frombuffer(bytes(data), np.uint8)


def _double(bits: int) -> float:
    return float(struct.unpack("<d", bits.to_bytes(8, "little"))[0])
