"""From syntax to operations: which function an instruction means, with its modifiers and operands resolved.

An operation registers a *pattern* such as ``"shfl.sync.{mode}.b32"``. Words in braces are slots with a domain
(``{name?}`` is optional); other words must be present. Qualifiers may come in any order, since inline assembly is
often not canonical; but types keep their order, so a type fills the first type slot that is free
(``cvt.{dst}.{src}``). A word that no slot takes, or a slot that no word fills, is :class:`NotModelled` with the line,
before the first thread runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from umma_probe.errors import InternalError, NotModelled
from umma_probe.model.code.unmodelled import why_not
from umma_probe.model.numbers.values import TYPES, PtxType, types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from umma_probe.model.asynchrony.waits import Wait
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.threads.frame import Frame
    from umma_probe.model.threads.strands import Strand
    from umma_probe.spec.sources import Ref

Executor: TypeAlias = "Callable[[Frame], Any]"
Domain: TypeAlias = "Mapping[str, Any] | type[Enum] | Iterable[str]"


@dataclass(frozen=True, slots=True)
class InStep:
    """A sync executor that may do at once what all strands of a cohort would do one after the other."""

    one: Callable[[Frame, Strand], Wait | None]
    together: Callable[[Frame, Sequence[Strand]], bool]
    """Whether it did, and all of them go on; if not, nothing has happened."""

    def __call__(self, f: Frame, strand: Strand) -> Wait | None:
        """For one strand."""
        return self.one(f, strand)


class Control(Enum):
    """How an operation takes part in control flow."""

    STRAIGHT = "straight"
    """Executes for a whole cohort and falls through."""
    SYNC = "sync"
    """Executes strand by strand and may suspend: the executor returns a Wait or None."""
    BRANCH = "branch"
    """Decides the next program counter; the scheduler knows it by name."""


@dataclass(frozen=True)
class Operation:
    """One way to read an opcode: pattern, domains, and the factory that binds an instruction to an executor."""

    pattern: str
    opcode: str
    literals: tuple[str, ...]
    slots: tuple[tuple[str, bool, Mapping[str, Any]], ...]
    """(name, optional, word -> value)."""
    factory: Callable[..., Executor]
    control: Control = Control.STRAIGHT
    refs: tuple[Ref, ...] = ()
    approximate: str = ""
    """Non-empty if the result is not bit-exact: how far it may be off."""

    def match(self, words: tuple[str, ...]) -> dict[str, Any] | str:
        """The slot values for an instruction's modifiers, or the word that does not fit."""
        literals = list(self.literals)
        values: dict[str, Any] = {}
        for word in words:
            if word in literals:
                literals.remove(word)
                continue
            for name, _, domain in self.slots:
                if name in values:
                    continue
                if word in domain:
                    values[name] = domain[word]
                    break
                if word in TYPES and not TYPES.keys().isdisjoint(domain):
                    return word
            else:
                return word
        if literals:
            return literals[0]
        for name, optional, domain in self.slots:
            if name not in values:
                if not optional:
                    return "|".join(domain)
                values[name] = False if domain.get(name) is True else None
        return values


OPERATIONS: dict[str, list[Operation]] = {}
"""Opcode (first word) to its operations."""


def _domain(value: Domain) -> Mapping[str, Any]:
    if isinstance(value, type) and issubclass(value, Enum):
        return {str(member.value): member for member in value}
    if isinstance(value, str):
        return types(value)
    if isinstance(value, Mapping):
        return dict(value)
    return {word: word for word in value}


def parse_pattern(
    pattern: str, domains: Mapping[str, Domain]
) -> tuple[str, tuple[str, ...], tuple[tuple[str, bool, Mapping[str, Any]], ...]]:
    """Split a pattern into opcode, literal words and slots. A slot with no domain is a flag of its own name."""
    opcode, *words = pattern.split(".")
    literals: list[str] = []
    slots: list[tuple[str, bool, Mapping[str, Any]]] = []
    for word in words:
        if not word.startswith("{"):
            literals.append(word)
            continue
        name = word[1:-1]
        optional = name.endswith("?")
        name = name.rstrip("?")
        slots.append((name, optional, _domain(domains[name]) if name in domains else {name: True}))
    unused = set(domains) - {name for name, _, _ in slots}
    if unused:
        raise InternalError(f"pattern {pattern} has no slot for {sorted(unused)}")
    return opcode, tuple(literals), tuple(slots)


