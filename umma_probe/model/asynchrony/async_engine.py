"""Operations in flight: everything that the ISA lets take effect later than its instruction.

An :class:`AsyncOp` is submitted with its effect, with the operations that must take effect before it (the pipelines
of PTX ISA, "tcgen05 Memory Consistency Model: pipelined instructions"), and with whom it belongs to. A *policy*
decides when it happens, within what is allowed:

- ``eager``: at once, at the instruction;
- ``lazy``: when a wait or a commit asks for it, or when nothing else in the machine can go on;
- ``random:SEED``: at seeded random moments in between, replayable.

A correct kernel gives the same result under all of them. Waits (``tcgen05.wait``, ``cp.async.wait_group``, commit
through an mbarrier, ``wgmma.wait_group`` ...) call
:meth:`AsyncEngine.require`; an mbarrier wait suspends the strand, and the engine completes operations when all are
suspended.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from umma_probe.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


SILENT = frozenset({"mma", "cp", "shift", "ld", "st", "wgmma"})
"""Operations whose completion wakes nobody: a commit or a wait asks for them."""

EARLY_CHANCE = 0.25
"""Under ``random``: how likely an operation happens at its issue, or one happens between two turns."""


@dataclass(eq=False, slots=True)
class AsyncOp:
    """One operation in flight."""

    kind: str
    """``mma``, ``cp``, ``shift``, ``ld``, ``st``, ``commit``, ``cp.async``, ``bulk`` ..."""
    pc: int
    cta: int
    """CTA slot."""
    thread: int
    """The issuing thread, or the first of the issuing warp."""
    effect: Callable[[], None]
    after: tuple[AsyncOp, ...] = ()
    registers: frozenset[str] = frozenset()
    """Registers that a load in flight will write."""
    key: object = None
    """What decides pipelining with later operations, e.g. (accumulator, shape) of an MMA; where a store lands."""
    serial: int = -1
    done: bool = False
    on_done: list[Callable[[], None]] = field(default_factory=list)

    @property
    def warp(self) -> int:
        """The issuing warp."""
        return self.thread >> 5


@dataclass(frozen=True)
class Policy:
    """When operations take effect: ``eager``, ``lazy`` or ``random`` with a seed."""

    name: str
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> Policy:
        """``eager``, ``lazy`` or ``random:SEED``.

        :raises ConfigError: anything else.
        """
        if text in ("eager", "lazy", "random"):
            return cls(text)
        name, _, seed = text.partition(":")
        if name == "random" and seed.isascii() and seed.isdecimal():
            return cls(name, int(seed))
        raise ConfigError(f"policy is '{text}', must be eager, lazy or random:SEED")

    def __str__(self) -> str:
        return f"random:{self.seed}" if self.name == "random" else self.name


class AsyncEngine:
    """All operations in flight of a launch, oldest first."""

    def __init__(self, policy: Policy, run_effect: Callable[[AsyncOp], None]) -> None:
        self.policy = policy
        self.eager = policy.name == "eager"
        self.random = random.Random(policy.seed) if policy.name == "random" else None
        self._pending: dict[int, AsyncOp] = {}
        self._serial = 0
        self.in_flight: Counter[str] = Counter()
        """How many operations of each kind are in flight."""
        self._run_effect = run_effect
        self.trace: Callable[[str, AsyncOp], None] | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def submit(self, op: AsyncOp) -> AsyncOp:
        """Take an operation; under ``eager`` it happens now, under ``random`` it may."""
        op.serial = self._serial
        self._serial += 1
        if self.trace is not None:
            self.trace("issue", op)
        self._pending[op.serial] = op
        self.in_flight[op.kind] += 1
        if self.eager or self._by_chance():
            self.require((op,))
        return op

    def pending(self, kinds: frozenset[str] | None = None, *, cta: int | None = None) -> list[AsyncOp]:
        """Operations in flight, oldest first."""
        return [
            op
            for op in self._pending.values()
            if (kinds is None or op.kind in kinds) and (cta is None or op.cta == cta)
        ]

    def require(self, ops: Iterable[AsyncOp]) -> None:
        """Make these happen now, each after what it depends on."""
        for op in ops:
            stack = [op]
            while stack:
                top = stack[-1]
                if top.done:
                    stack.pop()
                    continue
                waiting = [dependency for dependency in top.after if not dependency.done]
                if waiting:
                    stack.extend(reversed(waiting))
                    continue
                stack.pop()
                self._perform(top)

    def _perform(self, op: AsyncOp) -> None:
        # marked first: an effect that completes a barrier may look at what is in flight
        op.done = True
        del self._pending[op.serial]
        self.in_flight[op.kind] -= 1
        if self.trace is not None:
            self.trace("effect", op)
        self._run_effect(op)
        op.after = ()
        for callback in op.on_done:
            callback()

    def tick(self) -> None:
        """A moment between two turns of the scheduler: the random policy may complete something."""
        if self._pending and self._by_chance():
            self.complete_one()

    def _by_chance(self) -> bool:
        return self.random is not None and self.random.random() < EARLY_CHANCE

    def complete_one(self) -> bool:
        """Nothing else can go on: complete one operation. False if none is in flight.

        A random one, or the oldest that somebody can wait for without asking (a signal on a barrier); operations that
        only a wait or a commit makes happen come last, so that a missing one of these shows.
        """
        if not self._pending:
            return False
        operations = list(self._pending.values())
        if self.random is not None:
            op = self.random.choice(operations)
        else:
            op = next((op for op in operations if op.kind not in SILENT), operations[0])
        self.require((op,))
        return True
