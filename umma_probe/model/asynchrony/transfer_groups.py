"""Groups of asynchronous copies: ``cp.async`` groups and bulk groups, each thread with its own.

A thread collects the copies that it starts, commits them as a group, and waits until at most N of its newest groups are
not complete (PTX ISA, "cp.async.wait_group", "cp.async.bulk.wait_group"). Every commit makes a group, an empty one too;
copies that are complete already need not be added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umma_probe.model.asynchrony.async_engine import AsyncOp


@dataclass(slots=True, eq=False)
class Transfer:
    """One copy: the operation that reads its source and the one that writes its destination (or both in one)."""

    read: AsyncOp
    write: AsyncOp
    awaited: bool = False
    """A thread has waited until its source was read."""


@dataclass(slots=True)
class _ThreadGroups:
    open: list[Transfer] = field(default_factory=list)
    committed: list[list[Transfer]] = field(default_factory=list)
    """Oldest first; groups known to be complete are dropped from the front."""
    unread: list[Transfer] = field(default_factory=list)
    """Those that the thread has not waited for, whether or not they are complete."""


class TransferGroups:
    """The groups of all threads."""

    def __init__(self) -> None:
        self._threads: dict[int, _ThreadGroups] = {}

    def _of(self, thread: int) -> _ThreadGroups:
        found = self._threads.get(thread)
        if found is None:
            found = self._threads[thread] = _ThreadGroups()
        return found

    def add(self, threads: Iterable[int], transfer: Transfer) -> None:
        """A copy that these threads started together."""
        for thread in threads:
            groups = self._of(thread)
            groups.open.append(transfer)
            groups.unread.append(transfer)

    def commit(self, threads: Iterable[int]) -> None:
        """Close the open group of each thread."""
        for thread in threads:
            groups = self._of(thread)
            committed = groups.committed
            committed.append(groups.open)
            groups.open = []
            while len(committed) > 1 and _all_done(committed[0]):
                del committed[0]

    def waited(self, threads: Iterable[int], newest: int, *, read_only: bool = False) -> list[AsyncOp]:
        """What must have happened so that at most ``newest`` groups of each thread are pending, oldest first.

        :param read_only: only the reading of sources is waited for.
        """
        ops: dict[AsyncOp, None] = {}
        for thread in threads:
            groups = self._of(thread)
            committed = groups.committed
            old = committed[: max(len(committed) - newest, 0)]
            if groups.unread:
                _mark_awaited(groups, committed[len(old) :])
            if not read_only:
                del committed[: len(old)]
            for group in old:
                ops.update((t.read if read_only else t.write, None) for t in group)
        return sorted((op for op in ops if not op.done), key=lambda op: op.serial)

    def all_pending(self, threads: Iterable[int]) -> list[AsyncOp]:
        """The writes of every copy that these threads started, committed or not, oldest first."""
        ops: dict[AsyncOp, None] = {}
        for thread in threads:
            groups = self._of(thread)
            for group in (*groups.committed, groups.open):
                ops.update((t.write, None) for t in group)
        return sorted((op for op in ops if not op.done), key=lambda op: op.serial)

    def unread(self, low: int, high: int) -> list[tuple[int, Transfer]]:
        """(thread, copy): what no thread has waited for, of threads ``low`` to ``high - 1``; the first of each."""
        found = []
        for thread, groups in self._threads.items():
            if low <= thread < high:
                left = [transfer for transfer in groups.unread if not transfer.awaited]
                found += [(thread, transfer) for transfer in left[:1]]
        return found

    def forget(self, low: int, high: int) -> None:
        """Threads ``low`` to ``high - 1`` have exited; their slots may be taken again."""
        for thread in [thread for thread in self._threads if low <= thread < high]:
            del self._threads[thread]


def _mark_awaited(groups: _ThreadGroups, newest: list[list[Transfer]]) -> None:
    """The thread has waited for all but its ``newest`` groups and the open one."""
    later = [*groups.open, *(transfer for group in newest for transfer in group)]
    for transfer in groups.unread:
        transfer.awaited = transfer.awaited or transfer not in later
    groups.unread = [transfer for transfer in groups.unread if not transfer.awaited]


def _all_done(group: list[Transfer]) -> bool:
    # called for every thread of a commit: a plain loop takes half the time of all()
    for transfer in group:  # noqa: SIM110
        if not transfer.write.done:
            return False
    return True