@dataclass
class _Registrar:
    pattern: str
    control: Control
    refs: tuple[Ref, ...]
    approximate: str
    domains: dict[str, Domain] = field(default_factory=dict)

    def __call__(self, factory: Callable[..., Executor]) -> Callable[..., Executor]:
        opcode, literals, slots = parse_pattern(self.pattern, self.domains)
        operation = Operation(self.pattern, opcode, literals, slots, factory, self.control, self.refs, self.approximate)
        OPERATIONS.setdefault(opcode, []).append(operation)
        return factory


def operation(
    pattern: str,
    *,
    control: Control = Control.STRAIGHT,
    refs: tuple[Ref, ...] = (),
    approximate: str = "",
    **domains: Domain,
) -> Callable[[Callable[..., Executor]], Callable[..., Executor]]:
    """Register a factory ``(operands, **slots) -> executor``.

    A domain is an Enum (by value), a mapping, a list of words, or a string of blank-separated type names.
    """
    return _Registrar(pattern, control, refs, approximate, dict(domains))


def sync_operation(
    pattern: str, *, refs: tuple[Ref, ...] = (), **domains: Domain
) -> Callable[[Callable[..., Executor]], Callable[..., Executor]]:
    """Register a factory whose executor runs once per strand and may return a ``Wait``."""
    return _Registrar(pattern, Control.SYNC, refs, "", dict(domains))


OperandType: TypeAlias = "str | Callable[[dict[str, Any]], PtxType]"


def alu(
    pattern: str,
    *,
    operands: str | tuple[OperandType, ...] = "type type type",
    refs: tuple[Ref, ...] = (),
    approximate: str = "",
    **domains: Domain,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an element-wise instruction: destination first, then the sources.

    The decorated factory takes the slots and returns a function of the source arrays (a NumPy ufunc will do).
    ``operands`` names each operand's type: a slot, a PTX type, or a function of the slots.
    """
    spec = tuple(operands.split()) if isinstance(operands, str) else operands

    def decorate(factory: Callable[..., Any]) -> Callable[..., Any]:
        def bind(ops: Operands, **slots: Any) -> Executor:
            ops.expect_count(len(spec))
            resolved = [_operand_type(item, slots) for item in spec]
            target = ops.dst(0, resolved[0])
            sources = [ops.src(i, type_) for i, type_ in enumerate(resolved) if i > 0]
            return _elementwise(factory(**slots), target, sources)

        _Registrar(pattern, Control.STRAIGHT, refs, approximate, dict(domains))(bind)
        return factory

    return decorate


def _operand_type(item: OperandType, slots: dict[str, Any]) -> PtxType:
    if callable(item):
        return item(slots)
    value = slots.get(item)
    if isinstance(value, PtxType):
        return value
    return types(item)[item]


def _elementwise(function: Callable[..., Any], d: int, sources: list[int]) -> Executor:
    """One closure per arity: this is the hottest code of the machine."""
    if len(sources) == 1:
        (a,) = sources

        def run1(f: Frame) -> None:
            r, s = f.regs, f.sel
            r[d][s] = function(r[a][s])

        return run1
    if len(sources) == 2:
        a, b = sources

        def run2(f: Frame) -> None:
            r, s = f.regs, f.sel
            r[d][s] = function(r[a][s], r[b][s])

        return run2
    if len(sources) == 3:
        a, b, c = sources

        def run3(f: Frame) -> None:
            r, s = f.regs, f.sel
            r[d][s] = function(r[a][s], r[b][s], r[c][s])

        return run3

    def run_any(f: Frame) -> None:
        r, s = f.regs, f.sel
        r[d][s] = function(*(r[i][s] for i in sources))

    return run_any


def find_operation(opcode: str, words: tuple[str, ...]) -> tuple[Operation, dict[str, Any]]:
    """The operation that reads these modifiers.

    :raises NotModelled: no such opcode, or no operation takes all of its modifiers.
    """
    candidates = OPERATIONS.get(opcode, [])
    text = ".".join((opcode, *words))
    misfits: list[tuple[str, str]] = []
    for candidate in candidates:
        values = candidate.match(words)
        if isinstance(values, dict):
            return candidate, values
        misfits.append((candidate.pattern, values))
    if reason := why_not(opcode, words):
        raise NotModelled(f"{text}: {reason.sentence}", ref=str(reason.ref))
    if not candidates:
        raise NotModelled(f"the model has no instruction '{opcode}'", hint="umma-probe model ops lists what it has")
    if len(misfits) == 1:
        pattern, word = misfits[0]
        raise NotModelled(f"{text}: the model has {pattern}, and '{word}' does not fit it")
    forms = ", ".join(pattern for pattern, _ in misfits)
    raise NotModelled(f"{text}: none of the modelled forms fits", hint=f"modelled: {forms}")
