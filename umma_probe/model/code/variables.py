"""Where a kernel's variables lie: shared, local, parameter, constant and global memory.

Static shared variables start at ``SHARED_BASE``: the first KiB of a CTA's window belongs to the system on sm_90 and
later, so address 0 is never a variable and dynamic shared memory that follows no static variable is 1024-byte aligned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from umma_probe.errors import PtxSyntaxError, Where
from umma_probe.model.numbers.values import ptx_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from umma_probe.ptx import nodes
    from umma_probe.ptx.scopes import FlatFunction

SHARED_BASE = 1024
STACK_BYTES = 16 * 1024
"""Local memory a thread for the frames of recursive functions; there only if a kernel has such."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A placed variable: its state space, the address there, and its size."""

    space: str
    address: int
    size_bytes: int


@dataclass
class VariableLayout:
    """All variables that one kernel can name.

    ``shared`` addresses are offsets in the CTA's window, ``local`` offsets in the thread's frame, ``param`` offsets
    in the kernel's parameter block, ``global`` and ``const`` absolute addresses.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    static_shared_bytes: int = 0
    """Static shared memory, without the system's first KiB."""
    dynamic_alignment: int = 16
    dynamic_names: list[str] = field(default_factory=list)
    local_bytes: int = 0
    param_bytes: int = 0
    stack_offset: int = 0
    """Where the stack begins in the thread's local memory, if there is one."""

    @property
    def spaces(self) -> dict[str, str]:
        """Variable name to state space."""
        return {name: variable.space for name, variable in self.variables.items()}

    @property
    def dynamic_shared_offset(self) -> int:
        """Where dynamic shared memory starts in the CTA's window."""
        return align_up(SHARED_BASE + self.static_shared_bytes, self.dynamic_alignment)

    @classmethod
    def build(
        cls,
        functions: Sequence[FlatFunction],
        module_variables: dict[str, Variable],
        module_shared: Iterable[nodes.VarDecl],
    ) -> VariableLayout:
        """Place everything. ``functions[0]`` is the entry; names of others are qualified ``function::name``."""
        layout = cls(dict(module_variables))
        for declaration in module_shared:
            layout._add_shared(declaration.name, declaration)
        for function in functions:
            prefix = "" if function.is_entry else f"{function.name}::"
            for parameter in function.params:
                layout._add_parameter(prefix + parameter.name, parameter, function.is_entry)
            for result in function.results:
                layout._add_parameter(prefix + result.name, result, is_entry=False)
            for declaration in function.variables:
                layout._add_local_declaration(prefix + declaration.name, declaration)
        for name in layout.dynamic_names:
            layout.variables[name] = Variable("shared", layout.dynamic_shared_offset, 0)
        return layout

    def add_stack(self) -> None:
        """Room for the frames of recursive functions behind the variables."""
        self.stack_offset = align_up(self.local_bytes, 16)
        self.local_bytes = self.stack_offset + STACK_BYTES

    def local_range(self, function: str) -> tuple[int, int]:
        """Start and end of what a function that is no kernel has in local memory."""
        places = [v for name, v in self.variables.items() if name.startswith(f"{function}::") and v.space == "local"]
        if not places:
            return 0, 0
        return min(v.address for v in places), max(v.address + v.size_bytes for v in places)

    def _add_shared(self, name: str, declaration: nodes.VarDecl) -> None:
        size, align = size_and_alignment(declaration)
        if "extern" in declaration.linkage:
            self.dynamic_names.append(name)
            self.dynamic_alignment = max(self.dynamic_alignment, align)
            return
        start = align_up(SHARED_BASE + self.static_shared_bytes, align)
        self.variables[name] = Variable("shared", start, size)
        self.static_shared_bytes = start + size - SHARED_BASE

    def _add_local(self, name: str, size: int, align: int) -> None:
        start = align_up(self.local_bytes, align)
        self.variables[name] = Variable("local", start, size)
        self.local_bytes = start + size

    def _add_local_declaration(self, name: str, declaration: nodes.VarDecl) -> None:
        if declaration.space == "shared":
            self._add_shared(name, declaration)
            return
        if declaration.space not in ("local", "param"):
            raise PtxSyntaxError(f"variable {name} in state space .{declaration.space} inside a function")
        self._add_local(name, *size_and_alignment(declaration))

    def _add_parameter(self, name: str, parameter: nodes.Param, is_entry: bool) -> None:
        size, align = parameter_size(parameter)
        if not is_entry:
            self._add_local(name, size, align)
            return
        start = align_up(self.param_bytes, align)
        self.variables[name] = Variable("param", start, size)
        self.param_bytes = start + size


def align_up(value: int, alignment: int) -> int:
    """The next multiple of ``alignment``."""
    return -(-value // alignment) * alignment


def size_and_alignment(declaration: nodes.VarDecl) -> tuple[int, int]:
    """(bytes, alignment) of a variable; an unsized array is 0 bytes long."""
    type_ = ptx_type(declaration.type)
    if type_.category == "p":
        raise PtxSyntaxError(
            f"{declaration.name}: type is .pred in .{declaration.space}, must be a type of memory",
            where=Where(line=declaration.pos.line, column=declaration.pos.column),
        )
    element = type_.bytes * declaration.vector
    count = 1
    for dim in declaration.dims:
        count *= dim or 0
    return element * count, declaration.align or element


def parameter_size(parameter: nodes.Param) -> tuple[int, int]:
    """(bytes, alignment) of a formal parameter."""
    element = ptx_type(parameter.type).bytes
    return element * (1 if parameter.size is None else parameter.size), parameter.align or element
