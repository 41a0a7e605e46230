"""What an executor sees: the register rows, and which threads run it now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from umma_probe.errors import Where
from umma_probe.model.numbers.values import Array

if TYPE_CHECKING:
    from umma_probe.errors import UmmaProbeError
    from umma_probe.model.launch import Launch

WARP = 32


class Frame:
    """The threads of a cohort at one instruction.

    ``regs`` is a list of rows over all resident threads, indexed by the slots that decoding handed out; ``sel``
    selects the running threads in a row: a slice when they are contiguous, else an array of thread numbers. Every
    selected thread is active, so an executor needs no mask. Thread ``t`` belongs to CTA slot ``t // cta_threads``,
    warp ``t // 32``, lane ``t % 32``.
    """

    __slots__ = ("_threads", "launch", "regs", "sel")

    def __init__(self, launch: Launch, regs: list[Array], sel: slice | Array) -> None:
        self.launch = launch
        self.regs = regs
        self.sel = sel
        self._threads: Array | None = None

    def select(self, sel: slice | Array) -> None:
        """Run for other threads from here on."""
        self.sel = sel
        self._threads = None

    @property
    def threads(self) -> Array:
        """The running thread numbers, ascending."""
        if self._threads is None:
            sel = self.sel
            self._threads = np.arange(sel.start, sel.stop) if isinstance(sel, slice) else sel
        return self._threads

    @property
    def count(self) -> int:
        """How many threads run."""
        sel = self.sel
        return sel.stop - sel.start if isinstance(sel, slice) else len(sel)

    @property
    def cta_slots(self) -> Array:
        """The CTA slot of each running thread."""
        return self.threads // self.launch.cta_threads

    def warps(self) -> list[tuple[int, Array]]:
        """The running threads by warp: (warp number, positions within the selection)."""
        numbers = self.threads >> 5
        if self.count <= WARP and numbers[0] == numbers[-1]:
            return [(int(numbers[0]), np.arange(self.count))]
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        starts = [0, *cuts.tolist()]
        stops = [*cuts.tolist(), self.count]
        return [(int(numbers[a]), np.arange(a, b)) for a, b in zip(starts, stops, strict=True)]

    def fault(self, error: type[UmmaProbeError], message: str, thread: int | None = None, **parts: Any) -> NoReturn:
        """Raise ``error`` with the thread's name; the scheduler adds the place in the program.

        :param thread: the thread number at fault; the first running one if not given.
        """
        who = int(self.threads[0]) if thread is None else int(thread)
        raise error(message, where=Where(actor=self.launch.thread_name(who)), **parts)
