"""PTX text to a :class:`~umma_probe.ptx.nodes.Module`, by recursive descent.

It reads what NVRTC, nvcc and Triton write, inline assembly included, and knows no opcode: any word may be one. What a
name means and whether it is declared is decided later (:mod:`umma_probe.ptx.scopes`).

* Every scope ``{ }`` is kept as a block. Empty statements vanish.
* ``.loc`` may stand between any two statements, also inside inline assembly; each instruction gets the last one
  before it in the text.
* Debug sections are kept as raw text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.errors import unknown_name
from umma_probe.ptx.constants import integer
from umma_probe.ptx.declarations import (
    LINKAGES,
    SPACES,
    attribute_list,
    directive,
    parameters,
    registers,
    variables,
    word_list,
)
from umma_probe.ptx.lexer import TokenStream
from umma_probe.ptx.nodes import (
    Block,
    Directive,
    File,
    Function,
    Guard,
    Instruction,
    Label,
    Loc,
    Module,
    ModuleItem,
    Section,
)
from umma_probe.ptx.operands import operand

if TYPE_CHECKING:
    from umma_probe.ptx.nodes import Operand, Param, Pos, Statement

FUNCTION_DIRECTIVES = frozenset(
    {
        "abi_preserve",
        "abi_preserve_control",
        "blocksareclusters",
        "explicitcluster",
        "maxclusterrank",
        "maxnctapersm",
        "maxnreg",
        "maxntid",
        "minnctapersm",
        "noreturn",
        "pragma",
        "reqnctapercluster",
        "reqntid",
    }
)
"""Directives between the parameters and the body."""
_LABELLED = frozenset({".branchtargets", ".calltargets", ".callprototype"})
_MAX_DEPTH = 100


def parse(text: str, file: str = "<ptx>") -> Module:
    """The syntax tree of one translation unit.

    :param file: name for error messages.
    :raises PtxSyntaxError: with line, column and a caret.
    """
    return _Parser(TokenStream(text, file)).module()


class _Parser:
    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens
        self.source: tuple[int, int] | None = None
        self.opcodes: dict[str, tuple[str, tuple[str, ...]]] = {}

    # ------------------------------------------------------------------ module
    def module(self) -> Module:
        tokens = self.tokens
        version = self._version()
        target = self._target()
        address_size = 64
        if tokens.accept(".address_size"):
            at = tokens.index
            address_size = integer(tokens)
            if address_size not in (32, 64):
                raise tokens.error(f".address_size is {address_size}, must be 32 or 64", at)
        items: list[ModuleItem] = []
        while tokens.head:
            if not tokens.accept(";"):
                items.extend(self._item())
        return Module(version, target, address_size, tuple(items), tokens.file, tokens.source)

    def _version(self) -> tuple[int, int]:
        tokens = self.tokens
        tokens.expect(".version", "at the start of the module")
        major, dot, minor = tokens.head.partition(".")
        if not (dot and major.isdigit() and minor.isdigit() and len(tokens.head) < 16):
            raise tokens.expected("a version such as 9.0")
        tokens.take()
        return int(major), int(minor)

    def _target(self) -> tuple[str, ...]:
        tokens = self.tokens
        tokens.expect(".target", "after the version")
        words = word_list(tokens)
        if not words:
            raise tokens.expected("a target such as sm_100a")
        return words

    def _item(self) -> list[ModuleItem]:
        tokens = self.tokens
        head = tokens.head
        if head == ".file":
            return [self._file()]
        if head == ".section":
            return [self._section()]
        if head == "@@":
            return [self._dwarf_line()]
        if head in (".pragma", ".alias"):
            return [self._terminated(directive(tokens))]
        pos = tokens.position()
        linkage = self._linkage()
        attributes = attribute_list(tokens)
        head = tokens.head
        if head in (".entry", ".func"):
            return [self._function(linkage, attributes, pos)]
        if head[:1] == "." and head[1:].partition("::")[0] in SPACES:
            return list(variables(tokens, linkage, attributes, pos))
        if head[:1] == ".":
            known = (*SPACES, "entry", "func", "file", "section", "pragma", "alias")
            raise tokens.error(unknown_name("directive", head[1:], known))
        raise tokens.expected("a function, a variable or a directive")

    def _linkage(self) -> tuple[str, ...]:
        found: list[str] = []
        while self.tokens.head[:1] == "." and self.tokens.head[1:] in LINKAGES:
            found.append(self.tokens.take()[1:])
        return tuple(found)

    def _terminated(self, node: Directive) -> Directive:
        self.tokens.expect(";", f"after .{node.name}")
        return node

    def _file(self) -> File:
        tokens = self.tokens
        pos = tokens.position()
        tokens.take()
        index = integer(tokens)
        if tokens.head[:1] != '"':
            raise tokens.expected("a file name in quotes")
        name = tokens.take()[1:-1]
        rest = ", ".join(word_list(tokens)) if tokens.accept(",") else ""
        return File(index, name, rest, pos)

    def _section(self) -> Section:
        tokens = self.tokens
        pos = tokens.position()
        tokens.take()
        name = tokens.take()
        tokens.expect("{", "after the section name")
        start = tokens.starts[tokens.index - 1] + 1
        depth = 1
        while depth:
            text = tokens.take()
            if not text:
                raise tokens.expected("'}' after the section")
            depth += (text == "{") - (text == "}")
        return Section(name, tokens.source[start : tokens.starts[tokens.index - 1]].strip(), pos)

    def _dwarf_line(self) -> Directive:
        """``@@DWARF ...``: the old form of debug data; it ends with its line."""
        tokens = self.tokens
        pos = tokens.position()
        tokens.take()
        words: list[str] = []
        while tokens.head and tokens.position().line == pos.line:
            words.append(tokens.take())
        return Directive("@@", tuple(words), pos=pos)

    # ------------------------------------------------------------------ functions
    def _function(self, linkage: tuple[str, ...], attributes: tuple[str, ...], pos: Pos) -> Function:
        tokens = self.tokens
        is_entry = tokens.take() == ".entry"
        attributes = (*attributes, *attribute_list(tokens))
        directives = [Directive("attribute", attributes, pos=pos)] if attributes else []
        results: tuple[Param, ...] = parameters(tokens) if tokens.head == "(" and not is_entry else ()
        name = tokens.expect_name("a function name")
        params: tuple[Param, ...] = parameters(tokens) if tokens.head == "(" else ()
        while tokens.head[:1] == ".":
            directives.append(self._function_directive())
        body = None
        if tokens.head == "{":
            self.source = None
            body = self._block(0)
        elif not tokens.accept(";"):
            raise tokens.expected("'{' or ';' after the function head")
        return Function(name, is_entry, params, results, tuple(directives), linkage, body, pos)

    def _function_directive(self) -> Directive:
        tokens = self.tokens
        if tokens.head[1:] not in FUNCTION_DIRECTIVES:
            raise tokens.error(unknown_name("function directive", tokens.head[1:], FUNCTION_DIRECTIVES))
        node = directive(tokens)
        return self._terminated(node) if node.name == "pragma" else node

    # ------------------------------------------------------------------ statements
    def _block(self, depth: int) -> Block:
        tokens = self.tokens
        pos = tokens.position()
        if depth > _MAX_DEPTH:
            raise tokens.error(f"scopes are nested more than {_MAX_DEPTH} deep")
        tokens.take()
        body: list[Statement] = []
        while not tokens.accept("}"):
            head = tokens.head
            if head == "{":
                body.append(self._block(depth + 1))
            elif head[:1] == ".":
                body.extend(self._dot_statement())
            elif head == ";":
                tokens.take()
            elif tokens.following == ":":
                body.append(self._label())
            elif head:
                body.append(self._instruction())
            else:
                raise tokens.error("the scope is never closed: '}' is missing", hint=f"it starts at line {pos.line}")
        return Block(tuple(body), pos)

    def _label(self) -> Label | Directive:
        tokens = self.tokens
        pos = tokens.position()
        name = tokens.expect_name("a label")
        tokens.take()
        if tokens.head not in _LABELLED:
            return Label(name, pos)
        if tokens.head == ".callprototype":
            return self._prototype(name)
        return self._terminated(directive(tokens, name))

    def _prototype(self, label: str) -> Directive:
        tokens = self.tokens
        pos = tokens.position()
        tokens.take()
        words: list[str] = []
        while not tokens.accept(";"):
            if tokens.head in ("", "{", "}"):
                raise tokens.expected("';' after .callprototype")
            words.append(tokens.take())
        return Directive("callprototype", tuple(words), label, pos)

    def _dot_statement(self) -> list[Statement]:
        tokens = self.tokens
        pos = tokens.position()
        head = tokens.head
        if head == ".loc":
            return [self._loc()]
        if head == ".reg":
            tokens.take()
            return list(registers(tokens, pos))
        if head in _LABELLED:
            raise tokens.error(f"{head} needs a label before it")
        if head == ".pragma":
            return [self._terminated(directive(tokens))]
        linkage = self._linkage()
        attributes = attribute_list(tokens)
        if tokens.head[:1] == "." and tokens.head[1:].partition("::")[0] in SPACES:
            return list(variables(tokens, linkage, attributes, pos))
        if tokens.head[:1] != ".":
            raise tokens.expected("a state space")
        raise tokens.error(unknown_name("directive", tokens.head[1:], (*SPACES, "reg", "loc", "pragma")))

    def _loc(self) -> Loc:
        tokens = self.tokens
        pos = tokens.position()
        tokens.take()
        file, line, column = integer(tokens), integer(tokens), integer(tokens)
        rest: list[str] = []
        while tokens.accept(","):
            rest.append(self._loc_attribute())
        self.source = (file, line)
        return Loc(file, line, column, ", ".join(rest), pos)

    def _loc_attribute(self) -> str:
        """``function_name label[+n]`` or ``inlined_at file line column``."""
        tokens = self.tokens
        if tokens.accept("function_name"):
            name = tokens.expect_name("the label of the function's name")
            return f"function_name {name}" + (f"+{integer(tokens)}" if tokens.head == "+" else "")
        if tokens.accept("inlined_at"):
            return f"inlined_at {integer(tokens)} {integer(tokens)} {integer(tokens)}"
        raise tokens.expected("function_name or inlined_at")

    def _instruction(self) -> Instruction:
        tokens = self.tokens
        guard = self._guard() if tokens.head == "@" else None
        pos = tokens.position()
        opcode, modifiers = self._opcode()
        operands: list[Operand] = []
        if not tokens.accept(";"):
            in_call = opcode == "call"
            operands.append(operand(tokens, in_call=in_call))
            while tokens.accept(","):
                operands.append(operand(tokens, in_call=in_call))
            if not tokens.accept(";"):
                raise tokens.expected("',' or ';' after the operand")
        return Instruction(opcode, modifiers, tuple(operands), guard, pos, self.source)

    def _guard(self) -> Guard:
        tokens = self.tokens
        tokens.take()
        negated = tokens.accept("!")
        pos = tokens.position()
        return Guard(tokens.expect_name("the guard predicate"), negated, pos)

    def _opcode(self) -> tuple[str, tuple[str, ...]]:
        tokens = self.tokens
        text = tokens.head
        if not text[:1].isalpha():
            raise tokens.expected("an instruction")
        tokens.take()
        while tokens.head[:1] == ".":
            text += tokens.take()
        known = self.opcodes.get(text)
        if known is None:
            opcode, *modifiers = text.split(".")
            known = self.opcodes[text] = (opcode, tuple(modifiers))
        return known
