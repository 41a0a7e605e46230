"""What a kernel says by ``printf``.

The driver keeps it in a buffer on the device and writes it to the process's stdout when the context is synchronised. A
result goes to stdout and nothing else, so the text is caught there; callers pass it on to stderr. Polling an event does
not bring it out (CUDA C++ Programming Guide, "Formatted Output").
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from typing import Any

_STDOUT = 1


def printed_text(api: Any) -> str:
    """What the finished kernels of the current context have said since the last call.

    Must not be called while a kernel runs: it would wait for it.
    """
    try:
        kept = os.dup(_STDOUT)
    except OSError:  # stdout is closed: the text has nowhere to go, so nobody misses it
        api.cuCtxSynchronize()
        return ""
    libc = ctypes.CDLL(None)
    with tempfile.TemporaryFile() as caught:
        libc.fflush(None)
        os.dup2(caught.fileno(), _STDOUT)
        try:
            api.cuCtxSynchronize()  # its status is the launch's, which is known already
            libc.fflush(None)
        finally:
            os.dup2(kept, _STDOUT)
            os.close(kept)
        caught.seek(0)
        return caught.read().decode("utf-8", "replace")
