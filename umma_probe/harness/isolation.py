"""One call in a process of its own, for everything that a single command launches on a GPU.

A kernel that faults or never ends costs the process its CUDA context, and may leave the driver in a call that does not
return. So the call runs in a child. Its own watchdog comes first (it knows which kernel, and can say why); the parent
waits ``GRACE_S`` longer and then ends the child. Each launch has the time limit for itself: the child tells when one
begins. The terminal is never stuck, and the context dies with the child.
"""

from __future__ import annotations

import time
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, TypeVar

from umma_probe.errors import DeviceTimeout, InternalError, UmmaProbeError
from umma_probe.harness import milestones
from umma_probe.harness.worker_process import GRACE_S, START_S, WorkerProcess, ending

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    T = TypeVar("T")

_BEGUN, _RETURNED, _RAISED = "begun", "returned", "raised"
_COMPILE_S = 120.0
"""So long everything before the first launch may take, the start of the process included."""
_LAST_WORDS_S = 5.0


def call_isolated(
    function: Callable[..., T], /, *arguments: Any, timeout: float | None, grace_s: float = GRACE_S, **options: Any
) -> T:
    """``function(*arguments, timeout=timeout, **options)`` in a child; what it returns or raises.

    :param function: of a module; arguments and result travel to another process and back.
    :raises DeviceTimeout: it did not end, and its own watchdog did not end it.
    :raises InternalError: the child died.
    """
    child = WorkerProcess(_serve, function, arguments, {**options, "timeout": timeout})
    try:
        return _answer(child, timeout, grace_s)  # type: ignore[no-any-return]
    finally:
        child.bury()


def _answer(child: WorkerProcess, timeout: float | None, grace_s: float) -> Any:
    limit = START_S + _COMPILE_S
    while True:
        if not connection.wait([child.channel], None if timeout is None else limit):
            raise DeviceTimeout(
                f"not finished after {timeout:g} s, and the watchdog in its process did not end it",
                hint="the driver does not answer: see dmesg for an Xid, and nvidia-smi",
            )
        try:
            kind, value = child.channel.recv()
        except (EOFError, OSError):
            how = ending(child.join(_LAST_WORDS_S))
            raise InternalError(f"the process that ran the kernel {how}", hint="see its messages above") from None
        if kind == _RETURNED:
            return value
        if kind == _RAISED:
            raise value
        limit = (timeout or 0.0) + grace_s


def _serve(
    channel: Connection, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    milestones.listen(lambda: channel.send((_BEGUN, time.monotonic())))
    try:
        channel.send((_RETURNED, function(*arguments, **options)))
    except UmmaProbeError as error:
        channel.send((_RAISED, error))
    except Exception as error:  # the parent waits for an answer: a bug here must reach it as one, not as silence
        channel.send((_RAISED, InternalError(f"{type(error).__name__}: {error}")))
        raise
