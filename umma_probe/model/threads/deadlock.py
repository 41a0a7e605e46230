"""What a hang looks like: for every strand the instruction at which it stands, and what would let it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.errors import Deadlock, Where
from umma_probe.model.asynchrony.waits import BARRIER_ADVICE
from umma_probe.model.threads.strands import FULL_WARP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from umma_probe.model.asynchrony.waits import Wait
    from umma_probe.model.launch import Launch
    from umma_probe.model.threads.strands import Strand, Token

_NAMED = 6
"""Of so many warps that stand at one place the names are given."""


def deadlock(
    launch: Launch, parked: Mapping[Strand, Wait], joining: Mapping[Token, Strand], ready: Iterable[Strand], *,
    spinning: bool,
) -> Deadlock:  # fmt: skip
    """The error that names who waits for what.

    :param parked: strands that wait for an event.
    :param joining: where lanes wait for others of their warp, with the strand that came last.
    :param ready: strands that run, and get nowhere.
    """
    ready = list(ready)
    lines: dict[str, list[str]] = {}
    for strand, wait in parked.items():
        lines.setdefault(f"{_at(launch, strand.pc)} waits for {wait.describe()}", []).append(_who(launch, strand))
    for token, strand in joining.items():
        missing = token.pending & ~token.arrived
        who = f"{launch.warp_name(strand.warp)} lanes {token.arrived & token.pending:#010x}"
        lines.setdefault(f"{_at(launch, token.pc)} waits for lanes {missing:#010x} to join", []).append(who)
    for strand in ready:
        polled = f" on {strand.polls()}" if strand.polls is not None else ""
        lines.setdefault(f"{_at(launch, strand.pc)} spins{polled}", []).append(_who(launch, strand))
    text = "\n  ".join(f"{_few(who)} at {what}" for what, who in lines.items())
    head = "no strand makes progress" if spinning else "no warp can go on"
    first = next(iter(parked), None)
    return Deadlock(
        f"{head}; nothing is in flight\n  {text}",
        where=launch.program.where(first.pc, _who(launch, first)) if first else None,
        hint=parked[first].advice if first else _hint(ready),
    )


def _hint(ready: Sequence[Strand]) -> str:
    """What to look at where nobody waits for an event: the barrier or the memory that a loop reads."""
    if any(strand.polls for strand in ready):
        return BARRIER_ADVICE
    if ready:
        return "which store should end that loop? It never comes, goes to another address, or has another value"
    return "these lanes wait for others of their warp: which branch keeps those away from the place where they meet?"


def _at(launch: Launch, pc: int) -> str:
    place = launch.program.where(pc)
    return f"{Where(place.file, place.line)} ({launch.program.steps[pc].instruction.text})"


def _who(launch: Launch, strand: Strand) -> str:
    name = launch.warp_name(strand.warp)
    return name if strand.lanes == FULL_WARP else f"{name} lanes {strand.lanes:#010x}"


def _few(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
