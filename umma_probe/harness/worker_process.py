"""A process of its own for work that may crash, hang, or lose a GPU's context with it.

The process ends with its parent, however that ends. Ctrl-C is the parent's business. What the work prints (a kernel's
printf too, which the driver writes to the process's stdout) goes to stderr, since stdout carries the result and nothing
else.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import threading
from multiprocessing import connection, parent_process
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

GRACE_S = 15.0
"""So much longer than the work's own watchdog, which can say more, its parent waits for it."""
START_S = 60.0
"""So long a process may take to start."""
_PR_SET_PDEATHSIG = 1


class WorkerProcess:
    """A child that runs ``main(channel, *arguments)``; ``main`` is a function of a module."""

    def __init__(self, main: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.channel, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(main, theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def sentinel(self) -> int:
        """Becomes ready when the process has ended."""
        return self._process.sentinel

    def join(self, timeout: float) -> int | None:
        """Wait for the end; the exit status, negative for a signal, None if it runs on."""
        self._process.join(timeout)
        return self._process.exitcode

    def kill(self) -> None:
        """End it, without waiting."""
        self._process.kill()

    def bury(self) -> None:
        """End it if it has not, and let go of everything."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self.channel.close()
        self._process.close()


def ending(status: int | None) -> str:
    """How a process ended, in words."""
    return f"died with {signal.Signals(-status).name}" if status and status < 0 else f"ended with status {status}"


def _run(main: Callable[..., None], channel: Connection, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)
    _die_with_parent()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    main(channel, *arguments)


def _die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies: a thread of ours cannot run while C code holds the GIL."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_with_parent() -> None:
    """The same where there is no such call, and for a parent that was gone before it."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
