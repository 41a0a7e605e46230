"""Tells waiting from working: has nothing happened for a while, and is every strand that runs in a closed cycle?

Nothing has happened if the launch's progress counter stands still: no store, no arrival, no completed operation. A
strand that is then seen twice at the same instruction with the same registers reads the same memory and will do the
same again, so it spins until somebody else acts. A loop that only computes is not mistaken for that, however long it
runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umma_probe.model.launch import Launch
    from umma_probe.model.threads.strands import Strand

CHECK_EVERY = 48
"""Turns without progress between two looks."""


class SpinWatch:
    """Watches the turns of one launch."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._progress = launch.progress
        self._seen: set[tuple[Strand, int, int]] = set()
        self.idle_turns = 0

    def idle(self) -> bool:
        """To be asked after every turn: true once every CHECK_EVERY turns without progress."""
        if self._launch.progress != self._progress:
            self._progress = self._launch.progress
            self.idle_turns = 0
            self._seen.clear()
            return False
        self.idle_turns += 1
        return self.idle_turns % CHECK_EVERY == 0

    def all_spin(self, strands: Iterable[Strand]) -> bool:
        """Whether each of these strands has been seen in its present state since something happened."""
        fingerprint = self._launch.file.fingerprint
        states = [(strand, strand.pc, fingerprint(strand.sel)) for strand in strands]
        known = all(state in self._seen for state in states)
        self._seen.update(states)
        return known

    def forget(self) -> None:
        """Somebody has been let go: look afresh."""
        self._seen.clear()
