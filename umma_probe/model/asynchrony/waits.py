"""What a strand can wait for, in words that an engineer can act on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BARRIER_ADVICE = "who should arrive on that barrier? Compare the count, the phase parity and the expected bytes"


class Resume(Enum):
    """What a woken strand does."""

    RETRY = "retry"
    """Executes the instruction again."""
    NEXT = "next"
    """Goes on behind it."""


@dataclass(eq=False, slots=True)
class Wait:
    """A strand is suspended. ``describe`` says for what, when the machine reports a deadlock."""

    resume: Resume
    describe: Callable[[], str]
    has_time_limit: bool = False
    """``mbarrier.try_wait`` may return false; the model lets it do so when nothing else can go on."""
    advice: str = BARRIER_ADVICE
    """Where to look, if nothing ever ends it."""
