"""The PTX syntax tree: frozen nodes with line and column. It knows no opcode list.

Equality ignores places, so that text -> tree -> text -> tree can be compared. Types, state spaces, linkages,
modifiers and directive names stand without their leading dot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from umma_probe.errors import Where


@dataclass(frozen=True, slots=True)
class Pos:
    """1-based line and column in the PTX text."""

    line: int
    column: int


def _pos() -> Pos:
    return Pos(0, 0)


# --------------------------------------------------------------------------- operands
@dataclass(frozen=True, slots=True)
class Name:
    """A register, special register, symbol or label, as written (``%r1``, ``%tid.x``, ``complete``, ``$L__BB0_2``).

    Which of these it is depends on the scope, so the parser does not decide.
    """

    text: str
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class IntImm:
    """An integer constant; negative values keep their sign. ``unsigned`` is true for the ``U`` suffix."""

    value: int
    unsigned: bool = False
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class FloatImm:
    """A floating constant as its bits: ``0f3F800000`` is (0x3F800000, 32); ``0d...`` and decimal text are 64 wide."""

    bits: int
    width: int
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: the result is thrown away."""

    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """``!%p``."""

    operand: Name
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Element:
    """``%v.x`` on a vector register, ``%r.b0`` or ``%r.h1`` of a video instruction, or ``sym[3]``-like indexing."""

    base: Name
    index: str
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Offset:
    """``sym+8`` outside brackets (address arithmetic in ``mov``)."""

    base: Name
    offset: int
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, c, d}``."""

    items: tuple[Operand, ...]
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``; ``coords`` holds the vector of ``[map, {x, y}]`` and any further parts in order."""

    base: Name | IntImm
    offset: int = 0
    coords: tuple[Operand, ...] = ()
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Pair:
    """``a|b``: two destinations, as in ``elect.sync %r|%p`` and ``setp ... p|q``."""

    first: Operand
    second: Operand
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Group:
    """``(a, b)``: the argument and result lists of ``call``."""

    items: tuple[Operand, ...]
    pos: Pos = field(default_factory=_pos, compare=False)


Operand: TypeAlias = "Name | IntImm | FloatImm | Sink | Not | Element | Offset | Vector | Address | Pair | Group"


# --------------------------------------------------------------------------- statements
@dataclass(frozen=True, slots=True)
class Guard:
    """``@%p`` or ``@!%p``."""

    predicate: str
    negated: bool = False
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@guard opcode.mod.mod operands;``.

    ``opcode`` is the first dotted word, ``modifiers`` the others, as written (``::`` stays inside a word:
    ``tcgen05.wait::ld.sync.aligned`` is opcode ``tcgen05``, modifiers ``("wait::ld", "sync", "aligned")``).
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    pos: Pos = field(default_factory=_pos, compare=False)
    source: tuple[int, int] | None = field(default=None, compare=False)
    """(file index, line) of the ``.loc`` in force."""

    @property
    def text(self) -> str:
        """Opcode with its modifiers."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Label:
    """``name:``."""

    name: str
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class RegDecl:
    """``.reg .b32 %r<4>;`` (names ``("%r",)``, count 4: declares %r0..%r3) or ``.reg .pred p, q;`` (count None)."""

    type: str
    names: tuple[str, ...]
    count: int | None = None
    vector: int = 1
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class SymbolInit:
    """An initialiser element that is the address of a symbol (``generic(sym)+4``).

    ``mask`` selects one byte of the address, as in ``0xFF00(generic(sym))``.
    """

    symbol: str
    generic: bool = False
    offset: int = 0
    mask: int | None = None


InitValue: TypeAlias = "int | FloatImm | SymbolInit"


@dataclass(frozen=True, slots=True)
class VarDecl:
    """A variable in a state space: ``.shared .align 16 .b8 buf[64];``.

    ``dims`` is empty for a scalar; an unsized outer dimension (``[]``) is None. ``init`` is flattened.
    ``linkage`` holds ``visible``, ``extern``, ``weak``, ``common``; ``attributes`` other directives as written.
    """

    space: str
    type: str
    name: str
    dims: tuple[int | None, ...] = ()
    align: int | None = None
    vector: int = 1
    init: tuple[InitValue, ...] = ()
    linkage: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Loc:
    """``.loc file line column`` (with ``function_name``/``inlined_at`` parts kept as text)."""

    file: int
    line: int
    column: int
    rest: str = ""
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Directive:
    """Any other directive: its name without the dot, and its words as written, quotes included, commas not.

    ``.pragma "nounroll"``, ``.maxntid 128, 1, 1``, ``.branchtargets a, b``; of ``.callprototype`` all tokens.
    """

    name: str
    words: tuple[str, ...] = ()
    label: str = ""
    """The label that stands before ``.branchtargets`` and ``.callprototype``."""
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Block:
    """``{ ... }``: a scope with its own registers, variables and labels."""

    body: tuple[Statement, ...]
    pos: Pos = field(default_factory=_pos, compare=False)


Statement: TypeAlias = "Instruction | Label | RegDecl | VarDecl | Loc | Directive | Block"


# --------------------------------------------------------------------------- module level
@dataclass(frozen=True, slots=True)
class Param:
    """A formal parameter.

    ``size`` is the array length in elements for ``.b8 p[64]``, else None; ``attributes`` e.g. ``ptr``, ``global``.
    """

    type: str
    name: str
    size: int | None = None
    align: int | None = None
    attributes: tuple[str, ...] = ()
    space: str = "param"
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Function:
    """``.entry`` (``is_entry``) or ``.func``. ``body`` is None for a prototype."""

    name: str
    is_entry: bool
    params: tuple[Param, ...]
    results: tuple[Param, ...] = ()
    directives: tuple[Directive, ...] = ()
    linkage: tuple[str, ...] = ()
    body: Block | None = None
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class Section:
    """``.section name { raw text }``: debug data, kept as text."""

    name: str
    text: str
    pos: Pos = field(default_factory=_pos, compare=False)


@dataclass(frozen=True, slots=True)
class File:
    """``.file index "name"``."""

    index: int
    name: str
    rest: str = ""
    pos: Pos = field(default_factory=_pos, compare=False)


ModuleItem: TypeAlias = "VarDecl | Function | Section | File | Directive"


@dataclass(frozen=True, slots=True)
class Module:
    """One translation unit; ``file`` and ``text`` say where it came from, for error messages."""

    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    items: tuple[ModuleItem, ...]
    file: str = field(default="<ptx>", compare=False)
    text: str = field(default="", compare=False, repr=False)

    def where(self, pos: Pos) -> Where:
        """The place of a node, with its line of text."""
        lines = self.text.split("\n") if pos.line else []
        source_line = lines[pos.line - 1].rstrip("\r") if pos.line <= len(lines) and lines else ""
        return Where(self.file, pos.line, pos.column, source_line)

    def function(self, name: str) -> Function | None:
        """The definition of that name, else a prototype, else None."""
        found: Function | None = None
        for item in self.items:
            if isinstance(item, Function) and item.name == name and (found is None or item.body is not None):
                found = item
        return found

    @property
    def entries(self) -> tuple[Function, ...]:
        """All kernels in order."""
        return tuple(item for item in self.items if isinstance(item, Function) and item.is_entry)

    @property
    def files(self) -> dict[int, str]:
        """``.file`` index to name."""
        return {item.index: item.name for item in self.items if isinstance(item, File)}
