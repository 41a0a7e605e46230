"""``mbarrier``: what an mbarrier object answers along a list of operations, against the documented phases.

A phase completes when its pending count and its byte count are both zero; the next one starts with the expected count,
less what was dropped. An arrival answers with the state before it, whose pending count can be asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Output, Outputs, passed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STATES = 64
_MAX_BYTES = 4096


class Op(IntEnum):
    """``enum Op`` of the kernel."""

    INIT = 0
    ARRIVE = 1
    ARRIVE_N = 2
    ARRIVE_NO_COMPLETE = 3
    ARRIVE_EXPECT_TX = 4
    ARRIVE_DROP = 5
    EXPECT_TX = 6
    COMPLETE_TX = 7
    TEST_PARITY = 8
    TEST_STATE = 9
    PENDING = 10
    INVAL = 11


@dataclass
class Documented:
    """An mbarrier as the documents describe it."""

    expected: int
    pending: int = field(init=False)
    bytes: int = 0
    phase: int = 0
    states: list[tuple[int, int]] = field(default_factory=list)
    """(phase, pending) before each arrival."""

    def __post_init__(self) -> None:
        self.pending = self.expected

    def arrive(self, count: int) -> None:
        """Some arrivals; keeps the state before them."""
        self.states.append((self.phase, self.pending))
        self.pending -= count
        self._complete()

    def transact(self, count: int) -> None:
        """More bytes to wait for, or (negative) bytes that came."""
        self.bytes += count
        self._complete()

    def _complete(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.expected


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """See ``Suite.prepare``; ``seed`` draws the list."""
    steps, answers = draw_list(params["count"], params["steps"], params["drop"], seed)
    plan = LaunchPlan(
        entry="mbarrier",
        args=[Input(np.array(steps, np.uint32)), np.uint32(len(steps)), Output("answers", (len(steps),))],
        block=(32,),
    )
    return Experiment(dict(params), [], {}, [plan], lambda outputs: judge(steps, answers, outputs))


def draw_list(count: int, length: int, drop: bool, seed: int) -> tuple[list[tuple[int, int]], list[int]]:
    """A legal list of operations, and what each answers by the documents (0 where nothing)."""
    random = np.random.default_rng((seed, count, length))
    barrier = Documented(count)
    steps, answers = [(int(Op.INIT), count)], [0]
    while len(steps) < length:
        op, value = _choose(barrier, random, drop)
        answers.append(_apply(barrier, op, value))
        steps.append((int(op), value))
    return steps, answers


def _choose(barrier: Documented, random: np.random.Generator, drop: bool) -> tuple[Op, int]:
    """A legal next operation."""
    options: list[tuple[Op, int]] = [(Op.TEST_PARITY, int(random.integers(2)))]
    if recent := [i for i, (phase, _) in enumerate(barrier.states) if phase >= barrier.phase - 1]:
        options.append((Op.TEST_STATE, int(random.choice(recent))))
    if barrier.states:
        options.append((Op.PENDING, int(random.integers(len(barrier.states)))))
    if barrier.bytes > 0:
        options.append((Op.COMPLETE_TX, min(barrier.bytes, int(random.integers(1, 2 * barrier.bytes + 1)))))
    if barrier.pending:
        if barrier.bytes < _MAX_BYTES:
            options.append((Op.EXPECT_TX, int(random.integers(1, _MAX_BYTES))))
        if len(barrier.states) < _STATES:
            options += _arrivals(barrier, random, drop)
    op, value = options[int(random.integers(len(options)))]
    return op, value


def _arrivals(barrier: Documented, random: np.random.Generator, drop: bool) -> list[tuple[Op, int]]:
    some = int(random.integers(1, barrier.pending + 1))
    options = [(Op.ARRIVE, 1), (Op.ARRIVE_N, some), (Op.ARRIVE_EXPECT_TX, int(random.integers(0, _MAX_BYTES)))]
    if barrier.pending > 1:
        options.append((Op.ARRIVE_NO_COMPLETE, int(random.integers(1, barrier.pending))))
    if drop and barrier.expected > 1:
        options.append((Op.ARRIVE_DROP, 1))
    return options


def _apply(barrier: Documented, op: Op, value: int) -> int:
    """Do it, and return what it answers."""
    match op:
        case Op.ARRIVE | Op.ARRIVE_N | Op.ARRIVE_NO_COMPLETE:
            barrier.arrive(value)
        case Op.ARRIVE_EXPECT_TX:
            barrier.bytes += value
            barrier.arrive(1)
        case Op.ARRIVE_DROP:
            barrier.expected -= value
            barrier.arrive(value)
        case Op.EXPECT_TX:
            barrier.transact(value)
        case Op.COMPLETE_TX:
            barrier.transact(-value)
        case Op.TEST_PARITY:
            return int((barrier.phase & 1) != value)
        case Op.TEST_STATE:
            return int(barrier.states[value][0] != barrier.phase)
        case Op.PENDING:
            return barrier.states[value][1]
    return 0


def judge(steps: Sequence[tuple[int, int]], answers: Sequence[int], outputs: Sequence[Outputs]) -> Judgement:
    """What was answered, against the documents."""
    found = np.asarray(outputs[0]["answers"], np.int64)
    wrong = np.flatnonzero(found != np.array(answers))
    message = ""
    if len(wrong):
        at = int(wrong[0])
        op, value = steps[at]
        message = f"step {at}, {Op(op).name.lower()} {value}: answers {found[at]}, must {answers[at]}"
    asked = sum(op in (Op.TEST_PARITY, Op.TEST_STATE, Op.PENDING) for op, _ in steps)
    check = passed("answers", not len(wrong), f"{asked} answers as documented", f"{len(wrong)} differ", message)
    return Judgement([check])
