"""The points of a run at which the time limit begins anew: a parent that watches from another process is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_listeners: list[Callable[[], object]] = []


def listen(listener: Callable[[], object]) -> None:
    """Have ``listener`` called at each milestone of this process."""
    _listeners.append(listener)


def launch_begins() -> None:
    """A kernel is about to be launched."""
    for listener in _listeners:
        listener()
